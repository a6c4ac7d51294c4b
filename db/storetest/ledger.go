package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

// money shows an amount.
func money(n *int64) string {
	if n == nil {
		return "null"
	}
	return fmt.Sprint(*n)
}

// bill shows a run's records, key by key, and its total.
func bill(t *testing.T, s Store, id run.ID) string {
	t.Helper()
	out := ""
	for _, u := range must[[]run.UsageRecord](t)(s.UsageRecords(context.Background(), id)) {
		out += fmt.Sprintf("%s in=%d out=%d cost=%s", u.RequestKey, u.Tokens.Input, u.Tokens.Output, money(u.CostNanoUSD))
		if u.CostSource == run.AgentReported {
			out += " reported, computed=" + money(u.ComputedNanoUSD)
		}
		if u.PriceID != "" {
			out += " by " + u.PriceID
		}
		if u.Superseded {
			out += " superseded"
		}
		out += "; "
	}
	u := must[run.Run](t)(s.Run(context.Background(), id)).Usage
	return out + fmt.Sprintf("total in=%d out=%d cost=%s records=%d unpriced=%d", u.Input, u.Output, money(u.CostNanoUSD), u.Records, u.Unpriced)
}

// call is a report of a model call.
func call(key, model string, rank run.SourceRank, input, output int64) run.UsageRecord {
	return run.UsageRecord{RequestKey: key, Kind: run.ModelCall, Rank: rank, Provenance: run.Measured, Provider: "p", Model: model, Tokens: run.Tokens{Input: input, Output: output}}
}

// of makes a report one of a stream.
func of(u run.UsageRecord, stream string) run.UsageRecord {
	u.Stream = stream
	return u
}

// total makes a report one of running totals.
func total(u run.UsageRecord, stream string) run.UsageRecord {
	u.Stream, u.Cumulative = stream, true
	return u
}

func stated(u run.UsageRecord, nano int64) run.UsageRecord {
	u.CostNanoUSD = &nano
	return u
}

// testPricePinned: what a record was first priced by prices it for ever, also
// when it grows; what is new is priced by the book of now.
func testPricePinned(t *testing.T, s Subject) {
	r := live(t, s.Store, "a")
	s.Book.Set("m", 10) // m#1
	record(t, s.Store, r, call("k", "m", run.FromResult, 1, 1))
	s.Book.Set("m", 1000) // m#2
	record(t, s.Store, r, call("k", "m", run.FromResult, 1, 5), call("new", "m", run.FromResult, 1, 0))
	want := "k in=1 out=5 cost=60 by m#1; new in=1 out=0 cost=1000 by m#2; total in=2 out=5 cost=1060 records=2 unpriced=0"
	equal(t, "the bill", bill(t, s.Store, r.ID), want)
	record(t, s.Store, r, call("k", "m", run.FromEstimate, 900, 900), call("k", "m", run.FromResult, 1, 4)) // nothing new
	equal(t, "the bill after nothing new", bill(t, s.Store, r.ID), want)
	s.Store = s.Reopen(t) // the row comes from the database now
	record(t, s.Store, r, call("k", "m", run.FromResult, 1, 9))
	equal(t, "the bill after a restart", bill(t, s.Store, r.ID), "k in=1 out=9 cost=100 by m#1; new in=1 out=0 cost=1000 by m#2; total in=2 out=9 cost=1100 records=2 unpriced=0")
	// Another model has another price.
	s.Book.Set("n", 7) // n#3
	record(t, s.Store, r, call("est", "m", run.FromEstimate, 1, 0))
	record(t, s.Store, r, call("est", "n", run.FromResult, 2, 0), call("unknown", "x", run.FromResult, 3, 0))
	equal(t, "the bill with a better source", bill(t, s.Store, r.ID),
		"est in=2 out=0 cost=14 by n#3; k in=1 out=9 cost=100 by m#1; new in=1 out=0 cost=1000 by m#2; unknown in=3 out=0 cost=null; total in=7 out=9 cost=1114 records=4 unpriced=1")
	// The tier is the better source's, also when that names none.
	batch := call("tier", "m", run.FromEstimate, 1, 0)
	batch.Tier = "batch"
	record(t, s.Store, r, batch)
	tier := func() string {
		for _, u := range must[[]run.UsageRecord](t)(s.Store.UsageRecords(context.Background(), r.ID)) {
			if u.RequestKey == "tier" {
				return u.Tier
			}
		}
		return "no record"
	}
	equal(t, "the tier of the estimate", tier(), "batch")
	batch.Tier = ""
	record(t, s.Store, r, batch)
	equal(t, "the tier of an estimate that names none", tier(), "batch")
	record(t, s.Store, r, call("tier", "m", run.FromResult, 1, 0))
	equal(t, "the tier of the result", tier(), "")
	equal(t, "the price rows kept", s.Count(t, "SELECT count(*) FROM prices"), 3)
}

