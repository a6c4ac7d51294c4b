package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// gqlError is an entry of a response's errors.
type gqlError struct {
	Message    string `json:"message"`
	Extensions struct {
		Code string `json:"code"`
	} `json:"extensions"`
}

type response struct {
	Data   json.RawMessage `json:"data"`
	Errors []gqlError      `json:"errors"`
}

// do runs an operation over POST.
func (s *server) do(ctx context.Context, query string, variables map[string]any) (response, int, error) {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return response{}, 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr+"/graphql", bytes.NewReader(body))
	if err != nil {
		return response{}, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return response{}, 0, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return response{}, resp.StatusCode, err
	}
	var r response
	if err := json.Unmarshal(raw, &r); err != nil {
		return response{}, resp.StatusCode, fmt.Errorf("decoding %.200q: %w", raw, err)
	}
	return r, resp.StatusCode, nil
}

// must runs an operation that has to succeed and decodes its data into out.
func (s *server) must(query string, variables map[string]any, out any) {
	s.t.Helper()
	if err := s.try(query, variables, out); err != nil {
		s.t.Fatal(err)
	}
}

// callPatience only keeps a test from hanging: a loaded machine may take long.
const callPatience = 3 * time.Minute

func (s *server) try(query string, variables map[string]any, out any) error {
	ctx, cancel := context.WithTimeout(context.Background(), callPatience)
	defer cancel()
	r, _, err := s.do(ctx, query, variables)
	if err != nil {
		return err
	}
	if len(r.Errors) > 0 {
		return fmt.Errorf("%s: %s", r.Errors[0].Extensions.Code, r.Errors[0].Message)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(r.Data, out)
}

// startedRun is what startRun gives back.
type startedRun struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Session struct {
		ID string `json:"id"`
	} `json:"session"`
}

// startRun starts a run with the given input.
func (s *server) startRun(input map[string]any) startedRun {
	s.t.Helper()
	var out struct{ StartRun startedRun }
	s.must(`mutation($input: StartRunInput!) { startRun(input: $input) { id status session { id } } }`,
		map[string]any{"input": input}, &out)
	return out.StartRun
}

// runInfo is a run as the tests look at it.
type runInfo struct {
	ID         string  `json:"id"`
	Status     string  `json:"status"`
	ExitReason *string `json:"exitReason"`
	Error      *string `json:"error"`
	Result     *string `json:"result"`
	EndedAt    *string `json:"endedAt"`
	Abort      *receipt
	Children   []struct{ ID, Status string }
	Executions []struct {
		ID        string
		ExitClass *string
		Isolation *string
		Loss      struct{ LinesRead, LinesParsed json.Number }
	}
}

type receipt struct {
	RunID         string  `json:"runId"`
	RequestedAt   *string `json:"requestedAt"`
	SignalledAt   *string `json:"signalledAt"`
	ProcessGoneAt *string `json:"processGoneAt"`
	SandboxGoneAt *string `json:"sandboxGoneAt"`
	Survivors     []int   `json:"survivors"`
	Outcome       string  `json:"outcome"`
}

const receiptFields = `runId requestedAt signalledAt processGoneAt sandboxGoneAt survivors outcome`

func (s *server) run(id string) runInfo {
	s.t.Helper()
	var out struct{ Run *runInfo }
	s.must(`query($id: ID!) { run(id: $id) { id status exitReason error result endedAt abort { `+receiptFields+` }
		children { id status } executions { id exitClass isolation loss { linesRead linesParsed } } } }`, map[string]any{"id": id}, &out)
	if out.Run == nil {
		s.t.Fatalf("run %s is not there", id)
	}
	return *out.Run
}

// waitStatus waits until the run has one of the statuses.
func (s *server) waitStatus(id string, limit time.Duration, statuses ...string) runInfo {
	s.t.Helper()
	var r runInfo
	eventually(s.t, limit, fmt.Sprintf("run %s is %v", id, statuses), func() error {
		r = s.run(id)
		for _, want := range statuses {
			if r.Status == want {
				return nil
			}
		}
		return fmt.Errorf("it is %s", r.Status)
	})
	return r
}

func (s *server) abort(id string, silent, wait bool) receipt {
	s.t.Helper()
	var out struct{ AbortRun receipt }
	s.must(`mutation($id: ID!, $silent: Boolean, $wait: Boolean) { abortRun(id: $id, silent: $silent, wait: $wait) { `+receiptFields+` } }`,
		map[string]any{"id": id, "silent": silent, "wait": wait}, &out)
	return out.AbortRun
}

// eventFields selects everything that every event type has.
const eventFields = `__typename seq at type sessionId runId agent stage
  ... on RunStarted { prompt parentId driver model attempt }
  ... on StateChanged { state status }
  ... on MessageDelta { messageId text }
  ... on AgentMessage { messageId text }
  ... on AgentThought { text }
  ... on ToolCallStarted { callId name arguments }
  ... on ToolCallFinished { callId name text isError seconds }
  ... on ExecutionStarted { executionId backend isolation command toolCallId }
  ... on OutputWritten { executionId stream text offset }
  ... on ExecutionFinished { executionId exitClass exitCode signal isError seconds loss { bytesRead linesRead linesParsed linesRejected bytesTruncated rejectedSamples } }
  ... on MetricsLogged { executionId points { step name value special runTag stage at } }
  ... on ChartConfigured { config }
  ... on MediaLogged { kind key step runTag data }
  ... on UsageRecorded { requestKey provider model backend isError usage { input cacheRead output reasoning computeSeconds costUsd costNanoUsd provenance unpriced } }
  ... on QuestionAsked { questionId text schema }
  ... on QuestionAnswered { questionId outcome answer }
  ... on ReportReady { path }
  ... on FilesReady { files { path kind size sha256 } }
  ... on HookFinished { name isError problem }
  ... on AbortRequested { reason }
  ... on AgentAborted { reason }
  ... on AgentTimedOut { text }
  ... on AgentErrored { text }
  ... on AgentEscalated { text crashes }
  ... on RunEnded { status exitReason error }
  ... on Warning { text }
  ... on GapEvent { fromSeq toSeq }`

