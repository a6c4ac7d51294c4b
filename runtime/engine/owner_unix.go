//go:build unix

package engine

import (
	"io/fs"
	"os"
	"syscall"
)

// owner is who a workspace belongs to.
type owner struct {
	uid, gid int
	other    bool // not the server itself, which may give files away
}

func ownerOf(info fs.FileInfo) owner {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{}
	}
	me := os.Geteuid()
	return owner{uid: int(st.Uid), gid: int(st.Gid), other: me == 0 && int(st.Uid) != me}
}
