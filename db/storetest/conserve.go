package storetest

import (
	"context"
	"database/sql/driver"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// number reads a setting of the long forms of tests.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// testConservation makes random run trees, with all that can happen to them and to
// their records, and checks the bill to the last unit. WEIR_LEDGER_TREES sets
// their number, WEIR_LEDGER_SEED repeats a failure.
func testConservation(t *testing.T, s Subject) {
	w := NewLedger(t, s, number(t, "WEIR_LEDGER_SEED", rand.Uint64()))
	trees := int(number(t, "WEIR_LEDGER_TREES", 40))
	for i := range trees {
		w.Tree()
		if i == trees/2 {
			w.Check()
		}
		if i%40 == 39 && s.Second == nil {
			w.s.Store = s.Reopen(t)
		}
	}
	w.Settle()
	w.Check()
}

// Ledger drives a store at random and knows what must come of it.
type Ledger struct {
	// Acked is told each batch that the store took.
	Acked func(run.Batch)

	t   *testing.T
	s   Subject
	rng *rand.Rand

	second  Store
	runs    map[run.ID]run.Run // as they were accepted
	order   []run.ID
	reports map[run.ID]map[string][]run.UsageRecord // what was reported once under a key
	streams map[string]*running
	keys    int
}

// running is a source of running totals: where it stands, and all that it has
// counted since the first day.
type running struct {
	now  run.Tokens
	ever run.Tokens
	last []run.UsageRecord // reports, to be repeated
}

// NewLedger makes a driver whose choices follow from the seed.
func NewLedger(t *testing.T, s Subject, seed uint64) *Ledger {
	t.Helper()
	t.Logf("WEIR_LEDGER_SEED=%d", seed)
	w := &Ledger{
		t: t, s: s, rng: rand.New(rand.NewPCG(seed, 1)), runs: map[run.ID]run.Run{}, reports: map[run.ID]map[string][]run.UsageRecord{},
		streams: map[string]*running{"thread one": {}, "thread two": {}},
	}
	if s.Second != nil {
		w.second, _ = s.Second(t)
	}
	for _, name := range []string{"m1", "m2", "local"} {
		s.Book.Set(name, 3)
	}
	s.Book.Set("free", 0)
	return w
}

func (w *Ledger) chance(percent int) bool { return w.rng.IntN(100) < percent }

func pick[T any](w *Ledger, of ...T) T { return of[w.rng.IntN(len(of))] }

// moment gives times at the borders of days and of daylight saving, and jumps.
func (w *Ledger) moment() time.Time {
	border := pick(w, time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC), time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	return border.Add(pick(w, 0, -time.Microsecond, time.Microsecond, -time.Hour, time.Hour, 90*time.Minute, -13*time.Hour)).In(time.FixedZone("", 3600*(w.rng.IntN(25)-12)))
}

// Tree makes one session with a run, its children and its retries.
func (w *Ledger) Tree() {
	w.t.Helper()
	if w.chance(30) {
		w.s.Book.Set(pick(w, "m1", "m2", "local"), w.rng.Int64N(500))
	}
	if w.chance(10) { // connections that break: the change is made once all the same
		left := w.rng.IntN(60)
		w.s.Fail(func(string) error {
			if left--; left == 0 {
				return driver.ErrBadConn
			}
			return nil
		})
		defer w.s.Fail(nil)
	}
	session := newSession(w.t, w.s.Store)
	root := w.accept(session, "", 1, "")
	tree := []run.Run{root}
	for range w.rng.IntN(5) {
		tree = append(tree, w.accept(session, pick(w, tree...).ID, 1, ""))
	}
	for range 2 + w.rng.IntN(6) {
		w.report(pick(w, tree...))
	}
	if w.end(tree) && w.chance(30) { // a retry is a run of its own
		again := w.accept(session, "", 2, root.ID)
		w.report(again)
		if w.chance(80) {
			w.end([]run.Run{again})
		}
	}
	for range w.rng.IntN(3) { // late records, of this tree and of older ones
		w.report(w.runs[pick(w, w.order...)])
	}
	w.aside()
}

// aside is what goes on beside the runs.
func (w *Ledger) aside() {
	ctx := context.Background()
	if w.chance(20) {
		stores := []Store{w.s.Store, w.s.Store}
		if w.second != nil {
			stores[1] = w.second
		}
		var wg sync.WaitGroup
		for _, s := range stores {
			wg.Go(func() {
				if _, err := s.SweepRollups(ctx); err != nil {
					w.t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if w.chance(5) {
		f := run.RepriceFilter{Model: pick(w, "m1", "m2", ""), OnlyUnpriced: w.chance(50)}
		if len(w.order) > 300 && w.chance(90) { // of all records, the trees would cost more and more
			f.From = w.moment()
			f.To = f.From.Add(2 * time.Hour)
		}
		must[[]run.RepriceLine](w.t)(w.s.Store.Reprice(ctx, run.Reprice{Who: "t", Filter: f}))
	}
	if w.chance(5) {
		ok(w.t, w.s.Store.MarkRollups(ctx, w.moment()))
	}
}

func (w *Ledger) accept(session run.SessionID, parent run.ID, attempt int, of run.ID) run.Run {
	w.t.Helper()
	r := newRun(session)
	r.Agent, r.Team, r.Model, r.Provider = pick(w, "one", "two", "three"), pick(w, "red", "blue"), pick(w, "", "m1", "m2"), "p"
	r.Parent, r.Attempt, r.RestartOf = parent, attempt, of
	r.CreatedAt = w.moment()
	got := accept(w.t, w.s.Store, run.NewRun{Run: r}).Run
	if parent == "" {
		for _, c := range must[[]run.Run](w.t)(w.s.Store.Claim(context.Background(), "a", 100)) {
			if c.ID == r.ID {
				got = c
			}
		}
	}
	w.runs[got.ID], w.reports[got.ID] = got, map[string][]run.UsageRecord{}
	w.order = append(w.order, got.ID)
	return got
}

// end closes the runs of a tree, children first, each in one of the ways that
// there are; some roots stay open, and it tells of them.
func (w *Ledger) end(tree []run.Run) (closed bool) {
	w.t.Helper()
	if w.chance(20) {
		_, err := w.s.Store.RequestAbort(context.Background(), run.AbortRequest{Run: tree[0].ID, Trigger: run.Abort})
		ok(w.t, err)
	}
	for _, r := range slices.Backward(tree) {
		if r.Parent == "" && w.chance(5) && len(tree) > 1 {
			return false // it counts in no rollup
		}
		to := pick(w, run.State{Status: run.Done, Reason: run.Completed}, run.State{Status: run.Failed, Reason: run.Crashed}, run.State{Status: run.Failed, Reason: run.Lost},
			run.State{Status: run.Cancelled, Reason: run.Aborted}, run.State{Status: run.TimedOut, Reason: run.Timeout})
		b := run.Batch{
			Session: r.Session, Drafts: []run.Draft{run.DraftOf(r, at(9), &run.RunEnded{Status: to.Status, ExitReason: to.Reason})},
			Update: &run.Update{Run: r.ID, From: []run.Status{run.Running}, To: &to, EndedAt: w.moment()},
		}
		if w.chance(30) {
			b.Usage = w.usage(r)
		}
		w.append(b)
	}
	return true
}

func (w *Ledger) append(b run.Batch) {
	w.t.Helper()
	must[[]*run.Event](w.t)(w.s.Store.Append(context.Background(), b))
	if w.Acked != nil {
		w.Acked(b)
	}
}

func (w *Ledger) report(r run.Run) {
	w.t.Helper()
	b := run.Batch{Session: r.Session, Usage: w.usage(r)}
	w.append(b)
	if w.chance(30) {
		w.append(b)
	}
}

// usage makes one to four reports of a run.
func (w *Ledger) usage(r run.Run) []run.UsageRecord {
	var out []run.UsageRecord
	for range 1 + w.rng.IntN(4) {
		switch n := w.rng.IntN(100); {
		case n < 25:
			out = append(out, w.running(r, pick(w, "thread one", "thread two")))
			continue
		case n < 35:
			w.keys++
			out = append(out, run.UsageRecord{
				Run: r.ID, RequestKey: fmt.Sprint("exe", w.keys), Kind: run.ComputeUsage, At: w.moment(), Rank: run.FromResult, Provenance: run.Measured,
				Backend: pick(w, "local", "modal"), ComputeMicros: w.rng.Int64N(1 << 40),
			})
		default:
			u := run.UsageRecord{
				Run: r.ID, RequestKey: fmt.Sprint("k", w.rng.IntN(4)), Kind: run.ModelCall, At: w.moment(), Rank: pick(w, run.FromEstimate, run.FromStatusPoll, run.FromTranscript, run.FromResult),
				Provenance: pick(w, run.Measured, run.Partial, run.Estimated), Provider: "p", Model: pick(w, "m1", "m2", "free", "nobody"),
				Tokens: run.Tokens{Input: w.rng.Int64N(1000), CacheRead: w.rng.Int64N(1000), CacheWriteShort: w.rng.Int64N(9), CacheWriteLong: w.rng.Int64N(9), Output: w.rng.Int64N(1000)},
			}
			if w.chance(40) { // the keys of a stream are its own
				u.Stream, u.RequestKey = "source", "s"+u.RequestKey
			}
			if w.chance(20) {
				u.CostNanoUSD = cost(w.rng.Int64N(1 << 40))
			}
			if w.chance(10) {
				u.Provenance, u.Rank = run.UnknownProvenance, run.FromResult
			}
			out = append(out, u)
		}
		u := out[len(out)-1]
		w.reports[r.ID][u.RequestKey] = append(w.reports[r.ID][u.RequestKey], u)
	}
	return out
}

// running reports the running totals of a thread that goes on in many runs: a
// report may be a repeat, or come from a source that is worse than others.
func (w *Ledger) running(r run.Run, name string) run.UsageRecord {
	x := w.streams[name]
	if len(x.last) > 0 && w.chance(20) {
		u := pick(w, x.last...)
		if u.Run == r.ID {
			return u
		}
	}
	rise := run.Tokens{Input: w.rng.Int64N(1000), Output: w.rng.Int64N(100)}
	x.now, x.ever = x.now.Add(rise), x.ever.Add(rise)
	u := w.totals(r, name, pick(w, run.FromStatusPoll, run.FromTranscript, run.FromResult))
	x.last = append(x.last, u)
	return u
}

func (w *Ledger) totals(r run.Run, name string, rank run.SourceRank) run.UsageRecord {
	w.keys++
	u := run.UsageRecord{
		Run: r.ID, RequestKey: fmt.Sprint("t", w.keys), Kind: run.ModelCall, At: w.moment(), Rank: rank, Provenance: run.Measured,
		Provider: "p", Model: "m1", Tokens: w.streams[name].now, Stream: name, Cumulative: true,
	}
	return u
}

// Settle lets each thread report where it stands, from the best source and in a run
// that has ended, so that nothing is left that only a worse source has told of, and
// begin anew.
func (w *Ledger) Settle() {
	w.t.Helper()
	for name, x := range w.streams {
		r := w.accept(newSession(w.t, w.s.Store), "", 1, "")
		w.end([]run.Run{r}) // which may report, too
		stand := func() {
			w.append(run.Batch{Session: r.Session, Usage: []run.UsageRecord{w.totals(r, name, run.FromResult)}})
		}
		stand()
		if x.now.Input > 0 { // else it falls in nothing, and would go on
			x.now = run.Tokens{Output: 3}
			x.ever, x.last = x.ever.Add(x.now), nil
		}
		stand()
		booked := run.Tokens{}
		for _, id := range w.order {
			for _, u := range must[[]run.UsageRecord](w.t)(w.s.Store.UsageRecords(context.Background(), id)) {
				if u.Stream == name && !u.Superseded {
					booked = booked.Add(u.Tokens)
				}
			}
		}
		equal(w.t, "what was booked of "+name, booked, x.ever)
	}
}

// Check holds everything that is stored against the reports and against itself.
func (w *Ledger) Check() {
	w.t.Helper()
	CheckBill(w.t, w.s.Store, w.order, w.checkRecord)
}

// Runs are the runs made so far.
func (w *Ledger) Runs() []run.ID { return w.order }

// CheckBill fails unless every run's total is the sum of its records, every
// inclusive total that of its tree, and every rollup that of the closed runs of
// its day, to the last unit, however often and by how many they are swept. It
// hands each record, with those of its run, to check.
func CheckBill(t *testing.T, s Store, ids []run.ID, check func(u *run.UsageRecord, all []run.UsageRecord)) {
	t.Helper()
	ctx := context.Background()
	own := map[run.ID]run.Usage{}
	want := map[string]run.UsageRollup{}
	children := map[run.ID][]run.ID{}
	for _, id := range ids {
		r := must[run.Run](t)(s.Run(ctx, id))
		children[r.Parent] = append(children[r.Parent], id)
		records := must[[]run.UsageRecord](t)(s.UsageRecords(ctx, id))
		var sum run.Usage
		for i := range records {
			u := &records[i]
			check(u, records)
			if u.Superseded {
				continue
			}
			sum = sum.Add(usageOf(u))
			if !r.EndedAt.IsZero() {
				addTo(want, r, run.UsageRollup{Model: u.Model, Provider: u.Provider, Backend: u.Backend, Usage: usageOf(u)})
			}
		}
		if !r.EndedAt.IsZero() {
			addTo(want, r, run.UsageRollup{Model: r.Model, Provider: r.Provider, Runs: 1})
		}
		own[id] = sum
		equal(t, "the total of run "+string(id), showUsage(r.Usage), showUsage(sum))
	}
	for id := range own {
		if len(children[id]) > 0 {
			equal(t, "the inclusive total of run "+string(id), showUsage(must[run.Usage](t)(s.InclusiveUsage(ctx, id))), showUsage(inclusive(id, own, children)))
		}
	}
	from, to := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, when := range []string{"once", "twice", "anew"} {
		if when == "anew" {
			ok(t, s.MarkRollups(ctx, from))
		}
		must[int](t)(s.SweepRollups(ctx))
		got := map[string]run.UsageRollup{}
		for _, u := range must[[]run.UsageRollup](t)(s.Rollups(ctx, from, to)) {
			got[rollupOf(u)] = u
		}
		equal(t, "the number of rollups swept "+when, len(got), len(want))
		for _, k := range slices.Sorted(maps.Keys(want)) {
			equal(t, "the rollup of "+k+" swept "+when, fmt.Sprint(got[k].Runs, showUsage(got[k].Usage)), fmt.Sprint(want[k].Runs, showUsage(want[k].Usage)))
		}
	}
}

// checkRecord holds one record against its reports and its price row.
func (w *Ledger) checkRecord(u *run.UsageRecord, all []run.UsageRecord) {
	w.t.Helper()
	best := run.SourceRank(-1)
	for i := range all {
		if all[i].Stream == u.Stream {
			best = max(best, all[i].Rank)
		}
	}
	what := fmt.Sprintf("record %s of run %s", u.RequestKey, u.Run)
	equal(w.t, what+" superseded", u.Superseded, u.Stream != "" && u.Rank < best)
	if u.ComputedNanoUSD != nil {
		n := u.Tokens.Prompt() + u.Tokens.Output + u.ComputeMicros
		equal(w.t, "the computed cost of "+what, *u.ComputedNanoUSD, n*w.s.Book.Rate(u.PriceID))
	}
	switch {
	case u.CostSource == run.AgentReported:
	case u.Kind == run.ModelCall && u.Provenance == run.UnknownProvenance:
		equal(w.t, "the price of "+what, money(u.CostNanoUSD)+money(u.ComputedNanoUSD)+u.PriceID, "nullnull")
	default:
		equal(w.t, "the cost of "+what, money(u.CostNanoUSD), money(u.ComputedNanoUSD))
	}
	reports := w.reports[u.Run][u.RequestKey]
	if len(reports) == 0 {
		return // of running totals: Settle adds them up
	}
	var tokens run.Tokens
	var compute int64
	var said *int64
	rank := run.SourceRank(0)
	for _, r := range reports {
		if r.Provenance != run.UnknownProvenance {
			rank = max(rank, r.Rank)
		}
	}
	for _, r := range reports {
		if r.Provenance == run.UnknownProvenance || r.Rank != rank {
			continue
		}
		tokens, compute = tokens.Max(r.Tokens), max(compute, r.ComputeMicros)
		if r.CostNanoUSD != nil && (said == nil || *r.CostNanoUSD > *said) {
			said = r.CostNanoUSD
		}
	}
	equal(w.t, "the counts of "+what, fmt.Sprint(u.Rank, u.Tokens, u.ComputeMicros), fmt.Sprint(rank, tokens, compute))
	equal(w.t, "what is stated of "+what, u.CostSource == run.AgentReported, said != nil)
	if said != nil {
		equal(w.t, "the stated cost of "+what, *u.CostNanoUSD, *said)
	}
}

func usageOf(u *run.UsageRecord) run.Usage {
	out := run.Usage{Tokens: u.Tokens, ComputeMicros: u.ComputeMicros, CostNanoUSD: u.CostNanoUSD, CostSource: u.CostSource, Provenance: u.Provenance, Records: 1}
	if u.CostNanoUSD == nil {
		out.Unpriced = 1
	}
	return out
}

func showUsage(u run.Usage) string {
	return fmt.Sprint(u.Tokens, u.ComputeMicros, " ", money(u.CostNanoUSD), " ", u.CostSource, u.Provenance, u.Records, u.Unpriced)
}

func inclusive(id run.ID, own map[run.ID]run.Usage, children map[run.ID][]run.ID) run.Usage {
	sum := own[id]
	for _, c := range children[id] {
		sum = sum.Add(inclusive(c, own, children))
	}
	return sum
}

func rollupOf(u run.UsageRollup) string {
	return fmt.Sprintf("%s %s/%s %s/%s/%s", u.Day.Format(time.DateOnly), u.Agent, u.Team, u.Model, u.Provider, u.Backend)
}

func addTo(all map[string]run.UsageRollup, r run.Run, part run.UsageRollup) {
	part.Day, part.Agent, part.Team = r.EndedAt.UTC(), r.Agent, r.Team
	k := rollupOf(part)
	sum := all[k]
	sum.Runs += part.Runs
	sum.Usage = sum.Usage.Add(part.Usage)
	all[k] = sum
}
