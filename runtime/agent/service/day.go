package service

import (
	"context"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

// day is what of a service's total counts for one UTC day: what it rose by in the
// polls of that day. The parts are fixed when they are polled, so that a record
// which is written twice, or late, changes neither day.
type day struct {
	key    string
	at     time.Time // of the first poll that found a rise
	tokens run.Tokens
	raw    []byte

	booked run.Tokens
	as     run.Provenance // of what is booked
}

// rise gives what the total rose by to the day of the poll. A clock that is set
// back begins no day anew.
func (a *account) rise(before run.Tokens, at time.Time) {
	now := a.best.tokens
	if now == before {
		return
	}
	at = at.UTC()
	switch n := len(a.days); {
	case n == 0:
		a.days = append(a.days, day{key: a.key(), at: at})
	case at.Truncate(24 * time.Hour).After(a.days[n-1].at):
		a.days = append(a.days, day{key: a.key() + "/" + at.Format(time.DateOnly), at: at})
	}
	d := &a.days[len(a.days)-1]
	d.tokens = d.tokens.Add(run.Tokens{
		Input: now.Input - before.Input, Output: now.Output - before.Output,
		CacheRead: now.CacheRead - before.CacheRead, CacheWriteShort: now.CacheWriteShort - before.CacheWriteShort,
	})
	d.raw = a.best.raw()
}

// polled gives the records of the polls: one for each day. Those of days that are
// over are complete, the last one has the provenance p.
func (a *account) polled(p run.Provenance) []run.UsageRecord {
	list := make([]run.UsageRecord, len(a.days))
	for i, d := range a.days {
		of := run.Measured
		if i == len(a.days)-1 {
			of = p
		}
		u := a.record(d.key, run.FromStatusPoll, of)
		u.At, u.Tokens, u.Summed, u.Raw = d.at, d.tokens, true, d.raw
		list[i] = u
	}
	return list
}

// bookPolled books what was polled and is not booked yet, and forgets the days that
// are over.
func (a *account) bookPolled(ctx context.Context, h agent.Host) error {
	for i, u := range a.polled(run.Partial) { // the end may bring more
		d := &a.days[i]
		if d.booked == u.Tokens && d.as == u.Provenance {
			continue
		}
		if err := h.Usage(ctx, u); err != nil {
			return err
		}
		d.booked, d.as = u.Tokens, u.Provenance
	}
	if n := len(a.days); n > 1 {
		a.days = append([]day(nil), a.days[n-1])
	}
	return nil
}
