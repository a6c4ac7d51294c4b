package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestBadInput: each answer has the right code and names the value, and the
// server has kept nothing of it.
func TestBadInput(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, url string) {
		t.Parallel()
		s := newServer(t, url, "--agents", agentsFolder(t))
		s.start()
		busy := s.startRun(map[string]any{"agent": "script", "command": []string{"sleep", "120"}})
		s.waitStatus(busy.ID, 10*time.Second, "RUNNING")
		ok := []string{"true"}
		start := `mutation($input: StartRunInput!) { startRun(input: $input) { id } }`
		input := func(kv ...any) map[string]any {
			in := map[string]any{"agent": "script"}
			for i := 0; i < len(kv); i += 2 {
				in[kv[i].(string)] = kv[i+1]
			}
			return map[string]any{"input": in}
		}
		sandbox := func(k string, v any) map[string]any {
			return input("command", ok, "sandbox", map[string]any{k: v})
		}
		events := `query($s: ID!, $after: Long, $first: Int, $last: Int) { events(sessionId: $s, after: $after, first: $first, last: $last) { lastSeq } }`
		for _, c := range []struct {
			name      string
			query     string
			variables map[string]any
			code      string
			words     []string // parts of the message
		}{
			{"UnknownAgent", start, input("agent", "nobody", "command", ok), "NOT_FOUND", []string{"nobody", "script"}},
			{"UnknownSession", start, input("sessionId", "ses_0000000000000000000000zzzz", "command", ok), "NOT_FOUND", []string{"ses_0000000000000000000000zzzz"}},
			{"MalformedSession", start, input("sessionId", "../../etc", "command", ok), "NOT_FOUND", []string{"../../etc"}},
			{"CodeAndCommand", start, input("code", "print(1)", "command", ok), "INVALID", []string{"code", "command"}},
			{"NeitherCodeNorCommand", start, input(), "INVALID", []string{"code", "command"}},
			{"EmptyCommand", start, input("command", []string{}), "INVALID", []string{"command"}},
			{"EmptyPrompt", start, input("agent", "asker", "prompt", ""), "INVALID", []string{"prompt"}},
			{"CodeTooLong", start, input("code", strings.Repeat("#", 1<<20+1)), "INVALID", []string{"code", "1048576"}},
			{"NulInCode", start, input("code", "print('a\x00b')"), "INVALID", []string{"code"}},
			{"NulInCommand", start, input("command", []string{"echo", "a\x00b"}), "INVALID", []string{"command"}},
			{"NulInEnv", start, input("command", ok, "env", []map[string]any{{"name": "A", "value": "x\x00y"}}), "INVALID", []string{"A"}},
			{"EqualsInEnvName", start, input("command", ok, "env", []map[string]any{{"name": "A=B", "value": "x"}}), "INVALID", []string{"A=B"}},
			{"StageWithBlank", start, input("command", ok, "stage", "my stage"), "INVALID", []string{"my stage"}},
			{"StageTooLong", start, input("command", ok, "stage", strings.Repeat("s", 65)), "INVALID", []string{"64"}},
			{"LabelsNotAnObject", start, input("command", ok, "labels", []int{1}), "INVALID", []string{"labels"}},
			{"NegativeTimeout", start, input("command", ok, "timeoutSeconds", -1), "INVALID", []string{"timeoutSeconds", "-1"}},
			{"NegativeMemory", start, sandbox("memoryMiB", -5), "INVALID", []string{"memoryMiB", "-5"}},
			{"AbsurdMemory", start, sandbox("memoryMiB", 2000000000), "FORBIDDEN", []string{"memoryMiB", "2000000000"}},
			{"AbsurdSeconds", start, sandbox("timeoutSeconds", 1e300), "", []string{"timeoutSeconds"}},
			{"NegativeCpus", start, sandbox("cpus", -0.5), "INVALID", []string{"cpus", "-0.5"}},
			{"UnknownBackend", start, sandbox("backend", "cloud9"), "", []string{"cloud9"}},
			{"NetworkHost", start, sandbox("network", "HOST"), "FORBIDDEN", []string{"HOST"}},
			{"BusySession", start, input("sessionId", busy.Session.ID, "command", ok), "BUSY", []string{busy.ID}},
			{"DeleteLiveSession", `mutation($s: ID!) { deleteSession(id: $s) }`, map[string]any{"s": busy.Session.ID}, "BUSY", []string{busy.ID}},
			{"NegativeFirst", events, map[string]any{"s": busy.Session.ID, "first": -1}, "INVALID", []string{"-1"}},
			{"HugeFirst", events, map[string]any{"s": busy.Session.ID, "first": 1001}, "INVALID", []string{"1001", "1000"}},
			{"FirstAndLast", events, map[string]any{"s": busy.Session.ID, "first": 1, "last": 1}, "INVALID", []string{"first", "last"}},
			{"NegativeAfter", events, map[string]any{"s": busy.Session.ID, "after": -1}, "INVALID", []string{"-1"}},
			{"EventsOfNobody", events, map[string]any{"s": "ses_0000000000000000000000zzzz"}, "NOT_FOUND", []string{"ses_0000000000000000000000zzzz"}},
			{"MalformedCursor", `query { runs(after: "☃") { hasMore } }`, nil, "INVALID", []string{"☃"}},
			{"HugePage", `query { runs(first: 100000) { hasMore } }`, nil, "", nil},
			{"MessageToNobody", `mutation { sendMessage(input: {sessionId: "ses_0000000000000000000000zzzz", text: "hi"}) { id } }`, nil, "NOT_FOUND", nil},
			{"AnswerToNothing", `mutation { answerQuestion(input: {id: "qst_00000000000000000000000000", answer: 1}) { id } }`, nil, "NOT_FOUND", nil},
			{"UnknownField", `query { server { nonsense } }`, nil, "GRAPHQL_VALIDATION_FAILED", []string{"nonsense"}},
			{"NotGraphQL", `query {`, nil, "GRAPHQL_PARSE_FAILED", nil},
		} {
			t.Run(c.name, func(t *testing.T) {
				r, status, err := s.do(t.Context(), c.query, c.variables)
				if err != nil {
					t.Fatal(err)
				}
				if len(r.Errors) == 0 {
					t.Fatalf("HTTP %d, no error: %s", status, r.Data)
				}
				e := r.Errors[0]
				if c.code != "" && e.Extensions.Code != c.code || e.Extensions.Code == "INTERNAL" || e.Extensions.Code == "" {
					t.Errorf("code %q, want %q: %s", e.Extensions.Code, c.code, e.Message)
				}
				for _, w := range c.words {
					if !strings.Contains(e.Message, w) {
						t.Errorf("the message does not name %q: %s", w, e.Message)
					}
				}
				if len(e.Message) > 600 {
					t.Errorf("the message has %d characters: it echoes its input", len(e.Message))
				}
				t.Log(e.Extensions.Code, e.Message)
			})
		}
		var out struct{ Runs struct{ Nodes []runInfo } }
		s.must(`query { runs { nodes { id status } } }`, nil, &out)
		if len(out.Runs.Nodes) != 1 {
			t.Errorf("there are %d runs, want only the busy one", len(out.Runs.Nodes))
		}
		t.Run("CommandNotFound", func(t *testing.T) {
			r := s.startRun(map[string]any{"agent": "script", "command": []string{"no-such-command-x"}})
			got := s.waitStatus(r.ID, 10*time.Second, "FAILED")
			if !strings.Contains(deref(got.Error), "no-such-command-x") {
				t.Errorf("the error is %q", deref(got.Error))
			}
		})
		t.Run("AfterBeyondTheEnd", func(t *testing.T) {
			var out struct{ CreateSession struct{ ID string } }
			s.must(`mutation { createSession(input: {title: "t"}) { id } }`, nil, &out)
			session := out.CreateSession.ID
			sub, err := s.subscribe(t.Context(), session, 3, filter{})
			if err != nil {
				t.Fatal(err)
			}
			defer sub.close()
			s.startRun(map[string]any{"agent": "script", "sessionId": session, "command": []string{"echo", "hello"}})
			batch, err := sub.next(background(t, 20*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			if h := headOf(batch[0]); h.Seq != 4 {
				t.Errorf("the first event after 3 has seq %d", h.Seq)
			}
		})
		t.Run("IdempotencyKey", func(t *testing.T) {
			in := map[string]any{"agent": "script", "command": []string{"true"}, "idempotencyKey": "k1"}
			a, b := s.startRun(in), s.startRun(in)
			if a.ID != b.ID {
				t.Errorf("the same key gave %s and %s", a.ID, b.ID)
			}
			in["command"] = []string{"false"}
			err := s.try(start, map[string]any{"input": in}, nil)
			if err == nil || !strings.HasPrefix(err.Error(), "CONFLICT") || !strings.Contains(err.Error(), "k1") {
				t.Errorf("the key with another payload gave %v", err)
			}
		})
		s.abort(busy.ID, false, true)
	})
}

