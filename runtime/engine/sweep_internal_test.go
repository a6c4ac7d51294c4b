package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// sweeping is an engine with samplers and nothing else.
func sweeping(log io.Writer) *Engine {
	return &Engine{
		opts: Options{SampleTimeout: 3 * time.Second}, live: map[run.ID]*supervisor{},
		log: slog.New(slog.NewTextHandler(log, nil)),
	}
}

func (e *Engine) sampled(name string, f func(ctx context.Context) error) *sampler {
	s := &supervisor{run: run.Run{ID: run.ID(name)}}
	(&host{s: s}).Sample(f)
	e.live[s.run.ID] = s
	return &s.sampler
}

// A thousand agents, a tenth hangs and a tenth is dead: the others are asked
// once each, and all of it takes one timeout and the time of the answers.
func TestAThousandAgentsAreAskedInOneTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		e := sweeping(&log)
		var told atomic.Int64
		for i := range 1000 {
			switch i % 10 {
			case 3:
				e.sampled(fmt.Sprint("hangs", i), func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
			case 7:
				e.sampled(fmt.Sprint("dead", i), func(context.Context) error { return errors.New("connection refused") })
			default:
				e.sampled(fmt.Sprint("works", i), func(context.Context) error { time.Sleep(100 * time.Millisecond); told.Add(1); return nil })
			}
		}
		for round := range 2 {
			from := time.Now()
			e.askAll(t.Context())
			if took := time.Since(from); took > e.opts.SampleTimeout+time.Second {
				t.Errorf("round %d took %s, a timeout is %s", round, took, e.opts.SampleTimeout)
			}
			e.wg.Wait()
			if n := told.Swap(0); n != 800 {
				t.Errorf("round %d: %d agents have told their usage, want 800", round, n)
			}
		}
		if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "runs=200") {
			t.Errorf("the log is\n%s", text)
		}
	})
}

// However many hang, and whether they heed their context or not, a sweep takes
// two timeouts at most, and never asks more at once than it may.
func TestAskingIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		e := sweeping(&log)
		var at, most, calls int64
		var mu sync.Mutex
		come := func(n int64) {
			mu.Lock()
			defer mu.Unlock()
			at, most = at+n, max(most, at+n)
			calls += max(n, 0)
		}
		letGo := make(chan struct{})
		for i := range 2000 {
			e.sampled(fmt.Sprint(i), func(ctx context.Context) error {
				come(1)
				defer come(-1)
				<-letGo // deaf
				return nil
			})
		}
		from := time.Now()
		e.askAll(t.Context())
		if took := time.Since(from); took != 2*e.opts.SampleTimeout || most != askedAtOnce || calls != askedAtOnce {
			t.Errorf("it took %s, %d were asked, %d at once", took, calls, most)
		}
		// Those that are still at it are not asked again.
		e.askAll(t.Context())
		if calls != 2*askedAtOnce {
			t.Errorf("%d calls after the second sweep, want %d", calls, 2*askedAtOnce)
		}
		if !strings.Contains(log.String(), "runs=2000") {
			t.Errorf("the log is\n%s", log.String())
		}
		close(letGo)
		e.wg.Wait()
	})
}

// The end of a driver does not wait for an answer that hangs.
func TestStopCutsTheCallShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := sweeping(io.Discard)
		s := e.sampled("hangs", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		done := make(chan struct{})
		go func() { // waited for below
			defer close(done)
			e.askAll(t.Context())
		}()
		synctest.Wait()
		from := time.Now()
		s.stop()
		<-done
		if took := time.Since(from); took != 0 {
			t.Errorf("it took %s", took)
		}
	})
}

// A sweep is made at once and then at its interval, and ends with its context.
func TestSweepsKeepTheirInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := sweeping(io.Discard)
		ctx, cancel := context.WithCancelCause(t.Context())
		var n atomic.Int64
		done := make(chan struct{})
		go func() { // waited for below
			defer close(done)
			e.sweep(ctx, "test", time.Minute, func(context.Context) error {
				if n.Add(1)%2 == 0 {
					panic("oh no")
				}
				return errors.New("no")
			})
		}()
		synctest.Wait()
		if n := n.Load(); n != 1 {
			t.Fatalf("%d sweeps at the start, want 1", n)
		}
		time.Sleep(5*time.Minute + time.Second)
		synctest.Wait()
		if n := n.Load(); n != 6 {
			t.Errorf("%d sweeps after 5 minutes, want 6", n)
		}
		cancel(nil)
		<-done
	})
}

// forgetful is a store that has so many steps of old snapshots to look at.
type forgetful struct {
	Store
	steps  int
	from   []run.SnapshotMark
	before time.Time
}

func (f *forgetful) DueSnapshots(context.Context, string, time.Time) ([]run.UsageSnapshot, error) {
	return nil, nil
}

func (f *forgetful) ForgetSnapshots(_ context.Context, before time.Time, from run.SnapshotMark) (run.SnapshotMark, error) {
	f.before, f.from = before, append(f.from, from)
	if len(f.from)%f.steps == 0 {
		return run.SnapshotMark{}, nil
	}
	return run.SnapshotMark{Run: run.ID(fmt.Sprint(len(f.from)))}, nil
}

// A sweep looks at a limited number of old snapshots, and the next one goes on there.
func TestOldSnapshotsGoAFewAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &forgetful{steps: forgetSteps + 3}
		e := sweeping(io.Discard)
		e.store, e.opts.SnapshotKeep = f, time.Hour
		for _, want := range []int{forgetSteps, forgetSteps + 3, 2*forgetSteps + 3} {
			if err := e.sweepSnapshots(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(f.from) != want {
				t.Errorf("%d steps were made, want %d", len(f.from), want)
			}
		}
		if f.from[forgetSteps].Run != run.ID(fmt.Sprint(forgetSteps)) || f.from[forgetSteps+3] != (run.SnapshotMark{}) {
			t.Errorf("the steps were %v", f.from)
		}
		if !f.before.Equal(time.Now().Add(-time.Hour)) {
			t.Errorf("what is from before %s goes at %s", f.before, time.Now())
		}
		made := len(f.from)
		e.opts.SnapshotKeep = -1
		if err := e.sweepSnapshots(t.Context()); err != nil || len(f.from) != made {
			t.Errorf("they go though they are kept for ever: %v", err)
		}
	})
}
