package app

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/sandbox/local"
	"github.com/weirhq/weir/server/config"
)

// A data folder that sandboxes cannot reach is refused before it is made.
func TestAClosedDataFolderIsNotMade(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("cannot run in CI: needs root")
		}
		t.Skip("SKIPPED: needs root")
	}
	top, err := os.MkdirTemp("", "weir-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	if err := os.Chmod(top, 0o700); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(top, "new", "data")
	_, err = build(t.Context(), options{cfg: config.Serve{Data: data}})
	if err == nil || !strings.Contains(err.Error(), data) || !strings.Contains(err.Error(), top+" has the mode 0700") || !strings.Contains(err.Error(), "chmod a+x "+top) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Dir(data)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was made: %v", err)
	}
	if err := os.Chmod(top, 0o711); err != nil {
		t.Fatal(err)
	}
	if p := local.ClosedAbove(data); p != nil {
		t.Errorf("an open folder: %v", p)
	}
}
