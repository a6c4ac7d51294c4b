package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

func sortIDs[T ~string](ids []T) { slices.Sort(ids) }

func accept(t *testing.T, s Store, n run.NewRun) run.Acceptance {
	t.Helper()
	return must[run.Acceptance](t)(s.Accept(context.Background(), n))
}

func state(t *testing.T, s Store, id run.ID) string {
	t.Helper()
	r := must[run.Run](t)(s.Run(context.Background(), id))
	return fmt.Sprint(r.State.Status, " ", r.State.Reason)
}

func testAcceptReject(t *testing.T, s Subject) {
	ctx := context.Background()
	id := run.NewSessionID()
	r := newRun(id)
	_, err := s.Store.Accept(ctx, run.NewRun{Run: r})
	wantCode(t, err, run.NotFound)
	a := accept(t, s.Store, run.NewRun{Run: r, NewSession: &run.Session{ID: id, Title: "made by the start"}})
	equal(t, "the status", a.Run.State.Status, run.Queued)
	equal(t, "the title", must[run.Session](t)(s.Store.Session(ctx, id)).Title, "made by the start")
	_, err = s.Store.Accept(ctx, run.NewRun{Run: newRun(id)}) // busy while queued
	wantCode(t, err, run.Busy)
	claimed := must[[]run.Run](t)(s.Store.Claim(ctx, "a", 10))
	equal(t, "the claims", len(claimed), 1)
	_, err = s.Store.Accept(ctx, run.NewRun{Run: newRun(id), OnBusy: run.Reject}) // busy while it runs
	wantCode(t, err, run.Busy)
	finish(t, s.Store, claimed[0])
	accept(t, s.Store, run.NewRun{Run: newRun(id)})
	_, err = s.Store.Accept(ctx, run.NewRun{Run: newRun(id), OnBusy: "LATER"})
	wantCode(t, err, run.Invalid)
	p := must[run.Page[run.Run]](t)(s.Store.Runs(ctx, run.RunFilter{Session: id}, run.PageQuery{}))
	equal(t, "the runs of the session", len(p.Nodes), 2)
}

func testAcceptQueue(t *testing.T, s Subject) {
	ctx := context.Background()
	first := live(t, s.Store, "a")
	var queued []run.ID
	for i := range 3 {
		r := newRun(first.Session)
		r.CreatedAt = at(10 + i)
		queued = append(queued, accept(t, s.Store, run.NewRun{Run: r, OnBusy: run.QueueBehind}).Run.ID)
	}
	equal(t, "claims while the slot is taken", len(must[[]run.Run](t)(s.Store.Claim(ctx, "a", 10))), 0)
	finish(t, s.Store, first)
	for _, want := range queued {
		got := must[[]run.Run](t)(s.Store.Claim(ctx, "a", 10))
		equal(t, "claims when the slot is free", len(got), 1)
		equal(t, "the oldest", got[0].ID, want)
		finish(t, s.Store, got[0])
	}
}

func testAcceptReplace(t *testing.T, s Subject) {
	ctx := context.Background()
	old := live(t, s.Store, "a")
	kid := child(t, s.Store, old)
	queued := accept(t, s.Store, run.NewRun{Run: newRun(old.Session), OnBusy: run.QueueBehind}).Run
	before := len(checkLog(t, s.Store, old.Session))
	a := accept(t, s.Store, run.NewRun{Run: newRun(old.Session), OnBusy: run.ReplaceCurrent})
	equal(t, "the queued one", state(t, s.Store, queued.ID), "CANCELLED REPLACED")
	ids := []run.ID{}
	for _, r := range a.Stopping {
		ids = append(ids, r.ID)
		if r.Abort == nil || !r.Abort.Silent || r.Abort.Trigger != run.Replace || r.Abort.Outcome != run.AbortPending {
			t.Fatalf("the intent of %s is %+v", r.ID, r.Abort)
		}
	}
	sortIDs(ids)
	want := []run.ID{old.ID, kid.ID}
	sortIDs(want)
	equal(t, "what stops", fmt.Sprint(ids), fmt.Sprint(want))
	log := checkLog(t, s.Store, old.Session)[before:]
	equal(t, "what was said", types(log), "RUN_ENDED") // of the queued one; the swap itself is silent
	equal(t, "whose end", log[0].Run, queued.ID)
	equal(t, "the new one", state(t, s.Store, a.Run.ID), "QUEUED ")
	if r := must[run.Run](t)(s.Store.Run(ctx, old.ID)); r.Abort == nil || r.State.Status != run.Running {
		t.Fatalf("the old one is %+v", r)
	}
	equal(t, "claims before it is gone", len(must[[]run.Run](t)(s.Store.Claim(ctx, "a", 9))), 0)
}

