package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// streamed is an answer of the Messages API: one block, and what it used.
func streamed(id, block, delta, stop string) string {
	var b strings.Builder
	for _, e := range []string{
		`{"type":"message_start","message":{"id":"` + id + `","type":"message","role":"assistant","model":"claude-sonnet-5-5","content":[],"stop_reason":null,"usage":{"input_tokens":1000,"cache_read_input_tokens":200,"cache_creation_input_tokens":0,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":` + block + `}`,
		`{"type":"content_block_delta","index":0,"delta":` + delta + `}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"` + stop + `"},"usage":{"output_tokens":100}}`,
		`{"type":"message_stop"}`,
	} {
		kind, _, _ := strings.Cut(strings.TrimPrefix(e, `{"type":"`), `"`)
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", kind, e)
	}
	return b.String()
}

func useTool(id, call, name, args string) string {
	quoted, _ := json.Marshal(args) // a string always can be
	return streamed(id, `{"type":"tool_use","id":"`+call+`","name":"`+name+`","input":{}}`, `{"type":"input_json_delta","partial_json":`+string(quoted)+`}`, "tool_use")
}

// TestAModelsRun: an agent runs a tool, asks a person, outlives kill -9 of the
// server and ends with an exact bill; no secret of the server is anywhere.
func TestAModelsRun(t *testing.T) {
	onBothStores(t, func(t *testing.T, url string) {
		t.Parallel()
		const key, other = "sk-ant-secret-of-the-server", "another-secret-of-the-server"
		replies := []string{
			useTool("m1", "c1", "execute_code", `{"command":"env; cat /proc/1/environ; echo ready"}`),
			useTool("m2", "c2", "ask_user", `{"question":"Shall I go on?"}`),
			streamed("m3", `{"type":"text","text":""}`, `{"type":"text_delta","text":"You said yes."}`, "end_turn"),
		}
		var asked atomic.Int64
		var last atomic.Value
		provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			n := asked.Add(1)
			if err != nil || r.Header.Get("Authorization") != "Bearer "+key || n > int64(len(replies)) {
				t.Errorf("request %d with %q: %v", n, r.Header.Get("Authorization"), err)
				return
			}
			last.Store(string(body))
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, replies[n-1])
		}))
		t.Cleanup(provider.Close)
		agents := dataFolder(t)
		text := "name: coder\ndriver: llm\nprovider: anthropic\nmodel: claude-sonnet-5-5\nllm:\n  baseUrl: " + provider.URL + "\n  tools:\n    - {name: execute_code}\n    - {name: ask_user}\n"
		if err := os.WriteFile(filepath.Join(agents, "coder.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := newServer(t, url, "--agents", agents)
		s.start()
		var refused struct{}
		if err := s.try(`mutation { startRun(input: {agent: "coder", prompt: "Go"}) { id } }`, nil, &refused); err == nil || !strings.Contains(err.Error(), "start the server with ANTHROPIC_API_KEY set") {
			t.Errorf("without a key: %v", err)
		}
		s.kill()
		s.env = append(s.env, "ANTHROPIC_API_KEY="+key, "DATABASE_PASSWORD="+other)
		s.start()
		r := s.startRun(map[string]any{"agent": "coder", "prompt": "Go"})
		var out struct {
			Run struct {
				Status, ExitReason, Result string
				Questions                  []struct{ ID, Text, State string }
				Usage                      struct {
					Input, CacheRead, Output int64
					CostNanoUsd              int64
					Provenance               string
				}
			}
		}
		look := func() {
			s.must(`query ($id: ID!) { run(id: $id) { status exitReason result questions { id text state } usage { input cacheRead output costNanoUsd provenance } } }`, map[string]any{"id": r.ID}, &out)
		}
		eventually(t, time.Minute, "it asks", func() error {
			if look(); out.Run.Status != "WAITING" {
				return fmt.Errorf("it is %s", out.Run.Status)
			}
			return nil
		})
		if len(out.Run.Questions) != 1 || out.Run.Questions[0].Text != "Shall I go on?" {
			t.Fatalf("the questions are %+v", out.Run.Questions)
		}
		s.kill()
		s.start()
		s.must(`mutation ($id: ID!) { answerQuestion(input: {id: $id, answer: "yes"}) { state } }`, map[string]any{"id": out.Run.Questions[0].ID}, &struct{}{})
		eventually(t, time.Minute, "it ends", func() error {
			if look(); out.Run.Status != "DONE" {
				return fmt.Errorf("it is %s %s", out.Run.Status, out.Run.ExitReason)
			}
			return nil
		})
		// 3 requests of 1000 input at $2, 200 from the cache at $0.10 and 100 output at $10 a million.
		if u := out.Run.Usage; out.Run.Result != "You said yes." || u.Input != 3000 || u.CacheRead != 600 || u.Output != 300 || u.Provenance != "MEASURED" || u.CostNanoUsd != 9_060_000 {
			t.Errorf("it ended as %+v", out.Run)
		}
		said, _ := last.Load().(string)
		if !strings.Contains(said, "ready") || !strings.Contains(said, "yes") {
			t.Errorf("the last request is %s", said)
		}
		if code := s.stop(30 * time.Second); code != 0 {
			t.Errorf("the server ended with %d", code)
		}
		wantNowhere(t, s, []byte(key), []byte(other))
		for _, secret := range []string{key, other} {
			if strings.Contains(said, secret) {
				t.Errorf("the model got to see %s", secret)
			}
		}
	})
}

// wantNowhere looks for secrets in all that the server keeps and prints.
func wantNowhere(t *testing.T, s *server, secrets ...[]byte) {
	t.Helper()
	places := map[string][]byte{"the log": []byte(s.out.String())}
	err := filepath.WalkDir(s.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		places[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(places) < 3 {
		t.Errorf("only %d places were looked at", len(places))
	}
	for place, data := range places {
		for _, secret := range secrets {
			if bytes.Contains(data, secret) {
				t.Errorf("%s is in %s", secret, place)
			}
		}
	}
}
