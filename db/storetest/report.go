package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// brief is a sum in one line; money that is not known is "-".
func brief(u run.Usage) string {
	money := "-"
	if u.CostNanoUSD != nil {
		money = fmt.Sprint(*u.CostNanoUSD)
	}
	return fmt.Sprintf("in=%d out=%d cached=%d wrote=%d/%d thought=%d us=%d cost=%s %s %s records=%d unpriced=%d",
		u.Input, u.Output, u.CacheRead, u.CacheWriteShort, u.CacheWriteLong, u.Reasoning, u.ComputeMicros, money, u.CostSource, u.Provenance, u.Records, u.Unpriced)
}

// calls books one priced call, one without a price and one free execution, each
// of another size for each n.
func calls(t *testing.T, s Store, r run.Run, n int64) {
	t.Helper()
	record(t, s, r,
		run.UsageRecord{
			RequestKey: "a", Rank: run.FromResult, Provenance: run.Measured, Model: "m1", Provider: "p", CostNanoUSD: cost(7 * n), CostSource: run.AgentReported,
			Tokens: run.Tokens{Input: n, CacheRead: 2 * n, CacheWriteShort: 3 * n, CacheWriteLong: 4 * n, Output: 5 * n, Reasoning: n},
		},
		run.UsageRecord{RequestKey: "b", Rank: run.FromResult, Provenance: run.Partial, Model: "m2", Provider: "q", Tokens: run.Tokens{Input: 100 * n}},
		run.UsageRecord{RequestKey: "c", Rank: run.FromResult, Provenance: run.Measured, Kind: run.ComputeUsage, Backend: "local", ComputeMicros: n, CostNanoUSD: cost(0), CostSource: run.AgentReported})
}

// summed adds up runs one by one, as InclusiveUsage does.
func summed(t *testing.T, s Store, runs ...run.Run) run.Usage {
	t.Helper()
	var sum run.Usage
	for _, r := range runs {
		sum = sum.Add(must[run.Run](t)(s.Run(context.Background(), r.ID)).Usage)
	}
	return sum
}

// testUsageSession: the sum of a session is that of its runs, children and ended
// ones included, and stays when the session is deleted.
func testUsageSession(t *testing.T, s Subject) {
	ctx := context.Background()
	usage := func(id run.SessionID) string {
		t.Helper()
		return brief(must[run.Usage](t)(s.Store.SessionUsage(ctx, id)))
	}
	other := live(t, s.Store, "a")
	calls(t, s.Store, other, 1000)
	root := live(t, s.Store, "a")
	equal(t, "before anything was used", usage(root.Session), brief(run.Usage{}))
	kid := child(t, s.Store, root)
	calls(t, s.Store, kid, 1)
	finish(t, s.Store, kid)
	finish(t, s.Store, root)
	again := liveIn(t, s.Store, root.Session, "a")
	calls(t, s.Store, again, 10)
	const all = "in=1111 out=55 cached=22 wrote=33/44 thought=11 us=11 cost=77 AGENT_REPORTED PARTIAL records=6 unpriced=2"
	equal(t, "the session", usage(root.Session), all)
	equal(t, "the sum of its runs", brief(summed(t, s.Store, root, kid, again)), all)
	finish(t, s.Store, again)
	ok(t, s.Store.DeleteSession(ctx, root.Session))
	equal(t, "the deleted session", usage(root.Session), all)
}

