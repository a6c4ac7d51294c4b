package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"go.uber.org/goleak"

	"github.com/weirhq/weir/runtime/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	sesID = "ses_01jq0v6h3k8m5x2t9w4c7y1n6b"
	runA  = "run_01jq0v6h3k8m5x2t9w4c7y1n6c"
	runB  = "run_01jq0v6h3k8m5x2t9w4c7y1n6d"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 123456000, time.UTC)

// fake is everything the API stands on, in memory.
type fake struct {
	mu       sync.Mutex
	sessions map[run.SessionID]run.Session
	runs     map[run.ID]run.Run
	events   []*run.Event
	agents   []AgentInfo
	models   []ModelInfo
	err      error // what every call fails with

	started   []run.StartRequest
	messages  []run.MessageRequest
	aborts    []run.AbortOrder
	answers   []string
	eventAsk  run.EventQuery
	metricAsk run.MetricQuery
	pageAsk   run.PageQuery
	runsAsk   run.RunFilter
	receipt   run.Receipt
	live      bool
	series    []run.Series
	usage     run.Usage
	repriced  []run.Reprice
	records   []run.UsageRecord
	rollups   []run.UsageRollup
	budgets   []run.BudgetState

	recordAsk   run.RecordQuery
	snapshotAsk run.SnapshotQuery
	rollupAsk   run.RollupQuery

	execs     []run.Execution
	losses    map[run.ExecutionID]run.Loss
	outputs   map[string][]run.Output
	artifacts []run.Artifact
	questions []run.Question

	deleted []run.SessionID // what the followers were told

	follow func(ctx context.Context, after int64, send func([]*run.Event) error) error
}

func newFake() *fake {
	return &fake{
		sessions: map[run.SessionID]run.Session{sesID: {ID: sesID, Title: "one", CreatedAt: noon, LastSeq: 3, State: "train_running", ActiveRun: runA}},
		runs: map[run.ID]run.Run{
			runA: {ID: runA, Session: sesID, Agent: "trainer", Driver: "script", Stage: "train", State: run.State{Status: run.Running}, Attempt: 1, CreatedAt: noon},
			runB: {ID: runB, Session: sesID, Parent: runA, Agent: "helper", Driver: "replay", State: run.State{Status: run.Done, Reason: run.Completed}, Attempt: 1, CreatedAt: noon},
		},
	}
}

