package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

func testExecutions(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	e := run.Execution{ID: run.NewExecutionID(), Run: r.ID, Backend: "local", Isolation: "UNSANDBOXED", Command: []string{"sh", "-c", "echo 'ä ?'"}, StartedAt: at(1), GPU: "T4"}
	store := func(e run.Execution) {
		t.Helper()
		must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{Session: r.Session, Fence: fence(r), Executions: []run.Execution{e}}))
		got := must[[]run.Execution](t)(s.Store.Executions(ctx, r.ID))
		equal(t, "the number of executions", len(got), 1)
		if e.ExitCode != nil {
			equal(t, "the exit code", *got[0].ExitCode, *e.ExitCode)
			got[0].ExitCode = e.ExitCode
		}
		equal(t, "the execution", fmt.Sprintf("%+v", got[0]), fmt.Sprintf("%+v", e))
	}
	store(e)
	code := 137
	e.EndedAt, e.Class, e.ExitCode, e.Signal, e.Elapsed, e.IsError, e.ErrMessage = at(3), run.ClassOOM, &code, "SIGKILL", 2*time.Second+3*time.Microsecond, true, "out of memory"
	e.Loss = run.Loss{BytesRead: 1 << 40, LinesRead: 3, LinesParsed: 2, LinesRejected: 1, BytesTruncated: 4, BytesNotKept: 5, RejectedSamples: []string{"{\"a\":\x1b 'x'"}}
	store(e)
	equal(t, "its session", must[run.SessionID](t)(s.Store.SessionOf(ctx, e.ID)), r.Session)
	_, err := s.Store.SessionOf(ctx, run.NewExecutionID())
	equal(t, "the session of an execution that is not there", run.CodeOf(err), run.NotFound)
}

func testArtifacts(t *testing.T, s Subject) {
	ctx := context.Background()
	first := live(t, s.Store, "a")
	put := func(r run.Run, path string, size int64) {
		t.Helper()
		must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{Session: r.Session, Fence: fence(r), Artifacts: []run.Artifact{{Run: r.ID, Path: path, Kind: "report", Size: size, SHA256: "ab", Modified: at(4)}}}))
	}
	list := func(all []run.Artifact) string {
		out := ""
		for _, a := range all {
			out += fmt.Sprint(a.Path, "=", a.Size, " ")
		}
		return out
	}
	put(first, "b.csv", 1)
	put(first, "a/report 'x'.md", 2)
	put(first, "b.csv", 3)
	equal(t, "the run's", list(must[[]run.Artifact](t)(s.Store.Artifacts(ctx, first.ID))), "a/report 'x'.md=2 b.csv=3 ")
	equal(t, "one of them", must[[]run.Artifact](t)(s.Store.Artifacts(ctx, first.ID))[1], run.Artifact{Run: first.ID, Path: "b.csv", Kind: "report", Size: 3, SHA256: "ab", Modified: at(4)})
	finish(t, s.Store, first)
	second := liveIn(t, s.Store, first.Session, "a")
	put(second, "b.csv", 9)
	equal(t, "the session's", list(must[[]run.Artifact](t)(s.Store.SessionArtifacts(ctx, first.Session))), "a/report 'x'.md=2 b.csv=9 ")
}

func testQuestions(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	q := ask(t, s.Store, r)
	q2 := ask(t, s.Store, r)
	got := must[[]run.Question](t)(s.Store.Questions(ctx, r.ID))
	equal(t, "the questions", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", []run.Question{q, q2}))
	q.State, q.AnsweredAt = run.QuestionCancelled, at(5)
	must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{Session: r.Session, Fence: fence(r), Questions: []run.Question{q}}))
	_, err := s.Store.Append(ctx, run.Batch{Session: r.Session, Fence: fence(r), Questions: []run.Question{q}})
	wantIs(t, err, run.ErrState)
	_, err = s.Store.Answer(ctx, q.ID, []byte("1"))
	wantCode(t, err, run.Conflict)
	equal(t, "the other", must[[]run.Question](t)(s.Store.Questions(ctx, r.ID))[1].State, run.QuestionOpen)
}

func cost(n int64) *int64 { return &n }

func record(t *testing.T, s Store, r run.Run, records ...run.UsageRecord) {
	t.Helper()
	for i := range records {
		records[i].Run = r.ID
		if records[i].Kind == "" {
			records[i].Kind = run.ModelCall
		}
		if records[i].At.IsZero() {
			records[i].At = at(1)
		}
	}
	must[[]*run.Event](t)(s.Append(context.Background(), run.Batch{Session: r.Session, Usage: records}))
}

