package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

// block holds the writer at its next statement until release is called; from
// then on after decides before each statement, if it is not nil.
func block(t *testing.T, s Subject, after func(statement string) error) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	entered := make(chan struct{})
	var once sync.Once
	s.Fail(func(string) error {
		once.Do(func() { close(entered) })
		<-gate
		return nil
	})
	session := newSessionLater(s)
	<-entered
	var open sync.Once
	release = func() {
		open.Do(func() {
			s.Fail(after) // before the gate opens: what waits runs at once
			close(gate)
			<-session
		})
	}
	t.Cleanup(release)
	return release
}

// newSessionLater writes something that the blocked writer is busy with.
func newSessionLater(s Subject) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Store.CreateSession(context.Background(), run.Session{ID: run.NewSessionID()})
	}()
	return done
}

// testGroupIsolation: batches that share a transaction do not share its failures.
func testGroupIsolation(t *testing.T, s Subject) {
	ctx := context.Background()
	s.RefuseStep13(t)
	good, other := live(t, s.Store, "a"), live(t, s.Store, "a")
	ended := live(t, s.Store, "a")
	finish(t, s.Store, ended)
	to := run.State{Status: run.Done, Reason: run.Completed}
	batches := map[string]run.Batch{
		"fenced":  {Session: good.Session, Fence: run.Fence{Run: good.ID, Token: 99}, Drafts: []run.Draft{text(good, "fenced")}},
		"state":   {Session: ended.Session, Update: &run.Update{Run: ended.ID, From: []run.Status{run.Running}, To: &to}, Drafts: []run.Draft{text(ended, "state")}},
		"unknown": {Session: run.NewSessionID(), Drafts: []run.Draft{{Payload: &run.Warning{}}}},
		"broken":  {Session: good.Session, Executions: []run.Execution{{ID: run.NewExecutionID(), Run: good.ID}}, Drafts: []run.Draft{text(good, "broken")}},
		"points":  {Session: other.Session, Drafts: []run.Draft{run.DraftOf(other, at(1), &run.MetricsLogged{Points: []run.Point{{Step: 12, Name: "l"}, {Step: 13, Name: "l"}, {Step: 14, Name: "l"}}})}},
	}
	for i := range 20 {
		r := good
		if i%2 == 0 {
			r = other
		}
		batches[fmt.Sprint("good", i)] = run.Batch{Session: r.Session, Fence: fence(r), Drafts: []run.Draft{text(r, "good"), text(r, "good")}}
	}
	release := block(t, s, func(statement string) error {
		if statement == "storing an execution" {
			return errors.New("this cannot be stored")
		}
		return nil
	})
	var mu sync.Mutex
	var wg sync.WaitGroup
	errs := map[string]error{}
	for name, b := range batches {
		wg.Go(func() {
			_, err := s.Store.Append(ctx, b)
			mu.Lock()
			defer mu.Unlock()
			errs[name] = err
		})
	}
	poll(t, func() error {
		if n := s.Waiting(); n != len(batches) {
			return fmt.Errorf("%d batches wait", n)
		}
		return nil
	})
	release()
	wg.Wait()
	s.Fail(nil)
	for name, err := range errs {
		switch name {
		case "fenced":
			wantIs(t, err, run.ErrFenced)
		case "state":
			wantIs(t, err, run.ErrState)
		case "unknown":
			wantCode(t, err, run.NotFound)
		case "broken":
			if err == nil {
				t.Fatal("the broken batch was stored")
			}
		default:
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	equal(t, "events of the first", len(checkLog(t, s.Store, good.Session)), 1+20)
	equal(t, "events of the second", len(checkLog(t, s.Store, other.Session)), 1+20+2)
	equal(t, "stored points", s.Count(t, "SELECT count(*) FROM metric_points"), 2)
}

// hammer appends from many goroutines over the given stores to the sessions, and
// checks logs and what was published.
func hammer(t *testing.T, all []Store, recorders []*recorder, runs []run.Run, callers, batches int) {
	t.Helper()
	var wg sync.WaitGroup
	returned := make([][]*run.Event, callers)
	for c := range callers {
		wg.Go(func() {
			r := runs[c%len(runs)]
			for i := range batches {
				b := run.Batch{Session: r.Session, Fence: fence(r)}
				for range 1 + (c+i)%4 {
					b.Drafts = append(b.Drafts, text(r, fmt.Sprint("caller ", c, " batch ", i)))
				}
				got, err := all[(c+i)%len(all)].Append(context.Background(), b)
				if err != nil {
					t.Error(err)
					return
				}
				for j := range got[1:] {
					if got[j+1].Seq != got[j].Seq+1 {
						t.Errorf("a batch has the seqs %d, %d", got[j].Seq, got[j+1].Seq)
					}
				}
				returned[c] = append(returned[c], got...)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for _, list := range returned {
		for i := range list[1:] {
			if list[i+1].Seq <= list[i].Seq {
				t.Fatalf("a caller's batches are out of order: %d after %d", list[i+1].Seq, list[i].Seq)
			}
		}
	}
	for _, r := range runs {
		log := checkLog(t, all[0], r.Session)
		published := map[int64]*run.Event{}
		for _, rec := range recorders {
			last := int64(0)
			for _, e := range rec.of(r.Session) {
				if e.Seq <= last {
					t.Fatalf("seq %d was published after %d", e.Seq, last)
				}
				last = e.Seq
				if published[e.Seq] != nil {
					t.Fatalf("seq %d was published twice", e.Seq)
				}
				published[e.Seq] = e
			}
		}
		equal(t, "the number of published events", len(published), len(log))
		for _, e := range log {
			equal(t, "a published event", show(published[e.Seq]), show(e))
		}
	}
}

func testConcurrent(t *testing.T, s Subject) {
	rec := &recorder{}
	s.Listen(rec)
	runs := []run.Run{live(t, s.Store, "a"), live(t, s.Store, "a"), live(t, s.Store, "a")}
	hammer(t, []Store{s.Store}, []*recorder{rec}, runs, 12, 40)
}

// testTwoStores: two processes write the same sessions.
func testTwoStores(t *testing.T, s Subject) {
	all := []Store{s.Store}
	recorders := []*recorder{{}}
	s.Listen(recorders[0])
	if s.Second != nil {
		second, listen := s.Second(t)
		all = append(all, second)
		recorders = append(recorders, &recorder{})
		listen(recorders[1])
	}
	runs := []run.Run{live(t, s.Store, "a"), live(t, s.Store, "a")}
	hammer(t, all, recorders, runs, 10, 40)
}

func testTwoStoresMetrics(t *testing.T, s Subject) {
	ctx := context.Background()
	all := stores(t, s)
	r := live(t, s.Store, "a")
	var m model
	for i := range 30 {
		var points []run.Point
		for j := range 20 {
			p := run.Point{Step: int64((i*20 + j) * 3), Name: "l", Value: float64(i - j), At: at(1)}
			points = append(points, p)
			m = append(m, modelPoint{p, len(m)})
		}
		logPoints(t, all[i/3%2], r, points...)
		if i%7 == 3 {
			ok(t, all[i%2].Fold(ctx))
		}
		m.check(t, fmt.Sprint("after batch ", i), curve(t, all[(i+1)%2], r, run.MetricQuery{MaxPoints: 30}), 30)
	}
	for _, st := range all {
		ok(t, st.Fold(ctx))
	}
	equal(t, "unfolded sessions", s.Count(t, "SELECT count(*) FROM sessions WHERE folded_seq < last_seq"), 0)
	m.check(t, "folded", curve(t, s.Store, r, run.MetricQuery{MaxPoints: 30}), 30)
	equal(t, "points in the buckets of the finest level", s.Count(t, "SELECT CAST(sum(n) AS BIGINT) FROM metric_buckets WHERE level = 4"), int64(len(m)))
}

// testCallerGone: a caller that stops waiting leaves a whole change or none.
func testCallerGone(t *testing.T, s Subject) {
	r := live(t, s.Store, "a")
	queued := newSession(t, s.Store)
	n := run.NewRun{Run: newRun(queued)}
	release := block(t, s, nil)
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error, 3)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := s.Store.Append(ctx, run.Batch{Session: r.Session, Drafts: []run.Draft{text(r, "never")}})
		errs <- err
	})
	wg.Go(func() { _, err := s.Store.Accept(ctx, n); errs <- err })
	wg.Go(func() { errs <- s.Store.DeleteSession(ctx, queued) })
	poll(t, func() error {
		if s.Waiting() != 3 {
			return errors.New("not all wait")
		}
		return nil
	})
	cancel()
	wg.Wait()
	for range 3 {
		wantIs(t, <-errs, context.Canceled)
	}
	release()
	equal(t, "the log", types(checkLog(t, s.Store, r.Session)), "RUN_STARTED")
	_, err := s.Store.Run(context.Background(), n.Run.ID)
	wantCode(t, err, run.NotFound)
	must[run.Session](t)(s.Store.Session(context.Background(), queued))
	// One that has begun goes on to its end.
	gate, entered := make(chan struct{}), make(chan struct{})
	s.Fail(func(statement string) error {
		if statement == "commit" {
			close(entered)
			<-gate
			s.Fail(nil)
		}
		return nil
	})
	ctx, cancel = context.WithCancel(context.Background())
	wg.Go(func() {
		_, err := s.Store.Append(ctx, run.Batch{Session: r.Session, Drafts: []run.Draft{text(r, "begun")}})
		errs <- err
	})
	<-entered
	cancel()
	wantIs(t, <-errs, context.Canceled)
	close(gate)
	wg.Wait()
	fill(t, s.Store, r.Session, 1)
	equal(t, "the log", types(checkLog(t, s.Store, r.Session)), "RUN_STARTED WARNING WARNING")
}

// testClosed: what was accepted before Close is written, what comes later is
// refused with a reason.
func testClosed(t *testing.T, s Subject) {
	r := live(t, s.Store, "a")
	var wg sync.WaitGroup
	var mu sync.Mutex
	written := 0
	for range 20 {
		wg.Go(func() {
			_, err := s.Store.Append(context.Background(), run.Batch{Session: r.Session, Drafts: []run.Draft{text(r, "x")}})
			if err != nil {
				wantCodeAsync(t, err, run.Unavailable)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			written++
		})
	}
	closed := s.Store
	st := s.Reopen(t)
	wg.Wait()
	equal(t, "the written events", len(checkLog(t, st, r.Session)), 1+written)
	_, err := closed.Append(context.Background(), run.Batch{Session: r.Session, Drafts: []run.Draft{text(r, "late")}})
	wantCode(t, err, run.Unavailable)
	wantCode(t, closed.CreateSession(context.Background(), run.Session{ID: run.NewSessionID()}), run.Unavailable)
	ok(t, closed.Close()) // again
	ok(t, st.Ping(context.Background()))
}

func wantCodeAsync(t *testing.T, err error, code run.Code) {
	t.Helper()
	if run.CodeOf(err) != code {
		t.Errorf("the error is %v, want %s", err, code)
	}
}