// testUsageEvents: the log has one event for each record that was written or
// changed, with what it says by then, and none for what says nothing new.
func testUsageEvents(t *testing.T, s Subject) {
	ctx := context.Background()
	rec := &recorder{}
	s.Listen(rec)
	r := live(t, s.Store, "a")
	s.Book.Set("m", 10)
	got := must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{Session: r.Session, Fence: fence(r), Drafts: []run.Draft{text(r, "one"), text(r, "two")}, Usage: []run.UsageRecord{
		withRun(r, of(call("poll", "m", run.FromStatusPoll, 3, 0), "s")), withRun(r, call("k", "m", run.FromResult, 1, 1)),
	}}))
	equal(t, "what was appended", types(got), "WARNING WARNING USAGE_RECORDED USAGE_RECORDED")
	record(t, s.Store, r, call("k", "m", run.FromResult, 1, 1))
	record(t, s.Store, r, call("k", "m", run.FromResult, 1, 2), of(stated(call("msg", "m", run.FromTranscript, 4, 0), 41), "s"))
	to := run.State{Status: run.Done, Reason: run.Completed}
	must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{
		Session: r.Session, Fence: fence(r), Drafts: []run.Draft{run.DraftOf(r, at(9), &run.RunEnded{})}, Usage: []run.UsageRecord{withRun(r, call("last", "m", run.FromResult, 1, 0))},
		Update: &run.Update{Run: r.ID, From: []run.Status{run.Running}, To: &to, EndedAt: at(9)},
	}))
	record(t, s.Store, r, call("late", "x", run.FromResult, 1, 0))
	log := checkLog(t, s.Store, r.Session)
	same(t, "what was published", rec.of(r.Session), log)
	equal(t, "the log", types(log), "RUN_STARTED WARNING WARNING USAGE_RECORDED USAGE_RECORDED USAGE_RECORDED USAGE_RECORDED USAGE_RECORDED USAGE_RECORDED RUN_ENDED USAGE_RECORDED")
	out := ""
	for _, e := range log {
		if e.Type != run.TypeUsageRecorded {
			continue
		}
		p, err := e.Payload()
		ok(t, err)
		u := p.(*run.UsageRecorded)
		out += fmt.Sprintf("%s %s %d/%d %s%s %s %s %s %s %v; ", u.RequestKey, u.Stream, u.Tokens.Input, u.Tokens.Output, money(u.CostNanoUSD), u.CostSource, money(u.ComputedNanoUSD), u.PriceID, u.Provenance, e.Agent+"/"+e.Stage, u.Superseded)
	}
	equal(t, "the events", out, "poll s 3/0 30COMPUTED 30 m#1 MEASURED trainer/train false; k  1/1 20COMPUTED 20 m#1 MEASURED trainer/train false; "+
		"k  1/2 30COMPUTED 30 m#1 MEASURED trainer/train false; msg s 4/0 41AGENT_REPORTED 40 m#1 MEASURED trainer/train false; poll s 3/0 30COMPUTED 30 m#1 MEASURED trainer/train true; "+
		"last  1/0 10COMPUTED 10 m#1 MEASURED trainer/train false; late  1/0 null null  MEASURED trainer/train false; ")
}

func withRun(r run.Run, u run.UsageRecord) run.UsageRecord {
	u.Run, u.At = r.ID, at(1)
	return u
}

