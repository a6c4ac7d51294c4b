package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/coder/websocket"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/server/ws"
)

const watch = `subscription($a:Long){events(sessionId:"` + session + `",after:$a){seq ...on Warning{text}}}`

// events is an event stream as a client reads it.
type events struct {
	t     *testing.T
	resp  *http.Response
	lines *bufio.Scanner
}

// stream asks for an event stream and reads its head.
func (b *bundle) stream(t *testing.T, method, query string, headers ...string) *events {
	t.Helper()
	target, body := "http://"+b.addr+"/graphql", ""
	if method == http.MethodGet {
		target += "?" + url.Values{"query": {query}}.Encode()
	} else {
		raw, _ := json.Marshal(map[string]any{"query": query})
		body = string(raw)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		raw, _ := io.ReadAll(resp.Body)
		t.Fatalf("%d %s: %s", resp.StatusCode, resp.Header.Get("Content-Type"), raw)
	}
	e := &events{t: t, resp: resp, lines: bufio.NewScanner(resp.Body)}
	e.lines.Buffer(nil, 8<<20)
	e.want("retry: 1000\n:")
	return e
}

// next gives the lines of one message; an error says how the stream ended.
func (e *events) next() (string, error) {
	var lines []string
	for e.lines.Scan() {
		if e.lines.Text() == "" {
			return strings.Join(lines, "\n"), nil
		}
		lines = append(lines, e.lines.Text())
	}
	if err := e.lines.Err(); err != nil {
		return "", err
	}
	return "", io.EOF
}

func (e *events) want(text string) {
	e.t.Helper()
	if got, err := e.next(); got != text || err != nil {
		e.t.Fatalf("got  %s, %v\nwant %s", got, err, text)
	}
}

// completes asks for the end of a stream in good order.
func (e *events) completes() {
	e.t.Helper()
	e.want("event: complete\ndata:")
	if got, err := e.next(); !errors.Is(err, io.EOF) {
		e.t.Fatalf("after complete: %q, %v", got, err)
	}
}

func TestEventStream(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		e := b.stream(t, method, watch)
		e.want("id: 1\nevent: next\ndata: " + `{"data":{"events":[{"seq":1,"text":"w"}]}}`)
		if got := e.resp.Header.Get("X-Accel-Buffering") + e.resp.Header.Get("Cache-Control"); got != "nono-store" {
			t.Errorf("headers: %v", e.resp.Header)
		}
		_ = e.resp.Body.Close()
		<-b.ended // the client's departure ends its subscription

		e = b.stream(t, method, `{server{version}}`)
		e.want("event: next\ndata: " + `{"data":{"server":{"version":"v1"}}}`)
		e.completes()
	}
	e := b.stream(t, http.MethodPost, `mutation{createSession(input:{title:"x\ny"}){title}}`)
	e.want("event: next\ndata: " + `{"data":{"createSession":{"title":"x\ny"}}}`)
	e.completes()
}

// What is wrong with an operation is said in the stream: its client reads nothing else.
func TestEventStreamErrors(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for query, code := range map[string]string{
		`{`:      "GRAPHQL_PARSE_FAILED",
		`{nope}`: "GRAPHQL_VALIDATION_FAILED",
		`subscription{events(sessionId:"ses_nope"){seq}}`: string(run.NotFound),
	} {
		e := b.stream(t, http.MethodPost, query)
		got, err := e.next()
		if err != nil || !strings.HasPrefix(got, "event: next\ndata: "+`{"errors":[{"message":`) || !strings.Contains(got, `"`+code+`"`) {
			t.Errorf("%s: %s, %v", query, got, err)
		}
		e.completes()
	}
	b.fails = errors.New("the store is gone")
	e := b.stream(t, http.MethodPost, watch)
	e.want("id: 1\nevent: next\ndata: " + `{"data":{"events":[{"seq":1,"text":"w"}]}}`)
	if got, err := e.next(); err != nil || !strings.Contains(got, `{"errors":[{"message":"internal error (id `) {
		t.Errorf("%s, %v", got, err)
	}
	e.completes()
}

func TestEventStreamRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	const stream = "text/event-stream"
	get := "/graphql?query=" + url.QueryEscape(`mutation{createSession(input:{title:"Refused"}){id}}`)
	for name, a := range map[string]answer{
		"MutationByGet": b.ask(t, http.MethodGet, get, "", "Accept", stream),
		"NoQuery":       b.ask(t, http.MethodGet, "/graphql", "", "Accept", stream),
		"NotJSON":       b.ask(t, http.MethodPost, "/graphql", "x", "Accept", stream, "Content-Type", "application/json"),
		"LastID":        b.post(t, watch, "Accept", stream, headerLast, "yesterday"),
		"NegativeID":    b.post(t, watch, "Accept", stream, headerLast, "-1"),
	} {
		if code, _ := a.code(t); a.status < 400 || a.status > 405 || code != string(run.Invalid) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if len(b.started) > 0 {
		t.Error("a mutation by GET was executed")
	}
	locked := setup(t, func(o *Options) { o.Token = "right" })
	if a := locked.post(t, watch, "Accept", stream); a.status != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", a.status, a.body)
	}
	if a := b.post(t, watch, "Accept", stream, "Origin", "https://evil.example"); a.status != http.StatusForbidden {
		t.Errorf("from a foreign origin: %d %s", a.status, a.body)
	}
	locked.stream(t, http.MethodPost, watch, "Authorization", "Bearer right").want("id: 1\nevent: next\ndata: " + `{"data":{"events":[{"seq":1,"text":"w"}]}}`)
}

