package storetest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

func logPoints(t *testing.T, s Store, r run.Run, points ...run.Point) []*run.Event {
	t.Helper()
	for i := range points {
		if points[i].At.IsZero() {
			points[i].At = at(1)
		}
	}
	return must[[]*run.Event](t)(s.Append(context.Background(), run.Batch{
		Session: r.Session, Fence: fence(r),
		Drafts: []run.Draft{run.DraftOf(r, at(1), &run.MetricsLogged{ExecutionID: "exe", Points: points})},
	}))
}

func curve(t *testing.T, s Store, r run.Run, q run.MetricQuery) run.Series {
	t.Helper()
	all := must[[]run.Series](t)(s.Metrics(context.Background(), r.ID, q))
	if len(all) != 1 {
		t.Fatalf("%d curves, want 1", len(all))
	}
	return all[0]
}

func testMetrics(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	equal(t, "curves before any point", len(must[[]run.Series](t)(s.Store.Metrics(ctx, r.ID, run.MetricQuery{}))), 0)
	logPoints(t, s.Store, r,
		run.Point{Step: 1, Name: "loss", Value: 0.5, Stage: "train"}, run.Point{Step: 2, Name: "loss", Value: 0.25, Stage: "train"},
		run.Point{Step: 1, Name: "acc", Value: 0.8, Stage: "train"}, run.Point{Step: 1, Name: "loss", Value: 9, Stage: "train", RunTag: "b"},
		run.Point{Step: 1, Name: "loss", Value: 8, Stage: "eval"})
	for _, folded := range []bool{false, true} {
		if folded {
			ok(t, s.Store.Fold(ctx))
		}
		all := must[[]run.Series](t)(s.Store.Metrics(ctx, r.ID, run.MetricQuery{}))
		out := ""
		for _, c := range all {
			equal(t, "the run", c.Key.Run, r.ID)
			equal(t, "the attempt", c.Key.Attempt, 1)
			equal(t, "asOfSeq", c.AsOfSeq, 2)
			out += fmt.Sprintf("%s/%s/%s", c.Key.Name, c.Key.RunTag, c.Key.Stage)
			for _, b := range c.Buckets {
				equal(t, "the width", b.ToStep-b.FromStep, 0)
				out += fmt.Sprintf(" %d:%v", b.FromStep, b.First)
			}
			out += "; "
		}
		equal(t, "the curves", out, "acc//train 1:0.8; loss//eval 1:8; loss//train 1:0.5 2:0.25; loss/b/train 1:9; ")
		equal(t, "one name", len(must[[]run.Series](t)(s.Store.Metrics(ctx, r.ID, run.MetricQuery{Names: []string{"acc", "nope"}}))), 1)
		equal(t, "no name", len(must[[]run.Series](t)(s.Store.Metrics(ctx, r.ID, run.MetricQuery{Names: []string{}}))), 0)
	}
	fill(t, s.Store, r.Session, 3)
	equal(t, "asOfSeq after other events", curve(t, s.Store, r, run.MetricQuery{Names: []string{"acc"}}).AsOfSeq, 5)
}

