//go:build unix

package app

import (
	"io/fs"
	"syscall"
)

// ownerOf gives whose a folder is.
func ownerOf(info fs.FileInfo) (uid, gid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}
