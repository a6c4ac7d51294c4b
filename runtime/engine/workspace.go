package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// workspace is a session's folder. The server reaches into it only through an
// os.Root: what stands in it was written by the agent.
type workspace struct {
	path   string
	root   *os.Root
	owner  owner
	before map[string]stamp // the files when the run began; nil: not known
	since  time.Time        // counts when before is not known
	own    bool             // a folder of the user's own
}

// clockSlack is how far a file system's clock may be behind the run's start.
const clockSlack = 2 * time.Second

// stamp tells whether a file was touched.
type stamp struct {
	size     int64
	modified time.Time
}

func (e *Engine) workspaces() string { return filepath.Join(e.opts.DataDir, "workspaces") }

func (e *Engine) workspacePath(id run.SessionID) string {
	return filepath.Join(e.workspaces(), string(id))
}

// openWorkspace makes the session's folder if need be, and those of the
// agent's files that it does not have.
func (e *Engine) openWorkspace(r run.Run, files map[string]string) (*workspace, error) {
	if p := r.Input.Place; p != nil {
		if !e.opts.Places {
			return nil, errPlace(p.Folder)
		}
		return openPlace(p, r, files)
	}
	parent := e.workspaces()
	if err := passable(e.opts.DataDir, parent); err != nil {
		return nil, fmt.Errorf("making the folder of the workspaces: %w", err)
	}
	w := &workspace{path: e.workspacePath(r.Session), since: r.StartedAt.Add(-clockSlack)}
	if err := os.Mkdir(w.path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("making the workspace: %w", err)
	}
	if err := repair(w.path); err != nil {
		return nil, err
	}
	var err error
	if w.root, err = os.OpenRoot(w.path); err != nil {
		return nil, fmt.Errorf("opening the workspace: %w", err)
	}
	if err := w.place(files); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// openPlace opens a folder of the user's own as the workspace. It is there, and
// stays as it is.
func openPlace(p *run.Place, r run.Run, files map[string]string) (*workspace, error) {
	w := &workspace{path: p.Folder, since: r.StartedAt.Add(-clockSlack), own: true}
	var err error
	if w.root, err = os.OpenRoot(w.path); err != nil {
		return nil, run.Errorf(run.Invalid, "the folder %s cannot be opened: %w", w.path, underlying(err))
	}
	if err := w.place(files); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// underlying drops the operation and the path of a file error that the message names.
func underlying(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// passable makes folders, from the outside in, that others may pass through but
// not list: the sandboxes of a server that runs as root have a user of their
// own. Whose a workspace is, is the backend's business.
func passable(dirs ...string) error {
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o711); err != nil { //nolint:gosec // passing through is what they are for
			return err
		}
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if p := info.Mode().Perm(); os.Geteuid() == 0 && p&0o011 != 0o011 {
			if err := os.Chmod(dir, p|0o011); err != nil {
				return err
			}
		}
	}
	return nil
}

// repair gives a workspace's folder its owner's rights back, which its script
// may have taken away. The folder around it is the server's own, so its path
// leads nowhere else.
func repair(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at the workspace: %w", err)
	}
	if p := info.Mode().Perm(); info.IsDir() && p&0o700 != 0o700 {
		if err := os.Chmod(path, p|0o700); err != nil {
			return fmt.Errorf("opening up the workspace to its owner: %w", err)
		}
	}
	return nil
}

// findWorkspace opens the folder of a lost run; nil when there is none.
func (e *Engine) findWorkspace(r run.Run) (*workspace, error) {
	w := &workspace{path: e.workspacePath(r.Session), since: r.StartedAt.Add(-clockSlack)}
	if p := r.Input.Place; p != nil {
		w.path, w.own = p.Folder, true
	} else if err := repair(w.path); err != nil {
		return nil, err
	}
	var err error
	if w.root, err = os.OpenRoot(w.path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("opening the workspace: %w", err)
	}
	return w, nil
}

func (w *workspace) close() {
	if w != nil {
		_ = w.root.Close() // only read through
	}
}

// place writes the agent's files that are not there, for the workspace's owner.
// An existing one is the session's own by now and stays as it is.
func (w *workspace) place(files map[string]string) error {
	info, err := w.root.Stat(".")
	if err != nil {
		return fmt.Errorf("looking at the workspace: %w", err)
	}
	w.owner = ownerOf(info)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !fs.ValidPath(name) || name == "." {
			return run.Errorf(run.Invalid, "the agent's file %q must be a relative path with slashes and without ..", name)
		}
		if dir := path.Dir(name); dir != "." {
			if err := w.makeDirs(dir); err != nil {
				return fmt.Errorf("making the folder of %s: %w", name, err)
			}
		}
		if err := w.write(name, files[name]); err != nil {
			return fmt.Errorf("writing the agent's file %s: %w", name, err)
		}
	}
	return nil
}

// makeDirs makes a folder and those around it.
func (w *workspace) makeDirs(dir string) error {
	if parent := path.Dir(dir); parent != "." {
		if err := w.makeDirs(parent); err != nil {
			return err
		}
	}
	err := w.root.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil // should it be no folder, the file in it tells
	}
	if err != nil || !w.owner.other {
		return err
	}
	return w.root.Lchown(dir, w.owner.uid, w.owner.gid)
}

func (w *workspace) write(name, content string) error {
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if w.owner.other {
		err = errors.Join(err, f.Chown(w.owner.uid, w.owner.gid))
	}
	return errors.Join(err, f.Close())
}

// remember notes which files there are before the run works. A resumed run
// began long ago: there the time of its start decides.
func (w *workspace) remember(ctx context.Context, resumed bool) error {
	if resumed {
		return nil
	}
	before := make(map[string]stamp)
	err := w.walk(ctx, func(name string, info fs.FileInfo) bool {
		before[name] = stamp{info.Size(), info.ModTime()}
		return true
	})
	if err != nil {
		return err
	}
	w.before = before
	return nil
}
