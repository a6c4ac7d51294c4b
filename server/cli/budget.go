package cli

import (
	"fmt"
	"strings"

	"github.com/weirhq/weir/runtime/run"
)

// budgetLine says which budget is used up, how far, and what comes of it.
func budgetLine(e *Event) string {
	name := map[run.BudgetScope]string{
		run.BudgetRun: "of the run", run.BudgetSession: "of the session",
		run.BudgetAgentDay: "of agent " + e.BudgetAgent + " for " + e.Day, run.BudgetDay: "of the server for " + e.Day,
	}[e.Scope]
	var parts []string
	if e.LimitNanoUsd != nil {
		parts = append(parts, fmt.Sprintf("%s of %s USD", run.NanoUSD(e.UsedNanoUsd), run.NanoUSD(*e.LimitNanoUsd)))
	}
	if e.LimitTokens != nil {
		parts = append(parts, fmt.Sprintf("%d of %d tokens", e.UsedTokens, *e.LimitTokens))
	}
	then := map[run.BudgetAction]string{run.BudgetWarn: "it goes on", run.BudgetPause: "it waits for an answer", run.BudgetAbort: "it ends"}[e.Action]
	return strings.TrimSpace("budget "+name) + " used up: " + strings.Join(parts, ", ") + "; " + then
}
