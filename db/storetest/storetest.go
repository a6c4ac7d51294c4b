// Package storetest is the conformance suite of the store: what the engine, the
// stream and the API may rely on, as tests over any implementation.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
)

// Store is everything that the other parts use of a store.
type Store interface {
	engine.Store
	Sessions(ctx context.Context, f run.SessionFilter, p run.PageQuery) (run.Page[run.Session], error)
	Runs(ctx context.Context, f run.RunFilter, p run.PageQuery) (run.Page[run.Run], error)
	Children(ctx context.Context, id run.ID) ([]run.Run, error)
	InclusiveUsage(ctx context.Context, id run.ID) (run.Usage, error)
	Executions(ctx context.Context, id run.ID) ([]run.Execution, error)
	Artifacts(ctx context.Context, id run.ID) ([]run.Artifact, error)
	Events(ctx context.Context, q run.EventQuery) (run.EventPage, error)
	Metrics(ctx context.Context, id run.ID, q run.MetricQuery) ([]run.Series, error)
	UsageRecords(ctx context.Context, id run.ID) ([]run.UsageRecord, error)
	RecordPage(ctx context.Context, q run.RecordQuery) ([]run.UsageRecord, error)
	SessionUsage(ctx context.Context, id run.SessionID) (run.Usage, error)
	ActiveUsage(ctx context.Context) (run.UsageTotals, error)
	Snapshots(ctx context.Context, q run.SnapshotQuery) ([]run.UsageSnapshot, error)
	GroupRollups(ctx context.Context, q run.RollupQuery) ([]run.UsageRollup, error)
	Rollups(ctx context.Context, from, to time.Time) ([]run.UsageRollup, error)
	Fold(ctx context.Context) error
	Ping(ctx context.Context) error
	Close() error
}

// Listener is what a store tells its commits to.
type Listener interface {
	Committed(events []*run.Event, changed []run.ID)
}

// Subject is a store under test, on a fresh database.
type Subject struct {
	Store Store
	// Book is the store's price book.
	Book *Book
	// Listen adds a listener.
	Listen func(Listener)
	// Reopen closes the store and opens the same database again.
	Reopen func(t *testing.T) Store
	// Second opens the same database once more beside the first, and gives a way to
	// listen to it; nil where only one process may have it open.
	Second func(t *testing.T) (Store, func(Listener))
	// Fail makes the store call f before each statement of a writing transaction;
	// an error of f fails it. nil ends that.
	Fail func(f func(statement string) error)
	// Exec runs a statement on the database, past the store.
	Exec func(t *testing.T, query string)
	// RefuseStep13 makes the database refuse points with the step 13.
	RefuseStep13 func(t *testing.T)
	// Waiting is the number of changes that wait for the writer.
	Waiting func() int
	// Count runs a query that gives one number.
	Count func(t *testing.T, query string) int64
}

// Factory makes a subject.
type Factory func(t *testing.T) Subject

