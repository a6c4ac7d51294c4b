package engine

import (
	"errors"
	"fmt"

	"github.com/weirhq/weir/runtime/run"
)

// Why a run's context ended. translate is the one place that reads them.
var (
	errShutdown = errors.New("the server is shutting down")
	errFenced   = errors.New("another replica has taken the run over")
	errReleased = errors.New("the run has ended")
	errTooSlow  = errors.New("no answer in time")
)

// stopped is the cause of an abort, whoever asked for it.
type stopped struct {
	trigger run.Trigger // Abort, Replace or OverBudget
	silent  bool
	reason  string
}

func (s *stopped) Error() string {
	what := "the run was aborted"
	switch s.trigger {
	case run.Replace:
		what = "the run was replaced"
	case run.OverBudget:
		what = "the run was over its budget"
	default:
	}
	if s.reason != "" {
		return what + ": " + s.reason
	}
	return what
}

// stopOf makes the cause from the durable intent.
func stopOf(r *run.Receipt) *stopped {
	if r == nil {
		return &stopped{trigger: run.Abort}
	}
	s := &stopped{trigger: r.Trigger, silent: r.Silent, reason: r.Reason}
	if s.trigger == "" {
		s.trigger = run.Abort
	}
	return s
}

// deadlinePassed is the cause when the run's own time is up.
type deadlinePassed struct{ seconds float64 }

func (d *deadlinePassed) Error() string {
	return fmt.Sprintf("the run's timeout of %g s passed; raise it (timeoutSeconds, weir run --timeout), or let the run do less", d.seconds)
}
