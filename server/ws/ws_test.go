package ws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/coder/websocket"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var schema = gqlparser.MustLoadSchema(&ast.Source{Input: `
	type Query { hello: String! panic: String! }
	type Mutation { act: String! }
	type Subscription { ticks: String! none: String! numbers: Int! flood: String! bad: String! }
`})

// source answers operations by their first field.
type source struct {
	ticks chan string   // what the subscription ticks yields; closed: it ends
	flood []byte        // the JSON of one item of flood
	ended chan struct{} // one value for each ticks or flood subscription whose context ended
}

func (s *source) exec(ctx context.Context) graphql.ResponseHandler {
	field := graphql.GetOperationContext(ctx).Operation.SelectionSet[0].(*ast.Field)
	one := func(v string) *graphql.Response {
		return &graphql.Response{Data: json.RawMessage(`{"` + field.Alias + `":` + v + `}`)}
	}
	switch field.Name {
	case "hello", "act":
		return graphql.OneShot(one(`"world"`))
	case "panic":
		return func(context.Context) *graphql.Response { panic("no luck") }
	case "none":
		return graphql.OneShot(&graphql.Response{
			Errors: gqlerror.List{{Message: "there is no such thing", Extensions: map[string]any{"code": "NOT_FOUND"}}},
			Data:   json.RawMessage("null"),
		})
	case "bad":
		return graphql.OneShot(one("\"\xff\xfe\""))
	case "numbers":
		n := 0
		return func(context.Context) *graphql.Response {
			if n++; n > 3 {
				return nil
			}
			return one(fmt.Sprint(n))
		}
	case "flood":
		context.AfterFunc(ctx, func() { s.ended <- struct{}{} })
		return func(context.Context) *graphql.Response { return one(string(s.flood)) }
	}
	context.AfterFunc(ctx, func() { s.ended <- struct{}{} })
	return func(ctx context.Context) *graphql.Response { // ticks
		select {
		case v, ok := <-s.ticks:
			if ok {
				return one(`"` + v + `"`)
			}
		case <-ctx.Done():
		}
		return nil
	}
}

type bundle struct {
	*source
	server *Server
	url    string
	log    *logs
}

// logs keeps what is logged.
type logs struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func setup(t *testing.T, o Options) *bundle {
	t.Helper()
	b := &bundle{source: &source{ticks: make(chan string), ended: make(chan struct{}, 1000)}, log: new(logs)}
	o.Exec = executor.New(&graphql.ExecutableSchemaMock{
		ExecFunc:       b.exec,
		SchemaFunc:     func() *ast.Schema { return schema },
		ComplexityFunc: func(context.Context, string, string, int, map[string]any) (int, bool) { return 0, false },
	})
	o.Log = slog.New(slog.NewTextHandler(b.log, nil))
	b.server = New(o)
	srv := httptest.NewServer(b.server)
	b.url = "ws" + strings.TrimPrefix(srv.URL, "http")
	t.Cleanup(func() {
		b.server.Shutdown()
		srv.Close()
	})
	return b
}

// client is a WebSocket client that speaks in whole messages.
type client struct {
	t *testing.T
	c *websocket.Conn
}

func (b *bundle) dial(t *testing.T, subprotocols ...string) *client {
	t.Helper()
	return b.dialBy(t, nil, subprotocols...)
}

func (b *bundle) dialBy(t *testing.T, by *http.Client, subprotocols ...string) *client {
	t.Helper()
	if len(subprotocols) == 0 {
		subprotocols = []string{Subprotocol}
	}
	c, _, err := websocket.Dial(t.Context(), b.url, &websocket.DialOptions{HTTPClient: by, Subprotocols: subprotocols}) //nolint:bodyclose // Dial closes it
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(64 << 20)
	t.Cleanup(func() { _ = c.CloseNow() })
	return &client{t: t, c: c}
}

// ready dials and passes connection_init.
func (b *bundle) ready(t *testing.T) *client {
	t.Helper()
	c := b.dial(t)
	c.send(`{"type":"connection_init"}`)
	c.want(`{"type":"connection_ack"}`)
	return c
}

func (c *client) send(text string) {
	c.t.Helper()
	if err := c.c.Write(context.Background(), websocket.MessageText, []byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) subscribe(id, query string) {
	c.t.Helper()
	payload, _ := json.Marshal(map[string]any{"query": query})
	name, _ := json.Marshal(id)
	c.send(fmt.Sprintf(`{"id":%s,"type":"subscribe","payload":%s}`, name, payload))
}

func (c *client) read() (string, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 10*time.Second, errors.New("nothing came for 10 s"))
	defer cancel()
	_, data, err := c.c.Read(ctx)
	return string(data), err
}

func (c *client) want(text string) {
	c.t.Helper()
	got, err := c.read()
	if err != nil {
		c.t.Fatalf("instead of %s: %v", text, err)
	}
	if got != text {
		c.t.Fatalf("got  %s\nwant %s", got, text)
	}
}

// closed asks for the close code of the connection.
func (c *client) closed(code websocket.StatusCode) string {
	c.t.Helper()
	got, err := c.read()
	if err == nil {
		c.t.Fatalf("instead of closing with %d it sends %s", code, got)
	}
	var ce websocket.CloseError
	if !errors.As(err, &ce) || ce.Code != code {
		c.t.Fatalf("closed with %v, want %d", err, code)
	}
	return ce.Reason
}

func TestQueryMutationSubscription(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	c := b.ready(t)
	c.subscribe("q", `{hello}`)
	c.want(`{"id":"q","type":"next","payload":{"data":{"hello":"world"}}}`)
	c.want(`{"id":"q","type":"complete"}`)
	c.subscribe("m", `mutation{act}`)
	c.want(`{"id":"m","type":"next","payload":{"data":{"act":"world"}}}`)
	c.want(`{"id":"m","type":"complete"}`)
	c.subscribe("s", `subscription{n:numbers}`)
	for i := range 3 {
		c.want(fmt.Sprintf(`{"id":"s","type":"next","payload":{"data":{"n":%d}}}`, i+1))
	}
	c.want(`{"id":"s","type":"complete"}`)
	c.subscribe("s", `subscription{ticks}`) // an id may be used again
	b.ticks <- "a"
	c.want(`{"id":"s","type":"next","payload":{"data":{"ticks":"a"}}}`)
	close(b.ticks)
	c.want(`{"id":"s","type":"complete"}`)
}

func TestErrorsEndTheOperationOnly(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	c := b.ready(t)
	for _, q := range []string{`{`, `{nope}`, `{panic}`, `subscription{none}`, `subscription{numbers ticks}`} {
		c.subscribe("x", q)
		got, err := c.read()
		if err != nil || !strings.HasPrefix(got, `{"id":"x","type":"error","payload":[{"message":`) {
			t.Fatalf("%s gives %s, %v", q, got, err)
		}
	}
	c.subscribe("x", `{hello}`) // no complete came in between, and the connection lives
	c.want(`{"id":"x","type":"next","payload":{"data":{"hello":"world"}}}`)
	c.want(`{"id":"x","type":"complete"}`)
}

func TestAStreamThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{Watch: func(ctx context.Context) (context.Context, func() error) {
		return ctx, func() error { return errors.New("the store is gone") }
	}})
	c := b.ready(t)
	c.subscribe("s", `subscription{ticks}`)
	close(b.ticks)
	c.want(`{"id":"s","type":"error","payload":[{"message":"the store is gone"}]}`)
}

// A browser must drop the whole connection on a frame that is not UTF-8.
func TestAFrameIsAlwaysUTF8(t *testing.T) {
	t.Parallel()
	c := setup(t, Options{}).ready(t)
	c.subscribe("s", `subscription{bad}`)
	c.want("{\"id\":\"s\",\"type\":\"next\",\"payload\":{\"data\":{\"bad\":\"\uFFFD\"}}}")
}

func TestAnIDMayHoldAnything(t *testing.T) {
	t.Parallel()
	c := setup(t, Options{}).ready(t)
	c.subscribe("\"\\\u2028é\n", `{hello}`)
	got, err := c.read()
	var m message
	if err != nil || json.Unmarshal([]byte(got), &m) != nil || m.ID != "\"\\\u2028é\n" {
		t.Fatal(got, err)
	}
}

func TestCompleteStopsTheOperationOnly(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	c := b.ready(t)
	c.subscribe("a", `subscription{ticks}`)
	b.ticks <- "1"
	c.want(`{"id":"a","type":"next","payload":{"data":{"ticks":"1"}}}`)
	c.send(`{"id":"a","type":"complete"}`)
	c.send(`{"id":"a","type":"complete"}`) // twice, and of nothing: no answer
	select {
	case <-b.ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the operation goes on")
	}
	c.subscribe("a", `{hello}`)
	c.want(`{"id":"a","type":"next","payload":{"data":{"hello":"world"}}}`)
	c.want(`{"id":"a","type":"complete"}`)
}

func TestPingIsAnswered(t *testing.T) {
	t.Parallel()
	c := setup(t, Options{}).dial(t)
	c.send(`{"type":"ping","payload":{"n":1}}`) // also before connection_init
	c.want(`{"type":"pong","payload":{"n":1}}`)
	c.send(`{"type":"ping"}`)
	c.want(`{"type":"pong"}`)
}

// Every fault of the protocol has its close code.
func TestProtocolFaults(t *testing.T) {
	t.Parallel()
	const initMessage = `{"type":"connection_init"}`
	const ticks = `{"id":"a","type":"subscribe","payload":{"query":"subscription{ticks}"}}`
	for name, c := range map[string]struct {
		send []string
		code websocket.StatusCode
	}{
		"NotJSON":            {[]string{`hello`}, 4400},
		"NotAnObject":        {[]string{`[1]`}, 4400},
		"NoType":             {[]string{`{}`}, 4400},
		"UnknownType":        {[]string{`{"type":"start","id":"1"}`}, 4400},
		"InvalidUTF8":        {[]string{"{\"type\":\"ping\",\"payload\":\"\xff\"}"}, 4400},
		"InitPayloadAList":   {[]string{`{"type":"connection_init","payload":[1]}`}, 4400},
		"TwoInits":           {[]string{initMessage, initMessage}, 4429},
		"SubscribeTooEarly":  {[]string{ticks}, 4401},
		"SubscribeWithoutID": {[]string{initMessage, `{"type":"subscribe","payload":{"query":"{hello}"}}`}, 4400},
		"SubscribeLongID":    {[]string{initMessage, `{"id":"` + strings.Repeat("x", 257) + `","type":"subscribe","payload":{"query":"{hello}"}}`}, 4400},
		"SubscribeNoPayload": {[]string{initMessage, `{"id":"a","type":"subscribe"}`}, 4400},
		"SubscribeNoQuery":   {[]string{initMessage, `{"id":"a","type":"subscribe","payload":{}}`}, 4400},
		"SameIDTwice":        {[]string{initMessage, ticks, ticks}, 4409},
		"LargeBeforeInit":    {[]string{`{"type":"ping","payload":"` + strings.Repeat("x", 20<<10) + `"}`}, websocket.StatusMessageTooBig},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := setup(t, Options{}).dial(t)
			for _, m := range c.send {
				conn.send(m)
			}
			if c.send[0] == initMessage {
				conn.want(`{"type":"connection_ack"}`)
			}
			conn.closed(c.code)
		})
	}
}

func TestBinaryMessagesAreRefused(t *testing.T) {
	t.Parallel()
	c := setup(t, Options{}).dial(t)
	if err := c.c.Write(t.Context(), websocket.MessageBinary, []byte(`{"type":"ping"}`)); err != nil {
		t.Fatal(err)
	}
	c.closed(4400)
}

func TestWrongSubprotocol(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	b.dial(t, "graphql-ws-of-another-kind").closed(4406)
}

func TestInitTimeout(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{InitTimeout: 20 * time.Millisecond})
	b.dial(t).closed(4408)
}

func TestInitDecides(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{Init: func(r *http.Request, payload map[string]any) error {
		if payload["token"] != "right" {
			return errors.New(strings.Repeat("é", 200)) // longer than a close frame holds
		}
		return nil
	}})
	c := b.dial(t)
	c.send(`{"type":"connection_init","payload":{"token":"wrong"}}`)
	if reason := c.closed(4401); len(reason) < 100 {
		t.Errorf("the reason is %q", reason)
	}
	c = b.dial(t)
	c.send(`{"type":"connection_init","payload":{"token":"right"}}`)
	c.want(`{"type":"connection_ack"}`)
}

func TestOperationsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{MaxOperations: 2})
	c := b.ready(t)
	c.subscribe("a", `subscription{ticks}`)
	c.subscribe("b", `subscription{ticks}`)
	c.subscribe("c", `subscription{ticks}`)
	got, err := c.read()
	if err != nil || !strings.HasPrefix(got, `{"id":"c","type":"error"`) {
		t.Fatal(got, err)
	}
	c.send(`{"id":"a","type":"complete"}`)
	c.subscribe("d", `{hello}`)
	c.want(`{"id":"d","type":"next","payload":{"data":{"hello":"world"}}}`)
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{MaxConnections: 1})
	b.ready(t)
	_, resp, err := websocket.Dial(t.Context(), b.url, &websocket.DialOptions{Subprotocols: []string{Subprotocol}}) //nolint:bodyclose // Dial closes it
	if err == nil || resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatal(resp, err)
	}
}

func TestALargeMessageIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{ReadLimit: 40 << 10})
	c := b.ready(t)
	c.subscribe("a", `{hello #`+strings.Repeat("x", 30<<10)+"\n}") // over what is allowed before init
	c.want(`{"id":"a","type":"next","payload":{"data":{"hello":"world"}}}`)
	c.want(`{"id":"a","type":"complete"}`)
	c.subscribe("a", `{hello #`+strings.Repeat("x", 50<<10)+"\n}")
	c.closed(websocket.StatusMessageTooBig)
}

// Frames around the borders of the WebSocket length forms and of the writer's buffer.
func TestFramesOfAllSizes(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	c := b.ready(t)
	c.subscribe("a", `subscription{ticks}`)
	const empty = `{"id":"a","type":"next","payload":{"data":{"ticks":""}}}`
	for _, size := range []int{125, 126, 127, 4092, 4093, 4096, writePiece, writePiece + 1, 65535, 65536, 1 << 20} {
		text := strings.Repeat("x", size-len(empty))
		b.ticks <- text
		c.want(`{"id":"a","type":"next","payload":{"data":{"ticks":"` + text + `"}}}`)
	}
}

// A client that stops reading is cut, is counted and logged, and nobody else notices.
func TestAStalledClientIsCut(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{WriteTimeout: 300 * time.Millisecond, WriteBuffer: 64 << 10})
	b.flood = []byte(`"` + strings.Repeat("x", 10_000) + `"`)
	other := b.ready(t)
	other.subscribe("t", `subscription{ticks}`)

	stalled := b.ready(t)
	stalled.subscribe("f", `subscription{flood}`) // and never reads
	deadline := time.Now().Add(20 * time.Second)
	for n := 0; b.server.Counts().Stalled == 0; n++ {
		if time.Now().After(deadline) {
			t.Fatalf("not cut: %+v", b.server.Counts())
		}
		text := fmt.Sprint(n)
		b.ticks <- text
		other.want(`{"id":"t","type":"next","payload":{"data":{"ticks":"` + text + `"}}}`)
	}
	select {
	case <-b.ended: // its operation ended
	case <-time.After(10 * time.Second):
		t.Fatal("the stalled client's operation goes on")
	}
	for b.server.Counts().Open != 1 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond) // a real socket: nothing to wait on
	}
	if c := b.server.Counts(); c.Open != 1 || c.Stalled != 1 {
		t.Errorf("after the cut: %+v", c)
	}
	if !strings.Contains(b.log.String(), "the client took nothing") {
		t.Errorf("the reason is not logged: %s", b.log)
	}
	for { // what was on its way arrives, then the connection is gone without a close frame
		if _, err := stalled.read(); err != nil {
			if websocket.CloseStatus(err) != -1 {
				t.Errorf("the stalled client sees %v", err)
			}
			break
		}
	}
	b.ticks <- "still here"
	other.want(`{"id":"t","type":"next","payload":{"data":{"ticks":"still here"}}}`)
}

// A slow client that makes progress is not cut, however long one frame takes.
func TestASlowClientIsNotCut(t *testing.T) {
	t.Parallel()
	const timeout = 400 * time.Millisecond
	b := setup(t, Options{WriteTimeout: timeout, WriteBuffer: 16 << 10})
	b.flood = []byte(`"` + strings.Repeat("x", 8<<20) + `"`)
	c := b.dialBy(t, &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetReadBuffer(64 << 10) // else the kernel takes most of the frame at once
			}
			return conn, err
		},
	}})
	c.send(`{"type":"connection_init"}`)
	c.want(`{"type":"connection_ack"}`)
	c.subscribe("f", `subscription{flood}`)
	_, r, err := c.c.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for piece := make([]byte, 512<<10); ; {
		if _, err := io.ReadFull(r, piece); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("cut after %s: %v", time.Since(start), err)
		}
		time.Sleep(timeout / 8) // this client is slow
	}
	if took := time.Since(start); took < timeout {
		t.Fatalf("one frame took %s only; the test shows nothing", took)
	}
	if n := b.server.Counts().Stalled; n != 0 {
		t.Errorf("%d connections counted as stalled", n)
	}
}

