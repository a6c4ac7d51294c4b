package local

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local/proc"
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
		_ = p.first.Signal(unix.SIGKILL)
	}
	err := p.end()
	if p.first != nil && !p.first.Gone(goneWait) && err == nil {
		err = &sandbox.LeftBehindError{PIDs: proc.InNamespace(p.namespace)}
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
		_ = c.Signal(unix.SIGKILL) // who does not go is found below
		defer c.Close()
	}
	_ = p.cmd.Process.Kill()
	// Now nothing can be started any more but by what is labelled.
	ended := p.ended(goneWait)
	for _, c := range held {
		c.Gone(goneWait)
	}
	_, left := proc.KillLabelled(context.Background(), goneWait, labelExecution+"="+string(p.spec.Execution)+"\x00")
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
func (p *bwrapProcess) freeze() []*proc.Handle {
	if p.cmd.Process.Signal(unix.SIGSTOP) != nil {
		return nil // it has ended
	}
	pid := p.cmd.Process.Pid
	for end := time.Now().Add(freezeWait); ; {
		if s := proc.State(pid); s == 'T' || s == 'Z' || s == 'X' || s == 0 || time.Now().After(end) {
			break
		}
		if p.ended(time.Millisecond) {
			return nil
		}
	}
	var held []*proc.Handle
	found, err := proc.Children(pid)
	if err != nil {
		return nil
	}
	for _, c := range found {
		h, err := proc.Open(c)
		if err != nil {
			continue // it has ended
		}
		// Look again: now the number cannot have come to mean another process,
		// nor can bubblewrap's while it is not reaped.
		again, err := proc.Children(pid)
		if err != nil || !slices.Contains(again, c) || p.cmd.Process.Signal(unix.SIGSTOP) != nil {
			h.Close()
			continue
		}
		held = append(held, h)
	}
	return held
}
