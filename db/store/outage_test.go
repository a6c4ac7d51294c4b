package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/runtime/run"
)

type seen struct {
	mu   sync.Mutex
	seqs map[run.SessionID][]int64
}

func (s *seen) Committed(events []*run.Event, _ []run.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seqs == nil {
		s.seqs = map[run.SessionID][]int64{}
	}
	for _, e := range events {
		s.seqs[e.Session] = append(s.seqs[e.Session], e.Seq)
	}
}

// wholeLog reads a session's events and fails unless they are 1, 2, 3 ...
func wholeLog(t *testing.T, s *store.Store, id run.SessionID) []*run.Event {
	t.Helper()
	var out []*run.Event
	for after := int64(0); ; {
		p, err := s.Events(context.Background(), run.EventQuery{Session: id, After: after, First: 1000})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p.Events...)
		if !p.HasMore {
			break
		}
		after = p.Scanned
	}
	for i, e := range out {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d of session %s has seq %d", i+1, id, e.Seq)
		}
	}
	return out
}

// TestServerGone stops the database server under load, several times: nothing is
// lost, doubled or out of order, Append only waits, and everything else says
// UNAVAILABLE meanwhile.
func TestServerGone(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Start(t)
	url := cluster.Database(t)
	ctx := context.Background()
	s := openStore(t, store.Options{URL: url}, &store.Fault{})
	heard := &seen{}
	s.Listen(heard)
	const callers = 6
	var sessions []run.SessionID
	for range 3 {
		id := run.NewSessionID()
		sessions = append(sessions, id)
		if err := s.CreateSession(ctx, run.Session{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var acked atomic.Int64
	var wg sync.WaitGroup
	texts := make([][]string, callers) // acknowledged, per caller, in order
	for c := range callers {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				text := fmt.Sprint(c, " ", i)
				if _, err := s.Append(ctx, run.Batch{Session: sessions[c%3], Drafts: []run.Draft{{Payload: &run.Warning{Text: text}}}}); err != nil {
					t.Errorf("an append failed: %v", err)
					return
				}
				texts[c] = append(texts[c], text)
				acked.Add(1)
			}
		})
	}
	progress := func() {
		t.Helper()
		from := acked.Load()
		until(t, func() error {
			if acked.Load() < from+200 {
				return fmt.Errorf("no progress beyond %d", acked.Load())
			}
			return nil
		})
	}
	for round := range 3 {
		progress()
		cluster.Stop(t)
		if round == 0 { // while it is gone
			err := s.CreateSession(ctx, run.Session{ID: run.NewSessionID()})
			if run.CodeOf(err) != run.Unavailable {
				t.Fatalf("a change without the server gives %v", err)
			}
			if _, err := s.Session(ctx, sessions[0]); run.CodeOf(err) != run.Unavailable {
				t.Fatalf("a read without the server gives %v", err)
			}
			until(t, func() error {
				if err := s.Ping(ctx); run.CodeOf(err) != run.Unavailable {
					return fmt.Errorf("ping without the server gives %w", err)
				}
				return nil
			})
		}
		cluster.Start(t)
	}
	progress()
	close(stop)
	wg.Wait()
	until(t, func() error { return s.Ping(ctx) })
	got := make([][]string, callers)
	for _, id := range sessions {
		log := wholeLog(t, s, id)
		if len(log) != len(heard.seqs[id]) {
			t.Fatalf("%d events were published, %d are stored", len(heard.seqs[id]), len(log))
		}
		for i, e := range log {
			if heard.seqs[id][i] != e.Seq {
				t.Fatalf("seq %d was published as number %d", heard.seqs[id][i], i+1)
			}
			p, err := e.Payload()
			if err != nil {
				t.Fatal(err)
			}
			text := p.(*run.Warning).Text
			var c, n int
			if _, err := fmt.Sscan(text, &c, &n); err != nil {
				t.Fatal(err)
			}
			got[c] = append(got[c], text)
		}
	}
	for c := range callers {
		if fmt.Sprint(got[c]) != fmt.Sprint(texts[c]) {
			t.Fatalf("caller %d wrote %d events, %d are stored, or in another order", c, len(texts[c]), len(got[c]))
		}
	}
	t.Logf("%d events over 3 stops, %d retries", acked.Load(), s.Stats().Retries)
}

