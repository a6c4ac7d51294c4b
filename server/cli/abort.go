package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// AbortCommand ends a run and prints the receipt.
type AbortCommand struct {
	Connection `embed:""`

	ID     string `arg:"" help:"A run, or a session for its live run."`
	NoWait bool   `help:"Do not wait until everything is gone."`
	Silent bool   `help:"Write no event but RUN_ENDED."`
	Reason string `help:"Why; kept in the log." placeholder:"TEXT"`
}

// Run implements the command.
func (a *AbortCommand) Run(ctx context.Context, i *IO) error {
	c, err := a.client(i)
	if err != nil {
		return err
	}
	defer c.Close()
	id := a.ID
	if strings.HasPrefix(id, "ses_") {
		s, err := c.Session(ctx, id)
		if err != nil {
			return err
		}
		if s.ActiveRun == nil {
			return run.Errorf(run.NotFound, "the session %s has no live run to abort", id)
		}
		id = s.ActiveRun.ID
	} else if !isRun(id) {
		return missing(id)
	}
	r, err := c.Abort(ctx, AbortOrder{Run: id, Silent: a.Silent, Wait: !a.NoWait, Reason: a.Reason})
	if ctx.Err() != nil {
		i.Notice("no longer waiting; once asked for, the abort of " + id + " goes on")
		return &ExitError{Code: CodeAborted}
	}
	if err != nil {
		return err
	}
	if a.JSON {
		err = i.jsonLine(r.Raw)
	} else {
		err = i.print("%s", r.text())
	}
	if err == nil && r.Outcome == "SURVIVORS" {
		return &ExitError{Code: CodeFailed}
	}
	return err
}

// text is the receipt for people.
func (r *Receipt) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", clean(r.RunID), outcomeText(r))
	line := func(name string, at *time.Time) {
		switch {
		case at == nil:
		case r.RequestedAt == nil || at == r.RequestedAt:
			fmt.Fprintf(&b, "  %-13s %s\n", name, at.Local().Format("2006-01-02 15:04:05.000"))
		default:
			fmt.Fprintf(&b, "  %-13s +%.3f s\n", name, at.Sub(*r.RequestedAt).Seconds())
		}
	}
	line("requested", r.RequestedAt)
	line("signalled", r.SignalledAt)
	line("process gone", r.ProcessGoneAt)
	line("sandbox gone", r.SandboxGoneAt)
	if r.Outcome == "STOPPED" || r.Outcome == "SURVIVORS" {
		fmt.Fprintf(&b, "  %-13s %s\n", "survivors", survivors(r.Survivors))
	}
	return b.String()
}

func survivors(pids []int) string {
	if len(pids) == 0 {
		return "none"
	}
	var words []string
	for _, pid := range pids {
		words = append(words, strconv.Itoa(pid))
	}
	return "processes " + strings.Join(words, ", ")
}

func outcomeText(r *Receipt) string {
	switch r.Outcome {
	case "STOPPED":
		return "is stopped"
	case "ALREADY_ENDED":
		return "had ended before"
	case "SURVIVORS":
		return "is over, but something of it is still alive"
	case "PENDING":
		return "is asked to end"
	}
	return strings.ToLower(clean(r.Outcome))
}
