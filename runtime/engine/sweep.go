package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

const (
	// askedAtOnce bounds the agents that are asked for their usage at one moment.
	// Those that hang must not keep the others waiting, so there are many more
	// than there are cores.
	askedAtOnce = 256
	// snapshotBatch is how many snapshots are one transaction.
	snapshotBatch = 500
	// forgetSteps bounds how much of the old snapshots one sweep looks at.
	forgetSteps = 10
	// checkedDays is how far back the daily check of the rollups goes.
	checkedDays = 7
)

// sweeps starts what looks at the usage from time to time. Each sweep has a
// goroutine of its own, works at once and then at its interval, and goes on
// whatever the one before came to.
func (e *Engine) sweeps(ctx context.Context) {
	for _, s := range []struct {
		name  string
		every time.Duration
		do    func(ctx context.Context) error
	}{
		{"snapshots", e.opts.SnapshotInterval, e.sweepSnapshots},
		{"rollups", e.opts.RollupInterval, e.sweepRollups},
		{"check of the rollups", e.opts.RollupCheck, e.checkRollups},
	} {
		if s.every > 0 {
			e.wg.Go(func() { e.sweep(ctx, s.name, s.every, s.do) })
		}
	}
}

// sweep repeats one sweep until ctx ends.
func (e *Engine) sweep(ctx context.Context, name string, every time.Duration, do func(ctx context.Context) error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := contained(ctx, do); err != nil && ctx.Err() == nil {
			e.log.Warn("A sweep failed; the next one makes up for it", "sweep", name, "in", every, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// contained turns a panic into an error.
func contained(ctx context.Context, f func(ctx context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f(ctx)
}

// sweepSnapshots lets the agents that can be asked book what they have used, and
// keeps the totals of the live runs as they are then.
func (e *Engine) sweepSnapshots(ctx context.Context) error {
	e.askAll(ctx)
	due, err := e.store.DueSnapshots(ctx, e.opts.Replica, time.Now().UTC().Truncate(time.Microsecond))
	if err != nil {
		return fmt.Errorf("looking for usage that is new: %w", err)
	}
	for part := range slices.Chunk(due, snapshotBatch) {
		if err := e.store.AddSnapshots(ctx, part); err != nil {
			return fmt.Errorf("storing %d snapshots: %w", len(part), err)
		}
	}
	return e.forgetSnapshots(ctx)
}

// forgetSnapshots removes old snapshots, a few at each sweep: it goes on where the one
// before has stopped, again and again from the beginning.
func (e *Engine) forgetSnapshots(ctx context.Context) error {
	if e.opts.SnapshotKeep < 0 {
		return nil
	}
	before := time.Now().Add(-e.opts.SnapshotKeep)
	for range forgetSteps {
		next, err := e.store.ForgetSnapshots(ctx, before, e.forgotten)
		if err != nil {
			return fmt.Errorf("removing old snapshots: %w", err)
		}
		if e.forgotten = next; next == (run.SnapshotMark{}) {
			return nil
		}
	}
	return nil
}

// asked is what became of one agent's answer.
type asked struct {
	run run.ID
	err error
}

// askAll lets every live run's sampler book what is new, many at once. One gets
// SampleTimeout, all together twice as much: who has not answered by then is
// counted with what is known, whether it heeds its context or not.
func (e *Engine) askAll(ctx context.Context) {
	list := e.samplers()
	if len(list) == 0 {
		return
	}
	within, cancel := context.WithTimeoutCause(ctx, 2*e.opts.SampleTimeout, errTooSlow)
	defer cancel()
	slots := make(chan struct{}, askedAtOnce)
	answers := make(chan asked, len(list)) // nobody waits to answer
	var missing []asked
	open := 0
	for _, s := range list {
		select {
		case <-within.Done():
			missing = append(missing, asked{s.run.ID, errTooSlow})
			continue
		case slots <- struct{}{}:
		}
		open++
		e.wg.Go(func() {
			defer func() { <-slots }()
			one, cancel := context.WithTimeoutCause(within, e.opts.SampleTimeout, errTooSlow)
			defer cancel()
			answers <- asked{s.run.ID, s.sampler.call(one)}
		})
	}
	for ; open > 0; open-- {
		select {
		case a := <-answers:
			if a.err != nil {
				missing = append(missing, a)
			}
			continue
		case <-within.Done():
		}
		break
	}
	e.tellMissing(ctx, missing, open)
}

// samplers gives the live runs whose agent can be asked.
func (e *Engine) samplers() []*supervisor {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*supervisor
	for _, s := range e.live { // in no order, so that no run is always the last one
		if s.sampler.present() {
			list = append(list, s)
		}
	}
	return list
}

// tellMissing logs one line, however many agents there are.
func (e *Engine) tellMissing(ctx context.Context, missing []asked, silent int) {
	if len(missing)+silent == 0 || ctx.Err() != nil {
		return
	}
	args := []any{"runs", len(missing) + silent, "silent", silent}
	if len(missing) > 0 {
		args = append(args, "one of them", missing[0].run, "error", missing[0].err)
	}
	e.log.Warn("Agents did not say what they have used; their snapshots show what is known", args...)
	for _, a := range missing {
		e.log.Debug("An agent did not say what it has used", "run", a.run, "error", a.err)
	}
}

// sweepRollups brings the sums of closed runs up to date.
func (e *Engine) sweepRollups(ctx context.Context) error {
	_, err := e.store.SweepRollups(ctx)
	return err
}

// checkRollups lets the last days be summed up anew: what the marks have missed,
// which nothing should, is mended.
func (e *Engine) checkRollups(ctx context.Context) error {
	return e.store.MarkRollups(ctx, time.Now().AddDate(0, 0, -checkedDays))
}
