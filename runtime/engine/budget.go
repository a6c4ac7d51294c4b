package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// budgetTick is how often running executions and what others have used are
// looked at.
const budgetTick = time.Second

// Budgets are those of the operator; nil: none.
type Budgets struct {
	Run      *run.Budget // of each root run with all that it delegates to
	Session  *run.Budget
	AgentDay *run.Budget // of each agent
	Day      *run.Budget
}

// limit is one budget of one run. Whoever set it, all hold side by side, so none
// makes another one looser.
type limit struct {
	of     *supervisor // what ends, with its descendants
	key    string      // tells the budgets of a tree apart; the same after a restart for those of the root run
	scope  run.BudgetScope
	agent  string     // of AGENT_DAY
	given  run.Budget // as it was set
	budget run.Budget // with what answers have added
	day    string     // the day that told and budget are of; "" for the others
	told   bool       // of WARN
}

// guard holds the budgets of a run and all that it delegates to, and is the one
// place that decides about them. Whoever has booked use, or is about to cause
// some, calls pass, which returns when the tree may go on.
type guard struct {
	root *supervisor
	ctx  context.Context // of the questions and the tick
	stop func()          // ends and awaits them

	wg     sync.WaitGroup
	mu     sync.Mutex
	limits []*limit
	gate   chan struct{} // closed when the open question is settled; nil: none is open
	asked  int           // questions so far
	last   string        // the request that the root run booked last
	ticks  bool
	vague  bool // it was said that something has no price
}

func newGuard(root *supervisor) *guard {
	ctx, cancel := context.WithCancelCause(root.ctx)
	g := &guard{root: root, ctx: ctx}
	g.stop = func() {
		cancel(errReleased)
		g.wg.Wait()
	}
	return g
}

// add puts a run under its budgets: the request's, its agent's and the operator's.
func (g *guard) add(s *supervisor) {
	at := ""
	if s != g.root {
		at = "/" + string(s.run.ID)
	}
	var list []*limit
	put := func(who string, scope run.BudgetScope, b *run.Budget) {
		if b == nil || b.None() {
			return
		}
		l := &limit{of: s, key: who + "/" + string(scope) + at, scope: scope, given: *b}
		l.given.Action = cmp.Or(l.given.Action, run.BudgetAbort)
		if scope == run.BudgetAgentDay {
			l.agent = s.run.Agent
		}
		l.budget = l.given
		list = append(list, l)
	}
	put("request", run.BudgetRun, s.run.Input.Budget)
	if b := s.def.Budget; b != nil {
		put("agent", run.BudgetRun, b.Run)
		put("agent", run.BudgetSession, b.Session)
		put("agent", run.BudgetAgentDay, b.Day)
	}
	b := s.e.opts.Budgets
	put("server", run.BudgetAgentDay, b.AgentDay)
	if s == g.root {
		put("server", run.BudgetRun, b.Run)
		put("server", run.BudgetSession, b.Session)
		put("server", run.BudgetDay, b.Day)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limits = append(g.limits, list...)
	// What ends a run comes before what asks about it.
	order := []run.BudgetAction{run.BudgetWarn, run.BudgetAbort, run.BudgetPause}
	slices.SortStableFunc(g.limits, func(a, b *limit) int {
		return slices.Index(order, a.given.Action) - slices.Index(order, b.given.Action)
	})
	if len(g.limits) > 0 && !g.ticks {
		g.ticks = true
		g.wg.Go(g.tick)
	}
}

// drop takes the budgets of an ended run away.
func (g *guard) drop(s *supervisor) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limits = slices.DeleteFunc(g.limits, func(l *limit) bool { return l.of == s })
}

// tick looks while something is used that no record tells of yet.
func (g *guard) tick() {
	t := time.NewTicker(budgetTick)
	defer t.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-t.C:
		}
		g.mu.Lock()
		days := slices.ContainsFunc(g.limits, func(l *limit) bool { return l.daily() })
		g.mu.Unlock()
		if days || g.root.e.busy(g.root) {
			g.look(g.ctx)
		}
	}
}

// sampling marks the context of a sampler's call, which must not wait for a person.
type sampling struct{}

