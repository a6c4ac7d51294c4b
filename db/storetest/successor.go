package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// crashing is the batch that ends a run and queues its next attempt.
func crashing(r run.Run, next run.Run) run.Batch {
	to := run.State{Status: run.Failed, Reason: run.Crashed}
	return run.Batch{
		Session: r.Session, Fence: fence(r), Successor: &next,
		Drafts: []run.Draft{run.DraftOf(r, at(9), &run.RunEnded{Status: to.Status, ExitReason: to.Reason})},
		Update: &run.Update{Run: r.ID, From: []run.Status{run.Running}, To: &to, EndedAt: at(9)},
	}
}

// A next attempt is queued with the end of the one before, keeps the session's
// slot, and is claimed when its time has come.
func testSuccessor(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "me")
	next := newRun("ses_of_nobody")
	next.Attempt, next.RestartOf, next.CreatedAt = 2, r.ID, at(8)
	next.NotBefore = time.Now().Add(time.Hour).Truncate(time.Microsecond)
	next.Owner, next.Token, next.State = "nobody", 77, run.State{Status: run.Done}

	stale := crashing(r, next)
	stale.Fence.Token += 5
	if _, err := s.Store.Append(ctx, stale); !errors.Is(err, run.ErrFenced) {
		t.Errorf("a stale batch gives %v", err)
	}
	_, err := s.Store.Run(ctx, next.ID)
	wantCode(t, err, run.NotFound)

	must[[]*run.Event](t)(s.Store.Append(ctx, crashing(r, next)))
	got := must[run.Run](t)(s.Store.Run(ctx, next.ID))
	equal(t, "the state", got.State, run.State{Status: run.Queued})
	equal(t, "the session", got.Session, r.Session)
	equal(t, "the attempt", got.Attempt, 2)
	equal(t, "what it repeats", got.RestartOf, r.ID)
	equal(t, "its time", got.NotBefore.Equal(next.NotBefore), true)
	equal(t, "its token", got.Token, 0)

	_, err = s.Store.Accept(ctx, run.NewRun{Run: newRun(r.Session)})
	wantCode(t, err, run.Busy)
	behind := newRun(r.Session)
	behind.CreatedAt = at(10)
	accept(t, s.Store, run.NewRun{Run: behind, OnBusy: run.QueueBehind})
	equal(t, "claims before its time", len(must[[]run.Run](t)(s.Store.Claim(ctx, "me", 10))), 0)

	res := must[run.AbortResult](t)(s.Store.RequestAbort(ctx, run.AbortRequest{Run: next.ID, Trigger: run.Abort, At: at(11)}))
	equal(t, "the aborted one", res.Run.State, run.State{Status: run.Cancelled, Reason: run.Aborted})
	claimed := must[[]run.Run](t)(s.Store.Claim(ctx, "me", 10))
	equal(t, "claims after the abort", len(claimed), 1)
	equal(t, "the one behind", claimed[0].ID, behind.ID)

	due := newRun(r.Session)
	due.NotBefore = time.Now().Add(-time.Microsecond)
	must[[]*run.Event](t)(s.Store.Append(ctx, crashing(claimed[0], due)))
	claimed = must[[]run.Run](t)(s.Store.Claim(ctx, "me", 10))
	equal(t, "claims at its time", len(claimed), 1)
	equal(t, "the one that is due", claimed[0].ID, due.ID)
}

// An intent to stop that is written before a run's end is for its next attempts, too.
func testSuccessorAborted(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "me")
	must[run.AbortResult](t)(s.Store.RequestAbort(ctx, run.AbortRequest{Run: r.ID, Trigger: run.Abort, At: at(2)}))
	next := newRun(r.Session)
	must[[]*run.Event](t)(s.Store.Append(ctx, crashing(r, next)))
	equal(t, "how it ended", must[run.Run](t)(s.Store.Run(ctx, r.ID)).State, run.State{Status: run.Failed, Reason: run.Crashed})
	_, err := s.Store.Run(ctx, next.ID)
	wantCode(t, err, run.NotFound)

	r = live(t, s.Store, "me")
	replacing := newRun(r.Session)
	accept(t, s.Store, run.NewRun{Run: replacing, OnBusy: run.ReplaceCurrent})
	must[[]*run.Event](t)(s.Store.Append(ctx, crashing(r, newRun(r.Session))))
	claimed := must[[]run.Run](t)(s.Store.Claim(ctx, "me", 10))
	equal(t, "claims", len(claimed), 1)
	equal(t, "the one that replaces", claimed[0].ID, replacing.ID)
	finish(t, s.Store, claimed[0])
	equal(t, "what is left in the queue", len(must[[]run.Run](t)(s.Store.Claim(ctx, "me", 10))), 0)
}
