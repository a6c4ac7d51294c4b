package engine

import (
	"context"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// schedule claims queued runs while there is room, until ctx ends.
func (e *Engine) schedule(ctx context.Context) {
	poll := time.NewTicker(e.opts.Poll)
	defer poll.Stop()
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	unsure := false // a claim failed, so it may have been committed
	for ctx.Err() == nil {
		if unsure {
			unsure = !e.adoptUnlaunched()
		}
		alarm.Reset(e.alarm(time.Now()))
		more, err := e.claim()
		if err != nil {
			if !unsure {
				e.log.Warn("Claiming queued runs failed; trying again", "error", err)
			}
			unsure = true
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
		case <-e.wake:
		case <-alarm.C:
		case <-poll.C:
			e.seekAborts()
		}
	}
}

// claim launches what may run now and tells whether more may be waiting. It
// writes on the engine's context: a claim that is cut off half way would leave
// a run that nobody supervises.
func (e *Engine) claim() (bool, error) {
	room := e.room()
	if room <= 0 {
		return false, nil
	}
	runs, err := e.store.Claim(e.write, e.opts.Replica, room)
	if err != nil {
		return false, err
	}
	for _, r := range runs {
		e.launch(r, "")
	}
	return len(runs) > 0, nil
}

// room is how many root runs may start now. Runs that wait for a person's answer
// do not count: they might wait for days.
func (e *Engine) room() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.opts.Concurrency
	for _, s := range e.live {
		if s.run.Parent == "" && !s.parked.Load() {
			n--
		}
	}
	return n
}

// launch starts the supervisor of a root run that this replica owns.
func (e *Engine) launch(r run.Run, resumeKey string) {
	s := e.register(e.work, r, nil)
	e.wg.Go(func() { s.supervise(resumeKey) })
}

// register makes a run known as live here.
func (e *Engine) register(ctx context.Context, r run.Run, parent *supervisor) *supervisor {
	s := newSupervisor(ctx, e, r, parent)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.live[r.ID] = s
	return s
}

// release is the inverse of register. It never touches another run's entry.
func (e *Engine) release(s *supervisor) {
	e.mu.Lock()
	if e.live[s.run.ID] == s {
		delete(e.live, s.run.ID)
	}
	e.mu.Unlock()
	s.cancel(errReleased)
	close(s.done)
	e.nudge()
}

// seekAborts finds intents that another replica has written.
func (e *Engine) seekAborts() {
	e.mu.Lock()
	n := len(e.live)
	e.mu.Unlock()
	if n == 0 {
		return
	}
	owned, err := e.store.Owned(e.write, e.opts.Replica)
	if err != nil {
		e.log.Debug("Looking for aborts failed", "error", err)
		return
	}
	e.cancelRuns(owned)
}

// cancelRuns cancels the supervisors of those runs that carry an intent. The
// intent of a parent comes last, so that each run ends with its own.
func (e *Engine) cancelRuns(runs []run.Run) {
	for _, r := range runs {
		if r.Abort == nil {
			continue
		}
		if s := e.supervisor(r.ID); s != nil {
			s.cancel(stopOf(r.Abort))
		}
	}
}

// adoptUnlaunched launches root runs that a failed claim has moved to RUNNING
// all the same. Only this goroutine launches root runs, so a live run that was
// not known before the look is one of those.
func (e *Engine) adoptUnlaunched() bool {
	e.mu.Lock()
	known := make(map[run.ID]bool, len(e.live))
	for id := range e.live {
		known[id] = true
	}
	e.mu.Unlock()
	owned, err := e.store.Owned(e.write, e.opts.Replica)
	if err != nil {
		return false
	}
	for _, r := range owned {
		if !known[r.ID] && r.Parent == "" {
			e.log.Warn("Launching a run whose claim was in doubt", "run", r.ID)
			e.launch(r, "")
		}
	}
	return true
}