// testUsageActive: the runs that work or wait count, with those of other owners,
// and nothing else.
func testUsageActive(t *testing.T, s Subject) {
	ctx := context.Background()
	active := func() string {
		t.Helper()
		from := time.Now()
		n := must[run.UsageTotals](t)(s.Store.ActiveUsage(ctx))
		if n.At.Before(from.Add(-time.Second)) || n.At.After(time.Now().Add(time.Second)) {
			t.Errorf("the moment is %s, it is %s", n.At, from)
		}
		return fmt.Sprint(n.Runs, " ", brief(n.Usage))
	}
	equal(t, "nothing at all", active(), "0 "+brief(run.Usage{}))
	a, b := live(t, s.Store, "a"), live(t, s.Store, "b")
	queued := newRun(a.Session)
	accept(t, s.Store, run.NewRun{Run: queued, OnBusy: run.QueueBehind})
	equal(t, "two that have used nothing", active(), "2 "+brief(run.Usage{}))
	record(t, s.Store, a, run.UsageRecord{RequestKey: "x", Rank: run.FromResult, Provenance: run.Measured, CostNanoUSD: cost(0), CostSource: run.AgentReported})
	equal(t, "what is free", active(), "2 in=0 out=0 cached=0 wrote=0/0 thought=0 us=0 cost=0 AGENT_REPORTED MEASURED records=1 unpriced=0")
	record(t, s.Store, b, run.UsageRecord{RequestKey: "y", Rank: run.FromResult, Provenance: run.Measured, Tokens: run.Tokens{Input: 3}})
	equal(t, "zero beside something unknown", active(), "2 in=3 out=0 cached=0 wrote=0/0 thought=0 us=0 cost=- AGENT_REPORTED MEASURED records=2 unpriced=1")
	ask(t, s.Store, b)
	calls(t, s.Store, b, 1)
	const both = "2 in=104 out=5 cached=2 wrote=3/4 thought=1 us=1 cost=7 AGENT_REPORTED PARTIAL records=5 unpriced=2"
	equal(t, "both", active(), both)
	kid := child(t, s.Store, a)
	calls(t, s.Store, kid, 1)
	s.Exec(t, "UPDATE runs SET cost_source = 'COMPUTED' WHERE id = '"+string(kid.ID)+"'")
	equal(t, "a child counts by itself", active(), "3 in=205 out=10 cached=4 wrote=6/8 thought=2 us=2 cost=14 COMPUTED PARTIAL records=8 unpriced=3")
	finish(t, s.Store, kid)
	equal(t, "without the child that ended", active(), both)
}

// testUsageRecordPages: in the order of the requests, equal times by key, every
// record once and none with its payload.
func testUsageRecordPages(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	for i := range 7 { // k9 and k8 at one moment, then k7 and k6, and so on
		record(t, s.Store, r, run.UsageRecord{
			RequestKey: fmt.Sprint("k", 9-i), Rank: run.FromTranscript, Provenance: run.Measured, At: at(i / 2 * 2),
			Model: "m", Provider: "p", Raw: []byte(`{"secret":1}`), CostNanoUSD: cost(int64(i)),
		})
	}
	got := ""
	for after, page := "", 0; ; page++ {
		list := must[[]run.UsageRecord](t)(s.Store.RecordPage(ctx, run.RecordQuery{Run: r.ID, After: after, First: 3}))
		for _, u := range list {
			if len(u.Raw) > 0 || u.Model != "m" || u.Rank != run.FromTranscript || u.CostNanoUSD == nil {
				t.Errorf("a record is %+v", u)
			}
			got += u.RequestKey + " "
			after = u.RequestKey
		}
		if len(list) < 3 {
			equal(t, "the number of full pages", page, 2)
			break
		}
	}
	equal(t, "the order", got, "k8 k9 k6 k7 k4 k5 k3 ")
	_, err := s.Store.RecordPage(ctx, run.RecordQuery{Run: r.ID, After: "no such key", First: 3})
	wantCode(t, err, run.Invalid)
	_, err = s.Store.RecordPage(ctx, run.RecordQuery{Run: run.NewID(), First: 3})
	wantCode(t, err, run.NotFound)
}

