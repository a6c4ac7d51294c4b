package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/weirhq/weir/runtime/run"
)

// trash holds the workspaces of deleted sessions until they are removed, which
// takes minutes for what some programs leave. It lies on the file system of the
// workspaces, so that what goes there goes at once. Each replica empties its own.
func (e *Engine) trash() string {
	return filepath.Join(e.opts.DataDir, "trash", "of-"+url.PathEscape(e.opts.Replica))
}

// discardWorkspace takes a session's folder away; emptyTrash removes it.
func (e *Engine) discardWorkspace(ctx context.Context, id run.SessionID) error {
	path := e.workspacePath(id)
	if err := repair(path); err != nil { // who moves a folder must be able to write in it
		return err
	}
	if err := os.MkdirAll(e.trash(), 0o700); err != nil {
		return fmt.Errorf("making the folder for what is removed: %w", err)
	}
	switch err := os.Rename(path, filepath.Join(e.trash(), string(id))); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil: // the operator may have made the workspaces a file system of their own
		e.log.Warn("A workspace is removed where it is, since it cannot be moved", "session", id, "error", err)
		return e.removeWorkspace(ctx, id)
	}
	select {
	case e.discarded <- struct{}{}:
	default: // it is known already
	}
	return nil
}

// emptyTrash removes what lies in the trash, also what an earlier process left
// there, until ctx ends.
func (e *Engine) emptyTrash(ctx context.Context) {
	failed := map[string]bool{} // is tried again after the next start
	for {
		entries, err := os.ReadDir(e.trash())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			e.log.Error("The trash cannot be read; empty it by hand", "folder", e.trash(), "error", err)
		}
		for _, entry := range entries {
			if failed[entry.Name()] {
				continue
			}
			err := removeIn(ctx, e.trash(), entry.Name())
			switch {
			case ctx.Err() != nil:
				return // the next start goes on
			case err != nil:
				failed[entry.Name()] = true
				e.log.Error("A deleted session's workspace was not removed; remove it by hand", "session", entry.Name(), "folder", e.trash(), "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-e.discarded:
		}
	}
}