func testAcceptChild(t *testing.T, s Subject) {
	ctx := context.Background()
	parent := live(t, s.Store, "a")
	kid := child(t, s.Store, parent)
	equal(t, "its status", kid.State.Status, run.Running)
	equal(t, "its owner", kid.Owner, "a")
	log := checkLog(t, s.Store, parent.Session)
	equal(t, "the log", types(log), "RUN_STARTED RUN_STARTED")
	p, _ := must[run.Payload](t)(log[1].Payload()).(*run.RunStarted)
	equal(t, "the parent in the log", p.Parent, parent.ID)
	kids := must[[]run.Run](t)(s.Store.Children(ctx, parent.ID))
	equal(t, "the children", len(kids), 1)
	// A child of another session, of nobody, of a parent that is to stop, of one that has ended.
	stray := newRun(newSession(t, s.Store))
	stray.Parent = parent.ID
	_, err := s.Store.Accept(ctx, run.NewRun{Run: stray})
	wantCode(t, err, run.Invalid)
	orphan := newRun(parent.Session)
	orphan.Parent = run.NewID()
	_, err = s.Store.Accept(ctx, run.NewRun{Run: orphan})
	wantCode(t, err, run.NotFound)
	must[run.AbortResult](t)(s.Store.RequestAbort(ctx, run.AbortRequest{Run: kid.ID, Trigger: run.Abort}))
	late := newRun(parent.Session)
	late.Parent = kid.ID
	_, err = s.Store.Accept(ctx, run.NewRun{Run: late})
	wantIs(t, err, run.ErrState)
	finish(t, s.Store, kid)
	_, err = s.Store.Accept(ctx, run.NewRun{Run: late})
	wantIs(t, err, run.ErrState)
}

func testIdempotency(t *testing.T, s Subject) {
	ctx := context.Background()
	id := run.NewSessionID()
	n := run.NewRun{Run: newRun(id), NewSession: &run.Session{ID: id}, IdempotencyKey: "k'ey", PayloadHash: "h1"}
	first := accept(t, s.Store, n)
	id2 := run.NewSessionID()
	again := accept(t, s.Store, run.NewRun{Run: newRun(id2), NewSession: &run.Session{ID: id2}, IdempotencyKey: "k'ey", PayloadHash: "h1"})
	equal(t, "repeated", again.Repeated, true)
	equal(t, "the run", again.Run.ID, first.Run.ID)
	_, err := s.Store.Session(ctx, id2)
	wantCode(t, err, run.NotFound) // the repetition made no session
	_, err = s.Store.Accept(ctx, run.NewRun{Run: newRun(id), IdempotencyKey: "k'ey", PayloadHash: "h2"})
	wantCode(t, err, run.Conflict)
	other := newRun(id)
	other.Team = "another"
	if accept(t, s.Store, run.NewRun{Run: other, OnBusy: run.QueueBehind, IdempotencyKey: "k'ey", PayloadHash: "h2"}).Repeated {
		t.Fatal("the key of another team was taken for this one's")
	}
}

