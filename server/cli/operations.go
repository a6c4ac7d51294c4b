package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// Run is a run as the API shows it.
type Run struct {
	// Raw is the run as the server sent it, with the API's field names.
	Raw json.RawMessage `json:"-"`

	ID      string
	Session struct{ ID string }
	Parent  *struct{ ID string }

	Agent, Stage, Driver, Model string
	Status                      run.Status
	ExitReason                  run.ExitReason
	Attempt                     int
	CreatedAt                   time.Time
	StartedAt, EndedAt          *time.Time
	Error, Result               string
	Input                       Input
	Labels, Config              json.RawMessage
	Usage, UsageInclusive       Usage

	// Only of Run.
	Children   []struct{ ID, Agent, Status string }
	Executions []Execution
	Artifacts  []File
	Questions  []Question
	Abort      *Receipt
	Metrics    []Series
}

// Series is a curve, folded into one bucket.
type Series struct {
	Name, RunTag string
	Buckets      []struct {
		Min, Max, Last *float64
	}
}

// Input is what a run was asked to do.
type Input struct {
	Prompt, Code, Model string
	Command             []string
	TimeoutSeconds      *float64
	Sandbox, Budget     json.RawMessage
}

// Execution is one command of a run.
type Execution struct {
	ID, Backend, Isolation, Signal string
	Command                        []string
	ExitClass                      run.ExitClass
	ExitCode                       *int
	Seconds                        *float64
	IsError                        bool
	Outputs                        []struct {
		Stream, URL string
		Bytes       Long
	}
	Loss Loss
}

// Question is what a run asks a person.
type Question struct {
	ID, Text, State string
	Schema, Answer  json.RawMessage
}

// Receipt proves what an abort did.
type Receipt struct {
	Raw json.RawMessage `json:"-"`

	RunID                                                  string
	RequestedAt, SignalledAt, ProcessGoneAt, SandboxGoneAt *time.Time
	Survivors                                              []int
	Outcome                                                string
}

// Session is a session as the API shows it.
type Session struct {
	Raw json.RawMessage `json:"-"`

	ID, Title, State string
	CreatedAt        time.Time
	LastSeq          Long
	ActiveRun        *struct{ ID, Agent, Status string }
}

// Agent is an agent definition.
type Agent struct {
	Raw json.RawMessage `json:"-"`

	Name, Team, Role, Driver, Provider, Model, Stage, Problem string
}

// Page is a page of a list, and where the next one begins.
type Page[T any] struct {
	Nodes     []T
	EndCursor string
	HasMore   bool
}

const (
	runFields = `id session { id } parent { id } agent team stage driver provider model status exitReason attempt restartOf
createdAt startedAt endedAt error result labels config usage { ` + usageFields + ` }
input { agent prompt stage model code command timeoutSeconds sandbox budget { usd tokens action } }`
	receiptFields = `runId requestedAt signalledAt processGoneAt sandboxGoneAt survivors outcome`
	runMore       = `usageInclusive { ` + usageFields + ` } children { id agent status }
executions { id backend isolation command exitClass exitCode signal seconds gpu isError startedAt endedAt outputs { stream bytes url } loss { ` + lossFields + ` } }
artifacts { path kind size sha256 modifiedAt }
questions { id text schema askedAt answeredAt state answer }
abort { ` + receiptFields + ` }
metrics(maxPoints: 1) { name runTag buckets { fromStep toStep count min max last nan positiveInfinity negativeInfinity } }`
	sessionFields = `id title createdAt lastSeq state activeRun { id agent status }`

	runText      = `query Run($id: ID!) { run(id: $id) { ` + runFields + ` ` + runMore + ` } }`
	runsText     = `query Runs($first: Int, $after: String, $filter: RunFilter) { runs(first: $first, after: $after, filter: $filter) { nodes { ` + runFields + ` } endCursor hasMore } }`
	sessionText  = `query Session($id: ID!) { session(id: $id) { ` + sessionFields + ` } }`
	sessionsText = `query Sessions($first: Int, $after: String, $filter: SessionFilter) { sessions(first: $first, after: $after, filter: $filter) { nodes { ` + sessionFields + ` } endCursor hasMore } }`
	agentsText   = `query Agents { agents { name team role driver provider model stage problem } }`
	rollupsText  = `query Usage($from: Date!, $to: Date!, $by: [UsageDimension!]!, $filter: UsageFilter) {
usageRollups(from: $from, to: $to, groupBy: $by, filter: $filter) { day agent team model provider backend runs usage { ` + usageFields + ` } } }`
	eventsText = `query Events($s: ID!, $after: Long, $types: [EventType!], $run: ID, $first: Int) {
events(sessionId: $s, after: $after, types: $types, runId: $run, first: $first) { nodes { ` + eventFields + ` } lastSeq hasMore } }`
	abortText = `mutation Abort($id: ID!, $silent: Boolean, $wait: Boolean, $reason: String) {
abortRun(id: $id, silent: $silent, wait: $wait, reason: $reason) { ` + receiptFields + ` } }`
	repriceText = `mutation Reprice($input: RepriceUsageInput!) { repriceUsage(input: $input) {
applied lines { day model records changed oldNanoUsd newNanoUsd oldUnpriced newUnpriced } } }`
	startText = `mutation Start($input: StartRunInput!) { startRun(input: $input) { ` + runFields + ` } }`
)

