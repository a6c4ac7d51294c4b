package config_test

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/server/config"
)

func TestBudgets(t *testing.T) {
	t.Parallel()
	tokens := int64(7)
	s := valid(t)
	s.Budget = config.Budget{RunUSD: "0.01", SessionTokens: &tokens, AgentDayUSD: "2", AgentDayTokens: &tokens, DayUSD: "30", Action: "pause"}
	if err := s.Check(func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ got, want *run.Budget }{
		"run":       {s.Budget.Run, &run.Budget{USD: 10_000_000, Action: run.BudgetPause}},
		"session":   {s.Budget.Session, &run.Budget{Tokens: 7, Action: run.BudgetPause}},
		"agent-day": {s.Budget.AgentDay, &run.Budget{USD: 2_000_000_000, Tokens: 7, Action: run.BudgetPause}},
		"day":       {s.Budget.Day, &run.Budget{USD: 30_000_000_000, Action: run.BudgetPause}},
	} {
		if c.got == nil || *c.got != *c.want {
			t.Errorf("the budget %s is %+v, want %+v", name, c.got, c.want)
		}
	}

	none := valid(t)
	none.Budget.Action = "warn"
	if err := none.Check(func(string) string { return "" }); err != nil {
		t.Error(err)
	}
	if b := none.Budget; b.Run != nil || b.Session != nil || b.AgentDay != nil || b.Day != nil {
		t.Errorf("what was not given is %+v", b)
	}
}

func TestBudgetsRefused(t *testing.T) {
	t.Parallel()
	number := func(n int64) *int64 { return &n }
	const zero = "a budget of 0 would end every run at once; leave it out for no limit"
	for name, c := range map[string]struct {
		budget config.Budget
		want   string
	}{
		"no money":        {config.Budget{RunUSD: "0"}, "--budget-run-usd: " + zero},
		"no money at all": {config.Budget{DayUSD: "0.000"}, "--budget-day-usd: " + zero},
		"negative":        {config.Budget{SessionUSD: "-1"}, "--budget-session-usd: -1 USD must be above 0"},
		"words":           {config.Budget{AgentDayUSD: "ten"}, `--budget-agent-day-usd: "ten" is not a decimal number of USD`},
		"exponent":        {config.Budget{DayUSD: "1e3"}, `--budget-day-usd: "1e3" is not`},
		"too fine":        {config.Budget{DayUSD: "0.0000000001"}, "--budget-day-usd: 0.0000000001 USD must be"},
		"too much":        {config.Budget{DayUSD: "99999999999"}, "--budget-day-usd: 99999999999 USD must be"},
		"no tokens":       {config.Budget{RunTokens: number(0)}, "--budget-run-tokens: " + zero},
		"beside money":    {config.Budget{DayUSD: "1", DayTokens: number(0)}, "--budget-day-tokens: " + zero},
		"negative tokens": {config.Budget{SessionTokens: number(-5)}, "--budget-session-tokens -5 must be above 0"},
		"of agents":       {config.Budget{AgentDayTokens: number(-1)}, "--budget-agent-day-tokens -1"},
		"action":          {config.Budget{RunUSD: "1", Action: "stop"}, `--budget-action: action is "STOP"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := valid(t)
			s.Budget = c.budget
			if err := s.Check(func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
