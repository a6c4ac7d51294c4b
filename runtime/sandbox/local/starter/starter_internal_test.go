//go:build linux

package starter

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/sandbox/local/proc"
)

// The kernel's "die with the parent" fires when the thread that forked ends.
func TestTheEndOfAThreadKillsNothing(t *testing.T) {
	t.Parallel()
	s := New()
	cmds := make([]*exec.Cmd, 20)
	for i := range cmds {
		cmds[i] = exec.CommandContext(t.Context(), "sleep", "100")
		cmds[i].SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := s.Start(cmds[i]); err != nil {
			t.Fatal(err)
		}
		endThreads()
	}
	for _, c := range cmds {
		p, err := proc.Open(c.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if p.Gone(20 * time.Millisecond) {
			t.Error("a process was killed by the end of a thread")
		}
		if err := p.Signal(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		p.Close()
	}
	s.Close()
	for _, c := range cmds {
		_ = c.Wait() // was killed
	}
	if err := s.Start(exec.CommandContext(t.Context(), "true")); err == nil {
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
