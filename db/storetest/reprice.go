package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// quote shows what a pricing again did or would do.
func quote(lines []run.RepriceLine) string {
	out := ""
	for _, l := range lines {
		out += fmt.Sprintf("%s %s %d/%d %s>%s unknown %d>%d; ", l.Day.Format("01-02"), l.Model, l.Changed, l.Records, money(l.OldNanoUSD), money(l.NewNanoUSD), l.OldUnknown, l.NewUnknown)
	}
	return out
}

// testReprice: a dry run changes nothing and says what an application then does:
// computed costs by the book of now, stated ones stay, totals and rollups follow.
func testReprice(t *testing.T, s Subject) {
	ctx := context.Background()
	s.Book.Set("m", 10) // m#1
	s.Book.Set("gone", 10)
	a, b := live(t, s.Store, "a"), live(t, s.Store, "a")
	nextDay := call("next", "m", run.FromResult, 4, 0)
	nextDay.At = at(0).AddDate(0, 0, 1)
	record(t, s.Store, a, call("k", "m", run.FromResult, 1, 0), call("new", "x", run.FromResult, 2, 0), stated(call("said", "m", run.FromResult, 3, 0), 77), nextDay,
		of(call("poll", "m", run.FromStatusPoll, 900, 0), "s"), of(call("msg", "m", run.FromResult, 5, 0), "s"),
		run.UsageRecord{RequestKey: "none", Model: "m", Provenance: run.UnknownProvenance})
	record(t, s.Store, b, call("k", "m", run.FromResult, 10, 0), call("g", "gone", run.FromResult, 1, 0),
		run.UsageRecord{RequestKey: "exe", Kind: run.ComputeUsage, Rank: run.FromResult, Provenance: run.Measured, Backend: "docker", ComputeMicros: 6})
	finish(t, s.Store, a)
	finish(t, s.Store, b)
	ok(t, s.Store.DeleteSession(ctx, b.Session)) // its bill goes on
	must[int](t)(s.Store.SweepRollups(ctx))
	before := bill(t, s.Store, a.ID) + bill(t, s.Store, b.ID) + rollups(t, s.Store)
	s.Book.Set("m", 20) // m#3
	s.Book.Set("x", 5)
	s.Book.Set("docker", 100)
	s.Book.Drop("gone")
	all := run.Reprice{DryRun: true, Who: "tester"}
	const want = "11-30 docker 1/1 null>600 unknown 1>0; 11-30 gone 1/1 10>null unknown 0>1; 11-30 m 4/5 237>397 unknown 1>1; 11-30 x 1/1 null>10 unknown 1>0; 12-01 m 1/1 40>80 unknown 0>0; "
	equal(t, "the dry run", quote(must[[]run.RepriceLine](t)(s.Store.Reprice(ctx, all))), want)
	equal(t, "what a dry run changes", bill(t, s.Store, a.ID)+bill(t, s.Store, b.ID)+rollups(t, s.Store), before)
	equal(t, "the audit of a dry run", s.Count(t, "SELECT count(*) FROM usage_audit"), 0)
	for _, c := range []struct {
		name string
		f    run.RepriceFilter
		want string
	}{
		{"by model", run.RepriceFilter{Model: "x"}, "11-30 x 1/1 null>10 unknown 1>0; "},
		{"by provider", run.RepriceFilter{Provider: "nobody"}, ""},
		{"only unpriced", run.RepriceFilter{OnlyUnpriced: true}, "11-30 docker 1/1 null>600 unknown 1>0; 11-30 m 0/1 null>null unknown 1>1; 11-30 x 1/1 null>10 unknown 1>0; "},
		{"from", run.RepriceFilter{From: at(2)}, "12-01 m 1/1 40>80 unknown 0>0; "},
		{"up to", run.RepriceFilter{From: at(1), To: at(1).Add(time.Microsecond), Model: "x"}, "11-30 x 1/1 null>10 unknown 1>0; "},
		{"before", run.RepriceFilter{To: at(1)}, ""},
	} {
		equal(t, c.name, quote(must[[]run.RepriceLine](t)(s.Store.Reprice(ctx, run.Reprice{DryRun: true, Filter: c.f}))), c.want)
	}
	log := len(whole(t, s.Store, a.Session))
	all.DryRun = false
	equal(t, "the application", quote(must[[]run.RepriceLine](t)(s.Store.Reprice(ctx, all))), want)
	equal(t, "the first bill", bill(t, s.Store, a.ID), "k in=1 out=0 cost=20 by m#3; msg in=5 out=0 cost=100 by m#3; new in=2 out=0 cost=10 by x#4; next in=4 out=0 cost=80 by m#3; none in=0 out=0 cost=null; "+
		"poll in=900 out=0 cost=9000 by m#1 superseded; said in=3 out=0 cost=77 reported, computed=60 by m#3; total in=15 out=0 cost=287 records=6 unpriced=1")
	equal(t, "the second bill", bill(t, s.Store, b.ID), "exe in=0 out=0 cost=600 by docker#5; g in=1 out=0 cost=null; k in=10 out=0 cost=200 by m#3; total in=11 out=0 cost=800 records=3 unpriced=1")
	equal(t, "the events", len(checkLog(t, s.Store, a.Session))-log, 5)
	equal(t, "what was swept", must[int](t)(s.Store.SweepRollups(ctx)), 1)
	equal(t, "the rollups", rollups(t, s.Store), "11-30 trainer/lab // runs=2 in=0 cost=null records=0 unpriced=0; 11-30 trainer/lab //docker runs=0 in=0 cost=600 records=1 unpriced=0; "+
		"11-30 trainer/lab gone/p/ runs=0 in=1 cost=null records=1 unpriced=1; 11-30 trainer/lab m// runs=0 in=0 cost=null records=1 unpriced=1; "+
		"11-30 trainer/lab m/p/ runs=0 in=23 cost=477 records=5 unpriced=0; 11-30 trainer/lab x/p/ runs=0 in=2 cost=10 records=1 unpriced=0; ")
	equal(t, "the audit", s.Count(t, "SELECT count(*) FROM usage_audit WHERE done AND who = 'tester' AND filter = '{}' AND records = 9 AND changed = 8 AND old_nano_usd = 287 AND new_nano_usd = 1087"), 1)
	equal(t, "again", quote(must[[]run.RepriceLine](t)(s.Store.Reprice(ctx, all))), strings.NewReplacer("1/1", "0/1", "4/5", "0/5", "null>600", "600>600", "10>null", "null>null", "237", "397", "null>10 ", "10>10 ", "40>", "80>", "1>0", "0>0", "0>1", "1>1").Replace(want))
	equal(t, "what is marked after nothing changed", must[int](t)(s.Store.SweepRollups(ctx)), 0)
	_, err := s.Store.Reprice(ctx, run.Reprice{Filter: run.RepriceFilter{From: at(2), To: at(2)}})
	wantCode(t, err, run.Invalid)
}

