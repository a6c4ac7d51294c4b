package engine

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// scriptedAppender records what is committed. Its refuse is asked first; its
// gate, when set, holds every commit until something is sent.
type scriptedAppender struct {
	gate   chan struct{}
	refuse func(run.Batch) error

	mu      sync.Mutex
	batches []run.Batch
	calls   int
}

func (a *scriptedAppender) Append(ctx context.Context, b run.Batch) ([]*run.Event, error) {
	if a.gate != nil {
		select {
		case <-a.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls++
	if a.refuse != nil {
		if err := a.refuse(b); err != nil {
			return nil, err
		}
	}
	a.batches = append(a.batches, b)
	return nil, nil
}

// texts gives what was committed: one string per batch, its texts joined by "|".
func (a *scriptedAppender) texts() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, b := range a.batches {
		var parts []string
		for _, d := range b.Drafts {
			switch p := d.Payload.(type) {
			case *run.OutputWritten:
				parts = append(parts, p.Text)
			case *run.MetricsLogged:
				parts = append(parts, "points")
			case *run.Warning:
				parts = append(parts, p.Text)
			default:
				parts = append(parts, string(p.Type()))
			}
		}
		out = append(out, strings.Join(parts, "|"))
	}
	return out
}

// startEmitter runs an emitter in the bubble; stop closes it.
func startEmitter(t *testing.T, a *scriptedAppender) (m *emitter, ctx context.Context, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	m = newEmitter(t.Context(), a, run.Run{ID: run.NewID(), Token: 7}, slog.New(slog.DiscardHandler), cancel)
	var wg sync.WaitGroup
	wg.Go(m.loop)
	return m, ctx, func() {
		m.close()
		wg.Wait()
		cancel(errReleased)
	}
}

func output(text string, offset int64) run.Draft {
	return run.Draft{Payload: &run.OutputWritten{Text: text, Offset: offset}}
}

func warning(text string) entry {
	return entry{drafts: []run.Draft{{Payload: &run.Warning{Text: text}}}}
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("committed\n%q\nwant\n%q", got, want)
	}
}

func TestFirstPieceAtOnceThenTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &scriptedAppender{}
		m, ctx, stop := startEmitter(t, a)
		defer stop()
		offset := int64(0)
		say := func(s string) {
			if err := m.piece(ctx, "x/STDOUT", s, offset, output); err != nil {
				t.Fatal(err)
			}
			offset += int64(len(s))
			synctest.Wait()
		}
		say("a")
		equal(t, a.texts(), "a")
		time.Sleep(10 * time.Millisecond)
		say("b")
		time.Sleep(10 * time.Millisecond)
		say("c")
		equal(t, a.texts(), "a")
		time.Sleep(12 * time.Millisecond) // 32 ms after the first
		synctest.Wait()
		equal(t, a.texts(), "a")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		equal(t, a.texts(), "a", "bc")
		if d := a.batches[1].Drafts[0].Payload.(*run.OutputWritten); d.Offset != 1 {
			t.Errorf("the offset of the joined piece is %d, want 1", d.Offset)
		}
		time.Sleep(time.Second)
		say("d")
		equal(t, a.texts(), "a", "bc", "d")
		if n := len(m.held); n > 1 {
			t.Errorf("%d quiet streams are remembered", n)
		}
	})
}

func TestPiecesFillAtMost32KiB(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &scriptedAppender{}
		m, ctx, stop := startEmitter(t, a)
		part := strings.Repeat("x", 10<<10)
		for i := range 9 {
			if err := m.piece(ctx, "x/STDOUT", part, int64(i*len(part)), output); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		stop()
		next := int64(0)
		for _, b := range a.batches {
			for _, d := range b.Drafts {
				p := d.Payload.(*run.OutputWritten)
				if len(p.Text) > maxHeld {
					t.Errorf("an event has %d bytes", len(p.Text))
				}
				if p.Offset != next {
					t.Errorf("an event begins at %d, want %d", p.Offset, next)
				}
				next += int64(len(p.Text))
			}
		}
		if next != int64(9*len(part)) {
			t.Errorf("%d bytes were committed, want %d", next, 9*len(part))
		}
	})
}

func TestMetricLineIsNotHeldAndTakesItsStreamAlong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &scriptedAppender{}
		m, ctx, stop := startEmitter(t, a)
		defer stop()
		for _, s := range []string{"out1 ", "out2 "} {
			if err := m.piece(ctx, "x/STDOUT", s, 0, output); err != nil {
				t.Fatal(err)
			}
			if err := m.piece(ctx, "x/STDERR", "err-"+s, 0, output); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		points := entry{lines: 1, drafts: []run.Draft{{Payload: &run.MetricsLogged{Points: []run.Point{{Name: "loss"}}}}}}
		if err := m.line(ctx, "x/STDOUT", "{metric}", 0, output, points); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got := a.texts()
		equal(t, got[len(got)-1:], "out2 {metric}|points")
		time.Sleep(holdFor)
		synctest.Wait()
		got = a.texts()
		equal(t, got[len(got)-1:], "err-out2 ")
	})
}

func TestEventComesAfterWhatWasHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &scriptedAppender{}
		m, ctx, stop := startEmitter(t, a)
		defer stop()
		for _, s := range []string{"a", "b"} {
			if err := m.piece(ctx, "x/STDOUT", s, 0, output); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if err := m.commit(ctx, warning("then")); err != nil {
			t.Fatal(err)
		}
		equal(t, a.texts(), "a", "b|then")
	})
}

func TestOneCommitUnderWayTheRestIsTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &scriptedAppender{gate: make(chan struct{})}
		m, ctx, stop := startEmitter(t, a)
		post := func(s string) {
			if err := m.post(ctx, warning(s)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for _, s := range []string{"1", "2", "3", "4"} {
			post(s)
		}
		a.gate <- struct{}{}
		synctest.Wait()
		equal(t, a.texts(), "1")
		close(a.gate)
		stop()
		equal(t, a.texts(), "1", "2|3|4")
		for _, b := range a.batches {
			if b.Fence.Token != 7 {
				t.Errorf("a batch has the fence %v", b.Fence)
			}
		}
	})
}

func TestFullQueueMakesWriterWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &scriptedAppender{gate: make(chan struct{})}
		m, ctx, stop := startEmitter(t, a)
		big := strings.Repeat("x", 64<<10)
		sent := 0
		var writer sync.WaitGroup
		writer.Go(func() {
			for i := range 100 {
				if err := m.piece(ctx, "x/STDOUT", big, int64(i), output); err != nil {
					t.Error(err)
					return
				}
				sent++
			}
		})
		synctest.Wait()
		if held := sent * len(big); held > maxQueued+2*len(big) {
			t.Errorf("%d bytes are held in memory, want about %d", held, maxQueued)
		}
		// A caller that gives up learns why.
		why := errors.New("no patience")
		impatient, give := context.WithCancelCause(ctx)
		give(why)
		if err := m.post(impatient, warning("x")); !errors.Is(err, why) {
			t.Errorf("got %v, want the cause", err)
		}
		close(a.gate)
		writer.Wait()
		stop()
		if sent != 100 {
			t.Errorf("%d pieces were taken, want 100", sent)
		}
	})
}

func TestRefusedMetricsLeaveTheOutput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no such table: metric_points")
		a := &scriptedAppender{refuse: func(b run.Batch) error {
			for _, d := range b.Drafts {
				if d.Payload.Type() == run.TypeMetricsLogged {
					return broken
				}
			}
			return nil
		}}
		m, ctx, stop := startEmitter(t, a)
		lost := 0
		x := entry{
			lines: 2, drafts: []run.Draft{{Payload: &run.MetricsLogged{}}},
			lost: func(n int, cause error) {
				if lost += n; !errors.Is(cause, broken) {
					t.Errorf("the cause is %v", cause)
				}
			},
		}
		if err := m.line(ctx, "x/STDOUT", "{metrics}", 0, output, x); err != nil {
			t.Fatal(err)
		}
		if err := m.commit(ctx, warning("after")); err != nil {
			t.Errorf("what came after it failed too: %v", err)
		}
		stop()
		if got := strings.Join(a.texts(), "|"); got != "{metrics}|after" {
			t.Errorf("committed %q", got)
		}
		if lost != 2 {
			t.Errorf("%d lost lines were counted, want 2", lost)
		}
	})
}

func TestRefusedEntryTakesNoOtherWithIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("bad draft")
		a := &scriptedAppender{gate: make(chan struct{}), refuse: func(b run.Batch) error {
			for _, d := range b.Drafts {
				if w, ok := d.Payload.(*run.Warning); ok && w.Text == "bad" {
					return bad
				}
			}
			return nil
		}}
		m, ctx, stop := startEmitter(t, a)
		if err := m.post(ctx, warning("first")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var callers sync.WaitGroup
		for text, want := range map[string]error{"good": nil, "bad": bad, "fine": nil} {
			callers.Go(func() {
				if err := m.commit(ctx, warning(text)); !errors.Is(err, want) {
					t.Errorf("%s: got %v, want %v", text, err, want)
				}
			})
		}
		synctest.Wait()
		close(a.gate)
		callers.Wait()
		stop()
		if got := strings.Join(a.texts(), "|"); !strings.Contains(got, "good") || !strings.Contains(got, "fine") || strings.Contains(got, "bad") {
			t.Errorf("committed %q", got)
		}
	})
}

func TestFencedRunWritesNothingMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &scriptedAppender{refuse: func(run.Batch) error { return run.ErrFenced }}
		m, ctx, stop := startEmitter(t, a)
		if err := m.commit(ctx, warning("x")); !errors.Is(err, errFenced) {
			t.Errorf("got %v, want errFenced", err)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, errFenced) {
			t.Errorf("the run's context ended with %v, want errFenced", cause)
		}
		if err := m.post(t.Context(), warning("y")); !errors.Is(err, errFenced) {
			t.Errorf("a later event was taken: %v", err)
		}
		stop()
		if a.calls != 1 {
			t.Errorf("the store was called %d times, want once", a.calls)
		}
	})
}

func TestAbsentStoreIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := true
		a := &scriptedAppender{refuse: func(run.Batch) error {
			if down {
				return run.Errorf(run.Unavailable, "the database is gone")
			}
			return nil
		}}
		m, ctx, stop := startEmitter(t, a)
		for _, s := range []string{"1", "2"} {
			if err := m.post(ctx, warning(s)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		a.mu.Lock()
		down = false
		a.mu.Unlock()
		stop()
		if got := strings.Join(a.texts(), "|"); got != "1|2" {
			t.Errorf("committed %q, want both in order", got)
		}
	})
}
