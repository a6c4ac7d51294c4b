package engine

import (
	"context"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// Store keeps what the engine does. Every writing method is one transaction;
// what it appended to a log is published to readers after the commit and
// before the method returns. A failed method wrote nothing. Errors that a user
// should see are *run.Error; run.ErrFenced and run.ErrState are conditions.
// Methods are safe for concurrent use, also by several processes.
type Store interface {
	// CreateSession inserts an empty session.
	CreateSession(ctx context.Context, s run.Session) error
	// Accept takes a new run in: see NewRun.
	Accept(ctx context.Context, n NewRun) (Acceptance, error)
	// Claim moves up to n queued root runs, oldest first, to RUNNING under a new
	// token, skipping sessions whose slot is taken and all but the oldest queued
	// run of a session. It appends RunStarted for each.
	Claim(ctx context.Context, owner string, n int) ([]run.Run, error)
	// RequestAbort writes the durable intent to stop a run and its open
	// descendants. A run that is still queued is closed in the same transaction.
	RequestAbort(ctx context.Context, a AbortRequest) (AbortResult, error)
	// Append commits a batch and gives back its events, numbered.
	Append(ctx context.Context, b run.Batch) ([]*run.Event, error)
	// Answer closes an open question; run.Conflict when it is not open any more.
	Answer(ctx context.Context, id string, answer []byte) (run.Question, error)
	// DeleteSession removes a session's events, points and content, keeps its run
	// rows and usage records, and is Busy while a run is open.
	DeleteSession(ctx context.Context, id run.SessionID) error

	Session(ctx context.Context, id run.SessionID) (run.Session, error)
	Run(ctx context.Context, id run.ID) (run.Run, error)
	// Owned gives the live runs of a replica, children before parents: what a
	// crash of this replica left open.
	Owned(ctx context.Context, owner string) ([]run.Run, error)
	// Questions gives a run's questions, oldest first.
	Questions(ctx context.Context, id run.ID) ([]run.Question, error)
	// Artifacts gives the newest artifact per path of a session.
	SessionArtifacts(ctx context.Context, id run.SessionID) ([]run.Artifact, error)
}

// NewRun is a run to take in. In one transaction the store
//   - answers a known idempotency key with the earlier run (Conflict if the hash differs),
//   - inserts NewSession if given,
//   - applies OnBusy to the session's slot. BUSY means that a root run is open.
//     REPLACE closes the queued ones (CANCELLED REPLACED, with RunEnded) and writes
//     a silent abort intent with trigger Replace for the live one and its descendants,
//   - inserts the run: QUEUED for a root run; RUNNING, owned and with RunStarted
//     appended for a child, whose parent must be live and not asked to abort (ErrState).
type NewRun struct {
	Run            run.Run
	NewSession     *run.Session
	OnBusy         run.OnBusy
	IdempotencyKey string // unique per team; "" for none
	PayloadHash    string
}

// Acceptance is what became of a NewRun.
type Acceptance struct {
	Run      run.Run
	Repeated bool      // the key was known; Run is the earlier run
	Stopping []run.Run // live runs that were asked to stop for this one
}

// AbortRequest asks for the end of a run.
type AbortRequest struct {
	Run     run.ID
	Silent  bool // no AbortRequested event, no AgentAborted, no StateChanged
	Reason  string
	Trigger run.Trigger // Abort, Replace or OverBudget
	At      time.Time
}

// AbortResult is what an AbortRequest found.
type AbortResult struct {
	Run   run.Run   // as it is now, receipt included
	Ended bool      // it had ended before; nothing was written
	Open  []run.Run // the live runs that now carry the intent, the run itself included
}
