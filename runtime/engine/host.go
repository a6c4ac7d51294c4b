package engine

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

// host is what a driver sees of the engine.
type host struct {
	s *supervisor
	// inside counts the executions and child runs under way, so that none is
	// left behind by a driver that panicked.
	inside sync.WaitGroup
}

var _ agent.Host = (*host)(nil)

// gone is the cause once the run is cancelled; the caller's own context counts too.
func (h *host) gone(ctx context.Context) error {
	if cause := context.Cause(h.s.ctx); cause != nil {
		return cause
	}
	return context.Cause(ctx)
}

// Emit implements agent.Host.
func (h *host) Emit(ctx context.Context, payloads ...run.Payload) error {
	if err := h.gone(ctx); err != nil {
		return err
	}
	x := entry{drafts: make([]run.Draft, 0, len(payloads))}
	for _, p := range payloads {
		x.drafts = append(x.drafts, h.s.draft(p))
	}
	if len(x.drafts) == 0 {
		return nil
	}
	return h.s.emit.commit(ctx, x)
}

// Text implements agent.Host.
func (h *host) Text(ctx context.Context, messageID, text string) error {
	if err := h.gone(ctx); err != nil {
		return err
	}
	draft := func(text string, _ int64) run.Draft {
		return h.s.draft(&run.MessageDelta{MessageID: messageID, Text: text})
	}
	for text != "" {
		part := clip(text, maxHeld)
		if part == "" { // no UTF-8 at all
			part = text[:min(len(text), maxHeld)]
		}
		if err := h.s.emit.piece(ctx, "text/"+messageID, part, 0, draft); err != nil {
			return err
		}
		text = text[len(part):]
	}
	return nil
}

// Usage implements agent.Host. What was used is booked though the run is stopped
// meanwhile: it costs all the same.
func (h *host) Usage(ctx context.Context, records ...run.UsageRecord) error {
	return h.Said(ctx, records)
}

// Said implements agent.Host.
func (h *host) Said(ctx context.Context, records []run.UsageRecord, said ...run.Payload) error {
	if len(records) == 0 {
		return h.Emit(ctx, said...)
	}
	list := make([]run.UsageRecord, len(records))
	for i, u := range records {
		var err error
		if list[i], err = h.s.complete(u); err != nil {
			return err
		}
	}
	ctx, release := h.both(ctx)
	defer release()
	for len(list) > 0 {
		n := min(len(list), maxBatchDrafts)
		part, rest := list[:n], list[n:]
		var with []run.Payload
		if len(rest) == 0 {
			with = said
		}
		if err := h.book(ctx, part, with); err != nil {
			return err
		}
		h.s.guard.booked(h.s, part[n-1].RequestKey)
		list = rest
	}
	return h.s.guard.pass(ctx)
}

// book waits for the commit of records and what was said. What is queued is written
// before the run ends.
func (h *host) book(ctx context.Context, records []run.UsageRecord, said []run.Payload) error {
	done := make(chan error, 1)
	x := entry{usage: records, done: done}
	for _, p := range said {
		x.drafts = append(x.drafts, h.s.draft(p))
	}
	if err := h.s.emit.keep(ctx, x); err != nil {
		return cmp.Or(h.gone(ctx), err)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return h.gone(ctx)
	}
}

// Log implements agent.Host.
func (h *host) Log(ctx context.Context, types []run.EventType, each func(*run.Event) error) error {
	q := run.EventQuery{Session: h.s.run.Session, First: logPage, Filter: run.EventFilter{Types: types}}
	for more := true; more; {
		if err := h.gone(ctx); err != nil {
			return err
		}
		page, err := h.s.e.store.Events(ctx, q)
		if err != nil {
			return fmt.Errorf("reading the log of session %s: %w", q.Session, err)
		}
		for _, e := range page.Events {
			if err := each(e); err != nil {
				return err
			}
		}
		q.After, more = page.Scanned, page.HasMore
	}
	return nil
}

// logPage is how many events of a log are in memory at once.
const logPage = 500

// pass waits until the budgets let the run go on.
func (h *host) pass(ctx context.Context) error {
	ctx, release := h.both(ctx)
	defer release()
	return h.s.guard.pass(ctx)
}

// complete checks a record and fills what it leaves open.
func (s *supervisor) complete(u run.UsageRecord) (run.UsageRecord, error) {
	t := u.Tokens
	if min(t.Input, t.CacheRead, t.CacheWriteShort, t.CacheWriteLong, t.Output, t.Reasoning) < 0 || (u.CostNanoUSD != nil && *u.CostNanoUSD < 0) {
		return u, run.Errorf(run.Invalid, "the usage of request %q is negative: %+v", u.RequestKey, t)
	}
	r := s.run
	u.Run = r.ID
	if u.RequestKey == "" {
		u.RequestKey = run.NewKey("req")
	}
	if u.Kind == "" {
		u.Kind = run.ModelCall
	}
	if u.Model == "" {
		u.Provider, u.Model = r.Provider, r.Model
	}
	if u.Rank == 0 {
		u.Rank = run.FromResult
	}
	if u.Provenance == "" {
		u.Provenance = run.Measured
	}
	if u.At.IsZero() {
		u.At = time.Now()
	}
	if u.CostNanoUSD != nil && u.CostSource == "" {
		u.CostSource = run.AgentReported
	}
	return u, nil
}

// both derives a context that also ends with the run, so that a driver which
// passes a context of its own cannot outlive an abort.
func (h *host) both(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(h.s.ctx, func() { cancel(context.Cause(h.s.ctx)) })
	return ctx, func() {
		stop()
		cancel(errReleased)
	}
}
