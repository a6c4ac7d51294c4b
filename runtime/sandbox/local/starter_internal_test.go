//go:build linux

package local

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The kernel's "die with the parent" fires when the thread that forked ends.
func TestTheEndOfAThreadKillsNothing(t *testing.T) {
	t.Parallel()
	s := newStarter()
	cmds := make([]*exec.Cmd, 20)
	for i := range cmds {
		cmds[i] = exec.CommandContext(t.Context(), "sleep", "100")
		cmds[i].SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := s.start(cmds[i]); err != nil {
			t.Fatal(err)
		}
		endThreads()
	}
	for _, c := range cmds {
		p, err := openPidfd(c.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if p.gone(20 * time.Millisecond) {
			t.Error("a process was killed by the end of a thread")
		}
		if err := p.signal(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		p.close()
	}
	s.close()
	for _, c := range cmds {
		_ = c.Wait() // was killed
	}
	if err := s.start(exec.CommandContext(t.Context(), "true")); err == nil {
		t.Error("a closed starter starts")
	}
}

// endThreads takes all threads that are free, which end with their goroutines.
func endThreads() {
	var locked, ends sync.WaitGroup
	locked.Add(10)
	for range 10 {
		ends.Go(func() { runtime.LockOSThread(); locked.Done(); locked.Wait() })
	}
	ends.Wait()
}
