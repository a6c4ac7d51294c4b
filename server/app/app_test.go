package app

import (
	"bytes"
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
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/server/config"
)

func TestMain(m *testing.M) {
	pgtest.Main(m, func() error {
		http.DefaultClient.CloseIdleConnections()
		return goleak.Find()
	})
}

func none(string) string { return "" }

// text is output that is read while it is written.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *text) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *text) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// eventually polls a real server, until the deadline.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-tick.C {
		if done() {
			return
		}
	}
	t.Fatalf("waited in vain until %s", what)
}

// dataFolder is one that a sandbox of another user can walk into.
func dataFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-app-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// start runs weir until the test ends, and gives its URL.
func start(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	var out text
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { failed = Run(ctx, args, none, &out, &out) })
	t.Cleanup(func() {
		cancel(errors.New("the test has ended"))
		wg.Wait()
		if failed != nil {
			t.Errorf("weir %v: %v", args, failed)
		}
		if t.Failed() {
			t.Log(out.String())
		}
	})
	var url string
	found := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	eventually(t, "the server is ready", func() bool {
		if url = found.FindString(out.String()); url == "" {
			return false
		}
		status, _ := get(t, url+"/readyz")
		return status == http.StatusOK
	})
	return url
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, req)
}

func do(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// query posts to the API and reads the answer into data.
func query(t *testing.T, url, text string, data any) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"query": text})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/graphql", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	status, answer := do(t, req)
	reply := struct {
		Data   any
		Errors []struct{ Message string }
	}{Data: data}
	if err := json.Unmarshal([]byte(answer), &reply); err != nil || status != http.StatusOK || len(reply.Errors) > 0 {
		t.Fatalf("%s\n%d %s %v", text, status, answer, err)
	}
}

// Where a sandbox works nothing else stands in for a Python that it cannot show.
func TestServeRefusesAPythonOutsideOfTheSandbox(t *testing.T) {
	t.Parallel()
	sandboxed(t)
	for name, flags := range map[string][]string{"": nil, "plain processes are allowed": {"--allow-unsandboxed"}} {
		args := append([]string{"serve", "--listen", "127.0.0.1:0", "--data", dataFolder(t), "--python", "/proc/self/exe"}, flags...)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // it would serve for ever
		var out text
		err := Run(ctx, args, none, &out, &out)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "--python /proc/self/exe") || !strings.Contains(err.Error(), "sees only /usr") {
			t.Errorf("%s: it ends with %v", name, err)
		}
	}
}

func TestServeRunsACommand(t *testing.T) {
	t.Parallel()
	url := start(t, "serve", "--listen", "127.0.0.1:0", "--data", dataFolder(t), "--allow-unsandboxed")
	var started struct{ StartRun struct{ ID string } }
	query(t, url, `mutation { startRun(input: {agent: "script", command: ["echo", "{\"step\":1,\"metric\":\"m\",\"value\":2}"]}) { id } }`, &started)
	eventually(t, "the run is done", func() bool {
		var got struct {
			Run struct {
				Status  string
				Metrics []struct{ Name string }
			}
		}
		query(t, url, fmt.Sprintf(`{ run(id: %q) { status metrics { name } } }`, started.StartRun.ID), &got)
		return got.Run.Status == "DONE" && len(got.Run.Metrics) == 1 && got.Run.Metrics[0].Name == "m"
	})
	for path, want := range map[string]string{"/healthz": "ok", "/": "<!doctype html", "/playground": "<!doctype html"} {
		if status, body := get(t, url+path); status != http.StatusOK || !strings.Contains(strings.ToLower(body), want) {
			t.Errorf("%s: %d %.100s", path, status, body)
		}
	}
	var server struct {
		Server struct {
			Version, Replica, Store string
			Sandboxes               []struct{ Backend string }
		}
		Agents []struct{ Name string }
	}
	query(t, url, `{ server { version replica store sandboxes { backend } } agents { name } }`, &server)
	if s := server.Server; s.Version == "" || !run.ValidID("rep", s.Replica) || s.Store != "sqlite" || len(s.Sandboxes) != 1 || len(server.Agents) != 1 {
		t.Errorf("got %+v", server)
	}
}

