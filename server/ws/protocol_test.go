package ws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/coder/websocket"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

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

// What panics while an operation is judged or answered ends that operation with
// an error: not the connection, and not the process.
func TestAPanicEndsTheOperationOnly(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	c := b.ready(t)
	c.subscribe("s", `subscription{ticks}`)
	for _, payload := range []string{
		`{"query":"query Early{hello}","operationName":"Early"}`,
		`{"query":"subscription Late{ticks}","operationName":"Late"}`,
		`{"query":"{panic}"}`,
	} {
		c.send(`{"id":"x","type":"subscribe","payload":` + payload + `}`)
		got, err := c.read()
		if err != nil || !strings.HasPrefix(got, `{"id":"x","type":"error","payload":[{"message":`) {
			t.Fatalf("%s gives %s, %v", payload, got, err)
		}
	}
	if n := strings.Count(b.log.String(), "level=ERROR msg=\"panic in an operation\""); n != 3 {
		t.Errorf("%d of 3 panics are logged: %s", n, b.log)
	}
	b.ticks <- "still here"
	c.want(`{"id":"s","type":"next","payload":{"data":{"ticks":"still here"}}}`)
}

// A panic elsewhere in a connection ends it alone.
func TestAPanicEndsTheConnectionOnly(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"ReadLoop":  {Init: func(*http.Request, map[string]any) error { panic("no luck") }},
		"Operation": {Exec: mute{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, o)
			c := b.dial(t)
			c.send(`{"type":"connection_init"}`)
			if name == "Operation" {
				c.want(`{"type":"connection_ack"}`)
				c.subscribe("x", `{hello}`)
			}
			if got, err := c.read(); err == nil || websocket.CloseStatus(err) != -1 {
				t.Fatalf("the connection goes on: %s, %v", got, err)
			}
			b.server.Shutdown() // waits: nothing of the connection is left
			if !strings.Contains(b.log.String(), "level=ERROR msg=\"panic in a websocket's ") || !strings.Contains(b.log.String(), "no luck") {
				t.Errorf("the log: %s", b.log)
			}
		})
	}
}

// mute is an executor that cannot even present an error.
type mute struct{ graphql.GraphExecutor }

func (mute) CreateOperationContext(context.Context, *graphql.RawParams) (*graphql.OperationContext, gqlerror.List) {
	panic("no luck")
}

func (mute) DispatchError(context.Context, gqlerror.List) *graphql.Response { panic("no luck again") }

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