// Run runs the whole suite.
func Run(t *testing.T, open Factory) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, s Subject)
	}{
		{"Sessions", testSessions},
		{"SessionPages", testSessionPages},
		{"SessionFilters", testSessionFilters},
		{"Append", testAppend},
		{"AppendRefused", testAppendRefused},
		{"Payloads", testPayloads},
		{"LogPages", testLogPages},
		{"LogFilters", testLogFilters},
		{"LogBytes", testLogBytes},
		{"LogGap", testLogGap},
		{"BadQueries", testBadQueries},
		{"AcceptReject", testAcceptReject},
		{"AcceptQueue", testAcceptQueue},
		{"AcceptReplace", testAcceptReplace},
		{"AcceptChild", testAcceptChild},
		{"Idempotency", testIdempotency},
		{"IdempotencyRace", testIdempotencyRace},
		{"ReplaceRace", testReplaceRace},
		{"ClaimOrder", testClaimOrder},
		{"ClaimRace", testClaimRace},
		{"Successor", testSuccessor},
		{"SuccessorAborted", testSuccessorAborted},
		{"AbortLive", testAbortLive},
		{"AbortTree", testAbortTree},
		{"AbortQueued", testAbortQueued},
		{"AbortEnded", testAbortEnded},
		{"Answer", testAnswer},
		{"AnswerRace", testAnswerRace},
		{"DeleteSession", testDeleteSession},
		{"RunPages", testRunPages},
		{"RunFields", testRunFields},
		{"Owned", testOwned},
		{"Fenced", testFenced},
		{"StateRace", testStateRace},
		{"Executions", testExecutions},
		{"Artifacts", testArtifacts},
		{"Questions", testQuestions},
		{"UsageMerge", testUsageMerge},
		{"UsageSummed", testUsageSummed},
		{"UsageSums", testUsageSums},
		{"UsageByDifference", testUsageByDifference},
		{"UsageInclusive", testUsageInclusive},
		{"UsageSession", testUsageSession},
		{"UsageActive", testUsageActive},
		{"UsageRecordPages", testUsageRecordPages},
		{"PricePinned", testPricePinned},
		{"PriceAfterFailedCommit", testPriceAfterFailedCommit},
		{"SpentByAgent", testSpentByAgent},
		{"UsageEvents", testUsageEvents},
		{"Superseded", testSuperseded},
		{"Cumulative", testCumulative},
		{"CumulativeCost", testCumulativeCost},
		{"CumulativeRace", testCumulativeRace},
		{"CumulativeLock", testCumulativeLock},
		{"CumulativeBounds", testCumulativeBounds},
		{"UsageRefused", testUsageRefused},
		{"UsageOverflow", testUsageOverflow},
		{"Reprice", testReprice},
		{"RepricePages", testRepricePages},
		{"Conservation", testConservation},
		{"UnbilledContent", testUnbilledContent},
		{"Snapshots", testSnapshots},
		{"DueSnapshots", testDueSnapshots},
		{"ForgetSnapshots", testForgetSnapshots},
		{"Rollups", testRollups},
		{"RollupMarks", testRollupMarks},
		{"RollupGroups", testRollupGroups},
		{"RollupOverflow", testRollupOverflow},
		{"Metrics", testMetrics},
		{"MetricsNonFinite", testMetricsNonFinite},
		{"MetricsSteps", testMetricsSteps},
		{"MetricsModel", testMetricsModel},
		{"MetricsLevels", testMetricsLevels},
		{"MetricsTail", testMetricsTail},
		{"MetricsReopen", testMetricsReopen},
		{"MetricsBadPoint", testMetricsBadPoint},
		{"MetricsRefusedPoint", testMetricsRefusedPoint},
		{"MetricsDense", testMetricsDense},
		{"MetricsNames", testMetricsNames},
		{"GroupIsolation", testGroupIsolation},
		{"Concurrent", testConcurrent},
		{"TwoStores", testTwoStores},
		{"TwoStoresMetrics", testTwoStoresMetrics},
		{"FaultEachStatement", testFaultEachStatement},
		{"RetryEachStatement", testRetryEachStatement},
		{"CommitAnswerLost", testCommitAnswerLost},
		{"CallerGone", testCallerGone},
		{"Closed", testClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, open(t))
		})
	}
}

// recorder keeps what it is told.
type recorder struct {
	mu      sync.Mutex
	events  []*run.Event
	changed []run.ID
}

func (r *recorder) Committed(events []*run.Event, changed []run.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, events...)
	r.changed = append(r.changed, changed...)
}

func (r *recorder) of(session run.SessionID) []*run.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*run.Event
	for _, e := range r.events {
		if e.Session == session {
			out = append(out, e)
		}
	}
	return out
}

func (r *recorder) has(id run.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.changed {
		if c == id {
			return true
		}
	}
	return false
}

// must gives v, or ends the test.
func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code run.Code) {
	t.Helper()
	if err == nil || run.CodeOf(err) != code {
		t.Fatalf("the error is %v (%s), want %s", err, run.CodeOf(err), code)
	}
}

func wantIs(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("the error is %v, want %v", err, target)
	}
}

// poll waits until f gives nil: only where the store does something by itself.
func poll(t *testing.T, f func() error) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
}

// at is a moment that both databases can keep.
func at(seconds int) time.Time { return time.Date(2026, 11, 30, 12, 0, seconds, 123456000, time.UTC) }