func TestDemoEndsAfterItsRuns(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out, log text
	err := Run(ctx, []string{"demo", "--listen", "127.0.0.1:0", "--exit-after-runs"}, none, &out, &log)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out.String(), log.String())
	}
	for _, want := range []string{"http://127.0.0.1:", "/?session=ses_", "/playground"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it did not print %q:\n%s", want, out.String())
		}
	}
	data := regexp.MustCompile(`data is in (\S+)`).FindStringSubmatch(out.String())
	if data == nil {
		t.Fatalf("it did not print its folder:\n%s", out.String())
	}
	if _, err := os.Stat(data[1]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary folder %s was left behind: %v", data[1], err)
	}
}

// What keeps the server from starting is said in one line that names the value
// and the remedy.
func TestRefusalsAreOneLine(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	dir, other := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	free := func(args ...string) []string {
		return append([]string{"serve", "--listen", "127.0.0.1:0", "--data"}, args...)
	}
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"unknown command":  {[]string{"dance"}, []string{"dance", "--help"}},
		"unknown flag":     {[]string{"serve", "--dance"}, []string{"--dance", "--help"}},
		"port in use":      {[]string{"serve", "--listen", taken.Addr().String(), "--data", dir}, []string{taken.Addr().String(), "in use", "--listen"}},
		"no such address":  {[]string{"demo", "--listen", "192.0.2.1:80"}, []string{"192.0.2.1:80", "token"}},
		"data is a file":   {free(file), []string{file, "is a file", "--data"}},
		"data in a file":   {free(file + "/x"), []string{file + "/x", "--data"}},
		"no agents folder": {free(dir, "--agents", dir+"/none"), []string{"--agents " + dir + "/none"}},
		"bad database URL": {free(other, "--db", "mysql://x"), []string{"mysql"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out text
			err := Run(t.Context(), c.args, none, &out, &out)
			if err == nil {
				t.Fatal("it started")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "demo"},
		{[]string{"--help"}, "demo"},
		{[]string{"serve", "--help"}, "$WEIR_LISTEN"},
		{[]string{"version"}, "weir "},
		{[]string{"--version"}, "weir " + Version() + " go"},
		{[]string{"version", "--json"}, `"version":"`},
		{[]string{"schema", "--json"}, `{"sdl":"`},
	} {
		var out text
		if err := Run(t.Context(), c.args, none, &out, &out); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("weir %v: %v\n%s", c.args, err, out.String())
		}
	}
}

// A flag wins over its variable, which wins over the default.
func TestSettingsFromTheEnvironment(t *testing.T) {
	t.Parallel()
	env := func(k string) string { return map[string]string{"WEIR_LISTEN": ":1"}[k] }
	var out text
	if err := Run(t.Context(), []string{"serve"}, env, &out, &out); err == nil || !strings.Contains(err.Error(), "--listen :1 ") {
		t.Errorf("got %v, want the variable's value refused", err)
	}
	if err := Run(t.Context(), []string{"serve", "--listen", ":2"}, env, &out, &out); err == nil || !strings.Contains(err.Error(), "--listen :2 ") {
		t.Errorf("got %v, want the flag's value refused", err)
	}
}

func TestReplicaIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := replica(dir)
	if err != nil || !run.ValidID("rep", first) {
		t.Fatalf("got %q, %v", first, err)
	}
	if again, err := replica(dir); err != nil || again != first {
		t.Errorf("the second start got %q, %v, want %q", again, err, first)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %d files, want the id alone: %v", len(entries), err)
	}
	if err := os.WriteFile(filepath.Join(dir, replicaFile), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if id, err := replica(dir); err == nil || !strings.Contains(err.Error(), "garbage") {
		t.Errorf("garbage was taken for %q, %v", id, err)
	}
}

