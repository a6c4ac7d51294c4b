package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
)

// byHand lets the test decide when a sweep is made.
func byHand(o *engine.Options) {
	o.SnapshotInterval, o.RollupInterval, o.RollupCheck = -1, -1, -1
}

// sampled is work that can be asked for its usage and goes on until it is
// cancelled.
func sampled(began chan<- run.ID, f func(ctx context.Context, h agent.Host) error) work {
	return func(ctx context.Context, t agent.Task, h agent.Host) (string, error) {
		defer h.Sample(func(asked context.Context) error { return f(asked, h) })()
		began <- t.Run.ID
		<-ctx.Done()
		return "", ctx.Err()
	}
}

func priced(key string, t run.Tokens, nano int64) run.UsageRecord {
	return run.UsageRecord{RequestKey: key, Model: "m", Provider: "p", Tokens: t, CostNanoUSD: &nano}
}

// snapshots gives one line for each of a run.
func (b *bench) snapshots(id run.ID) []string {
	b.t.Helper()
	list, err := b.store.Snapshots(b.t.Context(), run.SnapshotQuery{Run: id, First: 100})
	if err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for _, n := range list {
		out = append(out, counts(n.Usage))
	}
	return out
}

func counts(u run.Usage) string {
	money := "-"
	if u.CostNanoUSD != nil {
		money = fmt.Sprint(*u.CostNanoUSD)
	}
	return fmt.Sprintf("%d/%d/%d/%d cost=%s unpriced=%d", u.Input, u.Output, u.CacheRead, u.CacheWriteShort+u.CacheWriteLong, money, u.Unpriced)
}

func mustNot(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestU6_SnapshotOfAnActiveAgent: what an agent says when it is asked is one row,
// and the run's totals; the same again is no second one.
func TestU6_SnapshotOfAnActiveAgent(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine(byHand)
		began := make(chan run.ID, 1)
		var total atomic.Int64
		total.Store(50)
		b.agent("a", sampled(began, func(ctx context.Context, h agent.Host) error {
			return h.Usage(ctx, priced("poll", run.Tokens{Input: total.Load(), Output: 100, CacheRead: 10, CacheWriteShort: 5}, 7*total.Load()))
		}))
		r := e.start("a")
		receive(t, "the start", began)
		from := time.Now().Add(-time.Second)
		mustNot(t, e.SweepSnapshots(t.Context()))
		sameLines(t, b.snapshots(r.ID), "50/100/10/5 cost=350 unpriced=0")
		if got := counts(b.get(r.ID).Usage); got != "50/100/10/5 cost=350 unpriced=0" {
			t.Errorf("the run's totals are %s", got)
		}
		mustNot(t, e.SweepSnapshots(t.Context()))
		if n := len(b.snapshots(r.ID)); n != 1 {
			t.Errorf("%d rows after a sweep that found nothing new", n)
		}
		total.Store(60)
		mustNot(t, e.SweepSnapshots(t.Context()))
		sameLines(t, b.snapshots(r.ID), "50/100/10/5 cost=350 unpriced=0", "60/100/10/5 cost=420 unpriced=0")
		list, err := b.store.Snapshots(t.Context(), run.SnapshotQuery{Run: r.ID, First: 9})
		mustNot(t, err)
		if at := list[0].At; at.Before(from) || at.After(list[1].At) {
			t.Errorf("the snapshots are of %s and %s, the test began at %s", at, list[1].At, from)
		}
	})
}

// TestU6_SnapshotWithoutASampler: the totals of any live run are kept, also of
// one that nobody can ask.
func TestU6_SnapshotWithoutASampler(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine(byHand)
		began := make(chan run.ID, 1)
		b.agent("a", func(ctx context.Context, t agent.Task, h agent.Host) (string, error) {
			if err := h.Usage(ctx, run.UsageRecord{RequestKey: "1", Model: "m", Tokens: run.Tokens{Input: 3}}); err != nil {
				return "", err
			}
			began <- t.Run.ID
			<-ctx.Done()
			return "", ctx.Err()
		})
		r := e.start("a")
		receive(t, "the start", began)
		mustNot(t, e.SweepSnapshots(t.Context()))
		sameLines(t, b.snapshots(r.ID), "3/0/0/0 cost=- unpriced=1")
	})
}

