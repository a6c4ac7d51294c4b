package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// dialSocket connects to a socket in the workspace. What stands there was made in
// the sandbox: no link is followed, and nothing is taken for the service's but a
// socket of the workspace's owner. The descriptor that was looked at is the one
// that is connected to.
func dialSocket(ctx context.Context, root *os.Root, name string) (net.Conn, error) {
	f, err := root.OpenFile(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return nil, fmt.Errorf("opening the socket %s: %w", name, err)
	}
	defer func() { _ = f.Close() }() // a look without rights to read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("looking at the socket %s: %w", name, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s in the workspace is no socket: %s", name, info.Mode().Type())
	}
	place, err := root.Stat(".")
	if err != nil {
		return nil, fmt.Errorf("looking at the workspace: %w", err)
	}
	if owner, want := uid(info), uid(place); owner != want {
		return nil, fmt.Errorf("the socket %s belongs to user %d, not to the workspace's, %d", name, owner, want)
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}

func uid(info os.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(st.Uid)
	}
	return -1
}
