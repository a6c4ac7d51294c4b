package gemini_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/agent/llm/gemini"
	"github.com/weirhq/weir/runtime/run"
)

const usage = `"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":3,"thoughtsTokenCount":2,"totalTokenCount":15}`

// server answers each request with the same body and keeps what was asked.
type server struct {
	*httptest.Server
	status int
	header map[string]string
	body   string

	path, key, asked string
}

func newServer(t *testing.T, body string) *server {
	t.Helper()
	s := &server{status: http.StatusOK, body: body}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the request: %v", err)
		}
		s.path, s.key, s.asked = r.URL.String(), r.Header.Get("X-Goog-Api-Key"), string(b)
		w.Header().Set("Content-Type", "text/event-stream")
		for k, v := range s.header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.body)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) ask(t *testing.T, q chat.Request) (chat.Reply, string, error) {
	t.Helper()
	if q.Model == "" {
		q.Model = "gemini-3.8-flash"
	}
	if q.Messages == nil {
		q.Messages = []chat.Message{{Role: chat.User, Parts: []chat.Part{chat.Text{Text: "Hello"}}}}
	}
	c := chat.NewClient()
	defer c.CloseIdleConnections()
	m := gemini.New(gemini.Options{BaseURL: s.URL, Key: "key-1", Client: c})
	shown := map[int]string{}
	reply, err := m.Stream(t.Context(), q, func(i int, piece string) error {
		shown[i] += piece
		return nil
	})
	for i, p := range reply.Parts {
		if p, ok := p.(chat.Text); ok && shown[i] != p.Text {
			t.Errorf("part %d is %q, shown was %q", i, p.Text, shown[i])
		}
	}
	var all strings.Builder
	for i := range len(reply.Parts) {
		all.WriteString(shown[i])
	}
	return reply, all.String(), err
}