// TestU7_NothingUsedIsNoRow: an agent that has used nothing is not written at all.
func TestU7_NothingUsedIsNoRow(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		var writes atomic.Int64
		e := b.engine(byHand, func(o *engine.Options) { o.Store = counting{o.Store, &writes} })
		began := make(chan run.ID, 1)
		var asked atomic.Int64
		b.agent("a", sampled(began, func(context.Context, agent.Host) error { asked.Add(1); return nil }))
		r := e.start("a")
		receive(t, "the start", began)
		before := writes.Load()
		mustNot(t, e.SweepSnapshots(t.Context()))
		if n := writes.Load() - before; n != 0 {
			t.Errorf("the sweep has written %d times", n)
		}
		if rows := b.snapshots(r.ID); len(rows) != 0 || asked.Load() != 1 {
			t.Errorf("asked %d times, rows %q", asked.Load(), rows)
		}
	})
}

// counting is a store that counts what a sweep could write; the scheduler's empty
// claims, which are commits, too, come whenever they like.
type counting struct {
	engine.Store
	writes *atomic.Int64
}

func (c counting) Append(ctx context.Context, b run.Batch) ([]*run.Event, error) {
	c.writes.Add(1)
	return c.Store.Append(ctx, b)
}

func (c counting) AddSnapshots(ctx context.Context, snapshots []run.UsageSnapshot) error {
	c.writes.Add(1)
	return c.Store.AddSnapshots(ctx, snapshots)
}

// TestU8_OneAgentDoesNotStopTheOthers: one cannot be reached, one panics, one
// hangs, one hangs for good; the last one's numbers are written.
func TestU8_OneAgentDoesNotStopTheOthers(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine(byHand, func(o *engine.Options) { o.SampleTimeout = 100 * time.Millisecond })
		began := make(chan run.ID, 5)
		letGo := make(chan struct{})
		b.agent("unreachable", sampled(began, func(context.Context, agent.Host) error { return errors.New("connection refused") }))
		b.agent("panics", sampled(began, func(context.Context, agent.Host) error { panic("oh no") }))
		b.agent("hangs", sampled(began, func(ctx context.Context, _ agent.Host) error { <-ctx.Done(); return context.Cause(ctx) }))
		b.agent("deaf", sampled(began, func(context.Context, agent.Host) error { <-letGo; return nil }))
		b.agent("works", sampled(began, func(ctx context.Context, h agent.Host) error {
			return h.Usage(ctx, priced("poll", run.Tokens{Input: 25, Output: 75}, 1))
		}))
		var runs []run.Run
		for _, name := range []string{"unreachable", "panics", "hangs", "deaf", "works"} {
			runs = append(runs, e.start(name))
			receive(t, "the start", began)
		}
		for range 2 { // the deaf one is still being asked the second time
			mustNot(t, e.SweepSnapshots(t.Context()))
		}
		var all []string
		for _, r := range runs {
			all = append(all, b.snapshots(r.ID)...)
		}
		sameLines(t, all, "25/75/0/0 cost=1 unpriced=0")
		close(letGo)
	})
}