func testMetricsNonFinite(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	logPoints(t, s.Store, r,
		run.Point{Step: 0, Name: "l", Special: run.NaN}, run.Point{Step: 1, Name: "l", Value: 3}, run.Point{Step: 2, Name: "l", Special: run.PositiveInfinity},
		run.Point{Step: 3, Name: "l", Value: -2}, run.Point{Step: 4, Name: "l", Special: run.NegativeInfinity}, run.Point{Step: 5, Name: "l", Special: run.NaN},
		run.Point{Step: 100, Name: "l", Special: run.NaN})
	for _, folded := range []bool{false, true} {
		if folded {
			ok(t, s.Store.Fold(ctx))
		}
		b := curve(t, s.Store, r, run.MetricQuery{MaxPoints: 3}).Buckets // width 64
		equal(t, "buckets", len(b), 2)
		equal(t, "the first", fmt.Sprintf("%d-%d %d %d %d %d %v %v %v %v", b[0].FromStep, b[0].ToStep, b[0].Count, b[0].NaN, b[0].PositiveInfinity, b[0].NegativeInfinity, b[0].Min, b[0].Max, b[0].First, b[0].Last), "0-63 6 2 1 1 -2 3 3 -2")
		equal(t, "the second has nothing finite", b[1].Finite(), 0)
		equal(t, "its count", b[1].Count, 1)
		fine := curve(t, s.Store, r, run.MetricQuery{}).Buckets
		equal(t, "one step each", len(fine), 7)
		equal(t, "NaN alone", fine[0].NaN, 1)
	}
	// Values at the ends of what a float can be come back exactly.
	values := []float64{math.MaxFloat64, math.SmallestNonzeroFloat64, -math.MaxFloat64, 0.1, 1.0 / 3, 1e-310, 123456789.123456789}
	for i, v := range values {
		logPoints(t, s.Store, r, run.Point{Step: int64(i), Name: "v", Value: v})
	}
	for i := range 40 { // enough for the bulk way of PostgreSQL
		values = append(values, math.Float64frombits(rand.Uint64()&^(1<<62)))
		_ = i
	}
	var points []run.Point
	for i, v := range values {
		points = append(points, run.Point{Step: int64(i), Name: "w", Value: v})
	}
	logPoints(t, s.Store, r, points...)
	for _, name := range []string{"v", "w"} {
		for i, b := range curve(t, s.Store, r, run.MetricQuery{Names: []string{name}}).Buckets {
			equal(t, "a value of "+name, b.First, values[i])
		}
	}
}

func testMetricsSteps(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	edge := []int64{math.MinInt64, -(1 << 40), -17, -16, -1, 0, 1, 16, 1 << 53, math.MaxInt64}
	for _, st := range edge {
		logPoints(t, s.Store, r, run.Point{Step: st, Name: "l", Value: float64(st)})
	}
	for _, folded := range []bool{false, true} {
		if folded {
			ok(t, s.Store.Fold(ctx))
		}
		b := curve(t, s.Store, r, run.MetricQuery{MaxPoints: 2}).Buckets
		equal(t, "two buckets over everything", fmt.Sprint(len(b), b[0].FromStep, b[0].ToStep, b[1].FromStep, b[1].ToStep, b[0].Count, b[1].Count), fmt.Sprint(2, int64(math.MinInt64), -1, 0, int64(math.MaxInt64), 5, 5))
		from, to := int64(-17), int64(16)
		b = curve(t, s.Store, r, run.MetricQuery{FromStep: &from, ToStep: &to}).Buckets
		out := ""
		for _, x := range b {
			out += fmt.Sprint(x.FromStep, " ")
		}
		equal(t, "the steps around 0", out, "-17 -16 -1 0 1 16 ")
		from, to = 2, 3
		equal(t, "a range with nothing in it", len(curve(t, s.Store, r, run.MetricQuery{FromStep: &from, ToStep: &to}).Buckets), 0)
		from, to = 3, 2
		equal(t, "a range that ends before it begins", len(curve(t, s.Store, r, run.MetricQuery{FromStep: &from, ToStep: &to}).Buckets), 0)
	}
}

// model is a curve kept in the simplest way.
type model []modelPoint

type modelPoint struct {
	p   run.Point
	ord int
}

// fold is what the store has to give for a level.
func (m model) fold(level int) []run.Bucket {
	sorted := slices.Clone(m)
	slices.SortFunc(sorted, func(a, b modelPoint) int {
		if a.p.Step != b.p.Step {
			if a.p.Step < b.p.Step {
				return -1
			}
			return 1
		}
		return a.ord - b.ord
	})
	var out []run.Bucket
	for _, x := range sorted {
		from := x.p.Step >> level << level
		if len(out) == 0 || out[len(out)-1].FromStep != from {
			out = append(out, run.Bucket{FromStep: from, ToStep: from + 1<<level - 1, FirstAt: x.p.At, LastAt: x.p.At})
		}
		b := &out[len(out)-1]
		if b.FirstAt.After(x.p.At) {
			b.FirstAt = x.p.At
		}
		if b.LastAt.Before(x.p.At) {
			b.LastAt = x.p.At
		}
		first := b.Finite() == 0
		b.Count++
		switch x.p.Special {
		case run.NaN:
			b.NaN++
		case run.PositiveInfinity:
			b.PositiveInfinity++
		case run.NegativeInfinity:
			b.NegativeInfinity++
		case run.Finite:
			if first {
				b.Min, b.Max, b.First = x.p.Value, x.p.Value, x.p.Value
			}
			b.Min, b.Max, b.Last = min(b.Min, x.p.Value), max(b.Max, x.p.Value), x.p.Value
		}
	}
	return out
}