// testSuperseded: of a stream only the best source counts, in whatever order the
// sources come; nothing that could be learnt supersedes nothing.
func testSuperseded(t *testing.T, s Subject) {
	s.Book.Set("m", 10)
	poll := of(call("poll", "m", run.FromStatusPoll, 100, 0), "s")
	reports := []run.UsageRecord{poll, of(call("msg1", "m", run.FromTranscript, 40, 1), "s"), of(call("msg2", "m", run.FromTranscript, 50, 2), "s"), call("other", "m", run.FromEstimate, 7, 0)}
	nothing := of(run.UsageRecord{RequestKey: "none", Rank: run.FromResult, Provenance: run.UnknownProvenance, Model: "m", Tokens: run.Tokens{Input: 5}}, "s")
	const want = "msg1 in=40 out=1 cost=410 by m#1; msg2 in=50 out=2 cost=520 by m#1; none in=0 out=0 cost=null superseded; other in=7 out=0 cost=70 by m#1; poll in=100 out=0 cost=1000 by m#1 superseded; " +
		"total in=97 out=3 cost=1000 records=3 unpriced=0"
	for _, order := range [][]int{{0, 1, 2, 3, 4}, {4, 1, 2, 0, 3}, {1, 4, 0, 2, 3}, {0, 4, 3, 2, 1}} {
		r := live(t, s.Store, "a")
		for _, i := range order {
			u := nothing
			if i < len(reports) {
				u = reports[i]
			}
			record(t, s.Store, r, u)
			record(t, s.Store, r, u)
		}
		equal(t, fmt.Sprint("the bill in the order ", order), bill(t, s.Store, r.ID), want)
		finish(t, s.Store, r)
	}
	must[int](t)(s.Store.SweepRollups(context.Background()))
	equal(t, "the rollups", rollups(t, s.Store), "11-30 trainer/lab // runs=4 in=0 cost=null records=0 unpriced=0; 11-30 trainer/lab m/p/ runs=0 in=388 cost=4000 records=12 unpriced=0; ")
}

// testCumulative: running totals are booked as what they rose by, each once.
func testCumulative(t *testing.T, s Subject) {
	s.Book.Set("m", 10)
	a, b := live(t, s.Store, "a"), live(t, s.Store, "a")
	poll := func(r run.Run, key string, input, output int64) {
		record(t, s.Store, r, total(call(key, "m", run.FromStatusPoll, input, output), "s"))
	}
	poll(a, "1", 100, 1)
	poll(a, "1", 100, 1) // a repeat
	poll(a, "2", 150, 3)
	poll(a, "1", 100, 1) // a late repeat is no new start
	poll(b, "1", 160, 3) // another run of the same stream
	poll(a, "3", 180, 3)
	poll(b, "1", 190, 3) // the same key grows
	equal(t, "one run", bill(t, s.Store, a.ID), "1 in=100 out=1 cost=1010 by m#1; 2 in=50 out=2 cost=520 by m#1; 3 in=20 out=0 cost=200 by m#1; total in=170 out=3 cost=1730 records=3 unpriced=0")
	equal(t, "the other", bill(t, s.Store, b.ID), "1 in=20 out=0 cost=200 by m#1; total in=20 out=0 cost=200 records=1 unpriced=0")
	poll(b, "2", 30, 1) // a total that falls is a new start
	equal(t, "after a new start", bill(t, s.Store, b.ID), "1 in=20 out=0 cost=200 by m#1; 2 in=30 out=1 cost=310 by m#1; total in=50 out=1 cost=510 records=2 unpriced=0")
	// A better source of the run takes over what the worse ones were booked with.
	record(t, s.Store, b, total(call("result", "m", run.FromResult, 45, 2), "s"))
	equal(t, "after a better source", bill(t, s.Store, b.ID), "1 in=20 out=0 cost=200 by m#1 superseded; 2 in=30 out=1 cost=310 by m#1 superseded; result in=65 out=2 cost=670 by m#1; total in=65 out=2 cost=670 records=1 unpriced=0")
	poll(b, "3", 60, 2) // a worse one after it moves nothing: the next report books the rise
	record(t, s.Store, b, total(call("result", "m", run.FromResult, 60, 2), "s"))
	equal(t, "after a worse source", bill(t, s.Store, b.ID), "1 in=20 out=0 cost=200 by m#1 superseded; 2 in=30 out=1 cost=310 by m#1 superseded; 3 in=15 out=0 cost=150 by m#1 superseded; "+
		"result in=80 out=2 cost=820 by m#1; total in=80 out=2 cost=820 records=1 unpriced=0")
	// The session is gone, the stream goes on: nothing is booked again.
	finish(t, s.Store, b)
	ok(t, s.Store.DeleteSession(context.Background(), b.Session))
	poll(a, "4", 61, 2)
	u := must[run.Run](t)(s.Store.Run(context.Background(), a.ID)).Usage
	equal(t, "after the deletion", fmt.Sprint(u.Input, u.Output), "171 3")
	equal(t, "the names kept", s.Count(t, "SELECT count(*) FROM usage_streams WHERE stream = 's'"), 0)
}