// thirsty is a connection that takes a few bytes until each deadline, then none.
type thirsty struct {
	net.Conn
	sips int
	got  []byte
}

func (c *thirsty) SetWriteDeadline(time.Time) error { return nil }

func (c *thirsty) Write(p []byte) (int, error) {
	if c.sips == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	c.sips--
	n := min(3, len(p))
	c.got = append(c.got, p[:n]...)
	return n, os.ErrDeadlineExceeded
}

// A deadline that passed with progress is no stall; one without is.
func TestProgressCounts(t *testing.T) {
	t.Parallel()
	c := &thirsty{sips: 4}
	n, err := (&progressConn{Conn: c}).Write([]byte("0123456789"))
	if n != 10 || err != nil || string(c.got) != "0123456789" {
		t.Errorf("with progress: %d, %v, %q", n, err, c.got)
	}
	c = &thirsty{sips: 2}
	n, err = (&progressConn{Conn: c}).Write([]byte("0123456789"))
	if n != 6 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without: %d, %v", n, err)
	}
}

func TestASilentClientIsCut(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{PingInterval: 10 * time.Millisecond})
	c := b.ready(t)
	for { // reads the pings, and answers none
		if _, err := c.read(); err != nil {
			break
		}
	}
	if n := b.server.Counts().Silent; n != 1 {
		t.Errorf("%d connections counted as silent", n)
	}
}