func TestAccept(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]accepted{
		"":                                    {typeJSON, false},
		"text/html":                           {typeJSON, false},
		"text/event-stream":                   {typeStream, true},
		"text/event-stream;q=0":               {typeJSON, false},
		"*/*":                                 {typeJSON, false},
		"application/json, text/event-stream": {typeJSON, true},
		"text/event-stream, application/json": {typeStream, true},
		"text/event-stream;q=0.5, application/json":                                               {typeJSON, true},
		"application/json;q=0.5, application/graphql-response+json":                               {typeResponse, false},
		"application/graphql-response+json, application/json, text/event-stream, multipart/mixed": {typeResponse, true},
		"application/json;q=x, ;, text/event-stream;q=NaN":                                        {typeJSON, false},
	} {
		if got := accept([]string{header}); got != want {
			t.Errorf("%q: %+v, want %+v", header, got, want)
		}
	}
	// A client that takes both gets a query as JSON and a subscription as a stream.
	b := setup(t, nil)
	const both = "application/json, text/event-stream"
	if a := b.post(t, `{server{version}}`, "Accept", both); a.body != `{"data":{"server":{"version":"v1"}}}` {
		t.Error(a.body)
	}
	b.stream(t, http.MethodPost, watch, "Accept", both)
}

// The id of the last message starts a stream behind it, unless after is later.
func TestLastEventID(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for _, c := range []struct{ after, last, want string }{
		{"0", "41", "42"},
		{"50", "41", "51"},
		{"5", "", "6"},
	} {
		query := strings.Replace(strings.Replace(watch, "($a:Long)", "", 1), "$a", c.after, 1)
		headers := []string{}
		if c.last != "" {
			headers = append(headers, headerLast, c.last)
		}
		b.stream(t, http.MethodGet, query, headers...).want("id: " + c.want + "\nevent: next\ndata: " + `{"data":{"events":[{"seq":` + c.want + `,"text":"w"}]}}`)
	}
}

// Comments keep a stream alive in which nothing happens.
func TestEventStreamKeepsAlive(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.WebSocket.PingInterval = 20 * time.Millisecond })
	e := b.stream(t, http.MethodPost, watch)
	e.want("id: 1\nevent: next\ndata: " + `{"data":{"events":[{"seq":1,"text":"w"}]}}`)
	for range 3 {
		e.want(":")
	}
}

