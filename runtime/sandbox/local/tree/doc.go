// Package tree walks through folders that somebody may change at the same moment.
package tree