func setup(t *testing.T, f *fake) *API {
	t.Helper()
	return New(Options{Runs: f, Reader: f, Feed: f, Agents: f, Server: f, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

func lookup[K comparable, V any](f *fake, m map[K]V, kind string, id K) (V, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := m[id]
	if f.err != nil {
		return v, f.err
	}
	if !ok {
		return v, run.Errorf(run.NotFound, "there is no %s %v", kind, id)
	}
	return v, nil
}

func (f *fake) Session(_ context.Context, id run.SessionID) (run.Session, error) {
	return lookup(f, f.sessions, "session", id)
}

func (f *fake) Run(_ context.Context, id run.ID) (run.Run, error) {
	return lookup(f, f.runs, "run", id)
}

func (f *fake) Sessions(_ context.Context, _ run.SessionFilter, p run.PageQuery) (run.Page[run.Session], error) {
	f.pageAsk = p
	return run.Page[run.Session]{Nodes: []run.Session{f.sessions[sesID]}, End: sesID, HasMore: true}, f.err
}

func (f *fake) Runs(_ context.Context, filter run.RunFilter, p run.PageQuery) (run.Page[run.Run], error) {
	f.pageAsk, f.runsAsk = p, filter
	return run.Page[run.Run]{Nodes: []run.Run{f.runs[runA]}, End: runA}, f.err
}

func (f *fake) Children(context.Context, run.ID) ([]run.Run, error) {
	return []run.Run{f.runs[runB]}, f.err
}

func (f *fake) InclusiveUsage(context.Context, run.ID) (run.Usage, error) {
	return f.usage, f.err
}

func (f *fake) Budgets(context.Context) ([]run.BudgetState, error) { return f.budgets, f.err }

func (f *fake) SessionUsage(context.Context, run.SessionID) (run.Usage, error) { return f.usage, f.err }

func (f *fake) RecordPage(_ context.Context, q run.RecordQuery) ([]run.UsageRecord, error) {
	f.recordAsk = q
	return f.records, f.err
}

func (f *fake) Snapshots(_ context.Context, q run.SnapshotQuery) ([]run.UsageSnapshot, error) {
	f.snapshotAsk = q
	return []run.UsageSnapshot{{Run: runA, At: noon, Usage: f.usage}}, f.err
}

func (f *fake) GroupRollups(_ context.Context, q run.RollupQuery) ([]run.UsageRollup, error) {
	f.rollupAsk = q
	return f.rollups, f.err
}

func (f *fake) FollowUsage(ctx context.Context, send func(run.UsageTotals) error) error {
	if f.err != nil {
		return f.err
	}
	for n := range int64(2) {
		if err := send(run.UsageTotals{At: noon, Runs: n + 1, Usage: f.usage}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fake) Executions(context.Context, run.ID) ([]run.Execution, error) { return f.execs, f.err }

func (f *fake) Losses(run.ID) map[run.ExecutionID]run.Loss { return f.losses }

func (f *fake) Outputs(s run.SessionID, x run.ExecutionID) ([]run.Output, error) {
	return f.outputs[string(s)+"/"+string(x)], f.err
}

func (f *fake) Artifacts(context.Context, run.ID) ([]run.Artifact, error) { return f.artifacts, f.err }

func (f *fake) Questions(context.Context, run.ID) ([]run.Question, error) { return f.questions, f.err }

func (f *fake) Events(_ context.Context, q run.EventQuery) (run.EventPage, error) {
	f.eventAsk = q
	return run.EventPage{Events: f.events, LastSeq: int64(len(f.events))}, f.err
}

func (f *fake) Metrics(_ context.Context, _ run.ID, q run.MetricQuery) ([]run.Series, error) {
	f.metricAsk = q
	return f.series, f.err
}

func (f *fake) Follow(ctx context.Context, _ run.SessionID, after int64, _ run.EventFilter, send func([]*run.Event) error) error {
	if f.follow != nil {
		return f.follow(ctx, after, send)
	}
	if err := send(f.events); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fake) FollowRuns(ctx context.Context, _ run.RunFilter, send func(run.Run) error) error {
	if err := send(f.runs[runA]); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fake) Deleted(id run.SessionID) { f.deleted = append(f.deleted, id) }

func (f *fake) Agents(context.Context) []AgentInfo { return f.agents }

func (f *fake) Info(context.Context) ServerInfo {
	return ServerInfo{Version: "1", Replica: "r", Store: "sqlite", Sandboxes: []SandboxInfo{{Backend: "local", Reason: "bubblewrap is missing"}}, Prices: PriceInfo{Files: []string{"prices.yaml"}, Rows: 2, Models: 1, Newest: "2026-11-19"}}
}

func (f *fake) Models(context.Context) []ModelInfo { return f.models }

func (f *fake) CreateSession(_ context.Context, title string) (run.Session, error) {
	return run.Session{ID: sesID, Title: title, CreatedAt: noon}, f.err
}
func (f *fake) DeleteSession(context.Context, run.SessionID) error { return f.err }
func (f *fake) Start(_ context.Context, r run.StartRequest) (run.Run, error) {
	f.started = append(f.started, r)
	return f.runs[runA], f.err
}

func (f *fake) Message(_ context.Context, r run.MessageRequest) (run.Run, error) {
	f.messages = append(f.messages, r)
	return f.runs[runA], f.err
}

func (f *fake) Abort(_ context.Context, o run.AbortOrder) (run.Receipt, bool, error) {
	f.aborts = append(f.aborts, o)
	return f.receipt, f.live, f.err
}

func (f *fake) Reprice(_ context.Context, r run.Reprice) ([]run.RepriceLine, error) {
	f.repriced = append(f.repriced, r)
	old, now := int64(7), int64(1<<60)
	return []run.RepriceLine{
		{Day: noon.Truncate(24 * time.Hour), Model: "m", Records: 3, Changed: 2, OldNanoUSD: &old, NewNanoUSD: &now, OldUnknown: 1},
		{Day: noon.Truncate(24 * time.Hour), Model: "n", Records: 1, NewUnknown: 1, OldUnknown: 1},
	}, f.err
}

func (f *fake) Answer(_ context.Context, id string, answer json.RawMessage) (run.Question, error) {
	f.answers = append(f.answers, string(answer))
	return run.Question{ID: id, Run: runA, AskedAt: noon, State: run.QuestionIsAnswered, Answer: answer}, f.err
}

// response is what a client gets.
type response struct {
	Data   json.RawMessage
	Errors []responseError
}

type responseError struct {
	Message    string
	Path       []any
	Extensions struct{ Code string }
}

// do runs a query or a mutation.
func do(t *testing.T, api *API, query string, vars map[string]any) response {
	t.Helper()
	stream := open(t.Context(), t, api, query, vars)
	return stream(t)
}

// open starts an operation; the function gives its next response.
func open(ctx context.Context, t *testing.T, api *API, query string, vars map[string]any) func(t *testing.T) response {
	t.Helper()
	exec := api.Executor()
	ctx = graphql.StartOperationTrace(ctx)
	op, errs := exec.CreateOperationContext(ctx, &graphql.RawParams{Query: query, Variables: vars})
	var next graphql.ResponseHandler
	if errs != nil {
		next = graphql.OneShot(exec.DispatchError(graphql.WithOperationContext(ctx, op), errs))
	} else {
		next, ctx = exec.DispatchOperation(ctx, op)
	}
	return func(t *testing.T) response {
		t.Helper()
		r := next(ctx)
		if r == nil {
			return response{}
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("the response is not JSON: %v: %s", err, r.Data)
		}
		var out response
		if err := json.Unmarshal(b, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// data asks for an answer without errors.
func data(t *testing.T, r response) string {
	t.Helper()
	if len(r.Errors) > 0 {
		t.Fatalf("unexpected errors: %+v", r.Errors)
	}
	return string(r.Data)
}

// refused asks for one error with the code; its message is returned.
func refused(t *testing.T, r response, code run.Code) string {
	t.Helper()
	if len(r.Errors) != 1 {
		t.Fatalf("got %d errors, want 1: %+v, data %s", len(r.Errors), r.Errors, r.Data)
	}
	if got := r.Errors[0].Extensions.Code; got != string(code) {
		t.Fatalf("got code %q, want %q: %s", got, code, r.Errors[0].Message)
	}
	return r.Errors[0].Message
}

func event(seq int64, p run.Payload) *run.Event {
	body, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", p, err))
	}
	return &run.Event{Session: sesID, Seq: seq, At: noon, Type: p.Type(), Run: runA, Agent: "trainer", Stage: "train", Body: body}
}

var errBoom = errors.New("disk on fire at /secret/place")