func stores(t *testing.T, s Subject) []Store {
	t.Helper()
	if s.Second == nil {
		return []Store{s.Store, s.Store}
	}
	second, _ := s.Second(t)
	return []Store{s.Store, second}
}

func testIdempotencyRace(t *testing.T, s Subject) {
	all := stores(t, s)
	var wg sync.WaitGroup
	got := make([]run.Acceptance, 12)
	errs := make([]error, len(got))
	for i := range got {
		wg.Go(func() {
			id := run.NewSessionID()
			got[i], errs[i] = all[i%2].Accept(context.Background(), run.NewRun{Run: newRun(id), NewSession: &run.Session{ID: id}, IdempotencyKey: "race", PayloadHash: "h"})
		})
	}
	wg.Wait()
	fresh := 0
	for i := range got {
		ok(t, errs[i])
		if !got[i].Repeated {
			fresh++
		}
		equal(t, "the run", got[i].Run.ID, got[0].Run.ID)
	}
	equal(t, "new runs", fresh, 1)
}

// testReplaceRace: of two messages that replace each other, one run stays.
func testReplaceRace(t *testing.T, s Subject) {
	ctx := context.Background()
	all := stores(t, s)
	old := live(t, s.Store, "a")
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = all[i%2].Accept(ctx, run.NewRun{Run: newRun(old.Session), OnBusy: run.ReplaceCurrent})
		})
	}
	wg.Wait()
	for _, err := range errs {
		ok(t, err)
	}
	open := must[run.Page[run.Run]](t)(s.Store.Runs(ctx, run.RunFilter{Session: old.Session, Statuses: []run.Status{run.Queued, run.Running}}, run.PageQuery{}))
	equal(t, "open runs: the old one and one new", len(open.Nodes), 2)
	finish(t, s.Store, old)
	claimed := 0
	for i := range 4 {
		claimed += len(must[[]run.Run](t)(all[i%2].Claim(ctx, fmt.Sprint(i%2), 10)))
	}
	equal(t, "claims", claimed, 1)
	checkLog(t, s.Store, old.Session)
}

func testClaimOrder(t *testing.T, s Subject) {
	ctx := context.Background()
	var want []run.ID
	for i := range 5 {
		r := newRun(newSession(t, s.Store))
		r.CreatedAt = at(i)
		r.Token, r.Owner = 77, "nobody" // of a run that is queued, neither counts
		want = append(want, accept(t, s.Store, run.NewRun{Run: r}).Run.ID)
	}
	equal(t, "claims of none", len(must[[]run.Run](t)(s.Store.Claim(ctx, "a", 0))), 0)
	var got []run.ID
	for _, n := range []int{2, 2, 2} {
		for _, r := range must[[]run.Run](t)(s.Store.Claim(ctx, "me", n)) {
			got = append(got, r.ID)
			equal(t, "the token", r.Token, 1)
			now := must[run.Run](t)(s.Store.Run(ctx, r.ID))
			equal(t, "what is stored", fmt.Sprint(now.Owner, now.Token, now.State, now.StartedAt), fmt.Sprint("me", r.Token, r.State, r.StartedAt))
			equal(t, "the log", types(checkLog(t, s.Store, r.Session)), "RUN_STARTED")
		}
	}
	equal(t, "the order", fmt.Sprint(got), fmt.Sprint(want))
}

func testClaimRace(t *testing.T, s Subject) {
	all := stores(t, s)
	const n = 30
	for range n {
		accept(t, s.Store, run.NewRun{Run: newRun(newSession(t, s.Store))})
	}
	var mu sync.Mutex
	seen := map[run.ID]int{}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for {
				got, err := all[i%2].Claim(context.Background(), fmt.Sprint(i), 3)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, r := range got {
					seen[r.ID]++
				}
				done := len(seen) == n
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	wg.Wait()
	for id, times := range seen {
		equal(t, "the claims of "+string(id), times, 1)
	}
}
