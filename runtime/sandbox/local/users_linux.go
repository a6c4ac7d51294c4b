package local

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/fnv"
	"os"
	"syscall"
)

// The ids of which each session of a server that runs as root has its own, for
// user and group: 32-bit numbers that no convention gives to anybody.
const (
	firstUID = 1879048192
	lastUID  = 2147483646
)

// users tells under which user id a sandbox runs. What the kernel counts by
// user, such as inotify's instances and descriptors on their way through
// sockets, one session cannot use up for another.
type users struct {
	root bool // or else it is the server's own
	all  int  // the one id of all sandboxes; 0: each workspace has its own
}

// findUsers looks at which ids this process can take, in the forms of
// /proc/self/uid_map and gid_map. forced is the operator's choice, 0 for none.
func findUsers(forced int, maps ...string) users {
	u := users{root: os.Geteuid() == 0, all: forced}
	if forced != 0 {
		return u
	}
	for _, path := range maps {
		data, err := os.ReadFile(path)
		if err != nil || !covers(data, firstUID, lastUID) {
			u.all = DefaultUID
		}
	}
	return u
}

// covers tells whether one line of an id map holds a whole range.
func covers(idMap []byte, first, last uint64) bool {
	for s := bufio.NewScanner(bytes.NewReader(idMap)); s.Scan(); {
		var inside, outside, n uint64
		if _, err := fmt.Sscan(s.Text(), &inside, &outside, &n); err == nil && inside <= first && last-inside < n {
			return true
		}
	}
	return false
}

// of gives the user id for a workspace, whose owner is that of info. One that
// has an owner of the range keeps it, wherever the folder has been moved.
func (u users) of(workspace string, info os.FileInfo) int {
	switch st, ok := info.Sys().(*syscall.Stat_t); {
	case !u.root:
		return os.Geteuid()
	case u.all != 0:
		return u.all
	case ok && st.Uid == st.Gid && st.Uid >= firstUID && st.Uid <= lastUID:
		return int(st.Uid)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(workspace)) // never fails
	return firstUID + int(h.Sum64()%(lastUID-firstUID+1))
}

// String names the users for the operator.
func (u users) String() string {
	switch {
	case !u.root:
		return fmt.Sprintf("user id %d", os.Geteuid())
	case u.all != 0:
		return fmt.Sprintf("user id %d", u.all)
	}
	return fmt.Sprintf("a user id of each session's own (%d to %d)", firstUID, lastUID)
}

// shared tells whether the sandboxes of a root server have one user.
func (u users) shared() bool { return u.root && u.all != 0 }

// passes tells whether the mode of a folder lets a sandbox's user through, whom
// the folder belongs to only if all sandboxes have one.
func (u users) passes(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	bit := os.FileMode(0o001)
	switch {
	case !ok || !u.shared():
	case int(st.Uid) == u.all:
		bit = 0o100
	case int(st.Gid) == u.all:
		bit = 0o010
	}
	return info.Mode().Perm()&bit != 0
}

// anyone names the user who cannot reach a folder.
func (u users) anyone() string {
	if u.shared() {
		return u.String()
	}
	return "the user of a sandbox"
}
