package starter

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

// ErrClosed refuses a start after Close.
var ErrClosed = errors.New("the sandbox backend is closed")

// Starter starts every process from one operating system thread that lives as
// long as the backend: the kernel's "die with the parent" fires when the thread
// that forked ends, not the process, and Go ends threads as it likes.
type Starter struct {
	jobs   chan job
	closed chan struct{}
	once   sync.Once
	done   sync.WaitGroup
}

// Group is a control group in which a command is started. The calls come from one
// thread, Leave after each StartIn.
type Group interface {
	StartIn(cmd *exec.Cmd) error
	Leave()
}

// alone is the server's own group.
type alone struct{}

func (alone) StartIn(cmd *exec.Cmd) error { return cmd.Start() }

func (alone) Leave() {}

type job struct {
	cmd   *exec.Cmd
	group Group
	err   chan error
}

// New makes one.
func New() *Starter {
	s := &Starter{jobs: make(chan job), closed: make(chan struct{})}
	s.done.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for {
			select {
			case j := <-s.jobs:
				if err := closeOnExec(); err != nil {
					j.err <- err
					continue
				}
				j.err <- j.group.StartIn(j.cmd)
				j.group.Leave()
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

// Start starts cmd and returns when it is running or has failed.
func (s *Starter) Start(cmd *exec.Cmd) error { return s.StartIn(cmd, alone{}) }

// StartIn starts cmd as a member of a control group.
func (s *Starter) StartIn(cmd *exec.Cmd, g Group) error {
	j := job{cmd: cmd, group: g, err: make(chan error, 1)}
	select {
	case s.jobs <- j:
		return <-j.err
	case <-s.closed:
		return ErrClosed
	}
}

// Close ends the thread, and with it what it started and still runs.
func (s *Starter) Close() {
	s.once.Do(func() { close(s.closed) })
	s.done.Wait()
}
