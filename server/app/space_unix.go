//go:build unix

package app

import "golang.org/x/sys/unix"

// freeSpace is what an ordinary user may still write on a folder's disk, in bytes.
func freeSpace(dir string) (uint64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return uint64(st.Bavail) * uint64(st.Bsize), true //nolint:unconvert // the types differ by system
}
