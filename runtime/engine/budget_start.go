package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

// affords refuses a run when a budget of the day or of its session that would
// stop it is used up already.
func (e *Engine) affords(ctx context.Context, def agent.Definition, session run.SessionID) error {
	now := time.Now()
	var own agent.Budgets
	if def.Budget != nil {
		own = *def.Budget
	}
	for _, l := range []struct {
		scope  run.BudgetScope
		budget *run.Budget
	}{
		{run.BudgetDay, e.opts.Budgets.Day},
		{run.BudgetAgentDay, e.opts.Budgets.AgentDay},
		{run.BudgetAgentDay, own.Day},
		{run.BudgetSession, e.opts.Budgets.Session},
		{run.BudgetSession, own.Session},
	} {
		if l.budget == nil || l.budget.None() || l.budget.Action == run.BudgetWarn || (l.scope == run.BudgetSession && session == "") {
			continue
		}
		var spent run.Spent
		var err error
		until := "start it in another session, or have the budget raised"
		switch l.scope {
		case run.BudgetSession:
			var sum run.Usage
			sum, err = e.store.SessionUsage(ctx, session)
			spent = sum.Spent()
		default:
			name := ""
			if l.scope == run.BudgetAgentDay {
				name = def.Name
			}
			spent, err = e.days.spent(ctx, e.store, now, name, *l.budget, run.Spent{})
			until = "the next one begins at " + now.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1).Format(time.RFC3339)
		}
		if err != nil {
			return fmt.Errorf("adding up what a budget counts: %w", err)
		}
		if l.budget.Reached(spent) {
			return run.Errorf(run.Forbidden, "%s is used up: %s; %s", budgetName(l.scope, def.Name), measure(*l.budget, spent), until)
		}
	}
	return nil
}

// budgetsOf lists the budgets of a day.
func (e *Engine) budgetsOf(day time.Time, sums map[string]run.Spent) []run.BudgetState {
	var out []run.BudgetState
	put := func(scope run.BudgetScope, agent string, b *run.Budget, spent run.Spent) {
		if b == nil || b.None() {
			return
		}
		s := run.BudgetState{Scope: scope, Day: day, Agent: agent, Budget: *b, Spent: spent}
		s.Budget.Action = cmp.Or(s.Budget.Action, run.BudgetAbort)
		out = append(out, s)
	}
	var all run.Spent
	for _, s := range sums {
		all = all.Add(s)
	}
	put(run.BudgetDay, "", e.opts.Budgets.Day, all)
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		put(run.BudgetAgentDay, name, e.opts.Budgets.AgentDay, sums[name])
		if def, err := e.opts.Agents.Lookup(name); err == nil && def.Budget != nil {
			put(run.BudgetAgentDay, name, def.Budget.Day, sums[name])
		}
	}
	return out
}
