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

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

// booked gives the inputs of the usage records that were committed.
func (a *scriptedAppender) booked() (out []int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.batches {
		for _, u := range b.Usage {
			out = append(out, u.Tokens.Input)
		}
	}
	return out
}

// TestAFullQueueLosesNoUsage: neither the last word of an execution nor the record of
// a driver that is stopped, and both wait no longer than they may.
func TestAFullQueueLosesNoUsage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &scriptedAppender{gate: make(chan struct{})}
		m, ctx, stop := startEmitter(t, a)
		if err := m.post(ctx, entry{drafts: []run.Draft{output(strings.Repeat("x", maxQueued), 0)}}); err != nil {
			t.Fatal(err)
		}
		s := &supervisor{e: &Engine{write: t.Context(), log: slog.New(slog.DiscardHandler)}, run: m.run, emit: m}
		s.ctx, s.cancel = context.WithCancelCause(t.Context())

		began := time.Now()
		patience, cancel := context.WithTimeout(t.Context(), agent.StoppingPatience)
		defer cancel()
		s.settle(patience, func(context.Context) agent.Settlement {
			return agent.Settlement{Usage: []run.UsageRecord{{RequestKey: "last", Tokens: run.Tokens{Input: 1}}}, Warnings: []string{"said"}}
		}, agent.StoppingPatience)
		if took := time.Since(began); took != agent.StoppingPatience {
			t.Errorf("the stop was held up for %s", took)
		}

		why := errors.New("aborted")
		var driver sync.WaitGroup
		driver.Go(func() {
			h := &host{s: s}
			if err := h.Usage(t.Context(), run.UsageRecord{RequestKey: "call", Tokens: run.Tokens{Input: 2}}); !errors.Is(err, why) {
				t.Errorf("got %v, want the cause", err)
			}
		})
		synctest.Wait()
		s.cancel(why)
		driver.Wait()

		close(a.gate)
		stop()
		if got := a.booked(); len(got) != 2 || got[0] != 1 || got[1] != 2 {
			t.Errorf("booked %v, want 1 and 2", got)
		}
		if got := strings.Join(a.texts(), "|"); !strings.HasSuffix(got, "|said") {
			t.Errorf("the warning is missing: ...%q", got[max(0, len(got)-20):])
		}
	})
}
