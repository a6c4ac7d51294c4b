package config

import (
	"fmt"
	"strings"

	"github.com/weirhq/weir/runtime/run"
)

// Budget bounds what runs may use; what is not given is no limit.
type Budget struct {
	RunUSD         string `type:"number" name:"run-usd" help:"Most money of a run with everything that it delegates to, in USD." setting:"WEIR_BUDGET_RUN_USD" placeholder:"USD"`
	RunTokens      *int64 `name:"run-tokens" help:"Most tokens of a run with everything that it delegates to." setting:"WEIR_BUDGET_RUN_TOKENS" placeholder:"N"`
	SessionUSD     string `type:"number" name:"session-usd" help:"Most money of a session, in USD." setting:"WEIR_BUDGET_SESSION_USD" placeholder:"USD"`
	SessionTokens  *int64 `name:"session-tokens" help:"Most tokens of a session." setting:"WEIR_BUDGET_SESSION_TOKENS" placeholder:"N"`
	AgentDayUSD    string `type:"number" name:"agent-day-usd" help:"Most money of each agent per UTC day, in USD." setting:"WEIR_BUDGET_AGENT_DAY_USD" placeholder:"USD"`
	AgentDayTokens *int64 `name:"agent-day-tokens" help:"Most tokens of each agent per UTC day." setting:"WEIR_BUDGET_AGENT_DAY_TOKENS" placeholder:"N"`
	DayUSD         string `type:"number" name:"day-usd" help:"Most money of all runs per UTC day, in USD." setting:"WEIR_BUDGET_DAY_USD" placeholder:"USD"`
	DayTokens      *int64 `name:"day-tokens" help:"Most tokens of all runs per UTC day." setting:"WEIR_BUDGET_DAY_TOKENS" placeholder:"N"`
	Action         string `help:"What to do when one of these budgets is used up: warn, pause (and ask) or abort." enum:"warn,pause,abort" default:"abort" setting:"WEIR_BUDGET_ACTION" placeholder:"WHAT"`

	// What Check makes of them; nil: no limit.
	Run, Session, AgentDay, Day *run.Budget `kong:"-"`
}

func (b *Budget) check() error {
	action := run.BudgetAction(strings.ToUpper(b.Action))
	for _, l := range []struct {
		name   string
		usd    string
		tokens *int64
		to     **run.Budget
	}{
		{"run", b.RunUSD, b.RunTokens, &b.Run},
		{"session", b.SessionUSD, b.SessionTokens, &b.Session},
		{"agent-day", b.AgentDayUSD, b.AgentDayTokens, &b.AgentDay},
		{"day", b.DayUSD, b.DayTokens, &b.Day},
	} {
		if l.usd == "" && l.tokens == nil {
			continue
		}
		limit := run.Budget{Action: action}
		if l.usd != "" {
			usd, err := run.ParseLimit(l.usd)
			if err != nil {
				return fmt.Errorf("--budget-%s-usd: %w", l.name, err)
			}
			limit.USD = usd
		}
		if l.tokens != nil {
			switch n := *l.tokens; {
			case n == 0:
				return fmt.Errorf("--budget-%s-tokens: %w", l.name, run.ErrNoBudget)
			case n < 0:
				return fmt.Errorf("--budget-%s-tokens %d must be above 0", l.name, n)
			default:
				limit.Tokens = n
			}
		}
		if err := limit.Check(); err != nil {
			return fmt.Errorf("--budget-action: %w", err)
		}
		*l.to = &limit
	}
	return nil
}