// TestSnapshotsOfTwoReplicas: each replica asks and writes its own runs, at the
// same time.
func TestSnapshotsOfTwoReplicas(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began := make(chan run.ID, 1)
		var asked atomic.Int64
		b.agent("a", sampled(began, func(ctx context.Context, h agent.Host) error {
			return h.Usage(ctx, priced("poll", run.Tokens{Input: asked.Add(1)}, 1))
		}))
		var engines []*running
		var runs []run.Run
		for i := range 2 { // the first one is full when the second one comes
			e := b.engine(byHand, func(o *engine.Options) {
				o.Concurrency, o.Replica = 1, fmt.Sprint(b.replica, i)
			})
			engines = append(engines, e)
			runs = append(runs, e.start("a"))
			receive(t, "the start", began)
		}
		var wg sync.WaitGroup
		for _, e := range engines {
			wg.Go(func() {
				if err := errors.Join(e.SweepSnapshots(t.Context()), e.CheckRollups(t.Context()), e.SweepRollups(t.Context())); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if asked.Load() != 2 {
			t.Errorf("the agents were asked %d times, want once each", asked.Load())
		}
		var all []string
		for _, r := range runs {
			all = append(all, b.snapshots(r.ID)...)
		}
		slices.Sort(all)
		sameLines(t, all, "1/0/0/0 cost=1 unpriced=0", "2/0/0/0 cost=1 unpriced=0")
	})
}

// rollups gives one line for each rollup of today and yesterday.
func (b *bench) rollups() []string {
	b.t.Helper()
	list, err := b.store.GroupRollups(b.t.Context(), run.RollupQuery{
		From: time.Now().AddDate(0, 0, -1), To: time.Now(), GroupBy: []run.UsageDimension{run.ByAgent, run.ByTeam, run.ByModel},
	})
	mustNot(b.t, err)
	var out []string
	for _, r := range list {
		out = append(out, fmt.Sprintf("%s/%s/%s runs=%d %s", r.Agent, r.Team, r.Model, r.Runs, counts(r.Usage)))
	}
	return out
}

// TestU9_RollupsOfClosedRuns: one row per day, agent, team and model; sweeping
// again changes nothing, another closed run the same row; an open one counts not
// yet.
func TestU9_RollupsOfClosedRuns(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine(byHand)
		use := func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			return "", errors.Join(h.Usage(ctx, priced("1", run.Tokens{Input: 10, Output: 20}, 5)), h.Usage(ctx, run.UsageRecord{RequestKey: "2", Model: "other", Tokens: run.Tokens{Input: 1}}))
		}
		define := func(d *agent.Definition) { d.Team, d.Model, d.Provider = "lab", "m", "p" }
		b.agent("a", use, define)
		b.agent("b", use, define)
		began := make(chan run.ID, 1)
		b.agent("open", blocked(began))
		e.start("open")
		receive(t, "the start", began)
		sweep := func() {
			t.Helper()
			mustNot(t, e.SweepRollups(t.Context()))
		}
		b.ended(e.start("a").ID)
		b.ended(e.start("b").ID)
		sweep()
		want := []string{"a/lab/m runs=1 10/20/0/0 cost=5 unpriced=0", "a/lab/other runs=0 1/0/0/0 cost=- unpriced=1", "b/lab/m runs=1 10/20/0/0 cost=5 unpriced=0", "b/lab/other runs=0 1/0/0/0 cost=- unpriced=1"}
		sameLines(t, b.rollups(), want...)
		sweep()
		mustNot(t, e.CheckRollups(t.Context())) // nor does summing up all of it anew
		sweep()
		sameLines(t, b.rollups(), want...)
		b.ended(e.start("a").ID)
		sweep()
		want[0], want[1] = "a/lab/m runs=2 20/40/0/0 cost=10 unpriced=0", "a/lab/other runs=0 2/0/0/0 cost=- unpriced=2"
		sameLines(t, b.rollups(), want...)
	})
}