// pass looks at the budgets and waits while a question about one is open. It
// fails with the cause when the run of the call is stopped.
func (g *guard) pass(ctx context.Context) error {
	for {
		g.look(ctx)
		g.mu.Lock()
		gate := g.gate
		g.mu.Unlock()
		if gate == nil || ctx.Value(sampling{}) != nil {
			return context.Cause(ctx)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-gate:
		}
	}
}

// booked notes where the root run stands.
func (g *guard) booked(s *supervisor, request string) {
	if s != g.root {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = request
}

// look compares what was used with every budget and does what is due. While a
// question is open no other is asked; what runs on then still ends at an ABORT.
func (g *guard) look(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.limits) == 0 {
		return
	}
	u := use{g: g, now: time.Now(), runs: map[run.ID]run.Spent{}}
	for _, l := range g.limits {
		if context.Cause(l.of.ctx) != nil {
			continue
		}
		l.begin(u.now)
		spent, err := u.of(ctx, l)
		if err != nil {
			if context.Cause(ctx) == nil {
				g.root.e.log.Warn("Adding up what a budget counts failed", "run", g.root.run.ID, "scope", l.scope, "error", err)
			}
			continue
		}
		if l.budget.USD > 0 && spent.Unpriced > 0 && !g.vague {
			g.vague = true
			g.root.warn(fmt.Sprintf("%d records of use have no price and count as 0 in the budget of %s USD; tokens count in any case: give the model a price in the price file, or set a budget in tokens", spent.Unpriced, l.budget.USD))
		}
		if !l.budget.Reached(spent) {
			continue
		}
		switch l.budget.Action {
		case run.BudgetWarn:
			if !l.told {
				l.told = true
				g.tell(l, spent)
			}
		case run.BudgetPause:
			if g.gate == nil {
				g.tell(l, spent)
				g.pauseLocked(l, spent)
			}
		case run.BudgetAbort:
			g.tell(l, spent)
			g.end(l, l.says(spent))
		}
	}
}

// tell writes BudgetReached.
func (g *guard) tell(l *limit, spent run.Spent) {
	p := &run.BudgetReached{
		Scope: l.scope, Agent: l.agent, Day: l.day, Action: l.budget.Action, Key: l.key,
		LimitNanoUSD: int64(l.budget.USD), LimitTokens: l.budget.Tokens, UsedNanoUSD: int64(spent.USD), UsedTokens: spent.Tokens,
	}
	if err := l.of.emit.commit(l.of.e.write, entry{drafts: []run.Draft{l.of.draft(p)}}); err != nil {
		g.root.e.log.Warn("Writing that a budget is used up failed", "run", l.of.run.ID, "error", err)
	}
}

// end stops the run of a budget and its descendants. The intent is durable first;
// where it cannot be written the run is stopped all the same.
func (g *guard) end(l *limit, why string) {
	e := g.root.e
	res, err := e.store.RequestAbort(e.write, AbortRequest{Run: l.of.run.ID, Reason: why, Trigger: run.OverBudget, At: time.Now()})
	if err != nil {
		e.log.Warn("Writing the intent to stop a run over its budget failed", "run", l.of.run.ID, "error", err)
		l.of.cancel(&stopped{trigger: run.OverBudget, reason: why})
		return
	}
	e.cancelRuns(res.Open)
}

// daily tells whether the budget begins anew each day.
func (l *limit) daily() bool { return l.scope == run.BudgetDay || l.scope == run.BudgetAgentDay }

// begin takes a day's budget back to what it was when the day is another one.
func (l *limit) begin(now time.Time) {
	if day := dayOf(now); l.daily() && l.day != day {
		l.day, l.told, l.budget = day, false, l.given
	}
}

func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// says is the sentence about a budget that is used up.
func (l *limit) says(spent run.Spent) string {
	return budgetName(l.scope, l.agent) + " is used up: " + measure(l.budget, spent)
}

func budgetName(scope run.BudgetScope, agent string) string {
	switch scope {
	case run.BudgetSession:
		return "the budget of the session"
	case run.BudgetAgentDay:
		return "today's budget of agent " + agent
	case run.BudgetDay:
		return "today's budget of this server"
	case run.BudgetRun:
	}
	return "the budget of the run"
}

// measure says what was used of what.
func measure(b run.Budget, spent run.Spent) string {
	var parts []string
	if b.USD > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s USD", spent.USD, b.USD))
	}
	if b.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d tokens", spent.Tokens, b.Tokens))
	}
	return strings.Join(parts, ", ")
}