func (m model) check(t *testing.T, what string, got run.Series, most int) {
	t.Helper()
	lo, hi := m[0].p.Step, m[0].p.Step
	for _, x := range m {
		lo, hi = min(lo, x.p.Step), max(hi, x.p.Step)
	}
	if lo < 0 && hi >= 0 && most == 1 {
		most = 2 // no power of two puts both sides of 0 into one bucket
	}
	level := 0
	for (hi>>level)-(lo>>level)+1 > int64(most) {
		level++
	}
	want := m.fold(level)
	equal(t, what+": the number of buckets", len(got.Buckets), len(want))
	for i := range want {
		if got.Buckets[i].Finite() == 0 {
			got.Buckets[i].Min, got.Buckets[i].Max, got.Buckets[i].First, got.Buckets[i].Last = 0, 0, 0, 0
		}
		equal(t, fmt.Sprint(what, ": bucket ", i), fmt.Sprintf("%+v", got.Buckets[i]), fmt.Sprintf("%+v", want[i]))
	}
}

// testMetricsModel compares random curves with the model, at all widths, folded
// and not, and in between.
func testMetricsModel(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	rng := rand.New(rand.NewPCG(1, 2))
	var m model
	for round := range 12 {
		var points []run.Point
		for range 1 + rng.IntN(60) {
			p := run.Point{Name: "l", Step: rng.Int64N(1<<22) - 1<<21, At: time.UnixMicro(1e15 + rng.Int64N(1e9)).UTC()}
			if rng.IntN(3) == 0 {
				p.Step = int64(round*50 + rng.IntN(40)) // close together, often the same
			}
			if rng.IntN(6) == 0 {
				p.Special = run.Special(1 + rng.IntN(3))
			} else {
				p.Value = rng.NormFloat64()
			}
			points = append(points, p)
			m = append(m, modelPoint{p, len(m)})
		}
		logPoints(t, s.Store, r, points...)
		if rng.IntN(2) == 0 {
			ok(t, s.Store.Fold(ctx))
		}
		for _, n := range []int{1, 2, 7, 100, 1000, 20000} {
			m.check(t, fmt.Sprint("round ", round, ", ", n, " points"), curve(t, s.Store, r, run.MetricQuery{MaxPoints: n}), n)
		}
	}
}

// testMetricsLevels: old buckets do not move, and no spike is lost.
func testMetricsLevels(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	add := func(from, to int) {
		t.Helper()
		var points []run.Point
		for i := from; i < to; i++ {
			v := 1.0
			if i == 4321 {
				v = 1e9
			}
			points = append(points, run.Point{Step: int64(i), Name: "l", Value: v})
		}
		logPoints(t, s.Store, r, points...)
	}
	add(0, 5000)
	ok(t, s.Store.Fold(ctx))
	before := curve(t, s.Store, r, run.MetricQuery{MaxPoints: 100}).Buckets
	add(5000, 6000)
	after := curve(t, s.Store, r, run.MetricQuery{MaxPoints: 100}).Buckets
	equal(t, "the width", before[0].ToStep-before[0].FromStep, 63)
	for i := range before[:78] {
		equal(t, fmt.Sprint("bucket ", i), before[i], after[i])
	}
	spike := 0.0
	for _, b := range after {
		spike = max(spike, b.Max)
	}
	equal(t, "the spike", spike, 1e9)
	from, to := int64(4300), int64(4340)
	zoom := curve(t, s.Store, r, run.MetricQuery{FromStep: &from, ToStep: &to, MaxPoints: 100}).Buckets
	equal(t, "a small range comes exactly", fmt.Sprint(len(zoom), zoom[21].FromStep, zoom[21].First), fmt.Sprint(41, 4321, 1e9))
	from, to = 1000, 3000
	mid := curve(t, s.Store, r, run.MetricQuery{FromStep: &from, ToStep: &to, MaxPoints: 70}).Buckets
	equal(t, "a middle range from stored buckets", fmt.Sprint(len(mid), mid[0].FromStep, mid[0].Count), "63 992 32")
}