func TestAnAnsweringClientStays(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{PingInterval: 20 * time.Millisecond})
	c := b.ready(t)
	for range 10 {
		c.want(`{"type":"ping"}`)
		c.send(`{"type":"pong"}`)
	}
	if n := b.server.Counts().Silent; n != 0 {
		t.Errorf("%d connections counted as silent", n)
	}
}

// Shutdown sends everybody away with 1012, cuts who does not go, and waits.
func TestShutdown(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{CloseTimeout: 200 * time.Millisecond})
	idle, busy := b.ready(t), b.ready(t)
	b.dial(t) // before connection_init, and deaf
	b.flood = []byte(`"` + strings.Repeat("x", 10_000) + `"`)
	stalled := b.ready(t)
	stalled.subscribe("f", `subscription{flood}`)
	busy.subscribe("t", `subscription{ticks}`)
	b.ticks <- "x"
	busy.want(`{"id":"t","type":"next","payload":{"data":{"ticks":"x"}}}`)

	done := make(chan time.Duration)
	start := time.Now()
	go func() {
		b.server.Shutdown()
		done <- time.Since(start)
	}()
	if reason := idle.closed(websocket.StatusServiceRestart); reason == "" {
		t.Error("no reason")
	}
	busy.closed(websocket.StatusServiceRestart) // and no complete: the stream did not end
	if took := <-done; took > 5*time.Second {
		t.Errorf("shutdown took %s", took)
	}
	if n := b.server.Counts().Open; n != 0 {
		t.Errorf("%d connections are open", n)
	}
	_, resp, err := websocket.Dial(t.Context(), b.url, &websocket.DialOptions{Subprotocols: []string{Subprotocol}}) //nolint:bodyclose // Dial closes it
	if err == nil || resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatal("a closing server accepts", resp, err)
	}
}

// A client that vanishes ends its operations.
func TestAVanishedClient(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	c := b.ready(t)
	c.subscribe("a", `subscription{ticks}`)
	b.ticks <- "x"
	_ = c.c.CloseNow()
	select {
	case <-b.ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the operation goes on")
	}
}

// Many operations share one connection and never tear each other's frames.
func TestManyOperationsOnOneConnection(t *testing.T) {
	t.Parallel()
	c := setup(t, Options{}).ready(t)
	const n = 100
	for i := range n {
		c.subscribe(fmt.Sprint(i), `subscription{numbers}`)
	}
	next := map[string]int{}
	for done := 0; done < n; {
		got, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			message
			Payload struct{ Data struct{ Numbers int } } `json:"payload"`
		}
		if err := json.Unmarshal([]byte(got), &m); err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		if m.Type == "complete" {
			if next[m.ID] != 3 {
				t.Fatalf("%s completes after %d", m.ID, next[m.ID])
			}
			done++
			continue
		}
		if next[m.ID]++; m.Payload.Data.Numbers != next[m.ID] {
			t.Fatalf("%s has %d as its number %d", m.ID, m.Payload.Data.Numbers, next[m.ID])
		}
	}
}
