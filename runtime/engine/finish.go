package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// maxText bounds an error or a reason in a row, in bytes.
const maxText = 8 << 10

// closeAttempts bounds how often a closing batch is made anew.
const closeAttempts = 10

// errStillOpen: a closing batch was refused though the run is open.
var errStillOpen = errors.New("the run is still open")

// finish writes the run's last word. It works on the engine's write context,
// since the run's own may be what ended.
func (s *supervisor) finish(out outcome) {
	s.emit.close()
	defer s.place.close()
	if s.parent != nil && context.Cause(s.ctx) != nil {
		s.parent.proof.join(&s.proof)
	}
	if out.fenced {
		s.e.log.Warn("Another replica has taken a run over; nothing more is written for it", "run", s.run.ID)
		return
	}
	if out.trigger == run.ShutDown && s.waitsOn() {
		return
	}
	if err := s.closeRow(s.e.write, out); err != nil {
		s.e.log.Error("The end of a run was not written", "run", s.run.ID, "trigger", out.trigger, "error", err)
	}
}

// closeRow writes the closing batch. A question that is answered at that very
// moment makes the batch fail; then it is made anew.
func (s *supervisor) closeRow(ctx context.Context, out outcome) error {
	var b run.Batch
	for range closeAttempts {
		var err error
		if b, err = s.closing(ctx, out); err != nil {
			return err
		}
		if err = s.e.persist(ctx, b); errors.Is(err, errStillOpen) {
			continue
		}
		if err != nil {
			return err
		}
		s.closedAs(b.Update)
		if b.Successor != nil {
			s.e.startAt(b.Successor.NotBefore)
		}
		return nil
	}
	return fmt.Errorf("closing run %s: its questions changed %d times meanwhile", s.run.ID, closeAttempts)
}

// closedAs brings the run up to date with what was written.
func (s *supervisor) closedAs(u *run.Update) {
	s.run.State, s.run.EndedAt = *u.To, u.EndedAt
	if u.Error != nil {
		s.run.Error = *u.Error
	}
	if u.Result != nil {
		s.run.Result = *u.Result
	}
	if u.Receipt == nil {
		s.settleReceipt()
	}
}

// closing makes the one batch that ends the run.
func (s *supervisor) closing(ctx context.Context, out outcome) (run.Batch, error) {
	from := run.State{Status: run.Running}
	if s.asked.waiting {
		from.Status = run.Waiting
	}
	to, err := run.Next(from, out.trigger)
	if err != nil && from.Status == run.Waiting { // a driver that ended with a question open
		to, err = run.Next(run.State{Status: run.Running}, out.trigger)
	}
	if err != nil {
		return run.Batch{}, fmt.Errorf("ending run %s: %w", s.run.ID, err)
	}
	now := time.Now()
	text := clean(out.text, maxText)
	u := &run.Update{Run: s.run.ID, From: []run.Status{run.Running, run.Waiting}, To: &to, EndedAt: now}
	b := run.Batch{Session: s.run.Session, Fence: s.fence(), Update: u}
	add := func(p run.Payload) { b.Drafts = append(b.Drafts, run.DraftOf(s.run, now, p)) }

	var label, problem string
	switch to.Status {
	case run.Done:
		label = s.run.StateLabel() + "_done"
		result := clean(out.text, maxPayload)
		u.Result = &result
	case run.TimedOut:
		label, problem = "timed_out", text
		add(&run.AgentTimedOut{Text: text})
	case run.Failed:
		label, problem = "failed", text
		add(&run.AgentErrored{Text: text})
		if out.trigger == run.Crash {
			b.Successor = s.afterCrash(now, add)
		}
	case run.Cancelled:
		label = "cancelled"
		if !out.silent {
			add(&run.AgentAborted{Reason: text})
		}
	case run.Queued, run.Running, run.Waiting:
		return run.Batch{}, fmt.Errorf("ending run %s: %s is no end", s.run.ID, to.Status)
	}
	if problem != "" {
		u.Error = &problem
	}
	if to.Status != run.Done {
		b.Artifacts = s.quietScan(ctx)
	}
	switch out.trigger {
	case run.Abort, run.Replace, run.OverBudget:
		u.Receipt = s.proof.receipt()
	default:
	}
	if s.run.Parent == "" {
		questions, drafts := s.cancelQuestions(ctx, now)
		b.Questions, b.Drafts = questions, append(b.Drafts, drafts...)
		if out.silent {
			label = "" // nobody is told, but the session no longer shows as running
		} else {
			add(&run.StateChanged{State: label, Status: to.Status})
		}
		u.SessionTo = &label
	}
	add(&run.RunEnded{Status: to.Status, ExitReason: to.Reason, Error: problem})
	return b, nil
}

func (s *supervisor) fence() run.Fence { return run.Fence{Run: s.run.ID, Token: s.run.Token} }

// persist writes a last word, again and again until the store takes it, refuses
// it, or the engine's stop takes too long.
func (e *Engine) persist(ctx context.Context, b run.Batch) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		_, err := e.store.Append(ctx, b)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, run.ErrFenced):
			return err
		case errors.Is(err, run.ErrState):
			return e.closedAlready(ctx, b, err)
		case ctx.Err() != nil:
			return fmt.Errorf("giving up at shutdown: %w", err)
		}
		e.log.Warn("Writing the end of a run failed; trying again", "run", b.Update.Run, "error", err)
		if run.CodeOf(err) != run.Unavailable && wait > 200*time.Millisecond {
			b = bare(b)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// closedAlready tells whether an earlier attempt, whose answer was lost, had
// written the same end.
func (e *Engine) closedAlready(ctx context.Context, b run.Batch, cause error) error {
	r, err := e.store.Run(ctx, b.Update.Run)
	if err != nil {
		return fmt.Errorf("reading the run that was closed already: %w", err)
	}
	switch {
	case r.State == *b.Update.To:
		return nil
	case !r.State.Status.Final():
		return errStillOpen
	}
	return fmt.Errorf("the run is %s %s: %w", r.State.Status, r.State.Reason, cause)
}

// bare leaves away everything that the store may have refused, so that the row
// is closed and RunEnded written in any case.
func bare(b run.Batch) run.Batch {
	u := *b.Update
	u.Result = nil
	small := run.Batch{Session: b.Session, Fence: b.Fence, Update: &u, Successor: b.Successor}
	for _, d := range b.Drafts {
		switch d.Payload.(type) {
		case *run.StateChanged, *run.RunEnded, *run.AgentAborted, *run.AgentErrored, *run.AgentTimedOut, *run.AgentEscalated:
			small.Drafts = append(small.Drafts, d)
		}
	}
	return small
}

// settleReceipt answers an abort that came too late to stop the run: it had
// ended for another reason by then.
func (s *supervisor) settleReceipt() {
	r, err := s.e.store.Run(s.e.write, s.run.ID)
	if err != nil || r.Abort == nil || r.Abort.Outcome != run.AbortPending {
		return
	}
	_, err = s.e.store.Append(s.e.write, run.Batch{
		Session: s.run.Session,
		Update:  &run.Update{Run: r.ID, From: []run.Status{r.State.Status}, Receipt: &run.Receipt{Run: r.ID, Outcome: run.AbortAlready}},
	})
	if err != nil {
		s.e.log.Warn("Settling a late abort failed", "run", r.ID, "error", err)
	}
}
