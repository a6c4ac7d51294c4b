package ws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
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

// trap panics over an operation's parameters or context, as its name asks.
type trap struct{}

func (trap) ExtensionName() string                   { return "Trap" }
func (trap) Validate(graphql.ExecutableSchema) error { return nil }

func (trap) MutateOperationParameters(_ context.Context, p *graphql.RawParams) *gqlerror.Error {
	if p.OperationName == "Early" {
		panic("no luck")
	}
	return nil
}

func (trap) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if op.OperationName == "Late" {
		panic("no luck")
	}
	return nil
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
	exec := executor.New(&graphql.ExecutableSchemaMock{
		ExecFunc:       b.exec,
		SchemaFunc:     func() *ast.Schema { return schema },
		ComplexityFunc: func(context.Context, string, string, int, map[string]any) (int, bool) { return 0, false },
	})
	exec.Use(trap{})
	if o.Exec == nil {
		o.Exec = exec
	}
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
