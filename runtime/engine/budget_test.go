package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
)

// step is what one call of a test's agents costs: 0.004 USD and 100 tokens.
const step = 4_000_000

// spends is work that makes n calls, one after the other; made counts them.
func spends(n int, made *atomic.Int64) work {
	return func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
		for range n {
			if err := spend(ctx, h, step); err != nil {
				return "", err
			}
			made.Add(1)
		}
		return "spent", nil
	}
}

func spend(ctx context.Context, h agent.Host, nano int64) error {
	return h.Usage(ctx, run.UsageRecord{Model: "m", Tokens: run.Tokens{Input: 60, CacheRead: 10, Output: 30, Reasoning: 5}, CostNanoUSD: &nano})
}

func within(usd run.NanoUSD, tokens int64, action run.BudgetAction) func(*run.StartRequest) {
	return func(q *run.StartRequest) { q.Input.Budget = &run.Budget{USD: usd, Tokens: tokens, Action: action} }
}

func usd(s string) run.NanoUSD {
	n, err := run.ParseUSD(s)
	if err != nil {
		panic(err)
	}
	return n
}

// reached gives what was told of budgets in a session.
func (b *bench) reached(id run.SessionID) []*run.BudgetReached {
	b.t.Helper()
	var out []*run.BudgetReached
	for _, e := range b.events(id) {
		if e.Type != run.TypeBudgetReached {
			continue
		}
		p, err := e.Payload()
		if err != nil {
			b.t.Fatal(err)
		}
		out = append(out, p.(*run.BudgetReached))
	}
	return out
}

func (b *bench) inclusive(id run.ID) run.Spent {
	b.t.Helper()
	u, err := b.store.InclusiveUsage(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return u.Spent()
}

func wantReached(t *testing.T, got []*run.BudgetReached, want ...string) {
	t.Helper()
	var lines []string
	for _, p := range got {
		lines = append(lines, fmt.Sprintf("%s %s %d/%d %d/%d", p.Scope, p.Action, p.UsedNanoUSD, p.LimitNanoUSD, p.UsedTokens, p.LimitTokens))
	}
	sameLines(t, lines, want...)
}

// A run that would go on for long ends with the request that reaches its budget.
func TestBudgetEndsTheRun(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		var made atomic.Int64
		b.agent("spender", spends(1250, &made))
		e := b.engine()
		r := b.ended(e.start("spender", within(usd("0.01"), 0, "")).ID)
		wantState(t, r, run.Cancelled, run.BudgetReason)
		if got := b.inclusive(r.ID); got.USD != 3*step || made.Load() != 2 {
			t.Errorf("used %+v, %d calls came back; want the third to be the last", got, made.Load())
		}
		wantReached(t, b.reached(r.Session), "RUN ABORT 12000000/10000000 300/0")
		if r.Abort == nil || r.Abort.Trigger != run.OverBudget || r.Abort.Outcome != run.AbortStopped || !strings.Contains(r.Abort.Reason, "0.012 of 0.01 USD") {
			t.Errorf("the receipt is %+v", r.Abort)
		}
		tokens := b.ended(e.start("spender", within(0, 250, run.BudgetAbort)).ID)
		wantState(t, tokens, run.Cancelled, run.BudgetReason)
		wantReached(t, b.reached(tokens.Session), "RUN ABORT 12000000/0 300/250")

		// A budget that is reached exactly is used up.
		exact := b.ended(e.start("spender", within(2*step, 0, run.BudgetAbort)).ID)
		if got := b.inclusive(exact.ID); got.USD != 2*step {
			t.Errorf("used %s of %s", got.USD, run.NanoUSD(2*step))
		}
	})
}

func TestBudgetThatWarns(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		var made atomic.Int64
		b.agent("spender", spends(6, &made))
		r := b.ended(b.engine().start("spender", within(usd("0.01"), 0, run.BudgetWarn)).ID)
		wantState(t, r, run.Done, run.Completed)
		wantReached(t, b.reached(r.Session), "RUN WARN 12000000/10000000 300/0")
	})
}

