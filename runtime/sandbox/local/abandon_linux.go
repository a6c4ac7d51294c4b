package local

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/sandbox"
)

// freezeWait bounds how long a stopped process may take to stand still.
const freezeWait = time.Second

// abandon undoes a start that failed. It gives the start's error, with what is
// still alive in it, should there be anything.
func (p *bwrapProcess) abandon(cause error) error {
	defer p.cleanUp()
	if p.cmd == nil {
		return cause
	}
	if p.first != nil {
		_ = p.first.signal(unix.SIGKILL)
	}
	err := p.end()
	if p.first != nil && !p.first.gone(goneWait) && err == nil {
		err = &sandbox.LeftBehindError{PIDs: inNamespace(p.namespace)}
	}
	if err != nil {
		p.backend.opts.log().Error("A sandbox that was not completed is not gone", "execution", p.spec.Execution, "error", err)
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return cause
}

// end kills bubblewrap and its namespace at any moment of their lives, and
// returns when they are gone. The namespace's first process is tied to
// bubblewrap's life only late, and before that it waits for bubblewrap for ever:
// killing bubblewrap alone would leave it behind. It does not use what the
// handshake finds out, so it may be called beside it.
func (p *bwrapProcess) end() error {
	held := p.freeze()
	for _, c := range held {
		_ = c.signal(unix.SIGKILL) // who does not go is found below
		defer c.close()
	}
	_ = p.cmd.Process.Kill()
	// Now nothing can be started any more but by what is labelled.
	ended := p.ended(goneWait)
	for _, c := range held {
		c.gone(goneWait)
	}
	_, left := killLabelled(context.Background(), goneWait, labelExecution+"="+string(p.spec.Execution)+"\x00")
	if !ended && !slices.Contains(left, p.cmd.Process.Pid) {
		left = append(left, p.cmd.Process.Pid)
	}
	if len(left) > 0 {
		return &sandbox.LeftBehindError{PIDs: left}
	}
	return nil
}

// freeze stops bubblewrap, so that it makes no process any more, and holds on
// to those that it has made.
func (p *bwrapProcess) freeze() []*pidfd {
	if p.cmd.Process.Signal(unix.SIGSTOP) != nil {
		return nil // it has ended
	}
	pid := p.cmd.Process.Pid
	for end := time.Now().Add(freezeWait); ; {
		if s := state(pid); s == 'T' || s == 'Z' || s == 'X' || s == 0 || time.Now().After(end) {
			break
		}
		if p.ended(time.Millisecond) {
			return nil
		}
	}
	var held []*pidfd
	found, err := children(pid)
	if err != nil {
		return nil
	}
	for _, c := range found {
		h, err := openPidfd(c)
		if err != nil {
			continue // it has ended
		}
		// Look again: now the number cannot have come to mean another process,
		// nor can bubblewrap's while it is not reaped.
		again, err := children(pid)
		if err != nil || !slices.Contains(again, c) || p.cmd.Process.Signal(unix.SIGSTOP) != nil {
			h.close()
			continue
		}
		held = append(held, h)
	}
	return held
}

// children gives the children of a process with one thread.
func children(pid int) ([]int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil, err
	}
	var found []int
	for _, word := range strings.Fields(string(data)) {
		c, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("reading the children of process %d: %w", pid, err)
		}
		found = append(found, c)
	}
	return found, nil
}