// TestBackpressure: while nothing can be written, callers are held back at
// 64 MiB and let go by their contexts; afterwards everything that was taken in
// is written.
func TestBackpressure(t *testing.T) {
	t.Parallel()
	fault := &store.Fault{}
	s := openStore(t, store.Options{Path: t.TempDir()}, fault)
	ctx := context.Background()
	id := run.NewSessionID()
	if err := s.CreateSession(ctx, run.Session{ID: id}); err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	fault.Set(func(string) error { <-gate; return nil })
	big := make([]byte, 4<<20)
	for i := range big {
		big[i] = byte('a' + rand.N(26))
	}
	text := string(big)
	const n = 24 // 96 MiB
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	held := 0
	for range n {
		wg.Go(func() {
			if _, err := s.Append(limited, run.Batch{Session: id, Drafts: []run.Draft{{Payload: &run.Warning{Text: text}}}}); err != nil {
				mu.Lock()
				defer mu.Unlock()
				held++
			}
		})
	}
	until(t, func() error {
		if s.Waiting() < 14 {
			return fmt.Errorf("%d wait in the queue", s.Waiting())
		}
		return nil
	})
	if w := s.Waiting(); w > 16 {
		t.Fatalf("%d changes of 4 MiB are in a queue of 64 MiB", w)
	}
	cancel()
	wg.Wait()
	if held != n {
		t.Fatalf("%d of %d callers were let go", held, n)
	}
	fault.Set(nil)
	close(gate)
	if _, err := s.Append(ctx, run.Batch{Session: id, Drafts: []run.Draft{{Payload: &run.Warning{Text: text}}}}); err != nil {
		t.Fatal(err)
	}
	if got := len(wholeLog(t, s, id)); got > 3 { // one group of 4 MiB had begun
		t.Fatalf("%d events were written for callers that had gone", got)
	}
}

// TestRetryOnFullDisk: a full database makes Append wait, and it goes on when
// there is room. max_page_count stands for the disk.
func TestRetryOnFullDisk(t *testing.T) {
	t.Parallel()
	fault := &store.Fault{}
	s := openStore(t, store.Options{Path: t.TempDir()}, fault)
	ctx := context.Background()
	id := run.NewSessionID()
	if err := s.CreateSession(ctx, run.Session{ID: id}); err != nil {
		t.Fatal(err)
	}
	limit := func(pages int) {
		fault.Set(func(statement string) error {
			if statement != "begin" {
				return nil
			}
			return s.WriterExec(fmt.Sprint("PRAGMA max_page_count = ", pages))
		})
	}
	limit(120)
	done := make(chan error, 1)
	go func() {
		for range 100 {
			if _, err := s.Append(ctx, run.Batch{Session: id, Drafts: []run.Draft{{Payload: &run.Warning{Text: string(make([]byte, 5000))}}}}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	until(t, func() error {
		if s.Ping(ctx) == nil {
			return fmt.Errorf("the full disk does not show")
		}
		return nil
	})
	if err := s.CreateSession(ctx, run.Session{ID: run.NewSessionID()}); run.CodeOf(err) != run.Unavailable {
		t.Fatalf("a change on a full disk gives %v", err)
	}
	limit(100_000)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := len(wholeLog(t, s, id)); n != 100 {
		t.Fatalf("%d events, want 100", n)
	}
	if err := s.Ping(ctx); err != nil {
		t.Fatal(err)
	}
}

// until polls f, where a real server or file leaves nothing to wait for.
func until(t *testing.T, f func() error) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
