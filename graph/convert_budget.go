package graph

import (
	"context"
	"time"

	"github.com/weirhq/weir/graph/model"
	"github.com/weirhq/weir/runtime/run"
)

func (r queryResolver) Budgets(ctx context.Context) ([]*model.BudgetState, error) {
	list, err := r.Options.Runs.Budgets(ctx)
	if err != nil {
		return nil, err
	}
	return each(list, toBudgetState), nil
}

func budget(in *model.BudgetInput) (*run.Budget, error) {
	if in == nil {
		return nil, nil //nolint:nilnil // absent stays absent
	}
	b := &run.Budget{Tokens: value(in.Tokens), Action: run.BudgetAbort}
	if in.Usd != nil {
		usd, err := run.ParseLimit(*in.Usd)
		if err != nil {
			return nil, run.Errorf(run.Invalid, "budget.usd: %w", err)
		}
		b.USD = usd
	}
	if in.Action != nil {
		b.Action = run.BudgetAction(*in.Action)
	}
	if in.Tokens != nil && *in.Tokens == 0 {
		return nil, run.Errorf(run.Invalid, "budget.tokens: %w", run.ErrNoBudget)
	}
	if err := b.Check(); err != nil {
		return nil, run.Errorf(run.Invalid, "budget: %w", err)
	}
	return b, nil
}

func toBudget(b *run.Budget) *model.Budget {
	if b == nil {
		return nil
	}
	out := &model.Budget{Tokens: limitOf(b.Tokens), Action: model.BudgetAction(b.Action)}
	if out.Action == "" {
		out.Action = model.BudgetActionAbort
	}
	if b.USD != 0 {
		out.Usd = text(b.USD.String())
	}
	return out
}

func toBudgetState(s run.BudgetState) *model.BudgetState {
	return &model.BudgetState{
		Scope: model.BudgetScope(s.Scope), Day: s.Day, Agent: text(s.Agent),
		LimitNanoUsd: limitOf(int64(s.Budget.USD)), LimitTokens: limitOf(s.Budget.Tokens),
		UsedNanoUsd: int64(s.Spent.USD), UsedTokens: s.Spent.Tokens, Unpriced: s.Spent.Unpriced, Action: model.BudgetAction(s.Budget.Action),
	}
}

func toBudgetReached(b base, p *run.BudgetReached) *model.BudgetReached {
	out := &model.BudgetReached{
		Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
		Scope: model.BudgetScope(p.Scope), BudgetAgent: text(p.Agent), Action: model.BudgetAction(p.Action),
		LimitNanoUsd: limitOf(p.LimitNanoUSD), LimitTokens: limitOf(p.LimitTokens), UsedNanoUsd: p.UsedNanoUSD, UsedTokens: p.UsedTokens,
	}
	if day, err := time.Parse(time.DateOnly, p.Day); err == nil {
		out.Day = &day
	}
	return out
}

// limitOf is nil where there is no limit.
func limitOf(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}
