// Package seccomp is the filter of system calls that is in force inside of a sandbox.
package seccomp