// Two children that spend at once overshoot by one request each at most, and end
// with their parent.
func TestBudgetOfATree(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		var made atomic.Int64
		b.agent("spender", spends(1000, &made))
		b.agent("boss", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() { _, _ = h.Delegate(ctx, agent.Delegation{Agent: "spender", Prompt: "spend"}) })
			}
			wg.Wait()
			return "", nil
		})
		r := b.ended(b.engine().start("boss", within(usd("0.05"), 0, run.BudgetAbort)).ID)
		wantState(t, r, run.Cancelled, run.BudgetReason)
		children, err := b.store.Children(t.Context(), r.ID)
		if err != nil || len(children) != 2 {
			t.Fatalf("%d children, %v", len(children), err)
		}
		for _, c := range children {
			wantState(t, c, run.Cancelled, run.BudgetReason)
		}
		if got := b.inclusive(r.ID).USD; got < usd("0.05") || got > usd("0.05")+2*step {
			t.Errorf("used %s, want at most one request of each child over", got)
		}
		if n := len(b.reached(r.Session)); n != 1 {
			t.Errorf("it was told %d times", n)
		}
	})
}

// The budget of a child's agent ends the child; its parent goes on.
func TestBudgetOfAChildsAgent(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		var made atomic.Int64
		b.agent("spender", spends(1000, &made), func(d *agent.Definition) {
			d.Budget = &agent.Budgets{Run: &run.Budget{Tokens: 500}}
		})
		b.agent("boss", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			_, err := h.Delegate(ctx, agent.Delegation{Agent: "spender", Prompt: "spend"})
			if err == nil || !strings.Contains(err.Error(), "BUDGET") {
				return "", fmt.Errorf("the child's end is %w", err)
			}
			return "went on", nil
		})
		r := b.ended(b.engine().start("boss").ID)
		wantState(t, r, run.Done, run.Completed)
		wantReached(t, b.reached(r.Session), "RUN ABORT 20000000/0 500/500")
	})
}

func TestBudgetsOfSessionsAndDays(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		var made atomic.Int64
		b.agent("spender", spends(4, &made))
		b.agent("other", spends(4, &made))
		b.agent("frugal", spends(4, &made), func(d *agent.Definition) {
			d.Budget = &agent.Budgets{Day: &run.Budget{USD: 2 * step}}
		})
		e := b.engine(func(o *engine.Options) {
			o.Budgets = engine.Budgets{Session: &run.Budget{USD: 6 * step}, AgentDay: &run.Budget{USD: 10 * step}, Day: &run.Budget{Tokens: 1800}}
		})
		first := b.ended(e.start("spender").ID)
		wantState(t, first, run.Done, run.Completed)
		second := b.ended(e.start("spender", inSession(first.Session, run.Reject)).ID)
		wantState(t, second, run.Cancelled, run.BudgetReason)
		wantReached(t, b.reached(first.Session), "SESSION ABORT 24000000/24000000 600/0")

		refused := func(want string, change ...func(*run.StartRequest)) {
			t.Helper()
			name, _, _ := strings.Cut(want, ": ")
			q := run.StartRequest{Input: run.Input{Agent: name, Prompt: "go"}}
			for _, c := range change {
				c(&q)
			}
			_, err := e.Start(t.Context(), q)
			if run.CodeOf(err) != run.Forbidden || !strings.Contains(err.Error(), strings.TrimPrefix(want, name+": ")) {
				t.Errorf("starting %s: %v, want FORBIDDEN with %q", name, err, want)
			}
		}
		refused("other: the budget of the session is used up: 0.024 of 0.024 USD", inSession(first.Session, run.Reject))

		// The agent's own budget of the day, beside the operator's.
		frugal := b.ended(e.start("frugal").ID)
		wantState(t, frugal, run.Cancelled, run.BudgetReason)
		wantReached(t, b.reached(frugal.Session), "AGENT_DAY ABORT 8000000/8000000 200/0")
		refused("frugal: today's budget of agent frugal is used up: 0.008 of 0.008 USD; the next one begins at ")

		// The operator's budget of each agent: 6 calls are used, 4 are left.
		last := b.ended(e.start("spender").ID)
		wantState(t, last, run.Cancelled, run.BudgetReason)
		wantReached(t, b.reached(last.Session), "AGENT_DAY ABORT 40000000/40000000 1000/0")
		refused("spender: today's budget of agent spender is used up: 0.04 of 0.04 USD")

		// All of the day: 12 calls are used, 6 are left.
		wantState(t, b.ended(e.start("other").ID), run.Done, run.Completed)
		day := b.ended(e.start("other").ID)
		wantState(t, day, run.Cancelled, run.BudgetReason)
		wantReached(t, b.reached(day.Session), "DAY ABORT 72000000/0 1800/1800")
		refused("other: today's budget of this server is used up: 1800 of 1800 tokens")

		// With a key an earlier run may be meant; a new one ends before it uses anything.
		keyed := b.ended(e.start("other", func(q *run.StartRequest) { q.IdempotencyKey = run.NewKey("k") }).ID)
		wantState(t, keyed, run.Cancelled, run.BudgetReason)
		if got := b.inclusive(keyed.ID); got != (run.Spent{}) {
			t.Errorf("it used %+v", got)
		}
		states, err := e.Budgets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, s := range states {
			lines = append(lines, fmt.Sprintf("%s %s %s/%s %d/%d", s.Scope, s.Agent, s.Spent.USD, s.Budget.USD, s.Spent.Tokens, s.Budget.Tokens))
		}
		sameLines(t, lines, "DAY  0.072/0 1800/1800", "AGENT_DAY frugal 0.008/0.04 200/0", "AGENT_DAY frugal 0.008/0.008 200/0",
			"AGENT_DAY other 0.024/0.04 600/0", "AGENT_DAY spender 0.04/0.04 1000/0")
	})
}

