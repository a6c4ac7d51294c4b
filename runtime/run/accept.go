package run

import "time"

// NewRun is a run to take in. In one transaction the store
//   - answers a known idempotency key with the earlier run (Conflict if the hash differs),
//   - inserts NewSession if given,
//   - applies OnBusy to the session's slot. BUSY means that a root run is open.
//     REPLACE closes the queued ones (CANCELLED REPLACED, with RunEnded) and writes
//     a silent abort intent with trigger Replace for the live one and its descendants,
//   - inserts the run: QUEUED for a root run; RUNNING, owned and with RunStarted
//     appended for a child, whose parent must be live and not asked to abort (ErrState).
type NewRun struct {
	Run            Run
	NewSession     *Session
	OnBusy         OnBusy
	IdempotencyKey string // unique per team; "" for none
	PayloadHash    string
}

// Acceptance is what became of a NewRun.
type Acceptance struct {
	Run      Run
	Repeated bool  // the key was known; Run is the earlier run
	Stopping []Run // live runs that were asked to stop for this one
}

// AbortRequest asks for the end of a run.
type AbortRequest struct {
	Run     ID
	Silent  bool // no AbortRequested event, no AgentAborted, no StateChanged
	Reason  string
	Trigger Trigger // Abort, Replace or OverBudget
	At      time.Time
}

// AbortResult is what an AbortRequest found.
type AbortResult struct {
	Run   Run   // as it is now, receipt included
	Ended bool  // it had ended before; nothing was written
	Open  []Run // the live runs that now carry the intent, the run itself included
}
