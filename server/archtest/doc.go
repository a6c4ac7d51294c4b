// Package archtest holds the table of who may import whom, as a test.
package archtest
