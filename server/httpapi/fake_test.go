package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/weirhq/weir/graph"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/server/ws"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const session = "ses_01jq0v6h3k8m5x2t9w4c7y1n6b"

// engine is the little of Weir that these tests need.
type engine struct {
	graph.Reader
	started chan string   // titles of sessions, as they are created
	hold    chan struct{} // CreateSession returns when it is closed; nil: at once
	flood   []byte        // the body of the events that Follow sends without end; nil: one event, then none
	fails   error         // how Follow ends after its event
	ended   chan struct{} // one value for each Follow that returned
}

// starter is the engine's other half: a struct cannot embed both interfaces,
// since one has the other's name as a method.
type starter struct {
	graph.Runs
	*engine
}

func (e starter) CreateSession(ctx context.Context, title string) (run.Session, error) {
	e.started <- title
	if e.hold != nil {
		select {
		case <-e.hold:
		case <-ctx.Done():
			return run.Session{}, ctx.Err()
		}
	}
	return run.Session{ID: session, Title: title, CreatedAt: time.Unix(0, 0)}, nil
}

func (e *engine) Session(_ context.Context, id run.SessionID) (run.Session, error) {
	if id != session {
		return run.Session{}, run.Errorf(run.NotFound, "session %q does not exist", id)
	}
	return run.Session{ID: session, CreatedAt: time.Unix(0, 0)}, nil
}

func (e *engine) Agents(context.Context) []graph.AgentInfo { return nil }
func (e *engine) Info(context.Context) graph.ServerInfo    { return graph.ServerInfo{Version: "v1"} }
func (e *engine) Models(context.Context) []graph.ModelInfo { return nil }

func (e *engine) Deleted(run.SessionID) {}

func (e *engine) FollowRuns(context.Context, run.RunFilter, func(run.Run) error) error { return nil }

func (e *engine) FollowUsage(context.Context, func(run.UsageTotals) error) error { return nil }

func (e *engine) Follow(ctx context.Context, _ run.SessionID, after int64, _ run.EventFilter, send func([]*run.Event) error) error {
	defer func() { e.ended <- struct{}{} }()
	body, endless := []byte(`{"text":"w"}`), e.flood != nil
	if endless {
		body = e.flood
	}
	for seq := after + 1; ; seq++ {
		err := send([]*run.Event{{Session: session, Seq: seq, At: time.Unix(0, 0), Type: run.TypeWarning, Body: body}})
		if err != nil {
			return err
		}
		if !endless {
			break
		}
	}
	if e.fails != nil {
		return e.fails
	}
	<-ctx.Done()
	return ctx.Err()
}

var files = fstest.MapFS{
	"index.html":          {Data: []byte("<!doctype html><title>app</title>")},
	"playground.html":     {Data: []byte("<!doctype html><title>playground</title>")},
	"favicon.svg":         {Data: []byte("<svg/>")},
	"assets/a-1234.js":    {Data: []byte(strings.Repeat("let a = 1;\n", 1000))},
	"assets/f-1234.woff2": {Data: []byte(strings.Repeat("f", 5000))},
	".vite/manifest.json": {Data: []byte("{}")},
}

type bundle struct {
	*engine
	server *Server
	addr   string // host:port
	stop   func() error
}

// setup serves on a free loopback port until the test ends.
func setup(t *testing.T, change func(*Options)) *bundle {
	t.Helper()
	e := &engine{started: make(chan string, 100), ended: make(chan struct{}, 100)}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	o := Options{
		API:   graph.New(graph.Options{Runs: starter{engine: e}, Reader: e, Feed: e, Agents: e, Server: e, Log: log}),
		Watch: graph.Watch, Resume: graph.Resume, Log: log, Page: files,
	}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	b := &bundle{engine: e, server: s, addr: l.Addr().String()}
	stopped := false
	b.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel(nil)
		return <-done
	}
	t.Cleanup(func() { _ = b.stop() })
	return b
}

// answer is a response with its body read.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request; "Host" in headers sets the host.
func (b *bundle) ask(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+b.addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		} else {
			req.Header.Add(headers[i], headers[i+1])
		}
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(raw)}
}

func (b *bundle) post(t *testing.T, query string, headers ...string) answer {
	t.Helper()
	body, _ := json.Marshal(map[string]string{"query": query})
	return b.ask(t, http.MethodPost, "/graphql", string(body), append([]string{"Content-Type", "application/json"}, headers...)...)
}

// code gives extensions.code of the first error, and its message.
func (a answer) code(t *testing.T) (code, message string) {
	t.Helper()
	var r struct {
		Errors []struct {
			Message    string
			Extensions struct{ Code string }
		}
	}
	if err := json.Unmarshal([]byte(a.body), &r); err != nil {
		t.Fatalf("%d %q is not JSON: %v", a.status, a.body, err)
	}
	if len(r.Errors) == 0 {
		return "", ""
	}
	return r.Errors[0].Extensions.Code, r.Errors[0].Message
}

func (b *bundle) dial(t *testing.T, header http.Header) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	c, resp, err := websocket.Dial(t.Context(), "ws://"+b.addr+"/graphql", &websocket.DialOptions{
		Subprotocols: []string{ws.Subprotocol}, HTTPHeader: header, Host: header.Get("Host"),
	})
	if c != nil {
		t.Cleanup(func() { _ = c.CloseNow() })
	}
	return c, resp, err
}

func send(t *testing.T, c *websocket.Conn, text string) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, c *websocket.Conn) (string, error) {
	t.Helper()
	_, data, err := c.Read(t.Context())
	return string(data), err
}
