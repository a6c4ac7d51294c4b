package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/runtime/run"
)

// deepRole is the variable that makes this test binary the process with few
// descriptors.
const deepRole = "WEIR_TEST_DEEP"

// mustRemove removes a workspace and looks that it is gone.
func mustRemove(t *testing.T, e *Engine, w *workspace) {
	t.Helper()
	if err := e.removeWorkspace(t.Context(), run.SessionID(filepath.Base(w.path))); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(w.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the workspace is still there: %v", err)
	}
}

// dig makes folders in each other, with a file in each hundredth.
func dig(t *testing.T, top *os.Root, levels int) {
	t.Helper()
	dir := top
	for i := range levels {
		if i%100 == 0 {
			if err := dir.WriteFile("f", []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := dir.Mkdir("d", 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := dir.OpenRoot("d")
		if err != nil {
			t.Fatal(err)
		}
		if dir != top {
			_ = dir.Close() // only worked through
		}
		dir = next
	}
	_ = dir.Close() // only worked through
}

func TestDeepWorkspaceIsRemovedWithFewDescriptors(t *testing.T) {
	t.Parallel()
	if os.Getenv(deepRole) != "" {
		const levels = 5_000 // far more than descriptors, and a path that no system call takes
		e := &Engine{opts: Options{DataDir: t.TempDir()}}
		w, err := e.openWorkspace(run.Run{Session: run.NewSessionID()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		dig(t, w.root, levels)
		w.close()
		mustRemove(t, e, w)
		if t.Failed() { // what made it fail would fail the clean-up, too
			_ = exec.CommandContext(t.Context(), "rm", "-rf", w.path).Run()
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `ulimit -n 64 && exec "$@"`, "sh", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), deepRole+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestRemovalFollowsNoLinkAndNoMode(t *testing.T) {
	t.Parallel()
	e := &Engine{opts: Options{DataDir: t.TempDir()}}
	w, err := e.openWorkspace(run.Run{Session: run.NewSessionID()}, map[string]string{"a/b/c.txt": "x", "z.txt": "z"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "keep"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "a/link", "a/b/link"} {
		if err := os.Symlink(outside, filepath.Join(w.path, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(".", filepath.Join(w.path, "a", "self")); err != nil {
		t.Fatal(err)
	}
	for i := range removeBatch + 500 {
		w.put(t, fmt.Sprintf("many/%05d", i), "")
	}
	for _, name := range []string{"a/b", "a", "."} {
		if err := os.Chmod(filepath.Join(w.path, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	mustRemove(t, e, w)
	if _, err := os.Stat(filepath.Join(outside, "keep")); err != nil {
		t.Errorf("what a link pointed at: %v", err)
	}
	if err := e.removeWorkspace(t.Context(), run.SessionID(filepath.Base(w.path))); err != nil {
		t.Errorf("removing it again: %v", err)
	}
}

// The trash is emptied after a deletion and at the start; a stop waits for no
// removal, and the next start goes on.
func TestTheTrashIsEmptied(t *testing.T) {
	t.Parallel()
	e := &Engine{opts: Options{DataDir: t.TempDir(), Replica: "a/../b"}, discarded: make(chan struct{}, 1), log: slog.New(slog.DiscardHandler)}
	var ids []run.SessionID
	discard := func() {
		t.Helper()
		id := run.NewSessionID()
		w, err := e.openWorkspace(run.Run{Session: id}, map[string]string{"a/b/c.txt": "x"})
		if err != nil {
			t.Fatal(err)
		}
		w.close()
		if err := os.Chmod(w.path, 0); err != nil {
			t.Fatal(err)
		}
		if err := e.discardWorkspace(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(w.path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the workspace is still there: %v", err)
		}
		ids = append(ids, id)
	}
	discard()
	discard()
	if err := e.discardWorkspace(t.Context(), run.NewSessionID()); err != nil {
		t.Errorf("a session without a workspace: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errShutdown)
	e.emptyTrash(ctx) // returns
	for _, id := range ids {
		if _, err := os.Stat(filepath.Join(e.trash(), string(id), "a", "b", "c.txt")); err != nil {
			t.Errorf("a stopped engine went on: %v", err)
		}
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); e.emptyTrash(ctx) }()
	empty := func() {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; {
			left, err := os.ReadDir(e.trash())
			if err == nil && len(left) == 0 {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("left in the trash: %v, %v", left, err)
			}
			<-time.After(time.Millisecond)
		}
	}
	defer func() { cancel(errShutdown); <-done }()
	empty()
	discard()
	empty()
}

// TestLaterFilesBelongToTheOwner places files into a workspace that a sandbox's
// user has already.
func TestLaterFilesBelongToTheOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		pgtest.Need(t, "only root can give files away")
	}
	const uid = 61998
	e := &Engine{opts: Options{DataDir: t.TempDir()}}
	r := run.Run{Session: run.NewSessionID()}
	w, err := e.openWorkspace(r, map[string]string{"first/x.txt": "x"})
	if err != nil {
		t.Fatal(err)
	}
	w.close()
	if err := os.Chown(w.path, uid, uid); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(w.path, "linked.txt")); err != nil {
		t.Fatal(err)
	}
	w, err = e.openWorkspace(r, map[string]string{"first/x.txt": "again", "first/y.txt": "y", "sub/deep/z.txt": "z", "linked.txt": "x"})
	if err != nil {
		t.Fatal(err)
	}
	w.close()
	for name, want := range map[string]int{"first": 0, "first/x.txt": 0, "first/y.txt": uid, "sub": uid, "sub/deep": uid, "sub/deep/z.txt": uid} {
		info, err := os.Lstat(filepath.Join(w.path, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := ownerOf(info); got.uid != want || got.gid != want {
			t.Errorf("%s belongs to %d:%d, want %d", name, got.uid, got.gid, want)
		}
	}
	if info, err := os.Stat(outside); err != nil || ownerOf(info).uid != 0 {
		t.Errorf("what a link points at: %v, %v", info, err)
	}
}

// A program may close its folder to its own user before it ends: what it made
// is listed all the same.
func TestAClosedWorkspaceIsListed(t *testing.T) {
	t.Parallel()
	e := &Engine{opts: Options{DataDir: t.TempDir()}}
	w, err := e.openWorkspace(run.Run{Session: run.NewSessionID()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if err := w.remember(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	w.put(t, "report.md", "x")
	if err := os.Chmod(w.path, 0); err != nil {
		t.Fatal(err)
	}
	files, err := w.changed(t.Context(), nil, 1<<20)
	if err != nil || len(files) != 1 || files[0].Path != "report.md" || files[0].SHA256 == "" {
		t.Errorf("listed %+v, %v", files, err)
	}
	// Root may read it in any case.
	if info, err := os.Stat(w.path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the workspace has the mode %v, %v", info.Mode(), err)
	}
}
