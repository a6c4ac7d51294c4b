package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

// A model call that comes back while its run is stopped is booked.
func TestUsageOfAStoppedRun(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began := make(chan struct{})
		b.agent("late", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			close(began)
			<-ctx.Done()
			err := spend(ctx, h, step)
			if cause := context.Cause(ctx); !errors.Is(err, cause) {
				t.Errorf("it gives %v, want the cause %v", err, cause)
			}
			return "", err
		})
		e := b.engine()
		r := e.start("late")
		<-began
		if _, _, err := e.Abort(t.Context(), run.AbortOrder{Run: r.ID, Wait: true}); err != nil {
			t.Fatal(err)
		}
		wantState(t, b.get(r.ID), run.Cancelled, run.Aborted)
		if got := b.inclusive(r.ID); got.USD != step || got.Tokens != 100 {
			t.Errorf("booked is %+v", got)
		}
	})
}