func testSnapshots(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	one := run.UsageSnapshot{Run: r.ID, At: at(1), Usage: run.Usage{Tokens: run.Tokens{Input: 50, Output: 100, CacheRead: 10, CacheWriteShort: 5}, Records: 1, Unpriced: 1, Provenance: run.Measured}}
	two := run.UsageSnapshot{Run: r.ID, At: at(2), Usage: run.Usage{Tokens: run.Tokens{Input: 60}, CostNanoUSD: cost(7)}}
	late := one
	late.Usage.Output = 1
	ok(t, s.Store.AddSnapshots(ctx, nil))
	ok(t, s.Store.AddSnapshots(ctx, []run.UsageSnapshot{two, late, one})) // the last one of a moment counts
	ok(t, s.Store.AddSnapshots(ctx, []run.UsageSnapshot{one}))
	got := must[[]run.UsageSnapshot](t)(s.Store.Snapshots(ctx, run.SnapshotQuery{Run: r.ID, First: 10}))
	equal(t, "the number", len(got), 2)
	equal(t, "the first", got[0], one)
	equal(t, "the cost of the second", *got[1].Usage.CostNanoUSD, 7)
	got = must[[]run.UsageSnapshot](t)(s.Store.Snapshots(ctx, run.SnapshotQuery{Run: r.ID, First: 1}))
	equal(t, "a page of one", fmt.Sprint(len(got), got[0].At), fmt.Sprint(1, at(1)))
	got = must[[]run.UsageSnapshot](t)(s.Store.Snapshots(ctx, run.SnapshotQuery{Run: r.ID, After: at(1), First: 9}))
	equal(t, "the page after it", fmt.Sprint(len(got), got[0].At), fmt.Sprint(1, at(2)))
	_, err := s.Store.Snapshots(ctx, run.SnapshotQuery{Run: run.NewID(), First: 9})
	wantCode(t, err, run.NotFound)

	many := make([]run.UsageSnapshot, 1234) // several statements, one transaction
	for i := range many {
		many[i] = one
		many[i].Run = run.ID(fmt.Sprint("run_many", i))
	}
	ok(t, s.Store.AddSnapshots(ctx, many))
	ok(t, s.Store.AddSnapshots(ctx, many))
	equal(t, "all rows", s.Count(t, "SELECT count(*) FROM usage_snapshots"), 1236)
}

// testForgetSnapshots: old ones go, step by step, but for the last one of each run; what
// is young is passed over.
func testForgetSnapshots(t *testing.T, s Subject) {
	ctx := context.Background()
	const young = 100_000
	var all []run.UsageSnapshot
	add := func(id string, seconds ...int) {
		for _, n := range seconds {
			all = append(all, run.UsageSnapshot{Run: run.ID(id), At: at(n), Usage: run.Usage{Tokens: run.Tokens{Input: int64(n)}}})
		}
	}
	many := func(from, n int) []int {
		out := make([]int, n)
		for i := range out {
			out[i] = from + i
		}
		return out
	}
	add("run_a", 5)                                             // ended long ago: its last one
	add("run_b", 1, 2, 3)                                       // the same, with more
	add("run_c", 1, 2, young, young+1)                          // it still works
	add("run_c+", many(1, 493)...)                              // the last but one ends a step
	add("run_d", many(1, 1203)...)                              // more than one step looks at
	add("run_e", append(many(1, 499), many(young, 1600)...)...) // and of which most stays
	add("run_f", young)
	add("run_g", young-2, young-1)
	ok(t, s.Store.AddSnapshots(ctx, all))
	forget := func(before int) (steps int) {
		t.Helper()
		mark := run.SnapshotMark{}
		for {
			next := must[run.SnapshotMark](t)(s.Store.ForgetSnapshots(ctx, at(before), mark))
			steps++
			if next == (run.SnapshotMark{}) {
				return steps
			}
			mark = next
		}
	}
	kept := func() string {
		t.Helper()
		out := ""
		for _, id := range []string{"a", "b", "c", "c+", "d", "e", "f", "g"} {
			n := s.Count(t, "SELECT count(*) FROM usage_snapshots WHERE run_id = 'run_"+id+"'")
			first := s.Count(t, "SELECT min(input_tokens) FROM usage_snapshots WHERE run_id = 'run_"+id+"'")
			out += fmt.Sprintf("%s %d from %d; ", id, n, first)
		}
		return out
	}
	before := kept()
	forget(1)
	equal(t, "what stays when nothing is old", kept(), before)
	if steps := forget(young); steps > 7 {
		t.Errorf("it took %d steps: what is young was looked at", steps)
	}
	after := "a 1 from 5; b 1 from 3; c 2 from 100000; c+ 1 from 493; d 1 from 1203; e 1600 from 100000; f 1 from 100000; g 1 from 99999; "
	equal(t, "what stays", kept(), after)
	forget(young)
	equal(t, "what stays the second time", kept(), after)
}