// filter is the filter of a subscription or a page.
type filter struct {
	types []string
	run   string
}

func (f filter) variables(session string, after int64) map[string]any {
	v := map[string]any{"s": session, "after": after}
	if f.types != nil {
		v["types"] = f.types
	}
	if f.run != "" {
		v["run"] = f.run
	}
	return v
}

// head is the part of an event that the tests look into.
type head struct {
	Seq  int64  `json:"seq"`
	Type string `json:"type"`
	Run  string `json:"runId"`
}

func headOf(raw json.RawMessage) head {
	var h head
	if err := json.Unmarshal(raw, &h); err != nil {
		panic(err)
	}
	return h
}

// log pages through a session's whole log and gives the bytes of each event.
func (s *server) log(session string, f filter) []json.RawMessage {
	s.t.Helper()
	var all []json.RawMessage
	after := int64(0)
	for {
		var out struct {
			Events struct {
				Nodes   []json.RawMessage
				HasMore bool
			}
		}
		v := f.variables(session, after)
		v["first"] = 1000
		s.must(`query($s: ID!, $after: Long, $first: Int, $types: [EventType!], $run: ID) {
			events(sessionId: $s, after: $after, first: $first, types: $types, runId: $run) { nodes { `+eventFields+` } hasMore lastSeq } }`, v, &out)
		all = append(all, out.Events.Nodes...)
		if !out.Events.HasMore {
			return all
		}
		after = headOf(all[len(all)-1]).Seq
	}
}

// lastSeq is the session's newest seq.
func (s *server) lastSeq(session string) int64 {
	s.t.Helper()
	var out struct {
		Session struct{ LastSeq json.Number }
	}
	s.must(`query($s: ID!) { session(id: $s) { lastSeq } }`, map[string]any{"s": session}, &out)
	n, err := out.Session.LastSeq.Int64()
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// wsMessage is a frame of graphql-transport-ws.
type wsMessage struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// subscription is one events subscription on a socket of its own.
type subscription struct {
	conn *websocket.Conn
}

func (s *server) dial(ctx context.Context) (*websocket.Conn, error) {
	conn, resp, err := websocket.Dial(ctx, "ws://"+s.addr+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close()
	}
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(64 << 20)
	if err := conn.Write(ctx, websocket.MessageText, []byte(`{"type":"connection_init"}`)); err != nil {
		_ = conn.CloseNow()
		return nil, err
	}
	_, raw, err := conn.Read(ctx)
	if err != nil {
		_ = conn.CloseNow()
		return nil, err
	}
	var m wsMessage
	if err := json.Unmarshal(raw, &m); err != nil || m.Type != "connection_ack" {
		_ = conn.CloseNow()
		return nil, fmt.Errorf("wanted connection_ack, got %.200q", raw)
	}
	return conn, nil
}

const eventsSubscription = `subscription($s: ID!, $after: Long, $types: [EventType!], $run: ID) {
	events(sessionId: $s, after: $after, types: $types, runId: $run) { ` + eventFields + ` } }`

// subscribe opens a socket and subscribes.
func (s *server) subscribe(ctx context.Context, session string, after int64, f filter) (*subscription, error) {
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	payload, err := json.Marshal(map[string]any{"query": eventsSubscription, "variables": f.variables(session, after)})
	if err != nil {
		return nil, err
	}
	frame, err := json.Marshal(wsMessage{ID: "1", Type: "subscribe", Payload: payload})
	if err != nil {
		return nil, err
	}
	if err := conn.Write(ctx, websocket.MessageText, frame); err != nil {
		_ = conn.CloseNow()
		return nil, err
	}
	return &subscription{conn}, nil
}

// next gives the events of the next message.
func (s *subscription) next(ctx context.Context) ([]json.RawMessage, error) {
	for {
		_, raw, err := s.conn.Read(ctx)
		if err != nil {
			return nil, err
		}
		var m wsMessage
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, err
		}
		switch m.Type {
		case "next":
			var p struct {
				Data   struct{ Events []json.RawMessage }
				Errors []gqlError
			}
			if err := json.Unmarshal(m.Payload, &p); err != nil {
				return nil, err
			}
			if len(p.Errors) > 0 {
				return nil, fmt.Errorf("event errors: %v", p.Errors)
			}
			return p.Data.Events, nil
		case "ping":
			if err := s.conn.Write(ctx, websocket.MessageText, []byte(`{"type":"pong"}`)); err != nil {
				return nil, err
			}
		case "pong":
		default:
			return nil, fmt.Errorf("unexpected message %.300q", raw)
		}
	}
}

func (s *subscription) close() { _ = s.conn.CloseNow() }

// python is the interpreter that the sandbox uses as well.
func needPython(t *testing.T) {
	t.Helper()
	need(t, exists("/usr/bin/python3"), "/usr/bin/python3 (Debian package python3)")
}
