package local

import (
	"errors"
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
	keepInherited()
	s := &starter{jobs: make(chan job), closed: make(chan struct{})}
	s.done.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for {
			select {
			case j := <-s.jobs:
				j.err <- j.group.startIn(j.cmd)
				j.group.leave()
			case <-s.closed:
				return
			}
		}
	})
	return s
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

// keepInherited keeps from every child what this process itself was given
// besides its standard files: what it opens is kept from them already.
func keepInherited() {
	const first, last = 3, 1<<31 - 1
	if unix.CloseRange(first, last, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	entries, _ := os.ReadDir("/proc/self/fd") // before Linux 5.11
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
}
