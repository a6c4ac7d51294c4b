package service

import (
	"context"
	"errors"
	"fmt"
	"os"
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

	calls int
	fail  []bool // whether it is booked all the same
	books map[string]run.UsageRecord
}

func (l *ledger) Usage(_ context.Context, records ...run.UsageRecord) error {
	var err error
	l.calls++
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

// kept is a transcript that is told as it is.
type kept struct{ list []run.UsageRecord }

func (k *kept) Open(agent.Transcript, time.Time) (Reading, error) { return k, nil }

func (k *kept) Read(context.Context, *os.Root, bool) ([]run.UsageRecord, error) { return k.list, nil }

// Calls of a transcript are booked many at once, and at the end only those that were
// not, or that say something else by then.
func TestCallsAreBookedTogetherAndOnce(t *testing.T) {
	t.Parallel()
	k := &kept{}
	for i := range 2*batch + 1 {
		k.list = append(k.list, run.UsageRecord{RequestKey: fmt.Sprint(i), Tokens: run.Tokens{Input: 1}, Provenance: run.Partial})
	}
	l := &ledger{books: map[string]run.UsageRecord{}, fail: []bool{true}}
	d := Driver{transcripts: k, now: time.Now}
	a := newAccount(t.Context(), "exe", run.Run{}, nil, agent.Service{Transcript: &agent.Transcript{}}, nil, d)
	if err := a.bookTranscript(t.Context(), l); err == nil || l.calls != 1 {
		t.Errorf("a look that is cut off gives %v after %d calls", err, l.calls)
	}
	l.calls = 0
	for range 2 {
		if err := a.bookTranscript(t.Context(), l); err != nil || l.calls != 3 || len(l.books) != len(k.list) {
			t.Errorf("%d records were booked in %d calls, %v", len(l.books), l.calls, err)
		}
	}
	k.list[7].Provenance = run.Measured
	k.list = append(k.list, run.UsageRecord{RequestKey: "late"})
	if s := a.final(t.Context()); len(s.Usage) != 2 || s.Usage[0].RequestKey != "7" || s.Usage[1].RequestKey != "late" || len(s.Warnings) != 0 {
		t.Errorf("the end tells %+v", s)
	}
	if err := a.look(t.Context(), l); err != nil { // there is no endpoint any more
		t.Errorf("a look after the end gives %v", err)
	}
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
