package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

func rollups(t *testing.T, s Store) string {
	t.Helper()
	out := ""
	for _, r := range must[[]run.UsageRollup](t)(s.Rollups(context.Background(), at(0).AddDate(0, 0, -1), at(0).AddDate(0, 0, 1))) {
		money := "null"
		if r.Usage.CostNanoUSD != nil {
			money = fmt.Sprint(*r.Usage.CostNanoUSD)
		}
		out += fmt.Sprintf("%s %s/%s %s/%s/%s runs=%d in=%d cost=%s records=%d unpriced=%d; ", r.Day.Format("01-02"), r.Agent, r.Team, r.Model, r.Provider, r.Backend, r.Runs, r.Usage.Input, money, r.Usage.Records, r.Usage.Unpriced)
	}
	return out
}

func modelRun(t *testing.T, s Store) run.Run {
	t.Helper()
	r := newRun(newSession(t, s))
	r.Model, r.Provider = "m1", "p"
	accept(t, s, run.NewRun{Run: r})
	for _, c := range must[[]run.Run](t)(s.Claim(context.Background(), "a", 100)) {
		if c.ID == r.ID {
			return c
		}
	}
	t.Fatal("not claimed")
	return r
}

func testRollups(t *testing.T, s Subject) {
	ctx := context.Background()
	sweep := func(want int) {
		t.Helper()
		equal(t, "what was swept", must[int](t)(s.Store.SweepRollups(ctx)), want)
	}
	sweep(0)
	a, b, open := modelRun(t, s.Store), modelRun(t, s.Store), modelRun(t, s.Store)
	for _, r := range []run.Run{a, b, open} {
		record(t, s.Store, r, run.UsageRecord{RequestKey: "1", Model: "m1", Provider: "p", Tokens: run.Tokens{Input: 100}, CostNanoUSD: cost(5)},
			run.UsageRecord{RequestKey: "2", Model: "m2", Provider: "p", Tokens: run.Tokens{Input: 1}})
	}
	sweep(0)
	equal(t, "while all are open", rollups(t, s.Store), "")
	finish(t, s.Store, a)
	sweep(1)
	equal(t, "after one", rollups(t, s.Store), "11-30 trainer/lab m1/p/ runs=1 in=100 cost=5 records=1 unpriced=0; 11-30 trainer/lab m2/p/ runs=0 in=1 cost=null records=1 unpriced=1; ")
	sweep(0)
	finish(t, s.Store, b)
	sweep(1)
	both := "11-30 trainer/lab m1/p/ runs=2 in=200 cost=10 records=2 unpriced=0; 11-30 trainer/lab m2/p/ runs=0 in=2 cost=null records=2 unpriced=2; "
	equal(t, "after both", rollups(t, s.Store), both)
	equal(t, "after a sweep of nothing", rollups(t, s.Store), both)
	// A late record of an ended run counts too; one that says nothing new marks nothing.
	record(t, s.Store, b, run.UsageRecord{RequestKey: "1", Model: "m1", Provider: "p", Tokens: run.Tokens{Input: 100}, CostNanoUSD: cost(5)})
	sweep(0)
	record(t, s.Store, b, run.UsageRecord{RequestKey: "x", Kind: run.ComputeUsage, Backend: "local", CostNanoUSD: cost(3)})
	sweep(1)
	equal(t, "after a late record", rollups(t, s.Store), "11-30 trainer/lab //local runs=0 in=0 cost=3 records=1 unpriced=0; "+both)
	// Deleting the session keeps the bill.
	ok(t, s.Store.DeleteSession(ctx, b.Session))
	ok(t, s.Store.MarkRollups(ctx, at(0).AddDate(0, 0, -1)))
	sweep(1)
	equal(t, "after the deletion", rollups(t, s.Store), "11-30 trainer/lab //local runs=0 in=0 cost=3 records=1 unpriced=0; "+both)
}

// testRollupMarks: the marks of a key that lost its runs empty it, and many
// marks are worked off in several transactions.
func testRollupMarks(t *testing.T, s Subject) {
	ctx := context.Background()
	r := modelRun(t, s.Store)
	finish(t, s.Store, r)
	must[int](t)(s.Store.SweepRollups(ctx))
	if rollups(t, s.Store) == "" {
		t.Fatal("no rollup")
	}
	s.Exec(t, "UPDATE runs SET agent = 'renamed' WHERE id = '"+string(r.ID)+"'")
	ok(t, s.Store.MarkRollups(ctx, at(0)))
	equal(t, "keys", must[int](t)(s.Store.SweepRollups(ctx)), 2) // the old and the new one
	equal(t, "the rollups", rollups(t, s.Store), "11-30 renamed/lab m1/p/ runs=1 in=0 cost=null records=0 unpriced=0; ")
	s.Exec(t, "INSERT INTO rollup_dirty (day, agent, team) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) SELECT i, 'x', 'y' FROM n")
	equal(t, "many keys", must[int](t)(s.Store.SweepRollups(ctx)), 2500)
	equal(t, "marks left", s.Count(t, "SELECT count(*) FROM rollup_dirty"), 0)
}

// testRollupOverflow: a day that no number can hold keeps its mark and its old
// sums, and stops no other day.
func testRollupOverflow(t *testing.T, s Subject) {
	ctx := context.Background()
	var bad run.Run
	for i := range 5 {
		r := modelRun(t, s.Store)
		record(t, s.Store, r, call("a", "m1", run.FromResult, 1, 0), call("b", "m1", run.FromResult, 1, 0))
		finish(t, s.Store, r)
		s.Exec(t, fmt.Sprintf("UPDATE runs SET agent = 'agent%d' WHERE id = '%s'", i, r.ID))
		if i == 2 {
			bad = r
		}
	}
	s.Exec(t, "DELETE FROM rollup_dirty")
	ok(t, s.Store.MarkRollups(ctx, at(0)))
	equal(t, "what was swept first", must[int](t)(s.Store.SweepRollups(ctx)), 5)
	s.Exec(t, "UPDATE usage_records SET input_tokens = 9223372036854775807 WHERE run_id = '"+string(bad.ID)+"'")
	s.Exec(t, "UPDATE usage_records SET input_tokens = 5 WHERE run_id <> '"+string(bad.ID)+"'")
	ok(t, s.Store.MarkRollups(ctx, at(0)))
	equal(t, "what was swept", must[int](t)(s.Store.SweepRollups(ctx)), 4)
	equal(t, "the keys left", s.Count(t, "SELECT count(*) FROM rollup_dirty WHERE agent = 'agent2'"), 1)
	equal(t, "all marks left", s.Count(t, "SELECT count(*) FROM rollup_dirty"), 1)
	equal(t, "the sums of the others", s.Count(t, "SELECT count(*) FROM usage_rollups WHERE input_tokens = 10 AND runs = 1"), 4)
	equal(t, "the sums of the bad one", s.Count(t, "SELECT count(*) FROM usage_rollups WHERE input_tokens = 2 AND agent = 'agent2'"), 1)
	s.Exec(t, "UPDATE usage_records SET input_tokens = 1 WHERE run_id = '"+string(bad.ID)+"'")
	equal(t, "what was swept when it is mended", must[int](t)(s.Store.SweepRollups(ctx)), 1)
}