func data(events ...string) string { return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n" }

// says is an event with parts; more follows them in the candidate.
func says(parts, more string) string {
	return `{"candidates":[{"content":{"role":"model","parts":[` + parts + `]}` + more + `}],` + usage + `,"responseId":"r1","modelVersion":"gemini-3.8-flash"}`
}

const stop = `,"finishReason":"STOP"`

// Signatures go back on what they came on; that of a text stands behind it.
func TestSignaturesGoBack(t *testing.T) {
	t.Parallel()
	s := newServer(t, data(
		says(`{"text":"I look ","thought":true},{"text":"around.","thought":true,"thoughtSignature":"dGhv"}`, ""),
		says(`{"text":"Let ","thoughtSignature":"dHh0"}`, ""), says(`{"text":"me see."}`, ""), says(`{"text":"","thoughtSignature":"ZW5k"}`, ""),
		says(`{"functionCall":{"id":"f1","name":"list","args":{"z":1,"a":12345678901234567890}},"thoughtSignature":"Y2Fs"}`, ""),
		says(`{"functionCall":{"name":"list"}},{"executableCode":{"language":"PYTHON","code":"1"}}`, ""), says(`{"text":""}`, stop),
	))
	reply, shown, err := s.ask(t, chat.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if shown != "Let me see." || reply.Stop != chat.Calls || reply.ID != "r1" {
		t.Errorf("shown was %q, the stop %s of %s", shown, reply.Stop, reply.ID)
	}
	if len(reply.Parts) != 6 {
		t.Fatalf("%d parts: %+v", len(reply.Parts), reply.Parts)
	}
	first, second := reply.Parts[4].(chat.Call), reply.Parts[5].(chat.Call)
	if first.ID != "f1" || second.ID == "" || string(second.Arguments) != "{}" || second.Broken != "" {
		t.Errorf("the calls are %+v and %+v", first, second)
	}
	back := append([]chat.Part{chat.Reasoning{Text: "Another's", Opaque: json.RawMessage(`{"anthropic":{"signature":"x"}}`)}}, reply.Parts...)
	if _, _, err = s.ask(t, chat.Request{Messages: []chat.Message{
		{Role: chat.User, Parts: []chat.Part{chat.Text{Text: "Hello"}}},
		{Role: chat.Assistant, Parts: back},
		{Role: chat.User, Parts: []chat.Part{
			chat.Result{ID: "f1", Name: "list", Text: "a"}, chat.Result{ID: second.ID, Name: "list", Text: "no", IsError: true}, chat.Text{Text: "Go on"},
		}},
		{Role: chat.Assistant, Parts: back[:1]},
		{Role: chat.User, Parts: []chat.Part{chat.Text{Text: "Now"}}},
	}}); err != nil {
		t.Fatal(err)
	}
	const want = `"contents":[{"role":"user","parts":[{"text":"Hello"}]},` +
		`{"role":"model","parts":[{"text":"I look around.","thought":true,"thoughtSignature":"dGhv"},{"text":"Let me see."},` +
		`{"text":"","thoughtSignature":"dHh0"},{"text":"","thoughtSignature":"ZW5k"},` +
		`{"thoughtSignature":"Y2Fs","functionCall":{"id":"f1","name":"list","args":{"z":1,"a":12345678901234567890}}},` +
		`{"functionCall":{"name":"list","args":{}}}]},` +
		`{"role":"user","parts":[{"functionResponse":{"id":"f1","name":"list","response":{"output":"a"}}},` +
		`{"functionResponse":{"name":"list","response":{"error":"no"}}},{"text":"Go on"},{"text":"Now"}]}]`
	if !strings.Contains(s.asked, want) {
		t.Errorf("asked was\n%s\nwant in it\n%s", s.asked, want)
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	text := `{"text":"So"}`
	for name, c := range map[string]struct {
		event string
		stop  chat.Stop
		why   string
		class chat.Class // "": the answer is whole
	}{
		"stop":             {says(text, stop), chat.Done, "", ""},
		"max tokens":       {says(text, `,"finishReason":"MAX_TOKENS"`), chat.MaxOutput, "", ""},
		"safety":           {`{"candidates":[{"finishReason":"SAFETY","finishMessage":"no"}],` + usage + `}`, chat.Refused, "SAFETY: no", ""},
		"recitation":       {says(text, `,"finishReason":"RECITATION"`), chat.Refused, "RECITATION", ""},
		"prohibited":       {says(text, `,"finishReason":"PROHIBITED_CONTENT"`), chat.Refused, "PROHIBITED_CONTENT", ""},
		"spii":             {says(text, `,"finishReason":"SPII"`), chat.Refused, "SPII", ""},
		"blocked":          {`{"promptFeedback":{"blockReason":"SAFETY","safetyRatings":[]},` + usage + `,"modelVersion":"m"}`, chat.Refused, "SAFETY", ""},
		"blocked, told":    {`{"promptFeedback":{"blockReason":"OTHER","blockReasonMessage":"rules"},` + usage + `}`, chat.Refused, "OTHER: rules", ""},
		"a broken call":    {says(text, `,"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"call:f("`), chat.Done, "", chat.Malformed},
		"no such tool":     {says(text, `,"finishReason":"UNEXPECTED_TOOL_CALL"`), chat.Done, "", chat.Malformed},
		"empty":            {says(`{"text":""}`, stop), chat.Done, "", chat.Malformed},
		"no end":           {says(text, `,"finishReason":"FINISH_REASON_UNSPECIFIED"`), chat.Done, "", chat.Passing},
		"an unknown end":   {says(text, `,"finishReason":"TIRED"`), chat.Done, "", ""},
		"unknown fields":   {says(text+`,{"hologram":{"x":1}}`, stop+`,"mood":["good"]`), chat.Done, "", ""},
		"a lost signature": {says(text, `,"finishReason":"MISSING_THOUGHT_SIGNATURE"`), chat.Done, "", chat.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reply, _, err := newServer(t, data(c.event)).ask(t, chat.Request{})
			if reply.Stop != c.stop || reply.Why != c.why {
				t.Errorf("it stopped with %s, %q, want %s, %q", reply.Stop, reply.Why, c.stop, c.why)
			}
			wantClass(t, err, c.class)
			if len(reply.Usage) != 1 || reply.Usage[0].Tokens != (run.Tokens{Input: 10, Output: 5, Reasoning: 2}) {
				t.Fatalf("the usage is %+v", reply.Usage)
			}
			if whole := c.class != chat.Passing; (reply.Usage[0].Provenance == run.Measured) != whole || (len(reply.Incomplete) == 0) != whole {
				t.Errorf("the usage is %s, %v", reply.Usage[0].Provenance, reply.Incomplete)
			}
		})
	}
}

func wantClass(t *testing.T, err error, want chat.Class) {
	t.Helper()
	var e *chat.Error
	switch {
	case want == "" && err != nil:
		t.Errorf("the error is %v", err)
	case want != "" && (!errors.As(err, &e) || e.Class != want):
		t.Errorf("the error is %#v, want one that is %s", err, want)
	}
}

// What SSE allows, and what stands between the events of some servers.
func TestFrames(t *testing.T) {
	t.Parallel()
	one, two := says(`{"text":"One "}`, ""), says(`{"text":"two"}`, stop)
	for name, body := range map[string]string{
		"CRLF":            strings.ReplaceAll(data(one, two), "\n", "\r\n"),
		"comments":        ": ping\n\n" + data(one) + ":\n\n" + data(two),
		"other fields":    "event: message\nid: 1\n" + data(one) + "retry: 10\n\n" + data(two),
		"several lines":   "data: " + strings.Replace(one, "[{", "[\ndata:\ndata: {", 1) + "\n\n" + data(two),
		"no last newline": strings.TrimRight(data(one, two), "\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reply, shown, err := newServer(t, body).ask(t, chat.Request{})
			if err != nil || shown != "One two" || len(reply.Parts) != 1 {
				t.Errorf("%+v, %q, %v", reply, shown, err)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	const retry = `{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37.5s"}]}}`
	say := func(code int, text string) string {
		return fmt.Sprintf(`{"error":{"code":%d,"message":%q}}`, code, text)
	}
	for name, c := range map[string]struct {
		status int
		body   string
		class  chat.Class
		text   string
		after  time.Duration
	}{
		"a wait":               {429, retry, chat.Passing, "slow down", 37500 * time.Millisecond},
		"in a list":            {429, "[" + retry + "\n]", chat.Passing, "slow down", 37500 * time.Millisecond},
		"a wrong key":          {400, `{"error":{"code":400,"message":"no","details":[{"reason":"API_KEY_INVALID"}]}}`, chat.Denied, "no", 0},
		"a wrong key, in text": {400, say(400, "API key not valid. Please pass a valid API key."), chat.Denied, "API key", 0},
		"forbidden":            {403, say(403, "reported as leaked"), chat.Denied, "leaked", 0},
		"no bill":              {403, `{"error":{"code":403,"message":"no","details":[{"reason":"BILLING_DISABLED"}]}}`, chat.NoCredit, "no", 0},
		"no credits":           {429, say(429, "Your prepayment credits are depleted."), chat.NoCredit, "depleted", 0},
		"too long":             {400, say(400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."), chat.TooLong, "1048576", 0},
		"no such model":        {404, say(404, "models/x is not found"), chat.Invalid, "models/x", 0},
		"no JSON":              {502, "<html>Bad gateway</html>", chat.Passing, "Bad gateway", 0},
		"nothing":              {500, "", chat.Passing, "Internal Server Error", 0},
		"in the stream":        {200, data(says(`{"text":"So"}`, ""), say(503, "overloaded")), chat.Passing, "overloaded", 0},
		"beside the stream":    {200, data(says(`{"text":"So"}`, "")) + ": ping\n" + strings.ReplaceAll(say(400, "bad"), ",", ",\n"), chat.Invalid, "bad", 0},
		"a torn event":         {200, data(says(`{"text":"So"}`, "")) + `data: {"candidates":`, chat.Malformed, "is no JSON", 0},
		"no event":             {200, data(`{]`), chat.Malformed, "cannot be read", 0},
		"an odd part":          {200, data(`{"candidates":[{"content":{"parts":7}}],` + usage + `}`), chat.Malformed, "cannot be read", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, c.body)
			s.status = c.status
			reply, _, err := s.ask(t, chat.Request{})
			wantClass(t, err, c.class)
			var e *chat.Error
			if errors.As(err, &e) && (!strings.Contains(e.Text, c.text) || e.After != c.after) {
				t.Errorf("the error is %q after %s, want %q after %s", e.Text, e.After, c.text, c.after)
			}
			if booked := strings.Contains(c.body, "usageMetadata"); (len(reply.Usage) > 0) != booked {
				t.Errorf("the usage is %+v", reply.Usage)
			}
		})
	}
}

// The caller's cause is told, and not what it came out as.
func TestCancelled(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, data(says(`{"text":"So"}`, "")))
		_ = http.NewResponseController(w).Flush()
		<-over
	}))
	defer srv.Close()
	defer close(over)
	c := chat.NewClient()
	defer c.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	reply, err := gemini.New(gemini.Options{BaseURL: srv.URL, Client: c}).Stream(ctx, chat.Request{Model: "m"}, func(int, string) error {
		cancel(cause)
		return nil
	})
	if !errors.Is(err, cause) || len(reply.Parts) != 1 || len(reply.Usage) != 1 {
		t.Errorf("%+v, %v", reply, err)
	}
}

// Nothing comes from the environment, and a key that is not given is not sent.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"} {
		t.Setenv(name, "of-the-environment")
	}
	t.Setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
	t.Setenv("GOOGLE_GENAI_USE_ENTERPRISE", "true")
	s := newServer(t, data(says(`{"text":"So"}`, stop)))
	for base, path := range map[string]string{
		"": "/v1beta/models/m:", "/v1": "/v1/models/m:", "/proxy/v1beta/": "/proxy/v1beta/models/m:", "/proxy": "/proxy/v1beta/models/m:",
	} {
		c := chat.NewClient()
		m := gemini.New(gemini.Options{BaseURL: s.URL + base, Client: c})
		_, err := m.Stream(t.Context(), chat.Request{Model: "m"}, func(int, string) error { return nil })
		c.CloseIdleConnections()
		if err != nil || s.key != "" || s.path != path+"streamGenerateContent?alt=sse" {
			t.Errorf("with %q asked was %s with the key %q: %v", base, s.path, s.key, err)
		}
	}
	asked := ""
	c := &http.Client{Transport: reach(func(q *http.Request) { asked = q.URL.Host })}
	if _, err := gemini.New(gemini.Options{Client: c}).Stream(t.Context(), chat.Request{Model: "m"}, nil); err == nil || asked != "generativelanguage.googleapis.com" {
		t.Errorf("asked was %q: %v", asked, err)
	}
}

