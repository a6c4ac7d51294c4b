package service

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

// ledger is a host that books records as a store does; the next ones fail, with or
// without being booked.
type ledger struct {
	agent.Host

	fail  []bool // whether it is booked all the same
	books map[string]run.UsageRecord
}

func (l *ledger) Usage(_ context.Context, records ...run.UsageRecord) error {
	var err error
	if len(l.fail) > 0 {
		booked := l.fail[0]
		l.fail, err = l.fail[1:], errors.New("cut off")
		if !booked {
			return err
		}
	}
	for _, u := range records {
		u.Tokens = u.Tokens.Max(l.books[u.RequestKey].Tokens)
		l.books[u.RequestKey] = u
	}
	return err
}

// The parts of the days are those that were polled on them, whatever became of the
// records meanwhile, and add up to the total.
func TestDaysAreFixedWhenTheyArePolled(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	l := &ledger{books: map[string]run.UsageRecord{}}
	a := &account{id: "exe", now: time.Now}
	poll := func(at time.Time, input int64, fail ...bool) {
		l.fail = fail
		before := a.best.tokens
		a.best.tokens = before.Max(run.Tokens{Input: input})
		a.rise(before, at)
		_ = a.bookPolled(t.Context(), l)
	}
	const day = 24 * time.Hour
	poll(noon, 10)
	poll(noon.Add(time.Hour), 15, false) // yesterday's rest is lost for now
	poll(noon.Add(day), 40, false)
	poll(noon.Add(day), 45, true, true)  // the commits came late
	poll(noon.Add(day-13*time.Hour), 46) // the clock was set back by a day
	poll(noon.Add(3*day).In(time.FixedZone("", 13*3600)), 46)
	poll(noon.Add(3*day-12*time.Hour), 100) // at midnight
	poll(noon.Add(3*day+12*time.Hour-time.Nanosecond), 101)
	want := map[string]int64{"status/exe": 15, "status/exe/2026-12-01": 31, "status/exe/2026-12-03": 55}
	for key, u := range l.books {
		if want[key] != u.Tokens.Input || (u.Provenance == run.Measured) == strings.HasSuffix(key, "03") {
			t.Errorf("%s has %d, %s; want %d", key, u.Tokens.Input, u.Provenance, want[key])
		}
	}
	if len(l.books) != len(want) || len(a.days) != 1 {
		t.Errorf("%d records, %d days are kept", len(l.books), len(a.days))
	}
	if at := l.books["status/exe"].At; !at.Equal(noon) {
		t.Errorf("the first day is told at %s", at)
	}
}
