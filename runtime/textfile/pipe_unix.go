//go:build unix

package textfile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// written waits until somebody has opened the other end of a pipe: before that,
// a read says that it is at its end.
func written(pipe *os.File) error {
	c, err := pipe.SyscallConn()
	if err != nil {
		return fmt.Errorf("waiting for the pipe: %w", err)
	}
	var failed error
	err = c.Read(func(fd uintptr) bool {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(ready, 0)
		if err != nil && !errors.Is(err, unix.EINTR) {
			failed = err
		}
		return n != 0
	})
	return errors.Join(err, failed)
}
