package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

// settle asks, with patience, what an execution has used, and books it. It never
// changes how the run ends.
func (s *supervisor) settle(ctx context.Context, ask func(ctx context.Context) agent.Settlement, patience time.Duration) {
	if ask == nil {
		return
	}
	asking, cancel := context.WithTimeout(ctx, patience)
	got := s.asking(asking, ask)
	cancel()
	records := make([]run.UsageRecord, 0, len(got.Usage))
	for _, u := range got.Usage {
		u, err := s.complete(u)
		if err != nil {
			got.Warnings = append(got.Warnings, "A usage record was left out: "+err.Error())
			continue
		}
		records = append(records, u)
	}
	for len(records) > 0 {
		n := min(len(records), maxBatchDrafts)
		// Queued, not committed: what is queued is written before the run ends. The
		// execution's end waits no longer than ctx for a full queue.
		if err := s.emit.keep(ctx, entry{usage: records[:n:n]}); err != nil {
			s.e.log.Warn("Booking the last usage of a run failed", "run", s.run.ID, "error", err)
		}
		records = records[n:]
	}
	for _, text := range got.Warnings {
		s.warnWithin(ctx, text)
	}
}

// asking calls; a panic is a warning of this run alone.
func (s *supervisor) asking(ctx context.Context, ask func(ctx context.Context) agent.Settlement) (got agent.Settlement) {
	defer func() {
		if p := recover(); p != nil {
			s.e.log.Error("Asking for the usage panicked", "run", s.run.ID, "panic", p, "stack", string(debug.Stack()))
			got = agent.Settlement{Warnings: []string{fmt.Sprintf("The last usage could not be read: %v", p)}}
		}
	}()
	return ask(ctx)
}