// asked waits for the n-th question of a run.
func (b *bench) asked(id run.ID, n int) run.Question {
	b.t.Helper()
	var q run.Question
	b.until(fmt.Sprintf("question %d of run %s", n, id), func() bool {
		list, err := b.store.Questions(b.t.Context(), id)
		if err != nil {
			b.t.Fatal(err)
		}
		if len(list) < n {
			return false
		}
		q = list[n-1]
		return true
	})
	return q
}

func (r *running) answer(q run.Question, answer string) {
	r.b.t.Helper()
	if _, err := r.Answer(r.b.t.Context(), q.ID, json.RawMessage(answer)); err != nil {
		r.b.t.Fatal(err)
	}
}

// PAUSE asks at the root run; an answer raises the budget or ends the run, and
// one that says nothing is asked for again.
func TestBudgetThatAsks(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		var made atomic.Int64
		b.agent("spender", spends(1000, &made))
		b.agent("boss", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			_, err := h.Delegate(ctx, agent.Delegation{Agent: "spender", Prompt: "spend"})
			return "", err
		})
		e := b.engine()
		r := e.start("boss", within(usd("0.01"), 0, run.BudgetPause))
		q := b.asked(r.ID, 1)
		b.inStatus(r.ID, run.Waiting)
		if !strings.Contains(q.Text, "0.012 of 0.01 USD") || !json.Valid(q.Schema) {
			t.Errorf("it asks %q with the schema %s", q.Text, q.Schema)
		}
		e.answer(q, `{"extraUsd":"much"}`)
		q = b.asked(r.ID, 2)
		if made.Load() != 2 || !strings.Contains(q.Text, "much") {
			t.Errorf("after an answer that says nothing %d calls came back and it asks %q", made.Load(), q.Text)
		}
		e.answer(q, `{"extraUsd":0.01}`)
		q = b.asked(r.ID, 3)
		b.inStatus(r.ID, run.Waiting)
		if got := b.inclusive(r.ID); got.USD != 5*step || made.Load() != 4 {
			t.Errorf("under the raised budget it used %s, %d calls came back", got.USD, made.Load())
		}
		e.answer(q, `{"stop":true}`)
		end := b.ended(r.ID)
		wantState(t, end, run.Cancelled, run.BudgetReason)
		if end.Abort == nil || !strings.Contains(end.Abort.Reason, "the answer was to stop") {
			t.Errorf("the receipt is %+v", end.Abort)
		}
		wantReached(t, b.reached(r.Session), "RUN PAUSE 12000000/10000000 300/0", "RUN PAUSE 20000000/20000000 500/0")
	})
}

