package run_test

import (
	"errors"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

// TestNext walks every pair of status and trigger: what is not in the table
// must be refused.
func TestNext(t *testing.T) {
	t.Parallel()
	st := func(s run.Status, r run.ExitReason) run.State { return run.State{Status: s, Reason: r} }
	legal := map[run.Status]map[run.Trigger]run.State{
		run.Queued: {
			run.Claim:   st(run.Running, run.NoReason),
			run.Abort:   st(run.Cancelled, run.Aborted),
			run.Replace: st(run.Cancelled, run.ReplacedReason),
		},
		run.Running: {
			run.Ask:        st(run.Waiting, run.NoReason),
			run.Complete:   st(run.Done, run.Completed),
			run.Fail:       st(run.Failed, run.ExitError),
			run.Crash:      st(run.Failed, run.Crashed),
			run.Lose:       st(run.Failed, run.Lost),
			run.Expire:     st(run.TimedOut, run.Timeout),
			run.Abort:      st(run.Cancelled, run.Aborted),
			run.Replace:    st(run.Cancelled, run.ReplacedReason),
			run.OverBudget: st(run.Cancelled, run.BudgetReason),
			run.ShutDown:   st(run.Cancelled, run.Shutdown),
		},
		run.Waiting: {
			run.Resume:     st(run.Running, run.NoReason),
			run.Fail:       st(run.Failed, run.ExitError),
			run.Lose:       st(run.Failed, run.Lost),
			run.Expire:     st(run.TimedOut, run.Timeout),
			run.Abort:      st(run.Cancelled, run.Aborted),
			run.Replace:    st(run.Cancelled, run.ReplacedReason),
			run.OverBudget: st(run.Cancelled, run.BudgetReason),
			run.ShutDown:   st(run.Cancelled, run.Shutdown),
		},
	}
	for _, from := range run.Statuses() {
		for _, trigger := range run.Triggers() {
			before := run.State{Status: from}
			got, err := run.Next(before, trigger)
			want, ok := legal[from][trigger]
			if ok {
				if err != nil || got != want {
					t.Errorf("%s, %s: got %v, %v; want %v", from, trigger, got, err, want)
				}
				continue
			}
			var refused *run.TransitionError
			if !errors.As(err, &refused) || refused.From != before || refused.Trigger != trigger {
				t.Errorf("%s, %s: got error %v, want a TransitionError naming both", from, trigger, err)
			}
			if got != before {
				t.Errorf("%s, %s: a refused trigger moved the state to %v", from, trigger, got)
			}
		}
	}
}

// TestEndPairs checks that only the pairs of status and exit reason exist that
// the design lists, and that no final state has a way out.
func TestEndPairs(t *testing.T) {
	t.Parallel()
	pairs := map[run.State]bool{
		{Status: run.Done, Reason: run.Completed}:           false,
		{Status: run.Failed, Reason: run.ExitError}:         false,
		{Status: run.Failed, Reason: run.Crashed}:           false,
		{Status: run.Failed, Reason: run.Lost}:              false,
		{Status: run.TimedOut, Reason: run.Timeout}:         false,
		{Status: run.Cancelled, Reason: run.Aborted}:        false,
		{Status: run.Cancelled, Reason: run.ReplacedReason}: false,
		{Status: run.Cancelled, Reason: run.BudgetReason}:   false,
		{Status: run.Cancelled, Reason: run.Shutdown}:       false,
	}
	seen := map[run.State]bool{}
	var walk func(run.State)
	walk = func(s run.State) {
		if seen[s] {
			return
		}
		seen[s] = true
		out := 0
		for _, trigger := range run.Triggers() {
			if next, err := run.Next(s, trigger); err == nil {
				out++
				walk(next)
			}
		}
		if !s.Status.Final() {
			if s.Reason != run.NoReason {
				t.Errorf("the open state %v has an exit reason", s)
			}
			return
		}
		if out != 0 {
			t.Errorf("the final state %v has a way out", s)
		}
		if _, ok := pairs[s]; !ok {
			t.Errorf("the pair %v may not exist", s)
		}
		pairs[s] = true
	}
	walk(run.State{Status: run.Queued})
	for pair, reached := range pairs {
		if !reached {
			t.Errorf("no way leads from QUEUED to %v", pair)
		}
	}
}

func TestStatusSets(t *testing.T) {
	t.Parallel()
	for _, s := range run.Statuses() {
		open := s == run.Queued || s == run.Running || s == run.Waiting
		if s.Final() == open {
			t.Errorf("%s: Final is %v", s, s.Final())
		}
		if live := s == run.Running || s == run.Waiting; s.Live() != live {
			t.Errorf("%s: Live is %v", s, s.Live())
		}
	}
	if run.Status("").Final() || run.Status("").Live() {
		t.Error("no status at all is neither final nor live")
	}
}