// reach notes where a request goes and does not send it.
type reach func(*http.Request)

func (r reach) RoundTrip(q *http.Request) (*http.Response, error) {
	r(q)
	return nil, errors.New("not sent")
}

func TestThinking(t *testing.T) {
	t.Parallel()
	s := newServer(t, data(says(`{"text":"So"}`, stop)))
	levels := []chat.Level{chat.None, chat.Low, chat.Medium, chat.High, chat.Max}
	for model, want := range map[string][]string{
		"gemini-2.0-flash":       {"", "", "", "", ""},
		"gemini-2.5-flash":       {"0", "1024", "8192", "24576", "24576"},
		"gemini-2.5-pro":         {"128", "1024", "8192", "24576", "32768"},
		"gemini-3-pro-preview":   {"LOW", "LOW", "LOW", "HIGH", "HIGH"},
		"gemini-3.1-pro-preview": {"LOW", "LOW", "MEDIUM", "HIGH", "HIGH"},
		"gemini-3.6-flash":       {"MINIMAL", "LOW", "MEDIUM", "HIGH", "HIGH"},
		"gemini-3.8-flash":       {"LOW", "LOW", "MEDIUM", "HIGH", "HIGH"},
		"gemini-3.8-flash-lite":  {"MINIMAL", "LOW", "MEDIUM", "HIGH", "HIGH"},
		"gemini-flash-latest":    {"LOW", "LOW", "MEDIUM", "HIGH", "HIGH"},
		"models/gemini-4-argon":  {"LOW", "LOW", "MEDIUM", "HIGH", "HIGH"},
	} {
		var got []string
		for _, level := range levels {
			if _, _, err := s.ask(t, chat.Request{Model: model, Reasoning: level, MaxOutput: 1 << 40}); err != nil {
				t.Fatal(err)
			}
			var q struct {
				Config struct {
					Max      int64 `json:"maxOutputTokens"`
					Thinking *struct {
						Include bool   `json:"includeThoughts"`
						Level   string `json:"thinkingLevel"`
						Budget  *int   `json:"thinkingBudget"`
					} `json:"thinkingConfig"`
				} `json:"generationConfig"`
			}
			if err := json.Unmarshal([]byte(s.asked), &q); err != nil {
				t.Fatal(err)
			}
			at, said := q.Config.Thinking, ""
			if at != nil {
				if said = at.Level; at.Budget != nil {
					said += fmt.Sprint(*at.Budget)
				}
				if at.Include != (level != chat.None) {
					t.Errorf("%s at %s: thoughts are asked for: %t", model, level, at.Include)
				}
			}
			if got = append(got, said); q.Config.Max != 1<<31-1 {
				t.Errorf("the limit is %d", q.Config.Max)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", model, got, want)
		}
	}
	if _, _, err := s.ask(t, chat.Request{}); err != nil || strings.Contains(s.asked, "generationConfig\":{\"") || s.key != "key-1" {
		t.Errorf("asked was %s: %v", s.asked, err)
	}
}