// newSession makes a session and gives its id.
func newSession(t *testing.T, s Store) run.SessionID {
	t.Helper()
	id := run.NewSessionID()
	ok(t, s.CreateSession(context.Background(), run.Session{ID: id, Title: "a session", CreatedAt: at(0)}))
	return id
}

func newRun(session run.SessionID) run.Run {
	return run.Run{
		ID: run.NewID(), Session: session, Agent: "trainer", Team: "lab", Stage: "train", Driver: "script", Attempt: 1,
		Input: run.Input{Agent: "trainer", Prompt: "go"}, Definition: []byte(`{"name":"trainer"}`),
	}
}

// live accepts and claims a run in a session of its own.
func live(t *testing.T, s Store, owner string) run.Run {
	t.Helper()
	session := newSession(t, s)
	return liveIn(t, s, session, owner)
}

func liveIn(t *testing.T, s Store, session run.SessionID, owner string) run.Run {
	t.Helper()
	r := newRun(session)
	must[run.Acceptance](t)(s.Accept(context.Background(), run.NewRun{Run: r}))
	for _, c := range must[[]run.Run](t)(s.Claim(context.Background(), owner, 100)) {
		if c.ID == r.ID {
			return c
		}
	}
	t.Fatalf("run %s was not claimed", r.ID)
	return run.Run{}
}

func child(t *testing.T, s Store, parent run.Run) run.Run {
	t.Helper()
	r := newRun(parent.Session)
	r.Parent = parent.ID
	r.Owner, r.Token = parent.Owner, 1
	return must[run.Acceptance](t)(s.Accept(context.Background(), run.NewRun{Run: r})).Run
}

func fence(r run.Run) run.Fence { return run.Fence{Run: r.ID, Token: r.Token} }

func text(r run.Run, s string) run.Draft { return run.DraftOf(r, at(1), &run.Warning{Text: s}) }

func finish(t *testing.T, s Store, r run.Run) {
	t.Helper()
	to := run.State{Status: run.Done, Reason: run.Completed}
	must[[]*run.Event](t)(s.Append(context.Background(), run.Batch{
		Session: r.Session, Fence: fence(r),
		Drafts: []run.Draft{run.DraftOf(r, at(9), &run.RunEnded{Status: to.Status, ExitReason: to.Reason})},
		Update: &run.Update{Run: r.ID, From: []run.Status{run.Running}, To: &to, EndedAt: at(9)},
	}))
}

// whole reads a session's log by pages.
func whole(t *testing.T, s Store, session run.SessionID) []*run.Event {
	t.Helper()
	var out []*run.Event
	after := int64(0)
	for {
		p := must[run.EventPage](t)(s.Events(context.Background(), run.EventQuery{Session: session, After: after, First: 1000}))
		out = append(out, p.Events...)
		if !p.HasMore {
			return out
		}
		after = p.Scanned
	}
}

// checkLog fails unless the log is 1, 2, 3 ... without a gap, and gives it.
func checkLog(t *testing.T, s Store, session run.SessionID) []*run.Event {
	t.Helper()
	log := whole(t, s, session)
	for i, e := range log {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d of session %s has seq %d", i+1, session, e.Seq)
		}
	}
	sess := must[run.Session](t)(s.Session(context.Background(), session))
	if sess.LastSeq != int64(len(log)) {
		t.Fatalf("the session's last seq is %d, its log has %d events", sess.LastSeq, len(log))
	}
	return log
}

// same fails unless both lists hold the same events, byte for byte.
func same(t *testing.T, what string, got, want []*run.Event) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d events, want %d", what, len(got), len(want))
	}
	for i := range got {
		if g, w := show(got[i]), show(want[i]); g != w {
			t.Fatalf("%s: event %d is\n%s\nwant\n%s", what, i+1, g, w)
		}
	}
}

func show(e *run.Event) string {
	return fmt.Sprintf("%s %d %s %s run=%s agent=%s stage=%s %s", e.Session, e.Seq, e.At.Format(time.RFC3339Nano), e.Type, e.Run, e.Agent, e.Stage, e.Body)
}

func types(events []*run.Event) string {
	out := ""
	for i, e := range events {
		if i > 0 {
			out += " "
		}
		out += string(e.Type)
	}
	return out
}