// testMetricsTail: unfolded points of one run do not show in another's curves,
// and events of other kinds in between do not hide any.
func testMetricsTail(t *testing.T, s Subject) {
	r := live(t, s.Store, "a")
	kid := child(t, s.Store, r)
	for i := range 40 {
		logPoints(t, s.Store, r, run.Point{Step: int64(i * 100), Name: "l", Value: float64(i)})
		logPoints(t, s.Store, kid, run.Point{Step: int64(i * 100), Name: "l", Value: -1})
		fill(t, s.Store, r.Session, 3)
	}
	got := curve(t, s.Store, r, run.MetricQuery{MaxPoints: 10})
	n, low := int64(0), 0.0
	for _, b := range got.Buckets {
		n += b.Count
		low = min(low, b.Min)
	}
	equal(t, "the points", n, 40)
	equal(t, "the least", low, 0)
	equal(t, "asOfSeq", got.AsOfSeq, int64(len(checkLog(t, s.Store, r.Session))))
}

// testMetricsReopen: what was not folded when the store was closed, or when it
// crashed with its memory, is folded from the log.
func testMetricsReopen(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	var m model
	add := func(st Store, n int) {
		t.Helper()
		var points []run.Point
		for range n {
			p := run.Point{Step: int64(len(m) * 7 % 5000), Name: "l", Value: float64(len(m)), At: at(1)}
			m = append(m, modelPoint{p, len(m)})
			points = append(points, p)
		}
		logPoints(t, st, r, points...)
	}
	add(s.Store, 300)
	ok(t, s.Store.Fold(ctx))
	add(s.Store, 200)
	st := s.Reopen(t)
	equal(t, "unfolded sessions after an orderly stop", s.Count(t, "SELECT count(*) FROM sessions WHERE folded_seq < last_seq"), 0)
	m.check(t, "after an orderly stop", curve(t, st, r, run.MetricQuery{MaxPoints: 50}), 50)
	add(st, 100)
	// As a crash would leave it: nothing folded, nothing in memory.
	s.Exec(t, "DELETE FROM metric_buckets")
	s.Exec(t, "UPDATE sessions SET folded_seq = 0")
	m.check(t, "before the buckets are rebuilt", curve(t, st, r, run.MetricQuery{MaxPoints: 50}), 50)
	add(st, 10) // the memory does not fit what is stored now
	ok(t, st.Fold(ctx))
	equal(t, "unfolded sessions", s.Count(t, "SELECT count(*) FROM sessions WHERE folded_seq < last_seq"), 0)
	m.check(t, "rebuilt", curve(t, st, r, run.MetricQuery{MaxPoints: 50}), 50)
}

