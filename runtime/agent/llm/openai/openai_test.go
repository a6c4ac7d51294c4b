package openai_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/agent/llm/openai"
	"github.com/weirhq/weir/runtime/run"
)

// server answers each request with the next of its answers.
type server struct {
	*httptest.Server
	client  *http.Client
	answers []string // a stream, or a status, a space and a body
	bodies  []string
	headers []http.Header
}

func serve(t *testing.T, answers ...string) *server {
	t.Helper()
	s := &server{client: chat.NewClient(), answers: answers}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		s.client.CloseIdleConnections()
	})
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a test looks at what came
	s.bodies, s.headers = append(s.bodies, string(body)), append(s.headers, r.Header)
	if len(s.answers) == 0 {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	if status, rest, ok := strings.Cut(answer, " "); ok && len(status) == 3 {
		code := 0
		for _, d := range status {
			code = code*10 + int(d-'0')
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, rest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, answer)
}

func (s *server) options(provider string) openai.Options {
	return openai.Options{BaseURL: s.URL + "/v1/", Key: "secret-0123456789", Provider: provider, Client: s.client}
}

// sse writes events, each from a line.
func sse(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("data: " + l + "\n\n")
	}
	return b.String()
}

var hello = []chat.Message{{Role: chat.User, Parts: []chat.Part{chat.Text{Text: "Hello"}}}}

func request() chat.Request {
	return chat.Request{Model: "model-1", Messages: hello, CacheKey: "session-1", Tools: []chat.Tool{{Name: "look", Schema: json.RawMessage(`{"type":"object","properties":{}}`)}}}
}

// ask gives the reply, and what was shown of its texts.
func ask(t *testing.T, m chat.Model, q chat.Request) (chat.Reply, string, error) {
	t.Helper()
	shown := map[int]string{}
	reply, err := m.Stream(t.Context(), q, func(part int, piece string) error {
		shown[part] += piece
		return nil
	})
	all := ""
	for i, text := range shown {
		if p, ok := reply.Parts[i].(chat.Text); !ok || p.Text != text {
			t.Errorf("part %d is %#v, shown was %q", i, reply.Parts[i], text)
		}
		all += text
	}
	return reply, all, err
}

func wantClass(t *testing.T, err error, class chat.Class, words string) {
	t.Helper()
	var e *chat.Error
	if !errors.As(err, &e) || e.Class != class || !strings.Contains(e.Text, words) {
		t.Errorf("the error is %#v (%v), want %s with %q", e, err, class, words)
	}
}

// both runs a test with each adapter.
func both(t *testing.T, test func(t *testing.T, open func(*server) chat.Model)) {
	t.Run("responses", func(t *testing.T) {
		t.Parallel()
		test(t, func(s *server) chat.Model { return openai.NewResponses(s.options("")) })
	})
	t.Run("chat", func(t *testing.T) {
		t.Parallel()
		test(t, func(s *server) chat.Model { return openai.NewChat(s.options("")) })
	})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		class  chat.Class
		words  string
	}{
		"no quota is no reason to wait": {`429 {"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, chat.NoCredit, "quota"},
		"too fast is":                   {`429 {"error":{"message":"Rate limit reached, maximum context length","type":"tokens","code":"rate_limit_exceeded"}}`, chat.Passing, "Rate limit"},
		"not paid":                      {`402 {"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}`, chat.NoCredit, "Balance"},
		"too long":                      {`400 {"error":{"message":"Your input is long","type":"invalid_request_error","code":"context_length_exceeded"}}`, chat.TooLong, "long"},
		"too long, of vLLM":             {`400 {"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}`, chat.TooLong, "4096"},
		"too long, of llama.cpp":        {`400 {"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, chat.TooLong, "context size"},
		"a text":                        {`404 {"error":"model 'x' not found"}`, chat.Invalid, "model 'x' not found"},
		"a detail":                      {`422 {"object":"error","message":{"detail":[{"msg":"Extra inputs"}]},"type":"invalid_request_error"}`, chat.Invalid, "Extra inputs"},
		"a list":                        {`400 [{"error":{"code":400,"message":"bad list","status":"INVALID_ARGUMENT"}}]`, chat.Invalid, "bad list"},
		"a page":                        {`502 <html><body>nginx</body></html>`, chat.Passing, "Bad Gateway"},
		"no JSON":                       {`503 upstream connect error`, chat.Passing, "upstream connect error"},
		"the key is not told":           {`401 {"error":{"message":"Received API Key = secret-0123456789"}}`, chat.Denied, "Key = (the key)"},
		"of the provider behind":        {`429 {"error":{"code":429,"message":"Provider returned error","metadata":{"raw":"model-1 is busy"}}}`, chat.Passing, "model-1 is busy"},
		"no stream":                     {`200 {"id":"x","object":"chat.completion"}`, chat.Invalid, "not with a stream"},
		"an error that is called well":  {`200 {"error":{"message":"busy","code":503}}`, chat.Passing, "busy"},
		"nothing":                       {"\n", chat.Passing, "broke off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, open func(*server) chat.Model) {
				s := serve(t, c.answer)
				reply, _, err := ask(t, open(s), request())
				wantClass(t, err, c.class, c.words)
				if len(s.bodies) != 1 || len(reply.Usage) != 0 {
					t.Errorf("%d requests, usage %+v", len(s.bodies), reply.Usage)
				}
			})
		})
	}
}

// The environment is the operator's, and what it holds may be for somebody else.
func TestTakesNothingFromTheEnvironment(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL", "OPENAI_CUSTOM_HEADERS", "OPENAI_ADMIN_KEY"} {
		t.Setenv(name, "X-Leak: leak")
	}
	s := serve(t, "400 {}", "400 {}")
	o := s.options("")
	o.Key = ""
	for _, m := range []chat.Model{openai.NewChat(o), openai.NewResponses(o)} {
		_, _, err := ask(t, m, request())
		wantClass(t, err, chat.Invalid, "Bad Request")
	}
	for _, h := range s.headers {
		for name, values := range h {
			if name == "Authorization" || strings.Contains(strings.Join(values, " "), "leak") {
				t.Errorf("the header %s is %q", name, values)
			}
		}
	}
	if len(s.headers) != 2 {
		t.Errorf("%d requests came", len(s.headers))
	}
}

func wantUsage(t *testing.T, r chat.Reply, want run.Tokens, p run.Provenance) {
	t.Helper()
	if len(r.Usage) != 1 || r.Usage[0].Tokens != want || r.Usage[0].Provenance != p {
		t.Errorf("the usage is %+v, want %s %+v", r.Usage, p, want)
	}
}