// An operator's bound below a default lowers the default: it must not refuse
// requests that ask for nothing.
func TestBoundsLowerTheDefaults(t *testing.T) {
	t.Parallel()
	p := newPolicy(config.Sandbox{MaxMemoryMiB: 100, MaxSeconds: 7, GPUs: []string{"T4"}})
	c, err := p.Resolve(run.SandboxRequest{})
	if err != nil || c.Limits.MemoryMiB != 100 || c.Limits.Timeout != 7*time.Second {
		t.Errorf("got %+v, %v", c, err)
	}
	for name, r := range map[string]run.SandboxRequest{
		"memory": {MemoryMiB: 101}, "seconds": {TimeoutSeconds: 8}, "gpu": {GPU: "H100"}, "network": {Network: "HOST"},
	} {
		if _, err := p.Resolve(r); run.CodeOf(err) != run.Forbidden {
			t.Errorf("%s: got %v, want FORBIDDEN", name, err)
		}
	}
	p = newPolicy(config.Sandbox{AllowHost: true, GPUs: []string{"T4"}})
	if _, err := p.Resolve(run.SandboxRequest{Network: "HOST", GPU: "T4"}); err != nil {
		t.Errorf("what the operator allows: %v", err)
	}
}

// Where the demo has no sandbox, nobody can start anything through its API.
func TestDemoWithoutSandboxStartsNothingElse(t *testing.T) { // not parallel: it changes PATH
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	agents, err := exampleAgents(t.Context(), &config.Serve{Python: "none"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	srv, err := build(t.Context(), options{
		cfg: config.Serve{Data: dataFolder(t), Concurrency: 1}, agents: agents, listener: l, log: slog.New(slog.DiscardHandler), examplesOnly: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := srv.close(); err != nil {
			t.Error(err)
		}
	}()
	if !srv.sandboxes.examplesOnly || srv.sandboxes.found[0].Isolation == "" {
		t.Fatalf("without bubblewrap the demo found %+v", srv.sandboxes.found)
	}
	body := strings.NewReader(`{"query":"mutation { startRun(input: {agent: \"script\", command: [\"id\"]}) { id } }"}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/graphql", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	srv.http.ServeHTTP(w, req)
	if !strings.Contains(w.Body.String(), "FORBIDDEN") || !strings.Contains(w.Body.String(), "no working sandbox") {
		t.Errorf("got %s", w.Body.String())
	}
}

// A client of one server sees the events of a run that another server on the
// same database works on.
func TestTwoServersOnOnePostgres(t *testing.T) {
	t.Parallel()
	db := pgtest.Database(t)
	first := start(t, "serve", "--listen", "127.0.0.1:0", "--data", dataFolder(t), "--db", db, "--allow-unsandboxed")
	var made struct{ CreateSession struct{ ID string } }
	query(t, first, `mutation { createSession { id } }`, &made)
	session := run.SessionID(made.CreateSession.ID)

	// The second server takes no runs: its engine is not started.
	l, err := listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	second, err := build(t.Context(), options{
		cfg: config.Serve{Data: dataFolder(t), DB: db, Concurrency: 1}, agents: agent.NewSet(), listener: l, log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { _ = second.stream.Run(ctx) })
	var seqs []int64
	ended := errors.New("ended")
	started := make(chan struct{})
	wg.Go(func() {
		defer cancel()
		close(started)
		err := second.stream.Follow(ctx, session, 0, run.EventFilter{}, func(events []*run.Event) error {
			for _, e := range events {
				seqs = append(seqs, e.Seq)
				if e.Type == run.TypeRunEnded {
					return ended
				}
			}
			return nil
		})
		if !errors.Is(err, ended) {
			t.Errorf("the second server did not show the end: %v after %v", err, seqs)
		}
	})
	<-started
	query(t, first, fmt.Sprintf(`mutation { startRun(input: {agent: "script", sessionId: %q, command: ["echo", "hi"]}) { id } }`, session), &struct{}{})
	wg.Wait()
	for i, seq := range seqs {
		if seq != int64(i)+1 {
			t.Errorf("got the seqs %v", seqs)
			break
		}
	}
	if err := second.close(); err != nil {
		t.Error(err)
	}
}
