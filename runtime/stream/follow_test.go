package stream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/stream"
)

var types = []run.EventType{run.TypeOutputWritten, run.TypeMetricsLogged, run.TypeMessageDelta, run.TypeStateChanged}

func event(rnd *rand.Rand) *run.Event {
	return &run.Event{
		Type: types[rnd.IntN(len(types))], Run: run.ID(fmt.Sprint("run_", rnd.IntN(3))),
		Body: make([]byte, 0, 64),
	}
}

// wants is the transcript that a subscription must bring: the log, filtered.
func wants(log []*run.Event, after int64, f run.EventFilter) []*run.Event {
	var out []*run.Event
	for _, e := range log[min(after, int64(len(log))):] {
		if f.Match(e) {
			out = append(out, e)
		}
	}
	return out
}

func same(a, b []*run.Event) error {
	for i := range min(len(a), len(b)) {
		if a[i].Seq != b[i].Seq || string(a[i].Body) != string(b[i].Body) {
			return fmt.Errorf("item %d: got event %d, want event %d", i, a[i].Seq, b[i].Seq)
		}
	}
	if len(a) != len(b) {
		return fmt.Errorf("got %d events, want %d", len(a), len(b))
	}
	return nil
}

// Readers with random cursors, filters, speeds and disconnects, over sessions
// that this and another process write: every transcript is the filtered log.
func TestEveryTranscriptIsTheFilteredLog(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testTranscripts(t, seed) })
		})
	}
}

func testTranscripts(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	m, s := open(stream.Options{
		RingEvents: 1 + rnd.IntN(40), RingBytes: 200 + rnd.IntN(8000), SendEvents: 1 + rnd.IntN(20),
		SendBytes: 1 + rnd.IntN(4000), PageEvents: 1 + rnd.IntN(30), Readers: 1 + rnd.IntN(3), Poll: time.Second,
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	sessions := []run.SessionID{"ses_a", "ses_b", "ses_c"}
	for _, id := range sessions {
		m.create(id)
	}
	var background, readers, writers sync.WaitGroup
	background.Go(func() { _ = s.Run(ctx) })

	type reader struct {
		session run.SessionID
		after   int64
		filter  run.EventFilter
		got     []*run.Event
	}
	all := make([]*reader, 40)
	for i := range all {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)+100))
		r := &reader{session: sessions[rnd.IntN(len(sessions))], after: int64(rnd.IntN(150))}
		if rnd.IntN(2) == 0 {
			r.filter.Types = types[:1+rnd.IntN(2)]
		}
		if rnd.IntN(3) == 0 {
			r.filter.Run = "run_1"
		}
		slow := time.Duration(rnd.IntN(3)) * 7 * time.Millisecond
		all[i] = r
		readers.Go(func() {
			time.Sleep(time.Duration(rnd.IntN(400)) * time.Millisecond)
			cur := r.after
			for ctx.Err() == nil {
				// A connection that is cut after a while; the next one takes up
				// at the last event that was seen.
				conn, drop := context.WithTimeout(ctx, time.Duration(1+rnd.IntN(900))*time.Millisecond)
				_ = s.Follow(conn, r.session, cur, r.filter, func(events []*run.Event) error {
					if len(events) == 0 {
						return errors.New("an empty batch")
					}
					if conn.Err() != nil {
						return conn.Err() // never reached the client
					}
					r.got = append(r.got, events...)
					cur = events[len(events)-1].Seq
					time.Sleep(slow * time.Duration(len(events)))
					return nil
				})
				drop()
			}
		})
	}
	for i, id := range sessions {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)+1000))
		writers.Go(func() {
			for range 150 {
				drafts := make([]*run.Event, 1+rnd.IntN(5))
				for j := range drafts {
					drafts[j] = event(rnd)
				}
				m.append(rnd.IntN(8) != 0, id, drafts...)
				time.Sleep(time.Duration(rnd.IntN(10)) * time.Millisecond)
			}
		})
	}
	writers.Wait()
	time.Sleep(time.Minute) // polls, and the slowest reader
	synctest.Wait()
	cancel(nil)
	readers.Wait()
	background.Wait()
	for i, r := range all {
		if err := same(r.got, wants(m.events[r.session], r.after, r.filter)); err != nil {
			t.Errorf("reader %d of %s after %d with %+v: %v", i, r.session, r.after, r.filter, err)
		}
	}
}

// collect follows in the background until stop; the bubble's Wait settles it.
type collect struct {
	mu     sync.Mutex
	events []*run.Event
	sizes  []int
	err    error
	stop   func()
}

func follow(t *testing.T, s *stream.Stream, id run.SessionID, after int64, f run.EventFilter) *collect {
	t.Helper()
	c := &collect{}
	ctx, cancel := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		err := s.Follow(ctx, id, after, f, func(events []*run.Event) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.events = append(c.events, events...)
			c.sizes = append(c.sizes, len(events))
			return nil
		})
		c.mu.Lock()
		defer c.mu.Unlock()
		c.err = err
	})
	c.stop = func() { cancel(errors.New("stopped by the test")); wg.Wait() }
	t.Cleanup(c.stop)
	return c
}

func TestCursorBeyondTheEndWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, s := open(stream.Options{})
		m.create("ses_a")
		rnd := rand.New(rand.NewPCG(1, 1))
		m.append(true, "ses_a", event(rnd))
		c := follow(t, s, "ses_a", 3, run.EventFilter{})
		synctest.Wait()
		m.append(true, "ses_a", event(rnd), event(rnd))
		synctest.Wait()
		if len(c.events) != 0 {
			t.Fatalf("got %d events before the log reached the cursor", len(c.events))
		}
		m.append(true, "ses_a", event(rnd))
		synctest.Wait()
		if err := same(c.events, m.events["ses_a"][3:]); err != nil {
			t.Fatal(err)
		}
		c.stop()
		if c.err == nil || c.err.Error() != "stopped by the test" {
			t.Errorf("Follow returned %v, want the cause of its end", c.err)
		}
	})
}

func TestUnknownSessionIsAnError(t *testing.T) {
	t.Parallel()
	_, s := open(stream.Options{})
	err := s.Follow(t.Context(), "ses_none", 0, run.EventFilter{}, func([]*run.Event) error { return nil })
	if run.CodeOf(err) != run.NotFound {
		t.Fatalf("got %v, want NOT_FOUND", err)
	}
}

func TestFailedSendEndsTheFollower(t *testing.T) {
	t.Parallel()
	m, s := open(stream.Options{})
	m.create("ses_a")
	m.append(true, "ses_a", event(rand.New(rand.NewPCG(1, 1))))
	gone := errors.New("the client is gone")
	if err := s.Follow(t.Context(), "ses_a", 0, run.EventFilter{}, func([]*run.Event) error { return gone }); !errors.Is(err, gone) {
		t.Fatalf("got %v, want the error of send", err)
	}
}

// The live end is served from memory: a follower that keeps up reads the store
// once, at the beginning.
func TestLiveEventsDoNotReadTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, s := open(stream.Options{})
		m.create("ses_a")
		c := follow(t, s, "ses_a", 0, run.EventFilter{})
		synctest.Wait()
		rnd := rand.New(rand.NewPCG(1, 1))
		for range 100 {
			m.append(true, "ses_a", event(rnd))
			synctest.Wait()
		}
		if m.reads != 1 {
			t.Errorf("the store was read %d times, want 1", m.reads)
		}
		if err := same(c.events, m.events["ses_a"]); err != nil {
			t.Error(err)
		}
	})
}

// A follower that does not take its events holds neither the writer nor the
// others, and gets all of them later.
func TestSlowFollowerHoldsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, s := open(stream.Options{RingEvents: 10})
		m.create("ses_a")
		release := make(chan struct{})
		var slow []*run.Event
		ctx, cancel := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = s.Follow(ctx, "ses_a", 0, run.EventFilter{}, func(events []*run.Event) error {
				<-release
				slow = append(slow, events...)
				return nil
			})
		})
		quick := follow(t, s, "ses_a", 0, run.EventFilter{})
		rnd := rand.New(rand.NewPCG(1, 1))
		for range 500 {
			m.append(true, "ses_a", event(rnd))
			synctest.Wait()
		}
		if err := same(quick.events, m.events["ses_a"]); err != nil {
			t.Errorf("the quick follower: %v", err)
		}
		close(release)
		synctest.Wait()
		cancel(nil)
		wg.Wait()
		if err := same(slow, m.events["ses_a"]); err != nil {
			t.Errorf("the slow follower: %v", err)
		}
	})
}

func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, s := open(stream.Options{SendEvents: 7})
		m.create("ses_a")
		rnd := rand.New(rand.NewPCG(1, 1))
		many := func() (es []*run.Event) {
			for range 100 {
				es = append(es, event(rnd))
			}
			return es
		}
		m.append(true, "ses_a", many()...) // read from the store
		c := follow(t, s, "ses_a", 0, run.EventFilter{})
		synctest.Wait()
		m.append(true, "ses_a", many()...) // and from the ring
		synctest.Wait()
		if err := same(c.events, m.events["ses_a"]); err != nil {
			t.Error(err)
		}
		for _, n := range c.sizes {
			if n < 1 || n > 7 {
				t.Errorf("a batch of %d events, want 1 to 7", n)
			}
		}
	})
}

func TestCutHistoryBeginsWithAGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, s := open(stream.Options{})
		m.create("ses_a")
		rnd := rand.New(rand.NewPCG(1, 1))
		for range 10 {
			m.append(true, "ses_a", event(rnd))
		}
		m.firstSeq["ses_a"] = 5
		c := follow(t, s, "ses_a", 0, run.EventFilter{Run: "run_none"})
		synctest.Wait()
		if len(c.events) != 1 || c.events[0].Type != run.TypeGapEvent || c.events[0].Seq != 4 {
			t.Fatalf("got %d events, want one gap up to 4", len(c.events))
		}
	})
}

func TestStoreOutageOnlyDelays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, s := open(stream.Options{})
		m.create("ses_a")
		m.append(true, "ses_a", event(rand.New(rand.NewPCG(1, 1))))
		m.down = true
		c := follow(t, s, "ses_a", 0, run.EventFilter{})
		time.Sleep(time.Hour)
		m.mu.Lock()
		m.down = false
		m.mu.Unlock()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if err := same(c.events, m.events["ses_a"]); err != nil {
			t.Error(err)
		}
	})
}

// A filter that takes nothing still moves the cursor: the follower waits, it
// does not read the same page again and again.
func TestFilterThatTakesNothingWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, s := open(stream.Options{})
		m.create("ses_a")
		rnd := rand.New(rand.NewPCG(1, 1))
		m.append(true, "ses_a", event(rnd), event(rnd))
		follow(t, s, "ses_a", 0, run.EventFilter{Run: "run_none"})
		time.Sleep(time.Hour)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.reads != 1 {
			t.Errorf("the store was read %d times in an idle hour, want once", m.reads)
		}
	})
}
