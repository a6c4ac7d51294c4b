package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// spent shows what was spent from one moment to before another.
func spent(t *testing.T, s Store, from, to time.Time) string {
	t.Helper()
	sums := must[map[string]run.Spent](t)(s.SpentByAgent(context.Background(), from, to))
	out := ""
	for _, agent := range slices.Sorted(maps.Keys(sums)) {
		out += fmt.Sprintf("%s %d/%d %d; ", agent, sums[agent].USD, sums[agent].Tokens, sums[agent].Unpriced)
	}
	return out
}

// testSpentByAgent: a day has the records whose request was in it, whatever became
// of their runs, by the agent of the run; superseded ones do not count.
func testSpentByAgent(t *testing.T, s Subject) {
	s.Book.Set("m", 10)
	from, to := at(10), at(20)
	equal(t, "of nothing", spent(t, s.Store, from, to), "")
	when := func(moment time.Time, u run.UsageRecord) run.UsageRecord {
		u.At = moment
		return u
	}
	a := live(t, s.Store, "a")
	other := newRun(a.Session)
	other.Parent, other.Agent, other.Owner, other.Token = a.ID, "helper", a.Owner, 1
	other = accept(t, s.Store, run.NewRun{Run: other}).Run
	all := call("all", "m", run.FromResult, 0, 0)
	all.Tokens = run.Tokens{Input: 1, CacheRead: 2, CacheWriteShort: 4, CacheWriteLong: 8, Output: 16, Reasoning: 5}
	record(t, s.Store, a, when(from, all), when(from.Add(-time.Microsecond), call("before", "m", run.FromResult, 100, 0)),
		when(to.Add(-time.Microsecond), call("last", "m", run.FromResult, 3, 0)), when(to, call("after", "m", run.FromResult, 100, 0)),
		when(from, call("free", "x", run.FromResult, 7, 0)),
		when(from, of(call("poll", "m", run.FromStatusPoll, 500, 0), "s")), when(from, of(call("msg", "m", run.FromTranscript, 9, 0), "s")),
		when(from, run.UsageRecord{RequestKey: "exe", Kind: run.ComputeUsage, Rank: run.FromResult, Provenance: run.Measured, Backend: "m", ComputeMicros: 6}))
	record(t, s.Store, other, when(from, call("k", "m", run.FromResult, 1, 1)))
	const want = "helper 20/2 0; trainer 490/50 1; "
	equal(t, "the day", spent(t, s.Store, from, to), want)
	finish(t, s.Store, other)
	finish(t, s.Store, a)
	ok(t, s.Store.DeleteSession(context.Background(), a.Session))
	equal(t, "the day without the session", spent(t, s.Store, from, to), want)
}

// testPriceAfterFailedCommit: a price row is known when it is committed, so the
// next record that it prices stores it.
func testPriceAfterFailedCommit(t *testing.T, s Subject) {
	r := live(t, s.Store, "a")
	s.Book.Set("m", 10)
	broken := errors.New("the disk broke")
	s.Fail(func(statement string) error {
		if statement == "commit" {
			return broken
		}
		return nil
	})
	wantIs(t, append1(s.Store, r, call("k", "m", run.FromResult, 1, 0)), broken)
	s.Fail(nil)
	equal(t, "the price rows after a failed commit", s.Count(t, "SELECT count(*) FROM prices"), 0)
	record(t, s.Store, r, call("k", "m", run.FromResult, 1, 0))
	equal(t, "the price rows", s.Count(t, "SELECT count(*) FROM prices WHERE id = 'm#1'"), 1)
	s.Store = s.Reopen(t)
	record(t, s.Store, r, call("k", "m", run.FromResult, 2, 0))
	equal(t, "the bill", bill(t, s.Store, r.ID), "k in=2 out=0 cost=20 by m#1; total in=2 out=0 cost=20 records=1 unpriced=0")
}

// testCumulativeBounds: a source that falls and rises again and again makes no
// record larger than one can be.
func testCumulativeBounds(t *testing.T, s Subject) {
	r := live(t, s.Store, "a")
	report := func(key string, input, nano int64) error {
		u := stated(total(call(key, "m", run.FromResult, input, 0), "s"), nano)
		return append1(s.Store, r, u)
	}
	const most = 1_000_000_000_000_000 // nano-USD
	ok(t, report("up", 10, most-2))
	ok(t, report("down", 1, 1))
	before := bill(t, s.Store, r.ID)
	wantCode(t, report("up", 11, most-1), run.Invalid)
	equal(t, "the bill", bill(t, s.Store, r.ID), before)
}
