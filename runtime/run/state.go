package run

import "fmt"

// Status is where a run stands.
type Status string

// The statuses. QUEUED, RUNNING and WAITING are open; the others are final.
const (
	Queued    Status = "QUEUED"    // accepted, waiting for the session's slot and for capacity
	Running   Status = "RUNNING"   // owned by a replica, its driver at work
	Waiting   Status = "WAITING"   // a question or an approval is open
	Done      Status = "DONE"      // ended by success
	Failed    Status = "FAILED"    // ended by an error, a crash or a lost server
	TimedOut  Status = "TIMED_OUT" // ended by a deadline
	Cancelled Status = "CANCELLED" // ended from outside
)

// Statuses lists every status once.
func Statuses() []Status {
	return []Status{Queued, Running, Waiting, Done, Failed, TimedOut, Cancelled}
}

// Final tells whether no transition leaves s.
func (s Status) Final() bool { return s != Queued && s != Running && s != Waiting && s != "" }

// Live tells whether a replica owns the run.
func (s Status) Live() bool { return s == Running || s == Waiting }

// ExitReason says why a run ended.
type ExitReason string

// The exit reasons; NoReason stands for an open run.
const (
	NoReason       ExitReason = ""
	Completed      ExitReason = "COMPLETED"
	ExitError      ExitReason = "ERROR"
	Crashed        ExitReason = "CRASHED"
	Lost           ExitReason = "LOST" // the server died while the run was live
	Timeout        ExitReason = "TIMEOUT"
	Aborted        ExitReason = "ABORTED"
	ReplacedReason ExitReason = "REPLACED"
	BudgetReason   ExitReason = "BUDGET"
	Shutdown       ExitReason = "SHUTDOWN"
)

// State is a status with its exit reason. Only the pairs that Next produces exist.
type State struct {
	Status Status
	Reason ExitReason
}

// Trigger is something that happens to a run.
type Trigger string

// The triggers.
const (
	Claim      Trigger = "claim"    // a replica takes the run
	Ask        Trigger = "ask"      // the run opens a question
	Resume     Trigger = "resume"   // the last open question is answered or expired
	Complete   Trigger = "complete" // the driver returned a result
	Fail       Trigger = "fail"     // the driver returned an error
	Crash      Trigger = "crash"    // a service agent's container ended by itself, non-zero
	Lose       Trigger = "lose"     // the server that owned the run died
	Expire     Trigger = "expire"   // a deadline passed
	Abort      Trigger = "abort"
	Replace    Trigger = "replace"     // a follow-up took the slot
	OverBudget Trigger = "over_budget" // a budget with action abort was used up
	ShutDown   Trigger = "shut_down"   // the server stops in good order
)

// Triggers lists every trigger once.
func Triggers() []Trigger {
	return []Trigger{Claim, Ask, Resume, Complete, Fail, Crash, Lose, Expire, Abort, Replace, OverBudget, ShutDown}
}

// Next is the whole life of a run as a pure function:
//
//	QUEUED -> RUNNING <-> WAITING
//	RUNNING -> DONE | FAILED | TIMED_OUT | CANCELLED
//	QUEUED, WAITING -> CANCELLED; WAITING -> FAILED | TIMED_OUT
//
// A final state has no way out, so whoever ends a run first wins.
func Next(s State, t Trigger) (State, error) {
	switch s.Status {
	case Queued:
		switch t {
		case Claim:
			return State{Running, NoReason}, nil
		case Abort, Replace:
			return ended(t), nil
		default:
		}
	case Running:
		switch t {
		case Ask:
			return State{Waiting, NoReason}, nil
		case Complete, Fail, Crash, Lose, Expire, Abort, Replace, OverBudget, ShutDown:
			return ended(t), nil
		default:
		}
	case Waiting:
		switch t {
		case Resume:
			return State{Running, NoReason}, nil
		case Fail, Lose, Expire, Abort, Replace, OverBudget, ShutDown:
			return ended(t), nil
		default:
		}
	case Done, Failed, TimedOut, Cancelled:
	}
	return s, &TransitionError{From: s, Trigger: t}
}

func ended(t Trigger) State {
	switch t {
	case Complete:
		return State{Done, Completed}
	case Fail:
		return State{Failed, ExitError}
	case Crash:
		return State{Failed, Crashed}
	case Lose:
		return State{Failed, Lost}
	case Expire:
		return State{TimedOut, Timeout}
	case Abort:
		return State{Cancelled, Aborted}
	case Replace:
		return State{Cancelled, ReplacedReason}
	case OverBudget:
		return State{Cancelled, BudgetReason}
	case ShutDown:
		return State{Cancelled, Shutdown}
	case Claim, Ask, Resume:
	}
	panic("run: " + string(t) + " ends nothing")
}

// TransitionError reports a trigger that its state does not know.
type TransitionError struct {
	From    State
	Trigger Trigger
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("a %s run has no transition for %q", e.From.Status, e.Trigger)
}
