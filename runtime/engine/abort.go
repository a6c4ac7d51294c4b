package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

const (
	// abortMargin is what an abort may take beyond the grace of the sandbox.
	abortMargin = 5 * time.Second
	// abortPoll is how often a waiting abort looks at a run of another replica.
	abortPoll = 100 * time.Millisecond
)

// Abort asks for the end of a run and of its descendants. The intent is
// durable before anything is stopped. It tells whether the run was live or
// queued (false: it had ended before). With Wait it returns when the run has
// ended, or when the grace and abortMargin have passed and what settling its
// usage may take.
func (e *Engine) Abort(ctx context.Context, o run.AbortOrder) (run.Receipt, bool, error) {
	if err := checkID("run", "run", string(o.Run)); err != nil {
		return run.Receipt{}, false, err
	}
	if err := checkText("reason", o.Reason, maxText); err != nil {
		return run.Receipt{}, false, err
	}
	trigger := run.Abort
	if o.Silent {
		trigger = run.Replace // the quiet swap
	}
	res, err := e.store.RequestAbort(ctx, AbortRequest{
		Run: o.Run, Silent: o.Silent, Reason: o.Reason, Trigger: trigger, At: time.Now(),
	})
	if err != nil {
		return run.Receipt{}, false, e.stopUnwritten(o, trigger, err)
	}
	if res.Ended {
		return endedReceipt(res.Run), false, nil
	}
	e.cancelRuns(res.Open)
	if res.Run.State.Status.Final() { // it was queued
		e.nudge()
		return receiptOf(res.Run), true, nil
	}
	if !o.Wait {
		return receiptOf(res.Run), true, nil
	}
	r, err := e.awaitEnd(ctx, res.Run)
	if err != nil {
		return run.Receipt{}, true, err
	}
	rec := receiptOf(r)
	return rec, rec.Outcome != run.AbortAlready, nil
}

// stopUnwritten deals with an intent that could not be written: when the store
// is out of reach, a run that is live here is stopped all the same, since it may
// be what fills the disk. Its end is written when the store is back.
func (e *Engine) stopUnwritten(o run.AbortOrder, trigger run.Trigger, err error) error {
	if s := e.supervisor(o.Run); s != nil && run.CodeOf(err) == run.Unavailable {
		s.cancel(&stopped{trigger: trigger, silent: o.Silent, reason: o.Reason})
		return run.Errorf(run.Unavailable, "run %s is being stopped, but that cannot be written yet: %w; ask again when the store is back", o.Run, err)
	}
	return fmt.Errorf("aborting run %s: %w", o.Run, err)
}

// awaitEnd waits, within bounds, until a run has ended.
func (e *Engine) awaitEnd(ctx context.Context, r run.Run) (run.Run, error) {
	var done <-chan struct{}
	if s := e.supervisor(r.ID); s != nil {
		done = s.done
	}
	late := time.NewTimer(e.graceOf(r) + abortMargin + settling(r))
	defer late.Stop()
	poll := time.NewTicker(abortPoll)
	defer poll.Stop()
	for over := false; ; {
		select {
		case <-ctx.Done():
			return run.Run{}, fmt.Errorf("waiting for the end of run %s: %w", r.ID, context.Cause(ctx))
		case <-done:
			over = true
		case <-late.C:
			over = true
		case <-poll.C:
			if done != nil {
				continue
			}
		}
		now, err := e.store.Run(ctx, r.ID)
		if err != nil {
			return run.Run{}, fmt.Errorf("waiting for the end of run %s: %w", r.ID, err)
		}
		if over || now.State.Status.Final() {
			return now, nil
		}
	}
}

// settling is how long the end of a run may be held up for its usage.
func settling(r run.Run) time.Duration {
	if r.Driver != agent.DriverService {
		return 0
	}
	return agent.StoppingPatience + agent.FinalPatience
}

// graceOf is the time between TERM and KILL for a run's processes.
func (e *Engine) graceOf(r run.Run) time.Duration {
	var def agent.Definition
	if err := json.Unmarshal(r.Definition, &def); err != nil {
		return 0
	}
	c, err := e.opts.Policy.Resolve(r.Input.Sandbox, def.Sandbox)
	if err != nil {
		return 0
	}
	return c.Limits.Grace
}

func receiptOf(r run.Run) run.Receipt {
	if r.Abort == nil {
		return run.Receipt{Run: r.ID, Outcome: run.AbortAlready}
	}
	rec := *r.Abort
	rec.Run = r.ID
	return rec
}

// endedReceipt answers an abort of a run that had ended before. The times are
// those of the abort that ended it, if one did.
func endedReceipt(r run.Run) run.Receipt {
	rec := receiptOf(r)
	rec.Outcome = run.AbortAlready
	return rec
}