// testMetricsBadPoint: a point that cannot be stored costs nothing but itself,
// and the log says so.
func testMetricsBadPoint(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	long := longName()
	got := logPoints(t, s.Store, r, run.Point{Step: 1, Name: "l", Value: 1}, run.Point{Step: 2, Name: strings.Repeat("n", 5000), Value: 2},
		run.Point{Step: 3, Name: "l", Value: math.NaN()}, run.Point{Step: 4, Name: "", Value: 1}, run.Point{Step: 5, Name: "nul\x00\xff", Value: 5},
		run.Point{Step: 6, Name: long, Value: 6, Stage: strings.Repeat("s", 64)})
	equal(t, "what was returned", types(got), "METRICS_LOGGED WARNING")
	equal(t, "the log", types(checkLog(t, s.Store, r.Session)), "RUN_STARTED METRICS_LOGGED WARNING")
	for _, folded := range []bool{false, true} {
		if folded {
			ok(t, s.Store.Fold(ctx))
		}
		out := ""
		for _, c := range must[[]run.Series](t)(s.Store.Metrics(ctx, r.ID, run.MetricQuery{MaxPoints: 1})) {
			name := strings.ReplaceAll(c.Key.Name, long, "long")
			out += fmt.Sprintf("%q %d; ", name, c.Buckets[0].Count)
		}
		// A name may be empty: it is what the line said.
		equal(t, "the curves", out, "\"\" 1; \"l\" 1; \"nul\uFFFD\uFFFD\" 1; \"long\" 1; ")
	}
	p, _ := must[run.Payload](t)(got[1].Payload()).(*run.Warning)
	if !strings.HasPrefix(p.Text, "2 metric points could not be stored") {
		t.Fatalf("the warning says %q", p.Text)
	}
}

// longName is the longest that a metric line can have, in characters of four
// bytes that no index compresses.
func longName() string {
	rng := rand.New(rand.NewPCG(1, 2))
	name := make([]rune, 512)
	for i := range name {
		name[i] = rune(0x20000 + rng.IntN(0xa000))
	}
	return string(name)
}

// testMetricsRefusedPoint: the database itself refuses some points; they are
// found by halving, and the others, the events and the run go on (S9).
func testMetricsRefusedPoint(t *testing.T, s Subject) {
	s.RefuseStep13(t)
	r := live(t, s.Store, "a")
	var points []run.Point
	for i := range 100 {
		step := int64(i)
		if i > 50 && i%13 != 0 {
			step += 1000
		}
		points = append(points, run.Point{Step: step, Name: "l", Value: 1})
	}
	points[70].Step = 13 // beside the one at 13 itself
	got := logPoints(t, s.Store, r, points...)
	equal(t, "what was returned", types(got), "METRICS_LOGGED WARNING")
	p, _ := must[run.Payload](t)(got[1].Payload()).(*run.Warning)
	if !strings.HasPrefix(p.Text, "2 metric points could not be stored") {
		t.Fatalf("the warning says %q", p.Text)
	}
	equal(t, "stored points", s.Count(t, "SELECT count(*) FROM metric_points"), 98)
	checkLog(t, s.Store, r.Session)
	must[[]*run.Event](t)(s.Store.Append(context.Background(), run.Batch{Session: r.Session, Fence: fence(r), Drafts: []run.Draft{text(r, "it goes on")}}))
}

// testMetricsDense: very many points at few steps are not read one by one.
func testMetricsDense(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	points := make([]run.Point, 70_000)
	for i := range points {
		points[i] = run.Point{Step: int64(i % 3), Name: "l", Value: float64(i)}
	}
	for range 3 {
		logPoints(t, s.Store, r, points...)
	}
	ok(t, s.Store.Fold(ctx))
	b := curve(t, s.Store, r, run.MetricQuery{}).Buckets
	equal(t, "one bucket of the first stored level", fmt.Sprint(len(b), b[0].FromStep, b[0].ToStep, b[0].Count, b[0].Max), "1 0 15 210000 69999")
}

// testMetricsNames: a run with very many names does not make an answer without bounds.
func testMetricsNames(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	var points []run.Point
	for i := range 1001 {
		points = append(points, run.Point{Step: 1, Name: fmt.Sprintf("m%d", i), Value: 1, Stage: "train"})
	}
	logPoints(t, s.Store, r, points...)
	if _, err := s.Store.Metrics(ctx, r.ID, run.MetricQuery{}); run.CodeOf(err) != run.Invalid || !strings.Contains(err.Error(), "names") {
		t.Errorf("1001 curves at once give %v", err)
	}
	equal(t, "two names", len(must[[]run.Series](t)(s.Store.Metrics(ctx, r.ID, run.MetricQuery{Names: []string{"m0", "m1000"}}))), 2)
}