// testCumulativeCost: stated costs and calls are differences, too.
func testCumulativeCost(t *testing.T, s Subject) {
	s.Book.Set("m", 10)
	r, other := live(t, s.Store, "a"), live(t, s.Store, "a")
	step := func(r run.Run, key string, input int64, cost *int64, searches int64) {
		u := total(call(key, "m", run.FromResult, input, 0), "s")
		u.CostNanoUSD, u.ToolCalls = cost, map[string]int64{"web_search": searches}
		record(t, s.Store, r, u)
	}
	step(r, "1", 100, cost(1000), 2)
	step(r, "2", 150, cost(1700), 5)
	step(other, "1", 160, nil, 5) // says no cost: the price row's
	step(other, "2", 170, cost(2000), 5)
	equal(t, "the bill", bill(t, s.Store, r.ID), "1 in=100 out=0 cost=1000 reported, computed=1020 by m#1; 2 in=50 out=0 cost=700 reported, computed=530 by m#1; total in=150 out=0 cost=1700 records=2 unpriced=0")
	equal(t, "the calls", fmt.Sprint(must[[]run.UsageRecord](t)(s.Store.UsageRecords(context.Background(), r.ID))[1].ToolCalls), "map[web_search:3]")
	equal(t, "the other", bill(t, s.Store, other.ID), "1 in=10 out=0 cost=100 by m#1; 2 in=10 out=0 cost=300 reported, computed=100 by m#1; total in=20 out=0 cost=400 records=2 unpriced=0")
	step(r, "3", 180, cost(5), 5) // only the cost fell: a new start all the same
	equal(t, "after a new start", bill(t, s.Store, r.ID), "1 in=100 out=0 cost=1000 reported, computed=1020 by m#1; 2 in=50 out=0 cost=700 reported, computed=530 by m#1; 3 in=180 out=0 cost=5 reported, computed=1850 by m#1; total in=330 out=0 cost=1705 records=3 unpriced=0")
	wantCode(t, append1(s.Store, r, run.UsageRecord{RequestKey: "x", Cumulative: true}), run.Invalid)
}

func append1(s Store, r run.Run, u run.UsageRecord) error {
	u.Run = r.ID
	_, err := s.Append(context.Background(), run.Batch{Session: r.Session, Usage: []run.UsageRecord{u}})
	return err
}