// JSON that somebody wrote over several lines stays one field of a message.
func TestOneLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "\n": " ", "{\r\n\"a\":\n1}\n": "{  \"a\": 1} ", `{"a":"\n"}`: `{"a":"\n"}`} {
		got := []byte(text)
		if oneLine(got); string(got) != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// A client that takes nothing is cut and counted; others go on.
func TestAStalledEventStreamIsCut(t *testing.T) {
	t.Parallel()
	log := new(syncBuffer)
	b := setup(t, func(o *Options) {
		o.WebSocket.WriteTimeout, o.WebSocket.WriteBuffer = 300*time.Millisecond, 64<<10
		o.Log = slog.New(slog.NewTextHandler(log, nil))
	})
	b.flood = []byte(`{"text":"` + strings.Repeat("x", 10_000) + `"}`)
	stalled := b.stream(t, http.MethodPost, watch) // and reads no more
	select {
	case <-b.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the stalled client's operation goes on")
	}
	a := b.ask(t, http.MethodGet, "/metrics", "")
	if !strings.Contains(a.body, "\nweir_sse_stalled_total 1\n") || !strings.Contains(log.String(), "the client took nothing") {
		t.Errorf("not counted or not logged: %s", log)
	}
	for { // what was on its way arrives, then the connection breaks: this is no end in good order
		if got, err := stalled.next(); err != nil {
			if errors.Is(err, io.EOF) {
				t.Error("the stalled client takes its stream for complete")
			}
			break
		} else if strings.Contains(got, "complete") {
			t.Error(got)
		}
	}
}

// A slow client that makes progress is not cut, however long one message takes.
func TestASlowEventStreamIsNotCut(t *testing.T) {
	t.Parallel()
	const timeout = time.Second // a busy machine may be late itself
	b := setup(t, func(o *Options) { o.WebSocket.WriteTimeout, o.WebSocket.WriteBuffer = timeout, 16<<10 })
	b.flood = []byte(`{"text":"` + strings.Repeat("x", 4<<20) + `"}`)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(64 << 10) // else the kernel takes most of the message at once
	}
	query := strings.Replace(strings.Replace(watch, "($a:Long)", "", 1), "$a", "0", 1)
	_, err = io.WriteString(conn, "GET /graphql?query="+url.QueryEscape(query)+" HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	piece := make([]byte, 256<<10)
	for range 20 {
		if _, err := io.ReadFull(conn, piece); err != nil {
			t.Fatalf("cut after %s: %v", time.Since(start), err)
		}
		time.Sleep(timeout / 8) // this client is slow
	}
	if took := time.Since(start); took < timeout {
		t.Fatalf("a message took %s only; the test shows nothing", took)
	}
}

// At shutdown a stream breaks off without complete, and Serve waits for it.
func TestShutdownBreaksEventStreams(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) {
		o.WebSocket.CloseTimeout = 200 * time.Millisecond
		o.WebSocket.WriteBuffer = 64 << 10
	})
	idle := b.stream(t, http.MethodPost, watch)
	idle.want("id: 1\nevent: next\ndata: " + `{"data":{"events":[{"seq":1,"text":"w"}]}}`)
	b.flood = []byte(`{"text":"` + strings.Repeat("x", 100_000) + `"}`)
	b.stream(t, http.MethodPost, watch) // and reads no more
	start := time.Now()
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 15*time.Second { // the client that reads nothing is cut after 0.2 s
		t.Errorf("shutdown took %s", took)
	}
	idle.want(": the server is shutting down; connect again")
	if got, err := idle.next(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the stream ends with %q, %v; want a broken connection", got, err)
	}
}

// A mutation in flight as an event stream is finished at shutdown, like any other.
func TestShutdownLetsMutationsFinish(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.hold = make(chan struct{})
	e := b.stream(t, http.MethodPost, `mutation{createSession(input:{title:"slow"}){title}}`)
	<-b.started
	other := b.stream(t, http.MethodPost, watch)
	other.want("id: 1\nevent: next\ndata: " + `{"data":{"events":[{"seq":1,"text":"w"}]}}`)
	stopped := make(chan error, 1)
	go func() { stopped <- b.stop() }()
	other.want(": the server is shutting down; connect again")
	close(b.hold)
	e.want("event: next\ndata: " + `{"data":{"createSession":{"title":"slow"}}}`)
	e.completes()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// WebSockets and event streams count together.
func TestTheLimitOfConnectionsIsShared(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.WebSocket = ws.Options{MaxConnections: 2} })
	c, _, err := b.dial(t, nil) //nolint:bodyclose // Dial closes it
	if err != nil {
		t.Fatal(err)
	}
	send(t, c, `{"type":"connection_init"}`)
	e := b.stream(t, http.MethodPost, watch)
	a := b.post(t, watch, "Accept", "text/event-stream")
	if code, message := a.code(t); a.status != http.StatusServiceUnavailable || code != string(run.Unavailable) || !strings.Contains(message, "later") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if _, _, err := b.dial(t, nil); err == nil { //nolint:bodyclose // Dial closes it
		t.Error("a third connection is let in")
	}
	_ = e.resp.Body.Close()
	<-b.ended
	_ = c.Close(websocket.StatusNormalClosure, "")
}

func TestAPanicInAnEventStream(t *testing.T) {
	t.Parallel()
	for name, exec := range map[string]func(graphql.GraphExecutor) graphql.GraphExecutor{
		"Judging":   func(e graphql.GraphExecutor) graphql.GraphExecutor { return brittle{e} },
		"Answering": func(e graphql.GraphExecutor) graphql.GraphExecutor { return breaking{e} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(o *Options) { o.API = api{o.API, exec(o.API.Executor())} })
			e := b.stream(t, http.MethodPost, watch)
			got, err := e.next()
			if err != nil || !strings.Contains(got, `{"errors":[{"message":"internal error (id `) || strings.Contains(got, "luck") {
				t.Errorf("%s, %v", got, err)
			}
			e.completes()
		})
	}
}

// After a stream that completed, its connection serves other requests.
func TestAConnectionOutlivesItsEventStream(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	conns := 0
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conns++
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}}
	defer client.CloseIdleConnections()
	for range 3 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+b.addr+"/graphql?query="+url.QueryEscape(`{server{version}}`), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || !strings.HasSuffix(string(raw), "event: complete\ndata:\n\n") {
			t.Fatalf("%s, %v", raw, err)
		}
	}
	if conns != 1 {
		t.Errorf("%d connections for three streams, one after the other", conns)
	}
}