// TestSnapshotsOfManyAgents: a tenth hangs, a tenth is dead, and all others are
// written. WEIR_SWEEP_RUNS makes it large; then one sweep has to end within two
// timeouts, which needs the machine for itself.
func TestSnapshotsOfManyAgents(t *testing.T) {
	n, timeout := 50, time.Second
	text := os.Getenv("WEIR_SWEEP_RUNS")
	large := text != ""
	if large {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 10 {
			t.Fatalf("WEIR_SWEEP_RUNS=%s is not a number of 10 or more", text)
		}
		timeout = 3 * time.Second
	}
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine(byHand, func(o *engine.Options) { o.Concurrency, o.SampleTimeout = n, timeout })
		began := make(chan run.ID, n)
		b.agent("works", sampled(began, func(ctx context.Context, h agent.Host) error {
			return h.Usage(ctx, priced("poll", run.Tokens{Input: 1}, 1))
		}))
		b.agent("hangs", sampled(began, func(ctx context.Context, _ agent.Host) error { <-ctx.Done(); return context.Cause(ctx) }))
		b.agent("dead", sampled(began, func(context.Context, agent.Host) error { return errors.New("connection refused") }))
		for i := range n {
			switch i % 10 {
			case 3:
				e.start("hangs")
			case 7:
				e.start("dead")
			default:
				e.start("works")
			}
		}
		for range n {
			receive(t, "the start", began)
		}
		want, rounds := int64(n-n/10*2), 0
		b.until("all are written", func() bool { // at once, unless the disk is slow
			from := time.Now()
			mustNot(t, e.SweepSnapshots(t.Context()))
			took := time.Since(from)
			rounds++
			totals, err := b.store.ActiveUsage(t.Context())
			mustNot(t, err)
			due, err := b.store.DueSnapshots(t.Context(), b.replica, time.Now())
			mustNot(t, err)
			t.Logf("%d agents: %s", n, took.Round(time.Millisecond))
			if totals.Usage.Input != want || len(due) > 0 {
				return false
			}
			if large && (took > 2*timeout || rounds > 1) {
				t.Errorf("%d sweeps, the last one of %s; one has to do, within %s", rounds, took, 2*timeout)
			}
			return true
		})
	})
}

// A sweep that fails says so in the log and is made again.
func TestSweepsGoOn(t *testing.T) {
	b := newBench(t, "sqlite")
	lines := make(chan string, 100)
	s := &brokenSweeps{Store: b.store, swept: make(chan string, 100)}
	b.engine(func(o *engine.Options) {
		o.Store, o.Logger = s, logTo(lines)
		o.SnapshotInterval, o.RollupInterval, o.RollupCheck = time.Millisecond, time.Millisecond, time.Millisecond
	})
	seen := map[string]int{}
	for seen["snapshots"] < 3 || seen["rollups"] < 3 || seen["check"] < 3 {
		seen[receive(t, "three sweeps of each kind", s.swept)]++
	}
	told := map[string]bool{}
	for !told["disk on fire"] || !told["panic: oh no"] {
		line := receive(t, "both faults in the log", lines)
		for _, part := range []string{"disk on fire", "panic: oh no"} {
			if strings.Contains(line, part) {
				told[part] = true
			}
		}
	}
}

// brokenSweeps is a store that fails whatever a sweep asks of it.
type brokenSweeps struct {
	engine.Store
	swept chan string
}

func (s *brokenSweeps) tell(what string) {
	select {
	case s.swept <- what:
	default: // the test has seen enough
	}
}

func (s *brokenSweeps) DueSnapshots(context.Context, string, time.Time) ([]run.UsageSnapshot, error) {
	s.tell("snapshots")
	panic("oh no")
}

func (s *brokenSweeps) SweepRollups(context.Context) (int, error) {
	s.tell("rollups")
	return 0, errors.New("disk on fire")
}

func (s *brokenSweeps) MarkRollups(context.Context, time.Time) error {
	s.tell("check")
	return errors.New("disk on fire")
}

// lineWriter sends what is written to a channel while there is room.
type lineWriter chan<- string

func (w lineWriter) Write(p []byte) (int, error) {
	select {
	case w <- string(p):
	default:
	}
	return len(p), nil
}

func logTo(lines chan<- string) *slog.Logger {
	return slog.New(slog.NewTextHandler(lineWriter(lines), nil))
}
