package disk

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A call that waits keeps the files that it was given, even when another thread
// has closed their descriptors meanwhile; nothing tells which they are. Who is
// held comes back from such a call, which lets go of them, and then starts anew
// with what its descriptors are now. So a look only has to notice such calls.

// pins tells whether a thread waits in a call that can keep a deleted file, or
// several, in a descriptor that was closed.
func pins(tid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/syscall")
	if err != nil {
		return false
	}
	number, _, _ := bytes.Cut(data, []byte(" "))
	call, err := strconv.Atoi(string(number))
	if err != nil {
		return false // "running"
	}
	switch call {
	case unix.SYS_SENDFILE, unix.SYS_SPLICE, // into or out of a pipe, or into a socket
		unix.SYS_SENDMSG, unix.SYS_SENDMMSG, // descriptors on their way into a full socket
		unix.SYS_FLOCK, unix.SYS_FCNTL: // for a lock, which two descriptions can have from each other
		return true
	}
	return false
}

// unixSockets lists the inodes of the sockets of a network namespace, which
// must be the execution's own. A socket whose descriptor was closed while a call
// waits on it can have deleted files in its queue. It also tells how many have a
// name in a folder: they keep that, though both may have been deleted.
func unixSockets(network string) (found map[uint64]struct{}, bound int) {
	if network == "" {
		return nil, 0
	}
	f, err := os.Open(network + "/unix")
	if err != nil {
		return nil, 0
	}
	defer f.Close() //nolint:errcheck // opened for reading
	found = map[uint64]struct{}{}
	lines := bufio.NewScanner(io.LimitReader(f, maxMaps))
	for lines.Scan() {
		// Num RefCount Protocol Flags Type St Inode Path; inode 0 is a connection that
		// nobody has accepted: what is in it counts for the socket that listens.
		field := bytes.Fields(lines.Bytes())
		if len(field) < 7 {
			continue
		}
		if len(field) > 7 && field[7][0] != '@' {
			bound++
		}
		if ino, err := strconv.ParseUint(string(field[6]), 10, 64); err == nil && ino != 0 {
			found[ino] = struct{}{}
		}
	}
	return found, bound
}

// stillThere tells whether one of these sockets has not been closed meanwhile.
func stillThere(sockets map[uint64]struct{}, network string) bool {
	if len(sockets) == 0 {
		return false
	}
	now, _ := unixSockets(network)
	for ino := range now {
		if _, ok := sockets[ino]; ok {
			return true
		}
	}
	return false
}