// testDueSnapshots: live runs of the owner that have used something, and since
// their last snapshot something else.
func testDueSnapshots(t *testing.T, s Subject) {
	ctx := context.Background()
	due := func(seconds int) string {
		t.Helper()
		out := ""
		list := must[[]run.UsageSnapshot](t)(s.Store.DueSnapshots(ctx, "a", at(seconds)))
		for _, n := range list {
			equal(t, "the moment", n.At, at(seconds))
			out += fmt.Sprint(n.Run, " ", brief(n.Usage), "; ")
		}
		ok(t, s.Store.AddSnapshots(ctx, list))
		return out
	}
	r := live(t, s.Store, "a")
	calls(t, s.Store, live(t, s.Store, "b"), 5) // another replica's
	ended := live(t, s.Store, "a")
	calls(t, s.Store, ended, 5)
	finish(t, s.Store, ended)
	equal(t, "what has used nothing", due(1), "")
	record(t, s.Store, r, run.UsageRecord{RequestKey: "u", Provenance: run.UnknownProvenance})
	equal(t, "a record of nothing", due(2), "")
	record(t, s.Store, r, run.UsageRecord{RequestKey: "a", Rank: run.FromResult, Provenance: run.Measured, Tokens: run.Tokens{Input: 50, Output: 100}})
	first := string(r.ID) + " in=50 out=100 cached=0 wrote=0/0 thought=0 us=0 cost=-  UNKNOWN records=2 unpriced=2; "
	equal(t, "what was used", due(3), first)
	equal(t, "the same again", due(4), "")
	// Money came, then only more of it, then only compute.
	record(t, s.Store, r, run.UsageRecord{RequestKey: "a", Rank: run.FromResult, Provenance: run.Measured, Tokens: run.Tokens{Input: 50}, CostNanoUSD: cost(9), CostSource: run.AgentReported})
	equal(t, "money", due(5), string(r.ID)+" in=50 out=100 cached=0 wrote=0/0 thought=0 us=0 cost=9 AGENT_REPORTED UNKNOWN records=2 unpriced=1; ")
	record(t, s.Store, r, run.UsageRecord{RequestKey: "a", Rank: run.FromResult, Provenance: run.Measured, Tokens: run.Tokens{Input: 50}, CostNanoUSD: cost(10), CostSource: run.AgentReported})
	equal(t, "more money", due(55), string(r.ID)+" in=50 out=100 cached=0 wrote=0/0 thought=0 us=0 cost=10 AGENT_REPORTED UNKNOWN records=2 unpriced=1; ")
	record(t, s.Store, r, run.UsageRecord{RequestKey: "c", Rank: run.FromResult, Provenance: run.Measured, Kind: run.ComputeUsage, Backend: "local", ComputeMicros: 1, CostNanoUSD: cost(0), CostSource: run.AgentReported})
	equal(t, "compute", due(56), string(r.ID)+" in=50 out=100 cached=0 wrote=0/0 thought=0 us=1 cost=10 AGENT_REPORTED UNKNOWN records=3 unpriced=1; ")
	ask(t, s.Store, r) // it waits now
	record(t, s.Store, r, run.UsageRecord{RequestKey: "d", Rank: run.FromResult, Provenance: run.Measured, Tokens: run.Tokens{CacheRead: 4}, CostNanoUSD: cost(1), CostSource: run.AgentReported})
	equal(t, "a run that waits", due(57), string(r.ID)+" in=50 out=100 cached=4 wrote=0/0 thought=0 us=1 cost=11 AGENT_REPORTED UNKNOWN records=4 unpriced=1; ")
	equal(t, "rows", s.Count(t, "SELECT count(*) FROM usage_snapshots"), 5)
}