// TestBadRequests: what HTTP itself can get wrong, and P8.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	s.start()
	query := `{"query":"{ server { version } }"}`
	for _, c := range []struct {
		name, method, path, body string
		header                   map[string]string
		status                   int
		words                    string
	}{
		{"Fine", "POST", "/graphql", query, nil, 200, "version"},
		{"OwnOrigin", "POST", "/graphql", query, map[string]string{"Origin": "http://" + s.addr}, 200, "version"},
		{"ForeignOrigin", "POST", "/graphql", query, map[string]string{"Origin": "http://evil.example"}, 403, "evil.example"},
		{"NullOrigin", "POST", "/graphql", query, map[string]string{"Origin": "null"}, 403, "null"},
		{"ForeignHost", "POST", "/graphql", query, map[string]string{"Host": "evil.example"}, 403, "evil.example"},
		{"ForeignHostOnThePage", "GET", "/", "", map[string]string{"Host": "evil.example"}, 403, "evil.example"},
		{"Forwarded", "POST", "/graphql", query, map[string]string{"X-Forwarded-For": "1.2.3.4"}, 403, "token"},
		{"ForwardedStandard", "POST", "/graphql", query, map[string]string{"Forwarded": "for=1.2.3.4"}, 403, "token"},
		{"Form", "POST", "/graphql", "query=%7Bserver%7Bversion%7D%7D", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, 415, "application/json"},
		{"PlainText", "POST", "/graphql", query, map[string]string{"Content-Type": "text/plain"}, 415, "application/json"},
		{"TooLarge", "POST", "/graphql", `{"query":"` + strings.Repeat(" ", 2<<20) + `"}`, nil, 413, "2097152 bytes"},
		{"NotJSON", "POST", "/graphql", `{"query":`, nil, 400, ""},
		{"InvalidUTF8", "POST", "/graphql", "{\"query\":\"mutation { createSession(input: {title: \\\"\xff\\\"}) { id } }\"}", nil, 400, "UTF-8"},
		{"MutationByGet", "GET", "/graphql?query=mutation%7BcreateSession%7Bid%7D%7D", "", nil, 405, ""},
		{"QueryByGet", "GET", "/graphql?query=%7Bserver%7Bversion%7D%7D", "", nil, 200, "version"},
		{"AbsentAsset", "GET", "/assets/none.js", "", nil, 404, ""},
		{"Page", "GET", "/", "", nil, 200, "<html"},
		{"Playground", "GET", "/playground", "", nil, 200, "<html"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+s.addr+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.method == "POST" {
				req.Header.Set("Content-Type", "application/json")
			}
			for k, v := range c.header {
				if k == "Host" {
					req.Host = v
				} else {
					req.Header.Set(k, v)
				}
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != c.status || !bytes.Contains(bytes.ToLower(body), []byte(strings.ToLower(c.words))) {
				t.Errorf("%s, want %d naming %q: %.400s", resp.Status, c.status, c.words, body)
			}
			if len(body) > 4000 && c.status >= 400 {
				t.Errorf("the refusal has %d bytes: it echoes its input", len(body))
			}
		})
	}
	var out struct {
		Sessions struct{ Nodes []json.RawMessage }
	}
	s.must(`{ sessions { nodes { id } } }`, nil, &out)
	if len(out.Sessions.Nodes) != 0 {
		t.Errorf("a refused request made a session: %s", out.Sessions.Nodes)
	}
}
