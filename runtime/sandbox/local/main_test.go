//go:build linux

package local_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local"
)

func TestMain(m *testing.M) {
	// Case 58 looks for it from inside.
	if err := os.Setenv("WEIR_SECRET", "must-not-be-seen"); err != nil {
		panic(err)
	}
	if os.Getenv(childRole) != "" {
		runChild()
		return
	}
	goleak.VerifyTestMain(m)
}

// skip leaves a test out where the machine cannot run it; in CI that is a failure.
func skip(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("cannot run in CI: %s", why)
	}
	t.Skipf("SKIPPED: %s", why)
}

// backend is what both kinds are.
type backend interface {
	sandbox.Backend
	Close() error
}

// each runs a test on bubblewrap and on a plain process.
func each(t *testing.T, test func(t *testing.T, b backend)) {
	t.Helper()
	t.Run("bubblewrap", func(t *testing.T) {
		t.Parallel()
		test(t, bubblewrap(t))
	})
	if os.Getenv(asOrdinaryUser) != "" {
		return // a plain process is the server's user in any case
	}
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		b := local.NewPlain(local.Options{})
		t.Cleanup(func() { _ = b.Close() })
		test(t, b)
	})
}

func bubblewrap(t *testing.T) backend {
	t.Helper()
	b := local.NewBubblewrap(local.Options{})
	t.Cleanup(func() { _ = b.Close() })
	if s := b.Probe(t.Context()); !s.Available {
		skip(t, "no bubblewrap sandbox: "+s.Reason)
	}
	return b
}

// workspace makes a folder that a sandbox's user can reach; t.TempDir is closed
// to other users.
func workspace(t *testing.T) string {
	t.Helper()
	top, err := os.MkdirTemp("", "weir-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	if err := os.Chmod(top, 0o711); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(top, "workspace")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func spec(t *testing.T) sandbox.Spec {
	t.Helper()
	return sandbox.Spec{
		Execution: run.NewExecutionID(), Run: run.NewID(), Replica: "test", Stage: "train", Workspace: workspace(t),
		Limits: sandbox.Limits{
			Timeout: 30 * time.Second, Grace: time.Second, MemoryMiB: 1024, CPUs: 2, PIDs: 256, DiskMiB: 1024, MaxOutputBytes: 256 << 20,
		},
	}
}

func shell(t *testing.T, script string) sandbox.Spec {
	t.Helper()
	s := spec(t)
	s.Command = []string{"sh", "-c", script}
	return s
}

func python(t *testing.T, code string) sandbox.Spec {
	t.Helper()
	s := spec(t)
	s.Code = code
	return s
}

// recorder is a sink that keeps everything.
type recorder struct {
	mu     sync.Mutex
	text   map[run.OutputStream]*strings.Builder
	points []run.Point
	charts []string
	media  []run.MediaLogged
	onText func(text string)
	err    error
}

func (r *recorder) Write(_ context.Context, c sandbox.Chunk) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text == nil {
		r.text = map[run.OutputStream]*strings.Builder{run.Stdout: {}, run.Stderr: {}}
	}
	r.text[c.Stream].WriteString(c.Text)
	for _, x := range c.Records {
		r.points = append(r.points, x.Points...)
		if x.Chart != nil {
			r.charts = append(r.charts, string(x.Chart))
		}
		if x.Media != nil {
			r.media = append(r.media, *x.Media)
		}
	}
	if r.onText != nil {
		r.onText(c.Text)
	}
	return r.err
}

func (r *recorder) stdout() string { return r.get(run.Stdout) }
func (r *recorder) stderr() string { return r.get(run.Stderr) }

func (r *recorder) get(s run.OutputStream) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text == nil {
		return ""
	}
	return r.text[s].String()
}

// execute runs to the end and fails on an error.
func execute(t *testing.T, b sandbox.Backend, s sandbox.Spec) (sandbox.Result, *recorder) {
	t.Helper()
	r := &recorder{}
	res, err := sandbox.Run(t.Context(), b, s, r, sandbox.Options{})
	if err != nil {
		t.Fatalf("Run: %v (stderr %q)", err, r.stderr())
	}
	return res, r
}
