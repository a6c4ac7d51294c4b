package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/weirhq/weir/runtime/run"
)

func TestPost(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	a := b.post(t, `{server{version}}`)
	if a.status != 200 || a.body != `{"data":{"server":{"version":"v1"}}}` {
		t.Errorf("%d %s", a.status, a.body)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	a = b.ask(t, http.MethodPost, "/graphql",
		`{"query":"query A{server{version}} query B($s:ID!){session(id:$s){id}}","operationName":"B","variables":{"s":"`+session+`"}}`,
		"Content-Type", "application/graphql+json; charset=UTF-8")
	if a.body != `{"data":{"session":{"id":"`+session+`"}}}` {
		t.Error(a.body)
	}
	if a := b.post(t, `mutation{createSession(input:{title:"x"}){title}}`); a.body != `{"data":{"createSession":{"title":"x"}}}` {
		t.Error(a.body)
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	q := url.Values{"query": {`query($s:ID!){session(id:$s){id}}`}, "variables": {`{"s":"` + session + `"}`}}
	if a := b.ask(t, http.MethodGet, "/graphql?"+q.Encode(), ""); a.status != 200 || a.body != `{"data":{"session":{"id":"`+session+`"}}}` {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// What is no operation is refused with its status, and its body is not repeated.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	const secret = "hunter2"
	const post, get = http.MethodPost, http.MethodGet
	for name, c := range map[string]struct {
		method, kind, path, body string
		status                   int
		says                     string
	}{
		"Form":              {post, "application/x-www-form-urlencoded", "", "query={server{version}}&p=" + secret, 415, "application/json"},
		"Multipart":         {post, "multipart/form-data; boundary=x", "", secret, 415, "application/json"},
		"TextPlain":         {post, "text/plain", "", `{"query":"{server{version}}"}`, 415, "text/plain"},
		"NoContentType":     {post, "", "", `{"query":"{server{version}}"}`, 415, "application/json"},
		"ForeignCharset":    {post, "application/json; charset=utf-16", "", `{}`, 415, "utf-16"},
		"NotJSON":           {post, "application/json", "", secret, 400, "byte 1"},
		"CutShort":          {post, "application/json", "", `{"query":"` + secret, 400, "ends too early"},
		"AList":             {post, "application/json", "", `[{"query":"{server{version}}"}]`, 400, "array"},
		"TwoObjects":        {post, "application/json", "", `{"query":"{server{version}}"} {"p":"` + secret + `"}`, 400, "something follows"},
		"VariablesAsList":   {post, "application/json", "", `{"query":"{server{version}}","variables":[1]}`, 400, "an object for variables"},
		"QueryAsNumber":     {post, "application/json", "", `{"query":5}`, 400, "a string for query"},
		"NoQuery":           {post, "application/json", "", `{}`, 400, "no query"},
		"Null":              {post, "application/json", "", `null`, 400, "no query"},
		"Empty":             {post, "application/json", "", ``, 400, "ends too early"},
		"InvalidUTF8":       {post, "application/json", "", "{\"query\":\"{server{version}}\",\"x\":\"\xff\"}", 400, "UTF-8 (at byte 34)"},
		"TooLarge":          {post, "application/json", "", `{"query":"` + strings.Repeat("x", 5<<20), 413, "2097152 bytes"},
		"Subscription":      {post, "application/json", "", `{"query":"subscription{events(sessionId:\"` + session + `\"){seq}}"}`, 400, "Accept: text/event-stream"},
		"GetSubscription":   {get, "", "?query=" + url.QueryEscape(`subscription{events(sessionId:"`+session+`"){seq}}`), "", 400, "Accept: text/event-stream"},
		"GetMutation":       {get, "", "?query=" + url.QueryEscape(`mutation{createSession(input:{title:"GetMutation"}){id}}`), "", 405, "POST"},
		"GetNothing":        {get, "", "", "", 400, "no query"},
		"GetBadVariables":   {get, "", "?query={server{version}}&variables=" + secret, "", 400, "variables"},
		"GetBadUTF8":        {get, "", "?query=%ff", "", 400, "UTF-8"},
		"Put":               {http.MethodPut, "application/json", "", `{}`, 405, "PUT"},
		"Delete":            {http.MethodDelete, "", "", ``, 405, "DELETE"},
		"PreflightOfNobody": {http.MethodOptions, "", "", ``, 405, "OPTIONS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var headers []string
			if c.kind != "" {
				headers = []string{"Content-Type", c.kind}
			}
			a := b.ask(t, c.method, "/graphql"+c.path, c.body, headers...)
			code, message := a.code(t)
			if a.status != c.status || code != string(run.Invalid) || !strings.Contains(message, c.says) {
				t.Errorf("%d %s, want %d INVALID with %q", a.status, a.body, c.status, c.says)
			}
			if strings.Contains(a.body, secret) {
				t.Errorf("the answer repeats the body: %s", a.body)
			}
			if a.status == 405 && a.header.Get("Allow") == "" {
				t.Error("no Allow")
			}
		})
	}
	t.Cleanup(func() {
		if len(b.started) > 0 {
			t.Error("a refused request reached the engine")
		}
	})
}

func TestContentEncoding(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for coding, want := range map[string]int{"gzip": 415, "br": 415, "identity, gzip": 415, "identity": 200, "": 200} {
		a := b.post(t, `{server{version}}`, "Content-Encoding", coding)
		if code, message := a.code(t); a.status != want || (want == 415 && (code != string(run.Invalid) || !strings.Contains(message, coding))) {
			t.Errorf("%q: %d %s, want %d", coding, a.status, a.body, want)
		}
	}
}

// The GraphQL over HTTP draft: the status of a document that cannot be executed
// depends on the type that the client asked for, and it has no data entry.
func TestStatusOfDocumentErrors(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for _, q := range []string{`{`, `{nope}`, `query($a:Int!){runs(first:$a){hasMore}}`} {
		for accept, want := range map[string]struct {
			status int
			kind   string
		}{
			"":                                  {200, typeJSON},
			"application/json":                  {200, typeJSON},
			"*/*":                               {200, typeJSON},
			"text/html":                         {200, typeJSON},
			"application/graphql-response+json": {400, typeResponse},
			"application/graphql-response+json, application/json;q=0.9":   {400, typeResponse},
			"application/json, application/graphql-response+json":         {200, typeJSON},
			"application/graphql-response+json;q=0, application/json;q=1": {200, typeJSON},
		} {
			a := b.post(t, q, "Accept", accept)
			code, _ := a.code(t)
			if a.status != want.status || !strings.HasPrefix(a.header.Get("Content-Type"), want.kind) || strings.Contains(a.body, `"data"`) || !strings.HasPrefix(code, "GRAPHQL_") {
				t.Errorf("%s accepting %q: %d %s %s", q, accept, a.status, a.header.Get("Content-Type"), a.body)
			}
		}
	}
	// An error of the execution is an answer: 200 for both, with data.
	for _, accept := range []string{typeJSON, typeResponse} {
		a := b.post(t, `{run(id:"nope"){id}}`, "Accept", accept)
		if code, _ := a.code(t); a.status != 200 || code != string(run.NotFound) || !strings.Contains(a.body, `"data":{"run":null}`) {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

func TestSubscriptionOverWebSocket(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	c, _, err := b.dial(t, nil) //nolint:bodyclose // Dial closes it
	if err != nil {
		t.Fatal(err)
	}
	send(t, c, `{"type":"connection_init"}`)
	if got, err := read(t, c); got != `{"type":"connection_ack"}` {
		t.Fatal(got, err)
	}
	send(t, c, `{"id":"1","type":"subscribe","payload":{"query":"subscription($a:Long){events(sessionId:\"`+session+`\",after:$a){seq ...on Warning{text}}}","variables":{"a":"9007199254740993"}}}`)
	if got, err := read(t, c); got != `{"id":"1","type":"next","payload":{"data":{"events":[{"seq":"9007199254740994","text":"w"}]}}}` {
		t.Fatal(got, err)
	}
	send(t, c, `{"id":"2","type":"subscribe","payload":{"query":"subscription{events(sessionId:\"nope\"){seq}}"}}`)
	if got, err := read(t, c); !strings.HasPrefix(got, `{"id":"2","type":"error"`) || !strings.Contains(got, `"NOT_FOUND"`) {
		t.Fatal(got, err)
	}
}

// breaking is an executor whose answers panic.
type breaking struct{ graphql.GraphExecutor }

func (b breaking) DispatchOperation(ctx context.Context, _ *graphql.OperationContext) (graphql.ResponseHandler, context.Context) {
	return func(context.Context) *graphql.Response { panic("no luck") }, ctx
}

// brittle is an executor that panics while it judges a document.
type brittle struct{ graphql.GraphExecutor }

func (brittle) CreateOperationContext(context.Context, *graphql.RawParams) (*graphql.OperationContext, gqlerror.List) {
	panic("no luck")
}

func TestAPanicIsAnInternalError(t *testing.T) {
	t.Parallel()
	for name, exec := range map[string]func(graphql.GraphExecutor) graphql.GraphExecutor{
		"Judging":   func(e graphql.GraphExecutor) graphql.GraphExecutor { return brittle{e} },
		"Answering": func(e graphql.GraphExecutor) graphql.GraphExecutor { return breaking{e} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testPanic(t, exec)
		})
	}
}

func testPanic(t *testing.T, exec func(graphql.GraphExecutor) graphql.GraphExecutor) {
	log := new(syncBuffer)
	b := setup(t, func(o *Options) {
		o.API, o.Log = api{o.API, exec(o.API.Executor())}, slog.New(slog.NewTextHandler(log, nil))
	})
	a := b.post(t, `{server{version}}`)
	if code, message := a.code(t); a.status != 500 || code != string(run.Internal) || strings.Contains(message, "luck") || !strings.Contains(message, "internal error (id ") {
		t.Errorf("%d %s", a.status, a.body)
	}
	c, _, err := b.dial(t, nil) //nolint:bodyclose // Dial closes it
	if err != nil {
		t.Fatal(err)
	}
	send(t, c, `{"type":"connection_init"}`)
	if got, err := read(t, c); got != `{"type":"connection_ack"}` {
		t.Fatal(got, err)
	}
	send(t, c, `{"id":"1","type":"subscribe","payload":{"query":"{server{version}}"}}`)
	if got, err := read(t, c); !strings.HasPrefix(got, `{"id":"1","type":"error","payload":[{"message":"internal error (id `) || !strings.Contains(got, `"INTERNAL"`) {
		t.Error(got, err)
	}
	if n := strings.Count(log.String(), `level=ERROR msg="panic in an operation"`); n != 2 {
		t.Errorf("%d of 2 panics are logged: %s", n, log)
	}
	if a := b.ask(t, http.MethodGet, "/healthz", ""); a.status != 200 {
		t.Errorf("and then: %d", a.status)
	}
}

// syncBuffer is written to by several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// The numbers that once took a process down, over every transport.
func TestNumbersOutOfRange(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	const big = "9223372036854775808"
	a := b.post(t, `{events(sessionId:"`+session+`",after:`+big+`){lastSeq}}`)
	if code, message := a.code(t); a.status != 200 || code != string(run.Invalid) || !strings.Contains(message, "after is "+big) {
		t.Errorf("%d %s", a.status, a.body)
	}
	c, _, err := b.dial(t, nil) //nolint:bodyclose // Dial closes it
	if err != nil {
		t.Fatal(err)
	}
	send(t, c, `{"type":"connection_init"}`)
	if got, err := read(t, c); got != `{"type":"connection_ack"}` {
		t.Fatal(got, err)
	}
	send(t, c, `{"id":"1","type":"subscribe","payload":{"query":"subscription{events(sessionId:\"`+session+`\",after:`+big+`){seq}}"}}`)
	if got, err := read(t, c); !strings.Contains(got, "after is "+big) || !strings.Contains(got, `"INVALID"`) {
		t.Error(got, err)
	}
}

type api struct {
	API
	exec graphql.GraphExecutor
}

func (a api) Executor() graphql.GraphExecutor { return a.exec }
