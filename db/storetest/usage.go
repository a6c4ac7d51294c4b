package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

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
	s.Book.Set("free", 0)
	record(t, s.Store, r, run.UsageRecord{RequestKey: "b", Rank: run.FromResult, Provenance: run.Partial, Model: "free", Tokens: run.Tokens{Input: 1 << 40}})
	u = usage()
	equal(t, "zero beside unknown says nothing", fmt.Sprint(u.CostNanoUSD == nil, u.Records, u.Unpriced, u.CostSource), "true 2 1COMPUTED")
	const dear = 1 << 49 // nano-USD
	s.Book.Set("local", dear/1_500_000)
	record(t, s.Store, r,
		run.UsageRecord{RequestKey: "c", Rank: run.FromResult, Provenance: run.Measured, Kind: run.ComputeUsage, Backend: "local", ComputeMicros: 1_500_000, IsError: true})
	u = usage()
	equal(t, "the sum", u.Tokens, run.Tokens{Input: 1 + 1<<40, CacheRead: 2, CacheWriteShort: 3, CacheWriteLong: 4, Output: 5, Reasoning: 6})
	equal(t, "the rest", fmt.Sprint(*u.CostNanoUSD, u.Records, u.Unpriced, u.Provenance, u.CostSource, u.ComputeMicros), fmt.Sprint(int64(dear)/1_500_000*1_500_000, 3, 1, run.Partial, run.Computed, 1_500_000))
	record(t, s.Store, r, run.UsageRecord{RequestKey: "d", CostNanoUSD: cost(1), CostSource: run.AgentReported},
		run.UsageRecord{RequestKey: "e", Provenance: run.UnknownProvenance, Model: "free", Tokens: run.Tokens{Input: 9}, CostNanoUSD: cost(9)})
	u = usage()
	equal(t, "sources that differ, the worst provenance", fmt.Sprint(u.CostSource, u.Provenance, u.Input, u.Unpriced), fmt.Sprint("COMPUTED", "UNKNOWN", 1+1<<40, 2))
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

// testUsageSummed: whether the counts are of several requests is kept, and told
// by the better source.
func testUsageSummed(t *testing.T, s Subject) {
	r := live(t, s.Store, "a")
	summed := func() (all []bool) {
		for _, u := range must[[]run.UsageRecord](t)(s.Store.UsageRecords(context.Background(), r.ID)) {
			all = append(all, u.Summed)
		}
		return all
	}
	polls := call("k", "m", run.FromStatusPoll, 1, 0)
	polls.Summed = true
	record(t, s.Store, r, polls, call("other", "m", run.FromStatusPoll, 1, 0))
	record(t, s.Store, r, call("k", "m", run.FromStatusPoll, 2, 0))
	s.Store = s.Reopen(t)
	equal(t, "what is a sum", fmt.Sprint(summed()), "[true false]")
	record(t, s.Store, r, call("k", "m", run.FromResult, 3, 0))
	equal(t, "what is a sum by the result", fmt.Sprint(summed()), "[false false]")
}

// testUsageByDifference: a record moves its run's totals by itself. What another
// one says is not read again: a run of 100,000 calls is booked like one of ten.
func testUsageByDifference(t *testing.T, s Subject) {
	s.Book.Set("m", 10)
	r := live(t, s.Store, "a")
	record(t, s.Store, r, call("a", "m", run.FromResult, 1, 0), of(call("poll", "m", run.FromStatusPoll, 2, 0), "s"))
	s.Exec(t, "UPDATE usage_records SET input_tokens = 1000, cost_nano_usd = 10000, provenance = 'UNKNOWN' WHERE request_key = 'a'")
	total := func() string {
		u := must[run.Run](t)(s.Store.Run(context.Background(), r.ID)).Usage
		return fmt.Sprint(u.Input, " ", money(u.CostNanoUSD), " ", u.Provenance, u.Records, u.Unpriced)
	}
	record(t, s.Store, r, call("b", "m", run.FromResult, 4, 0))
	equal(t, "after another record", total(), "7 70 MEASURED3 0")
	record(t, s.Store, r, call("b", "m", run.FromResult, 5, 0), of(call("msg", "x", run.FromTranscript, 3, 0), "s"))
	equal(t, "after a better source", total(), "9 60 MEASURED3 1")
	must[[]run.RepriceLine](t)(s.Store.Reprice(context.Background(), run.Reprice{Who: "t", Filter: run.RepriceFilter{OnlyUnpriced: true}}))
	equal(t, "after a pricing that changed nothing", total(), "9 60 MEASURED3 1")
	s.Book.Set("x", 2)
	must[[]run.RepriceLine](t)(s.Store.Reprice(context.Background(), run.Reprice{Who: "t", Filter: run.RepriceFilter{OnlyUnpriced: true}}))
	equal(t, "after a pricing", total(), "9 66 MEASURED3 0")
}
