package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

// Delegate implements agent.Host. The child run works in the caller's
// goroutine and on its context, so nothing of it outlives the call.
func (h *host) Delegate(ctx context.Context, d agent.Delegation) (run.Run, error) {
	h.inside.Add(1)
	defer h.inside.Done()
	if err := h.gone(ctx); err != nil {
		return run.Run{}, err
	}
	s := h.s
	if err := h.pass(ctx); err != nil {
		return run.Run{}, err
	}
	if s.depth >= s.e.opts.MaxDepth {
		return run.Run{}, run.Errorf(run.Invalid, "agent %q cannot be called: there are %d levels of child runs already, and no more are allowed", d.Agent, s.depth)
	}
	// The sandbox that the request asked for bounds the children too.
	r, err := s.e.compose(run.Input{Agent: d.Agent, Prompt: d.Prompt, Stage: d.Stage, Sandbox: s.run.Input.Sandbox})
	if err != nil {
		return run.Run{}, err
	}
	r.Session, r.Parent, r.Owner = s.run.Session, s.run.ID, s.e.opts.Replica
	r.State = run.State{Status: run.Running}
	if err := s.emit.commit(ctx, entry{}); err != nil { // what the parent said comes before the child's first event
		return run.Run{}, err
	}
	a, err := s.e.store.Accept(s.e.write, NewRun{Run: r})
	if err != nil {
		if cause := h.gone(ctx); cause != nil && errors.Is(err, run.ErrState) {
			return run.Run{}, cause
		}
		return run.Run{}, fmt.Errorf("starting a child run of agent %s: %w", d.Agent, err)
	}
	ctx, release := h.both(ctx)
	defer release()
	child := s.e.register(ctx, a.Run, s)
	child.supervise("")
	return s.childEnd(child)
}

// childEnd gives the ended child, and the error of one that was not successful.
func (s *supervisor) childEnd(child *supervisor) (run.Run, error) {
	if cause := context.Cause(s.ctx); cause != nil {
		return child.run, cause
	}
	r, err := s.e.store.Run(s.e.write, child.run.ID)
	if err != nil {
		return child.run, fmt.Errorf("reading a child run: %w", err)
	}
	if r.State.Status == run.Done {
		return r, nil
	}
	if r.Error != "" {
		return r, fmt.Errorf("agent %s ended %s (%s): %s", r.Agent, r.State.Status, r.State.Reason, r.Error)
	}
	return r, fmt.Errorf("agent %s ended %s (%s)", r.Agent, r.State.Status, r.State.Reason)
}
