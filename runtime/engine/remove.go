package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/weirhq/weir/runtime/run"
)

const (
	// maxHeldDirs is how many folders of a tree a removal holds open at once.
	// What lies deeper is first moved up.
	maxHeldDirs = 32
	// removeBatch is how many names of a folder it reads at once.
	removeBatch = 1000
)

// removeWorkspace deletes a session's folder, however deep its agent has made
// it. It follows no link.
func (e *Engine) removeWorkspace(ctx context.Context, id run.SessionID) error {
	return removeIn(ctx, e.workspaces(), string(id))
}

// removeIn removes name from a folder of the server's own.
func removeIn(ctx context.Context, folder, name string) error {
	if err := repair(filepath.Join(folder, name)); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the folder of the workspaces: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := removeTree(ctx, root, name); err != nil {
		return fmt.Errorf("removing the workspace: %w", err)
	}
	return nil
}

// removeTree removes name and everything below it, or a part when ctx ends.
// Nothing may work in it meanwhile.
func removeTree(ctx context.Context, parent *os.Root, name string) error {
	if err := parent.Remove(name); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil // it was a file, a link or an empty folder
	}
	top, err := openDir(parent, name)
	if err != nil {
		return err
	}
	r := remover{ctx: ctx, top: top}
	err = r.empty(top, "", 1)
	_ = top.Close() // only removed through
	if err != nil {
		return err
	}
	return parent.Remove(name)
}

// remover empties one tree.
type remover struct {
	ctx   context.Context //nolint:containedctx // of the one removal
	top   *os.Root
	moved int
}

// empty removes what is in dir, which is at where below the top and one of held
// open folders. It goes on after an error and gives the first one.
func (r *remover) empty(dir *os.Root, where string, held int) error {
	for {
		entries, err := someOf(dir)
		if err != nil || len(entries) == 0 {
			return err
		}
		var first error
		removed := 0
		for _, entry := range entries {
			if r.ctx.Err() != nil {
				return context.Cause(r.ctx)
			}
			if err := r.remove(dir, where, entry, held); err == nil {
				removed++
			} else if first == nil {
				first = err
			}
		}
		if removed == 0 { // the rest of the folder, if there is one, stays too
			return first
		}
	}
}

// remove removes one entry of a folder, or moves it up.
func (r *remover) remove(dir *os.Root, where string, entry fs.DirEntry, held int) error {
	name := entry.Name()
	err := dir.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) || !entry.IsDir() {
		return err
	}
	sub, err := openDir(dir, name)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }() // only removed through
	if held >= maxHeldDirs {
		r.moved++
		to := fmt.Sprintf(".%s-%d", run.NewKey("removed"), r.moved) // a name that no agent can know
		return r.top.Rename(path.Join(where, name), to)
	}
	if err := r.empty(sub, path.Join(where, name), held+1); err != nil {
		return err
	}
	return dir.Remove(name)
}

// openDir opens a folder that is no link, with the rights to empty and move it.
func openDir(dir *os.Root, name string) (*os.Root, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "opening", Path: name, Err: errors.New("it is not a folder")}
	}
	if info.Mode().Perm()&0o700 != 0o700 {
		if err := dir.Chmod(name, 0o700); err != nil {
			return nil, err
		}
	}
	sub, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if now, err := sub.Stat("."); err != nil || !os.SameFile(info, now) {
		_ = sub.Close() // nothing was done through it
		return nil, &fs.PathError{Op: "opening", Path: name, Err: errors.New("it has become something else")}
	}
	return sub, nil
}

// someOf reads some names of a folder; none when it is empty.
func someOf(dir *os.Root) ([]fs.DirEntry, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(removeBatch)
	_ = f.Close() // only read
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, err
}