// testUsageMerge: a better source replaces, an equal one merges by maximum, a
// worse one is ignored, in whatever order they come.
func testUsageMerge(t *testing.T, s Subject) {
	ctx := context.Background()
	reports := []run.UsageRecord{
		{RequestKey: "k", Rank: run.FromEstimate, Provenance: run.Estimated, Tokens: run.Tokens{Input: 999, Output: 999}, CostNanoUSD: cost(999)},
		{RequestKey: "k", Rank: run.FromResult, Provenance: run.Partial, Tokens: run.Tokens{Input: 10, Output: 1, CacheRead: 5}, CostNanoUSD: cost(70), Provider: "p", Model: "m"},
		{RequestKey: "k", Rank: run.FromResult, Provenance: run.Measured, Tokens: run.Tokens{Input: 10, Output: 8, Reasoning: 2}, CostNanoUSD: cost(100), Provider: "p", Model: "m"},
		{RequestKey: "k", Rank: run.FromTranscript, Provenance: run.Measured, Tokens: run.Tokens{Input: 50, Output: 50}, CostNanoUSD: cost(500)},
	}
	for range 6 {
		rand.Shuffle(len(reports), func(i, j int) { reports[i], reports[j] = reports[j], reports[i] })
		r := live(t, s.Store, "a")
		for _, u := range reports {
			record(t, s.Store, r, u)
			record(t, s.Store, r, u) // a repetition adds nothing
		}
		got := must[[]run.UsageRecord](t)(s.Store.UsageRecords(ctx, r.ID))
		equal(t, "the number of records", len(got), 1)
		equal(t, "the tokens", got[0].Tokens, run.Tokens{Input: 10, Output: 8, Reasoning: 2, CacheRead: 5})
		equal(t, "the rest", fmt.Sprint(*got[0].CostNanoUSD, got[0].Provenance, got[0].Rank, got[0].Model), fmt.Sprint(100, run.Measured, run.FromResult, "m"))
		now := must[run.Run](t)(s.Store.Run(ctx, r.ID))
		equal(t, "the run's total", fmt.Sprint(now.Usage.Tokens, *now.Usage.CostNanoUSD, now.Usage.Records), fmt.Sprint(got[0].Tokens, 100, 1))
	}
}

func testUsageSums(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	usage := func() run.Usage { return must[run.Run](t)(s.Store.Run(ctx, r.ID)).Usage }
	equal(t, "nothing yet", usage(), run.Usage{})
	record(t, s.Store, r, run.UsageRecord{RequestKey: "a", Rank: run.FromResult, Provenance: run.Measured, Tokens: run.Tokens{Input: 1, CacheRead: 2, CacheWriteShort: 3, CacheWriteLong: 4, Output: 5, Reasoning: 6}})
	u := usage()
	equal(t, "nothing is priced", fmt.Sprint(u.CostNanoUSD == nil, u.Records, u.Unpriced, u.Provenance, u.CostSource), "true 1 1MEASURED")
	record(t, s.Store, r,
		run.UsageRecord{RequestKey: "b", Rank: run.FromResult, Provenance: run.Partial, Tokens: run.Tokens{Input: 1 << 40}, CostNanoUSD: cost(0), CostSource: run.Computed},
		run.UsageRecord{RequestKey: "c", Rank: run.FromResult, Provenance: run.Measured, Kind: run.ComputeUsage, Backend: "local", ComputeMicros: 1_500_000, IsError: true, CostNanoUSD: cost(1 << 50), CostSource: run.Computed})
	u = usage()
	equal(t, "the sum", u.Tokens, run.Tokens{Input: 1 + 1<<40, CacheRead: 2, CacheWriteShort: 3, CacheWriteLong: 4, Output: 5, Reasoning: 6})
	equal(t, "the rest", fmt.Sprint(*u.CostNanoUSD, u.Records, u.Unpriced, u.Provenance, u.CostSource, u.ComputeMicros), fmt.Sprint(int64(1)<<50, 3, 1, run.Partial, run.Computed, 1_500_000))
	record(t, s.Store, r, run.UsageRecord{RequestKey: "d", CostNanoUSD: cost(1), CostSource: run.AgentReported, Provenance: run.UnknownProvenance})
	u = usage()
	equal(t, "sources that differ, the worst provenance", fmt.Sprint(u.CostSource, u.Provenance), "COMPUTEDUNKNOWN")
	one := live(t, s.Store, "a")
	record(t, s.Store, one, run.UsageRecord{RequestKey: "d", CostNanoUSD: cost(1), CostSource: run.AgentReported})
	equal(t, "a single source", must[run.Run](t)(s.Store.Run(ctx, one.ID)).Usage.CostSource, run.AgentReported)
}

func testUsageInclusive(t *testing.T, s Subject) {
	ctx := context.Background()
	root := live(t, s.Store, "a")
	kid := child(t, s.Store, root)
	grand := child(t, s.Store, kid)
	for i, r := range []run.Run{root, kid, grand} {
		u := run.UsageRecord{RequestKey: "k", Tokens: run.Tokens{Input: int64(1 + 10*i)}}
		if i > 0 {
			u.CostNanoUSD = cost(100)
		}
		record(t, s.Store, r, u)
	}
	u := must[run.Usage](t)(s.Store.InclusiveUsage(ctx, root.ID))
	equal(t, "the whole tree", fmt.Sprint(u.Input, *u.CostNanoUSD, u.Records, u.Unpriced), "33 200 3 1")
	u = must[run.Usage](t)(s.Store.InclusiveUsage(ctx, grand.ID))
	equal(t, "a leaf", fmt.Sprint(u.Input, *u.CostNanoUSD, u.Records), "21 100 1")
}

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
