//go:build !unix

package app

// freeSpace is not known on this system.
func freeSpace(string) (uint64, bool) { return 0, false }
