//go:build unix

package replay_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/meter"
)

// Only a regular file inside the workspace is read, and nothing is waited for.
func TestUsageFilesOutsideAreRefused(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), t.TempDir()
	put(t, outside, "secret.jsonl", started+completed)
	put(t, dir, "real.jsonl", started+completed)
	for name, create := range map[string]func(path string) error{
		"link":     func(path string) error { return os.Symlink(filepath.Join(outside, "secret.jsonl"), path) },
		"relative": func(path string) error { return os.Symlink("../"+filepath.Base(outside)+"/secret.jsonl", path) },
		"fifo":     func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"folder":   func(path string) error { return os.Mkdir(path, 0o755) },
		"device":   func(path string) error { return os.Symlink("/dev/zero", path) },
		"missing":  func(string) error { return nil },
	} {
		if err := create(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		h := newHost()
		err := replayIn(t, h, dir, agent.Turn{Usage: &agent.UsageTurn{Format: meter.CodexExec, File: name}})
		if err == nil || len(h.usage) != 0 || !strings.Contains(err.Error(), `turn 1 from "`+name+`"`) {
			t.Errorf("%s: %v, %+v", name, err, h.usage)
		}
	}
	if err := os.Symlink("real.jsonl", filepath.Join(dir, "inside")); err != nil {
		t.Fatal(err)
	}
	h := newHost()
	if err := replayIn(t, h, dir, agent.Turn{Usage: &agent.UsageTurn{Format: meter.CodexExec, File: "inside"}}); err != nil || len(h.usage) != 1 {
		t.Errorf("a link inside: %v, %+v", err, h.usage)
	}
}