// closedOn makes a run that ended on a day, with calls of size n.
func closedOn(t *testing.T, s Store, day int, agent, team string, n int64) {
	t.Helper()
	r := newRun(newSession(t, s))
	r.Agent, r.Team, r.Model, r.Provider = agent, team, "m1", "p"
	accept(t, s, run.NewRun{Run: r})
	for _, c := range must[[]run.Run](t)(s.Claim(context.Background(), "a", 100)) {
		r = c
	}
	calls(t, s, r, n)
	to := run.State{Status: run.Done, Reason: run.Completed}
	must[[]*run.Event](t)(s.Append(context.Background(), run.Batch{
		Session: r.Session, Fence: fence(r), Update: &run.Update{Run: r.ID, From: []run.Status{run.Running}, To: &to, EndedAt: at(0).AddDate(0, 0, day)},
	}))
}

// testRollupGroups: whatever a report is grouped by, its rows add up to the
// same; what it is not grouped by is empty.
func testRollupGroups(t *testing.T, s Subject) {
	ctx := context.Background()
	group := func(q run.RollupQuery) string {
		t.Helper()
		if q.From.IsZero() {
			q.From, q.To = at(0).AddDate(0, 0, -9), at(0).AddDate(0, 0, 9)
		}
		out := ""
		for _, r := range must[[]run.UsageRollup](t)(s.Store.GroupRollups(ctx, q)) {
			day := "-"
			if !r.Day.IsZero() {
				day = r.Day.Format("01-02 15:04")
			}
			out += fmt.Sprintf("%s|%s|%s|%s|%s|%s runs=%d %s\n", day, r.Agent, r.Team, r.Model, r.Provider, r.Backend, r.Runs, brief(r.Usage))
		}
		return out
	}
	equal(t, "no rollup, by day", group(run.RollupQuery{GroupBy: []run.UsageDimension{run.ByDay}}), "")
	equal(t, "the sum of nothing", group(run.RollupQuery{}), "-||||| runs=0 "+brief(run.Usage{})+"\n")
	closedOn(t, s.Store, 0, "a1", "lab", 1)
	closedOn(t, s.Store, 0, "a2", "", 10)
	closedOn(t, s.Store, 1, "a1", "lab", 100)
	must[int](t)(s.Store.SweepRollups(ctx))
	const total = "-||||| runs=3 in=11211 out=555 cached=222 wrote=333/444 thought=111 us=111 cost=777 AGENT_REPORTED PARTIAL records=9 unpriced=3\n"
	equal(t, "all", group(run.RollupQuery{}), total)
	equal(t, "by day and agent", group(run.RollupQuery{GroupBy: []run.UsageDimension{run.ByAgent, run.ByDay}}),
		"11-30 00:00|a1|||| runs=1 in=101 out=5 cached=2 wrote=3/4 thought=1 us=1 cost=7 AGENT_REPORTED PARTIAL records=3 unpriced=1\n"+
			"11-30 00:00|a2|||| runs=1 in=1010 out=50 cached=20 wrote=30/40 thought=10 us=10 cost=70 AGENT_REPORTED PARTIAL records=3 unpriced=1\n"+
			"12-01 00:00|a1|||| runs=1 in=10100 out=500 cached=200 wrote=300/400 thought=100 us=100 cost=700 AGENT_REPORTED PARTIAL records=3 unpriced=1\n")
	equal(t, "by model and backend", group(run.RollupQuery{GroupBy: []run.UsageDimension{run.ByModel, run.ByBackend}}),
		"-|||||local runs=0 in=0 out=0 cached=0 wrote=0/0 thought=0 us=111 cost=0 AGENT_REPORTED MEASURED records=3 unpriced=0\n"+
			"-|||m1|| runs=3 in=111 out=555 cached=222 wrote=333/444 thought=111 us=0 cost=777 AGENT_REPORTED MEASURED records=3 unpriced=0\n"+
			"-|||m2|| runs=0 in=11100 out=0 cached=0 wrote=0/0 thought=0 us=0 cost=-  PARTIAL records=3 unpriced=3\n")
	// Compute for nothing beside a call without a price: what it cost is not known.
	lab, local, m2, none := "lab", "local", "m2", ""
	equal(t, "a team's day", group(run.RollupQuery{From: at(0), To: at(0), Filter: run.RollupFilter{Team: &lab}}),
		"-||||| runs=1 in=101 out=5 cached=2 wrote=3/4 thought=1 us=1 cost=7 AGENT_REPORTED PARTIAL records=3 unpriced=1\n")
	equal(t, "the runs without a team", group(run.RollupQuery{Filter: run.RollupFilter{Team: &none}, GroupBy: []run.UsageDimension{run.ByAgent}}),
		"-|a2|||| runs=1 in=1010 out=50 cached=20 wrote=30/40 thought=10 us=10 cost=70 AGENT_REPORTED PARTIAL records=3 unpriced=1\n")
	equal(t, "a backend", group(run.RollupQuery{Filter: run.RollupFilter{Backend: &local}, GroupBy: []run.UsageDimension{run.ByProvider}}),
		"-||||| runs=0 in=0 out=0 cached=0 wrote=0/0 thought=0 us=111 cost=0 AGENT_REPORTED MEASURED records=3 unpriced=0\n")
	equal(t, "a model", group(run.RollupQuery{Filter: run.RollupFilter{Model: &m2}, GroupBy: []run.UsageDimension{run.ByTeam}}),
		"-||||| runs=0 in=1000 out=0 cached=0 wrote=0/0 thought=0 us=0 cost=-  PARTIAL records=1 unpriced=1\n"+
			"-||lab||| runs=0 in=10100 out=0 cached=0 wrote=0/0 thought=0 us=0 cost=-  PARTIAL records=2 unpriced=2\n")
	equal(t, "days without any", group(run.RollupQuery{From: at(0).AddDate(0, 0, 5), To: at(0).AddDate(0, 0, 9), GroupBy: run.UsageDimensions()}), "")

	s.Exec(t, "DELETE FROM usage_records WHERE model = 'm1'")
	ok(t, s.Store.MarkRollups(ctx, at(0)))
	must[int](t)(s.Store.SweepRollups(ctx))
	equal(t, "zero beside something unknown", group(run.RollupQuery{}),
		"-||||| runs=3 in=11100 out=0 cached=0 wrote=0/0 thought=0 us=111 cost=- AGENT_REPORTED PARTIAL records=6 unpriced=3\n")

	s.Exec(t, "INSERT INTO usage_rollups (day, agent, team, model, provider, backend, runs, input_tokens, cache_read_tokens, cache_write_short_tokens, cache_write_long_tokens, output_tokens, reasoning_tokens, compute_us, cost_source, provenance, records, unpriced)"+
		" WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001) SELECT 99, CAST(i AS TEXT), '', '', '', '', 1, 0, 0, 0, 0, 0, 0, 0, '', '', 0, 0 FROM n")
	q := run.RollupQuery{From: time.Unix(99*86400, 0), To: time.Unix(99*86400, 0), GroupBy: []run.UsageDimension{run.ByAgent}}
	_, err := s.Store.GroupRollups(ctx, q)
	wantCode(t, err, run.Invalid)
	q.GroupBy = []run.UsageDimension{run.ByTeam}
	equal(t, "grouped by less", group(q), "-||||| runs=10001 "+brief(run.Usage{})+"\n")
}
