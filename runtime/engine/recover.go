package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

const (
	lostText     = "the server that ran it stopped without warning; start the run again"
	lostExecText = "the server stopped without warning while it ran"
)

// recover deals with what an earlier process of this replica left behind: its
// sandboxes are ended first, then each live run gets its end, children before
// parents; root runs that wait for an answer go on waiting.
func (e *Engine) recover(ctx context.Context) error {
	reaped := e.reap(ctx)
	owned, err := e.store.Owned(ctx, e.opts.Replica)
	if err != nil {
		return fmt.Errorf("loading the runs that were live: %w", err)
	}
	for _, r := range owned {
		key, err := e.resumable(ctx, r)
		if err != nil {
			return err
		}
		if key != "" {
			if err := e.closeLeft(ctx, r); err != nil {
				return err
			}
			e.log.Info("A run goes on waiting for its answer", "run", r.ID, "question", key)
			e.launch(r, key)
			continue
		}
		if err := e.closeLost(ctx, r, reaped); err != nil {
			return err
		}
	}
	return nil
}

// reap ends leftover sandboxes and tells whether all backends could be asked.
func (e *Engine) reap(ctx context.Context) bool {
	all := true
	for name, b := range e.opts.Backends {
		pids, err := b.Reap(ctx, e.opts.Replica)
		if err != nil {
			e.log.Error("Ending leftover sandboxes failed", "backend", name, "error", err)
			all = false
		}
		if len(pids) > 0 {
			e.log.Warn("Ended leftover processes", "backend", name, "pids", pids)
		}
	}
	return all
}

// resumable gives the key of the question that a run goes on waiting for. A
// child run has none: the driver of its parent is gone.
func (e *Engine) resumable(ctx context.Context, r run.Run) (string, error) {
	if r.State.Status != run.Waiting || r.Parent != "" || r.Abort != nil {
		return "", nil
	}
	list, err := e.store.Questions(ctx, r.ID)
	if err != nil {
		return "", fmt.Errorf("loading the questions of run %s: %w", r.ID, err)
	}
	key := ""
	for _, q := range list {
		key = q.Key // the newest answered one: the run had not seen the answer yet
		if q.State == run.QuestionOpen {
			break
		}
	}
	if !e.resumes(r, key) {
		return "", nil
	}
	return key, nil
}

// closeLost ends a run that no process works on any more.
func (e *Engine) closeLost(ctx context.Context, r run.Run, reaped bool) error {
	s := newSupervisor(ctx, e, r, nil)
	defer s.cancel(errReleased)
	s.asked.any = true
	out := outcome{trigger: run.Lose, text: lostText}
	if r.Abort != nil {
		stop := stopOf(r.Abort)
		out = outcome{trigger: stop.trigger, silent: stop.silent, text: stop.reason}
	}
	place, err := e.findWorkspace(r)
	if err != nil {
		e.log.Warn("The workspace of a lost run could not be read", "run", r.ID, "error", err)
	}
	s.place = place
	defer s.place.close()
	open, err := s.closeExecutions(ctx)
	if err != nil {
		return err
	}
	if now := time.Now(); open && reaped {
		s.proof.merge(time.Time{}, now, now, nil)
	}
	if err := s.closeRow(ctx, out); err != nil {
		return fmt.Errorf("closing run %s: %w", r.ID, err)
	}
	e.log.Warn("Closed a run that was live when the server stopped", "run", r.ID, "status", s.run.State.Status, "reason", s.run.State.Reason)
	return nil
}

// closeLeft ends what a run that goes on had at work, such as commands that ran on
// while it asked about a budget.
func (e *Engine) closeLeft(ctx context.Context, r run.Run) error {
	s := newSupervisor(ctx, e, r, nil)
	defer s.cancel(errReleased)
	_, err := s.closeExecutions(ctx)
	return err
}

// closeExecutions ends the execution rows that were left open and tells
// whether there were any.
func (s *supervisor) closeExecutions(ctx context.Context) (bool, error) {
	list, err := s.e.store.Executions(ctx, s.run.ID)
	if err != nil {
		return false, fmt.Errorf("loading the executions of run %s: %w", s.run.ID, err)
	}
	b := run.Batch{Session: s.run.Session, Fence: s.fence()}
	now := time.Now()
	for _, x := range list {
		if !x.EndedAt.IsZero() {
			continue
		}
		x.EndedAt, x.Class, x.IsError, x.ErrMessage = now, run.ClassInfrastructure, true, lostExecText
		x.Elapsed = now.Sub(x.StartedAt)
		if x.Loss, err = s.recount(ctx, x.ID); err != nil {
			return true, err
		}
		b.Executions = append(b.Executions, x)
		b.Drafts = append(b.Drafts, s.draft(&run.ExecutionFinished{
			ExecutionID: x.ID, ExitClass: x.Class, IsError: true, Seconds: x.Elapsed.Seconds(), Loss: x.Loss,
		}))
	}
	if len(b.Executions) == 0 {
		return false, nil
	}
	if _, err := s.e.store.Append(ctx, b); err != nil {
		return true, fmt.Errorf("closing the executions of run %s: %w", s.run.ID, err)
	}
	return true, nil
}
