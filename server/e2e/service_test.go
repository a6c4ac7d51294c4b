package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// crasher is a service that gives up at once; counter says what it has used and
// goes on.
const (
	crasher = `
name: crasher
driver: service
command: [sh, -c, "echo out of luck >&2; exit 3"]
service: {restartDelaySeconds: 0.05}
`
	counter = `
name: counter
driver: service
model: no-such-model
service: {pollSeconds: 0.1}
code: |
    import http.server, os, socketserver
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"tokens_input": 111, "tokens_output": 222, "tokens_cache_read": 33, "tokens_cache_write": 44}')
        def log_message(self, *args): pass
    socketserver.UnixStreamServer(os.environ["WEIR_SOCKET"], Handler).serve_forever()
`
)

type serviceRun struct {
	ID         string `json:"id"`
	Status     string `json:"status"`
	ExitReason string `json:"exitReason"`
	Attempt    int    `json:"attempt"`
	RestartOf  string `json:"restartOf"`
	Usage      struct {
		Input, CacheRead, CacheWriteShort, Output, Unpriced int64
		Provenance                                          string
		CostUsd                                             *float64
	} `json:"usage"`
}

func (s *server) serviceRuns() []serviceRun {
	s.t.Helper()
	var out struct {
		Runs struct{ Nodes []serviceRun } `json:"runs"`
	}
	s.must(`{ runs { nodes { id status exitReason attempt restartOf usage { input cacheRead cacheWriteShort output unpriced provenance costUsd } } } }`, nil, &out)
	return out.Runs.Nodes
}

// TestU12ASubscriberSeesTheEscalation: the crashes of a service, its restarts and
// their end reach whoever follows the session; and what was polled of a service
// outlives kill -9 of the server (U13).
func TestU12ASubscriberSeesTheEscalation(t *testing.T) {
	needPython(t)
	onBothStores(t, func(t *testing.T, url string) {
		t.Parallel()
		agents := dataFolder(t)
		for name, text := range map[string]string{"crasher.yaml": crasher, "counter.yaml": counter} {
			if err := os.WriteFile(filepath.Join(agents, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := newServer(t, url, "--agents", agents)
		s.start()
		ctx := background(t, time.Minute)
		r := s.startRun(map[string]any{"agent": "crasher"})
		sub, err := s.subscribe(ctx, r.Session.ID, 0, filter{types: []string{"RUN_STARTED", "AGENT_ERRORED", "AGENT_ESCALATED", "RUN_ENDED"}})
		if err != nil {
			t.Fatal(err)
		}
		defer sub.close()
		var told []string
		for len(told) == 0 || strings.Count(strings.Join(told, " "), "RUN_ENDED") < 3 {
			batch, err := sub.next(ctx)
			if err != nil {
				t.Fatalf("%v after %q", err, told)
			}
			for _, raw := range batch {
				var e struct {
					Type, Text, ExitReason string
					Attempt, Crashes       int
				}
				if err := json.Unmarshal(raw, &e); err != nil {
					t.Fatal(err)
				}
				word := e.Type
				switch e.Type {
				case "RUN_ENDED":
					word += " " + e.ExitReason
				case "AGENT_ESCALATED":
					if e.Crashes != 3 || !strings.Contains(e.Text, "crashed 3 times in a row") {
						t.Errorf("escalated with %s", raw)
					}
				case "AGENT_ERRORED":
					if !strings.Contains(e.Text, "out of luck\nthe service ended with exit code 3") {
						t.Errorf("failed with %s", raw)
					}
				}
				told = append(told, word)
			}
		}
		attempt := "RUN_STARTED AGENT_ERRORED RUN_ENDED CRASHED "
		if got, want := strings.Join(told, " "), attempt+attempt+"RUN_STARTED AGENT_ERRORED AGENT_ESCALATED RUN_ENDED CRASHED"; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
		all := s.serviceRuns()
		if len(all) != 3 || all[0].Attempt != 3 || all[0].RestartOf != all[1].ID || all[1].RestartOf != all[2].ID {
			t.Errorf("the runs are %+v", all)
		}

		live := s.startRun(map[string]any{"agent": "counter"})
		eventually(t, 30*time.Second, "the poll is booked", func() error {
			if u := s.serviceRuns()[0].Usage; u.Input != 111 {
				return os.ErrNotExist
			}
			return nil
		})
		s.kill()
		s.start()
		got := s.serviceRuns()[0]
		if got.ID != live.ID || got.Status != "FAILED" || got.ExitReason != "LOST" {
			t.Errorf("the killed server's run is %+v", got)
		}
		u := got.Usage
		if u.Input != 111 || u.Output != 222 || u.CacheRead != 33 || u.CacheWriteShort != 44 || u.Provenance != "PARTIAL" {
			t.Errorf("its usage is %+v", u)
		}
		if n := len(s.serviceRuns()); n != 4 {
			t.Errorf("%d runs, want 4", n)
		}
	})
}
