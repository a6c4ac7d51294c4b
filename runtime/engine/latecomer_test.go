package engine_test

import (
	"context"
	"testing"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
)

// TestAbortAfterTheDeadline: a run whose time was up before the abort came has
// timed out, and the abort came too late.
func TestAbortAfterTheDeadline(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		late, end := make(chan struct{}), make(chan struct{})
		b.agent("train", func(ctx context.Context, _ agent.Task, _ agent.Host) (string, error) {
			<-ctx.Done()
			close(late)
			<-end // as a script that takes its time to go
			return "", ctx.Err()
		})
		e := b.engine()
		r := e.start("train", func(q *run.StartRequest) { q.Input.TimeoutSeconds = 1 }) // later than the driver begins
		receive(t, "the deadline", late)
		if rec, live, err := e.Abort(t.Context(), run.AbortOrder{Run: r.ID}); err != nil || !live || rec.Outcome != run.AbortPending {
			t.Fatalf("got %+v, %v, %v", rec, live, err)
		}
		close(end)
		r = b.ended(r.ID)
		wantState(t, r, run.TimedOut, run.Timeout)
		b.until("the late abort is settled", func() bool { return b.get(r.ID).Abort.Outcome == run.AbortAlready })
	})
}

// TestAbortWhileTheStoreIsGone: what is live here is stopped although the intent
// cannot be written, and the end is written when the store is back.
func TestAbortWhileTheStoreIsGone(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began, stopped := make(chan struct{}), make(chan struct{})
		b.agent("train", func(ctx context.Context, _ agent.Task, _ agent.Host) (string, error) {
			close(began)
			<-ctx.Done()
			close(stopped)
			return "", ctx.Err()
		})
		e := b.engine(func(o *engine.Options) { o.Store = unwritable{o.Store} })
		r := e.start("train")
		receive(t, "the driver's start", began)
		_, _, err := e.Abort(t.Context(), run.AbortOrder{Run: r.ID, Reason: "enough"})
		if run.CodeOf(err) != run.Unavailable {
			t.Errorf("the abort gave %v", err)
		}
		receive(t, "the driver's end", stopped)
		wantState(t, b.ended(r.ID), run.Cancelled, run.Aborted)
	})
}

// unwritable is a store that refuses to write intents.
type unwritable struct{ engine.Store }

func (unwritable) RequestAbort(context.Context, engine.AbortRequest) (engine.AbortResult, error) {
	return engine.AbortResult{}, run.Errorf(run.Unavailable, "there is no room on the disk")
}
