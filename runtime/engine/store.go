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
	// Reprice prices usage records again, in several transactions.
	Reprice(ctx context.Context, r run.Reprice) ([]run.RepriceLine, error)

	// DueSnapshots gives what the snapshots of a replica's live runs would hold at
	// a moment, without runs that have used nothing or nothing new.
	DueSnapshots(ctx context.Context, owner string, at time.Time) ([]run.UsageSnapshot, error)
	// AddSnapshots stores snapshots; the same ones twice are there once.
	AddSnapshots(ctx context.Context, snapshots []run.UsageSnapshot) error
	// ForgetSnapshots removes those from before a moment, but for the last one of each
	// run. It looks at a limited number behind a mark, and gives the one to go on from:
	// the zero mark when it has looked at all.
	ForgetSnapshots(ctx context.Context, before time.Time, from run.SnapshotMark) (run.SnapshotMark, error)
	// SweepRollups brings the marked rollups up to date and gives their number. To
	// do it twice, or on two replicas at once, is harmless.
	SweepRollups(ctx context.Context) (int, error)
	// MarkRollups makes the next sweep compute everything from a day on again.
	MarkRollups(ctx context.Context, from time.Time) error

	Session(ctx context.Context, id run.SessionID) (run.Session, error)
	Run(ctx context.Context, id run.ID) (run.Run, error)
	// Owned gives the live runs of a replica, children before parents: what a
	// crash of this replica left open.
	Owned(ctx context.Context, owner string) ([]run.Run, error)
	// Runs gives a page of runs, newest first.
	Runs(ctx context.Context, f run.RunFilter, p run.PageQuery) (run.Page[run.Run], error)
	// InclusiveUsage sums up a run and everything it delegated to.
	InclusiveUsage(ctx context.Context, id run.ID) (run.Usage, error)
	// SessionUsage sums up all runs of a session.
	SessionUsage(ctx context.Context, id run.SessionID) (run.Usage, error)
	// SpentByAgent sums up the records whose request was in [from, to), by the agent of their runs.
	SpentByAgent(ctx context.Context, from, to time.Time) (map[string]run.Spent, error)
	// Executions gives a run's executions, oldest first.
	Executions(ctx context.Context, id run.ID) ([]run.Execution, error)
	// SessionOf gives the session of an execution.
	SessionOf(ctx context.Context, id run.ExecutionID) (run.SessionID, error)
	// Events gives a page of a session's log.
	Events(ctx context.Context, q run.EventQuery) (run.EventPage, error)
	// Questions gives a run's questions, oldest first.
	Questions(ctx context.Context, id run.ID) ([]run.Question, error)
	// SessionArtifacts gives the newest artifact per path of a session.
	SessionArtifacts(ctx context.Context, id run.SessionID) ([]run.Artifact, error)
}

// What a store takes and gives; the types are run's so that a store needs to
// know nothing of the engine.
type (
	NewRun       = run.NewRun
	Acceptance   = run.Acceptance
	AbortRequest = run.AbortRequest
	AbortResult  = run.AbortResult
)
