//go:build linux

package local

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local/proc"
)

// What would be reported as survivors is what really lives in the namespace.
func TestSurvivorsAreLookedForInTheNamespace(t *testing.T) {
	t.Parallel()
	b := NewBubblewrap(Options{})
	defer b.Close()
	if s := b.Probe(t.Context()); !s.Available {
		if os.Getenv("CI") == "true" {
			t.Fatalf("cannot run in CI: %s", s.Reason)
		}
		t.Skipf("SKIPPED: no bubblewrap sandbox: %s", s.Reason)
	}
	dir, err := os.MkdirTemp("", "weir-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	p, err := b.Start(t.Context(), sandbox.Spec{
		Execution: run.NewExecutionID(), Workspace: dir, Command: []string{"sh", "-c", "setsid sleep 100 & echo > started; sleep 100"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; {
		if _, err := os.Stat(filepath.Join(dir, "started")); err == nil || time.Now().After(end) {
			break
		}
		<-time.After(time.Millisecond)
	}
	namespace := p.(*bwrapProcess).namespace
	if found := proc.InNamespace(namespace); len(found) < 3 { // its first process, the shell and the sleeper
		t.Errorf("found %v", found)
	}
	exit, err := p.Wait()
	if err != nil || len(exit.Survivors) > 0 || exit.Signal != "SIGKILL" {
		t.Errorf("%+v %v", exit, err)
	}
	if found := proc.InNamespace(namespace); len(found) > 0 {
		t.Errorf("found %v after the end", found)
	}
}