// testRepricePages: many records take several transactions; one that breaks off
// leaves what it did, right, and says so.
func testRepricePages(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	var usage []run.UsageRecord
	for i := range 1200 {
		usage = append(usage, withRun(r, call(fmt.Sprintf("k%04d", i), "m", run.FromResult, 1, 0)))
	}
	record(t, s.Store, r, usage...)
	s.Book.Set("m", 3)
	pages := 0
	broken := errors.New("the disk broke")
	s.Fail(func(statement string) error {
		if statement == "locking runs" {
			if pages++; pages == 3 {
				return broken
			}
		}
		return nil
	})
	_, err := s.Store.Reprice(ctx, run.Reprice{Who: "t"})
	wantIs(t, err, broken)
	s.Fail(nil)
	total := func() string {
		u := must[run.Run](t)(s.Store.Run(ctx, r.ID)).Usage
		return fmt.Sprint(money(u.CostNanoUSD), " ", u.Unpriced)
	}
	equal(t, "after two pages", total(), "3000 200")
	equal(t, "the audit of what broke off", s.Count(t, "SELECT count(*) FROM usage_audit WHERE NOT done AND records = 1000 AND changed = 1000 AND old_nano_usd IS NULL AND new_nano_usd = 3000"), 1)
	equal(t, "the rest", quote(must[[]run.RepriceLine](t)(s.Store.Reprice(ctx, run.Reprice{Who: "t", Filter: run.RepriceFilter{OnlyUnpriced: true}}))), "11-30 m 200/200 null>600 unknown 200>0; ")
	equal(t, "after the rest", total(), "3600 0")
	checkLog(t, s.Store, r.Session)
}

// testUnbilledContent: deleting a session keeps what it cost and nothing that may
// tell of its content.
func testUnbilledContent(t *testing.T, s Subject) {
	ctx := context.Background()
	s.Book.Set("m", 10)
	r := live(t, s.Store, "a")
	u := of(call("k", "m", run.FromResult, 1, 0), "/home/me/secret.jsonl")
	u.Raw, u.ToolCalls, u.Tier = []byte(`{"secret":1}`), map[string]int64{"web_search": 2}, "batch"
	v := total(call("sum", "m", run.FromResult, 7, 0), "secret thread")
	record(t, s.Store, r, u, v)
	finish(t, s.Store, r)
	before := bill(t, s.Store, r.ID)
	ok(t, s.Store.DeleteSession(ctx, r.Session))
	equal(t, "the bill", bill(t, s.Store, r.ID), before)
	equal(t, "records with content", s.Count(t, "SELECT count(*) FROM usage_records WHERE raw <> '' OR stream <> ''"), 0)
	equal(t, "streams by name", s.Count(t, "SELECT count(*) FROM usage_streams WHERE stream LIKE '%secret%' OR totals LIKE '%secret%'"), 0)
	got := must[[]run.UsageRecord](t)(s.Store.UsageRecords(ctx, r.ID))
	equal(t, "what pricing again needs", fmt.Sprint(got[0].Tier, got[0].ToolCalls, got[0].Model), "batchmap[web_search:2]m")
	s.Book.Set("m", 20)
	must[[]run.RepriceLine](t)(s.Store.Reprice(ctx, run.Reprice{}))
	equal(t, "priced again", must[run.Run](t)(s.Store.Run(ctx, r.ID)).Usage.CostNanoUSD != nil, true)
	equal(t, "the cost", *must[run.Run](t)(s.Store.Run(ctx, r.ID)).Usage.CostNanoUSD, 200)
}