// testCumulativeRace: of several runs that report one total at once, in two
// processes where that is possible, one books it, and no order of locks fails.
func testCumulativeRace(t *testing.T, s Subject) {
	stores := []Store{s.Store, s.Store}
	if s.Second != nil {
		stores[1], _ = s.Second(t)
	}
	const writers, steps = 4, 25
	var runs [writers]run.Run
	for i := range runs {
		runs[i] = live(t, s.Store, "a")
	}
	first := live(t, s.Store, "a") // what is new to the table locks by itself
	for n := range steps {
		record(t, s.Store, first, total(call(fmt.Sprint("y", n), "m", run.FromResult, 1, 0), fmt.Sprint("y", n)))
	}
	var wg sync.WaitGroup
	for i, r := range runs {
		wg.Go(func() {
			for n := range steps {
				usage := []run.UsageRecord{
					withRun(r, total(call(fmt.Sprint("x", n), "m", run.FromResult, int64(1000*(n+1)), 0), "x")), withRun(r, total(call(fmt.Sprint("y", n), "m", run.FromResult, 1000, 0), fmt.Sprint("y", n))),
				}
				if i%2 == 1 {
					usage[0], usage[1] = usage[1], usage[0]
				}
				if _, err := stores[i%2].Append(context.Background(), run.Batch{Session: r.Session, Usage: usage}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	booked := map[string]int64{}
	for _, r := range runs {
		for _, u := range must[[]run.UsageRecord](t)(s.Store.UsageRecords(context.Background(), r.ID)) {
			booked[u.Stream] += u.Tokens.Input
		}
	}
	for n := range steps {
		equal(t, fmt.Sprint("what was booked of stream ", n), booked[fmt.Sprint("y", n)], 999)
	}
}

// testCumulativeLock: a process that reads where a stream stands waits for one
// that is about to move it.
func testCumulativeLock(t *testing.T, s Subject) {
	if s.Second == nil {
		return // one process has it open, and one goroutine writes
	}
	second, _ := s.Second(t)
	a, b := live(t, s.Store, "a"), live(t, s.Store, "a")
	record(t, s.Store, a, total(call("0", "m", run.FromResult, 1, 0), "s"))
	moving, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.Fail(func(statement string) error {
		if statement == "moving a stream on" {
			once.Do(func() {
				close(moving)
				<-goOn
			})
		}
		return nil
	})
	var wg sync.WaitGroup
	wg.Go(func() { record(t, s.Store, a, total(call("1", "m", run.FromResult, 1000, 0), "s")) })
	<-moving
	wg.Go(func() { record(t, second, b, total(call("1", "m", run.FromResult, 1000, 0), "s")) })
	poll(t, func() error {
		if s.Count(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 0 {
			return errNotWaiting
		}
		return nil
	})
	close(goOn)
	wg.Wait()
	s.Fail(nil)
	of := func(r run.Run) int64 { return must[run.Run](t)(s.Store.Run(context.Background(), r.ID)).Usage.Input }
	equal(t, "what was booked", of(a)+of(b), 1000)
}

var errNotWaiting = errors.New("the second process waits for no lock")

// testUsageRefused: what cannot be is refused by name and takes nothing along.
func testUsageRefused(t *testing.T, s Subject) {
	ctx := context.Background()
	s.Book.Set("huge", 1<<62)
	r := live(t, s.Store, "a")
	record(t, s.Store, r, call("old", "m", run.FromResult, 1, 0))
	before := bill(t, s.Store, r.ID)
	for name, u := range map[string]run.UsageRecord{
		"a negative count":   call("bad", "m", run.FromResult, -1, 0),
		"a count too high":   call("bad", "m", run.FromResult, 1<<60, 0),
		"a cost too high":    stated(call("bad", "m", run.FromResult, 1, 0), 1<<60),
		"a negative cost":    stated(call("bad", "m", run.FromResult, 1, 0), -1),
		"a price too high":   call("bad", "huge", run.FromResult, 1, 0),
		"an overflow":        call("bad", "huge", run.FromResult, 100, 0),
		"a long model":       call("bad", strings.Repeat("m", 257), run.FromResult, 1, 0),
		"a long key":         call("bad"+strings.Repeat("k", 3000), "m", run.FromResult, 1, 0),
		"too much compute":   {RequestKey: "bad", Kind: run.ComputeUsage, ComputeMicros: 1 << 60},
		"negative calls":     {RequestKey: "bad", ToolCalls: map[string]int64{"web_search": -1}},
		"a rise by overflow": total(call("bad", "m", run.FromResult, 1<<62, 0), "s"),
	} {
		err := append1(s.Store, r, u)
		wantCode(t, err, run.Invalid)
		if !strings.Contains(err.Error(), "bad") {
			t.Fatalf("%s: the error does not name the record: %v", name, err)
		}
		// With others in one group: each of them is committed.
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() {
				usage := []run.UsageRecord{withRun(r, call(fmt.Sprint("good", i), "m", run.FromResult, 1, 0))}
				if i == 4 {
					usage = append(usage, withRun(r, u))
				}
				_, errs[i] = s.Store.Append(ctx, run.Batch{Session: r.Session, Drafts: []run.Draft{text(r, "x")}, Usage: usage})
			})
		}
		wg.Wait()
		for i, err := range errs {
			if (err != nil) != (i == 4) {
				t.Fatalf("%s: batch %d gives %v", name, i, err)
			}
		}
	}
	got := bill(t, s.Store, r.ID)
	if got == before || strings.Contains(got, "bad") || strings.Contains(got, "good4") || !strings.Contains(got, "records=8 ") {
		t.Fatalf("the bill is %s", got)
	}
	checkLog(t, s.Store, r.Session)
}

// testUsageOverflow: a sum that does not fit is an error, never another number.
func testUsageOverflow(t *testing.T, s Subject) {
	r := live(t, s.Store, "a")
	record(t, s.Store, r, call("a", "m", run.FromResult, 1, 0))
	s.Exec(t, "UPDATE runs SET input_tokens = 9223372036854775807")
	err := append1(s.Store, r, call("b", "m", run.FromResult, 1, 0))
	if err == nil || !strings.Contains(err.Error(), string(r.ID)) {
		t.Fatalf("the error is %v", err)
	}
	equal(t, "the records", len(must[[]run.UsageRecord](t)(s.Store.UsageRecords(context.Background(), r.ID))), 1)
}
