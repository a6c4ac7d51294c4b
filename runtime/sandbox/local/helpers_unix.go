//go:build unix

package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/weirhq/weir/helpers"
)

// helperFolder is where plain processes find what they log with. A process of
// the server's own user could change the files; they are as they should be when
// the server starts.
type helperFolder struct {
	mu        sync.Mutex
	path      string
	temporary bool
	placed    bool
}

// place writes the files, once, and gives their folder.
func (h *helperFolder) place() (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.placed {
		return h.path, nil
	}
	if err := h.write(); err != nil {
		return "", fmt.Errorf("placing the files that programs log with: %w", err)
	}
	h.placed = true
	return h.path, nil
}

func (h *helperFolder) write() (err error) {
	if h.path == "" {
		if h.path, err = os.MkdirTemp("", "weir-lib-"); err != nil {
			return err
		}
		h.temporary = true
	}
	if err := os.MkdirAll(h.path, 0o755); err != nil { //nolint:gosec // there is no secret in it
		return err
	}
	for _, f := range []struct {
		name, content string
		mode          os.FileMode
	}{{helpers.PythonName, helpers.Python, 0o444}, {helpers.ShellName, helpers.Shell, 0o555}} {
		// Another file in its place, never a change of one that is being read.
		path := filepath.Join(h.path, f.name)
		next := path + ".new"
		if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(next, []byte(f.content), f.mode); err != nil {
			return err
		}
		if err := os.Chmod(next, f.mode); err != nil { // whatever the umask
			return err
		}
		if err := os.Rename(next, path); err != nil {
			return err
		}
	}
	return nil
}

// remove takes a temporary folder away.
func (h *helperFolder) remove() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.temporary {
		return nil
	}
	if err := os.RemoveAll(h.path); err != nil {
		return fmt.Errorf("removing the files that programs log with: %w", err)
	}
	h.path, h.temporary, h.placed = "", false, false
	return nil
}