// operations are the documents that this package sends, for the test that holds
// them against the schema.
func operations() []string {
	return []string{
		followText, runText, runsText, sessionText, sessionsText, agentsText, rollupsText, eventsText, abortText, startText, repriceText,
	}
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Run) UnmarshalJSON(b []byte) error {
	type fields Run
	return keep(b, (*fields)(r), &r.Raw)
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Receipt) UnmarshalJSON(b []byte) error {
	type fields Receipt
	return keep(b, (*fields)(r), &r.Raw)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Session) UnmarshalJSON(b []byte) error {
	type fields Session
	return keep(b, (*fields)(s), &s.Raw)
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Agent) UnmarshalJSON(b []byte) error {
	type fields Agent
	return keep(b, (*fields)(a), &a.Raw)
}

// keep decodes b and keeps its bytes, so that --json can print what was sent.
func keep(b []byte, fields any, raw *json.RawMessage) error {
	if err := json.Unmarshal(b, fields); err != nil {
		return err
	}
	*raw = append(json.RawMessage(nil), b...)
	return nil
}

// Run reads a run; NOT_FOUND names the id.
func (c *Client) Run(ctx context.Context, id string) (*Run, error) {
	var out struct{ Run *Run }
	if err := c.Do(ctx, runText, map[string]any{"id": id}, &out); err != nil {
		return nil, err
	}
	if out.Run == nil {
		return nil, run.Errorf(run.NotFound, "there is no run %s at %s; weir runs lists them", clean(id), c.URL())
	}
	return out.Run, nil
}

// Session reads a session; NOT_FOUND names the id.
func (c *Client) Session(ctx context.Context, id string) (*Session, error) {
	var out struct{ Session *Session }
	if err := c.Do(ctx, sessionText, map[string]any{"id": id}, &out); err != nil {
		return nil, err
	}
	if out.Session == nil {
		return nil, run.Errorf(run.NotFound, "there is no session %s at %s; weir sessions lists them", clean(id), c.URL())
	}
	return out.Session, nil
}

// Start starts a run. The input is a StartRunInput; it should carry an
// idempotencyKey, so that it can be sent again when the answer is lost.
func (c *Client) Start(ctx context.Context, input map[string]any) (*Run, error) {
	var out struct{ StartRun *Run }
	if err := c.Do(ctx, startText, map[string]any{"input": input}, &out); err != nil {
		return nil, err
	}
	if out.StartRun == nil {
		return nil, c.otherForm(errNothing)
	}
	return out.StartRun, nil
}

// AbortOrder is what an abort may say.
type AbortOrder struct {
	Run    string
	Silent bool // write no event but RunEnded
	Wait   bool // answer when it is over
	Reason string
}

// Abort asks for the end of a run. To ask again is harmless.
func (c *Client) Abort(ctx context.Context, o AbortOrder) (*Receipt, error) {
	v := map[string]any{"id": o.Run, "silent": o.Silent, "wait": o.Wait}
	if o.Reason != "" {
		v["reason"] = o.Reason
	}
	var out struct{ AbortRun *Receipt }
	if err := c.Do(ctx, abortText, v, &out); err != nil {
		return nil, err
	}
	if out.AbortRun == nil {
		return nil, c.otherForm(errNothing)
	}
	return out.AbortRun, nil
}

// EventPage is a page of a session's log.
type EventPage struct {
	Nodes   []*Event
	LastSeq Long
	HasMore bool
}

// Events reads a page of at most first events.
func (c *Client) Events(ctx context.Context, q Query, first int) (EventPage, error) {
	v := q.variables()
	v["first"] = first
	var out struct{ Events EventPage }
	err := c.Do(ctx, eventsText, v, &out)
	if err == nil && slices.Contains(out.Events.Nodes, nil) {
		err = c.otherForm(errNothing)
	}
	return out.Events, err
}

// isRun tells ids of runs from ids of sessions.
func isRun(id string) bool { return strings.HasPrefix(id, "run_") }