// What ends a run while it asks about a budget ends it as ever.
func TestAbortWhileABudgetAsks(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		var made atomic.Int64
		b.agent("spender", spends(1000, &made))
		e := b.engine()
		r := e.start("spender", within(0, 100, run.BudgetPause))
		b.asked(r.ID, 1)
		if _, _, err := e.Abort(t.Context(), run.AbortOrder{Run: r.ID, Wait: true}); err != nil {
			t.Fatal(err)
		}
		wantState(t, b.get(r.ID), run.Cancelled, run.Aborted)
		if q := b.asked(r.ID, 1); q.State != run.QuestionCancelled {
			t.Errorf("the question is %s", q.State)
		}
	})
}

// An abort, a budget and the end of the work at the same moment: one end, and
// every call that came back is booked.
func TestBudgetRaces(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		var made atomic.Int64
		b.agent("spender", spends(3, &made))
		e := b.engine()
		for i := range 12 {
			r := e.start("spender", within(3*step, 0, run.BudgetAbort))
			if i%2 == 0 {
				if _, _, err := e.Abort(t.Context(), run.AbortOrder{Run: r.ID, Wait: true}); err != nil {
					t.Fatal(err)
				}
			}
			end := b.ended(r.ID)
			if end.State.Reason != run.BudgetReason && (end.State.Reason != run.Aborted || i%2 != 0) {
				t.Errorf("run %d ended %s %s", i, end.State.Status, end.State.Reason)
			}
			if n := strings.Count(strings.Join(b.told(end), "\n"), string(run.TypeRunEnded)); n != 1 {
				t.Errorf("run %d ended %d times", i, n)
			}
		}
	})
}

// perSecond prices executions at 1 USD a second, and no model.
type perSecond struct{}

func (perSecond) Price(u run.UsageRecord, _ *run.Price) (run.Pricing, error) {
	if u.Kind != run.ComputeUsage {
		return run.Pricing{}, nil
	}
	nano := 1000 * u.ComputeMicros
	return run.Pricing{Price: &run.Price{ID: "second", Body: []byte("{}")}, NanoUSD: &nano}, nil
}

// An execution is ended while it runs, a tick after it reached the budget.
func TestBudgetOfComputeTime(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.backends["local"] = &scriptedBackend{play: func(p *scriptedProcess) int {
			<-p.term
			return 143
		}}
		b.agent("cruncher", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			_, _, err := h.Execute(ctx, agent.Exec{Command: []string{"crunch"}})
			return "", err
		})
		e := b.engine(func(o *engine.Options) { o.Pricer = perSecond{} })
		began := time.Now()
		r := b.ended(e.start("cruncher", within(usd("0.2"), 0, run.BudgetAbort)).ID)
		wantState(t, r, run.Cancelled, run.BudgetReason)
		got := b.reached(r.Session)
		if len(got) != 1 || run.NanoUSD(got[0].UsedNanoUSD) < usd("0.2") || time.Since(began) > patience/2 {
			t.Errorf("after %s it told %+v", time.Since(began), got)
		}
		if r.Abort == nil || r.Abort.ProcessGoneAt.IsZero() {
			t.Errorf("the receipt is %+v", r.Abort)
		}
	})
}

// What has no price counts in tokens only, and a budget in USD says so, once.
func TestBudgetOfUnpricedUse(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("mystery", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			var errs []error
			for range 3 {
				errs = append(errs, h.Usage(ctx, run.UsageRecord{Model: "m", Tokens: run.Tokens{Input: 100}}))
			}
			return "", errors.Join(errs...)
		})
		r := b.ended(b.engine().start("mystery", within(1, 1000, run.BudgetAbort)).ID)
		wantState(t, r, run.Done, run.Completed)
		if n := strings.Count(strings.Join(b.told(r), "\n"), "have no price and count as 0"); n != 1 {
			t.Errorf("it was said %d times: %q", n, b.told(r))
		}
	})
}
