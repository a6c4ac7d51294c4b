package local

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

var errClosed = errors.New("the sandbox backend is closed")

// starter starts every process from one operating system thread that lives as
// long as the backend: the kernel's "die with the parent" fires when the thread
// that forked ends, not the process, and Go ends threads as it likes.
type starter struct {
	jobs   chan job
	closed chan struct{}
	once   sync.Once
	done   sync.WaitGroup
}

type job struct {
	cmd   *exec.Cmd
	group *group
	err   chan error
}

func newStarter() *starter {
	s := &starter{jobs: make(chan job), closed: make(chan struct{})}
	s.done.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for {
			select {
			case j := <-s.jobs:
				if err := closeOnExec(); err != nil {
					j.err <- err
					continue
				}
				j.err <- j.group.startIn(j.cmd)
				j.group.leave()
			case <-s.closed:
				return
			}
		}
	})
	return s
}

// closeOnExec keeps every descriptor that a command does not name out of it: the
// server may have got some from who started it, and libraries may open some,
// that would go on to every child.
func closeOnExec() error {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		fds, err := os.ReadDir("/proc/self/fd") // a kernel before 5.11
		if err != nil {
			return fmt.Errorf("listing the server's descriptors: %w", err)
		}
		for _, f := range fds {
			if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
				unix.CloseOnExec(fd)
			}
		}
	}
	return nil
}

// start starts cmd and returns when it is running or has failed.
func (s *starter) start(cmd *exec.Cmd) error { return s.startIn(cmd, nil) }

// startIn starts cmd as a member of a control group; nil is the server's own.
func (s *starter) startIn(cmd *exec.Cmd, g *group) error {
	j := job{cmd: cmd, group: g, err: make(chan error, 1)}
	select {
	case s.jobs <- j:
		return <-j.err
	case <-s.closed:
		return errClosed
	}
}

// close ends the thread, and with it what it started and still runs.
func (s *starter) close() {
	s.once.Do(func() { close(s.closed) })
	s.done.Wait()
}
