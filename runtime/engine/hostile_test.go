//go:build unix

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// hostileFiles is how many files the hostile workspace has; `make soak` has a million.
func hostileFiles(t *testing.T) int {
	t.Helper()
	v := os.Getenv("WEIR_HOSTILE_FILES")
	if v == "" {
		return 2000
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("WEIR_HOSTILE_FILES=%q is not a number", v)
	}
	return n
}

// oddNames are names that a folder can have.
var oddNames = []string{"new\nline", "\xff\xfe", "\x1b]0;title\a", "\r", "\u202egnp.exe", "-rf", strings.Repeat("n", 255), "a\tb", "%s%n", "'; drop table runs; --", " "}

// TestAHostileWorkspaceIsBounded lists and removes a workspace in which an
// agent has laid out everything for its server to trip over.
func TestAHostileWorkspaceIsBounded(t *testing.T) {
	t.Parallel()
	n := hostileFiles(t)
	e := &Engine{opts: Options{DataDir: t.TempDir()}}
	w, err := e.openWorkspace(run.Run{Session: run.NewSessionID(), StartedAt: time.Now()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	secret := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(secret, []byte("host secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.remember(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		w.put(t, "z/"+strconv.Itoa(i%7)+"/"+oddNames[i%len(oddNames)][:min(200, len(oddNames[i%len(oddNames)]))]+strconv.Itoa(i), "")
	}
	for i, name := range oddNames {
		w.put(t, "odd/"+name, "x")
		if err := os.Symlink(secret, filepath.Join(w.path, fmt.Sprintf("link%d.csv", i))); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(filepath.Join(w.path, fmt.Sprintf("fifo%d.csv", i)), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"etc": "/etc", "root": "/", "self": ".", "proc": "/proc/self", "fd": "/dev/fd/0"} {
		if err := os.Symlink(target, filepath.Join(w.path, name)); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.OpenRoot(w.path)
	if err != nil {
		t.Fatal(err)
	}
	dig(t, dir, min(n, 10_000))
	listen(t, w.path)
	sparse, err := os.Create(filepath.Join(w.path, "sparse.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sparse.Truncate(1<<40), sparse.Close()); err != nil {
		t.Fatal(err)
	}

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	files, err := w.changed(t.Context(), nil, maxHashed)
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, errTooMuch) || len(files) > maxArtifacts {
		t.Errorf("%d files, %v", len(files), err)
	}
	if grew := after.TotalAlloc - before.TotalAlloc; took > 10*time.Second || grew > 256<<20 {
		t.Errorf("the list of %d files took %s and %d MiB", n, took, grew>>20)
	}
	for _, f := range files {
		if strings.HasPrefix(f.Path, "link") || strings.HasPrefix(f.Path, "fifo") || strings.Contains(f.Path, "secret") || f.Path == "socket" {
			t.Errorf("listed: %q", f.Path)
		}
	}
	for _, want := range []string{"odd/new\nline", "odd/'; drop table runs; --", "sparse.bin"} {
		if !slices.ContainsFunc(files, func(a run.Artifact) bool { return a.Path == want }) {
			t.Errorf("not listed: %q", want)
		}
	}
	began = time.Now()
	mustRemove(t, e, w)
	if took := time.Since(began); took > time.Minute+time.Duration(n)*200*time.Microsecond {
		t.Errorf("the removal of %d files took %s", n, took)
	}
	if got, err := os.ReadFile(secret); err != nil || string(got) != "host secret" {
		t.Errorf("what the links pointed at: %q, %v", got, err)
	}
}

// listen leaves a socket in a folder.
func listen(t *testing.T, dir string) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	// A name in the folder can be longer than an address takes.
	in, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/socket", in.Fd())}); err != nil {
		t.Fatal(err)
	}
}

// TestNothingIsFollowedWhileItChanges swaps a file and a folder for a link, a
// FIFO and a folder while the server lists them, as an agent's daemon could in
// the workspace of a plain process.
func TestNothingIsFollowedWhileItChanges(t *testing.T) {
	t.Parallel()
	secretDir := t.TempDir()
	secret := filepath.Join(secretDir, "secret.txt")
	if err := os.WriteFile(secret, []byte("host secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newPlace(t, nil)
	w.put(t, "d/secret.txt", "mine")
	ctx, stop := context.WithCancelCause(t.Context())
	var swapper sync.WaitGroup
	swapper.Go(func() {
		made := []func(p string) error{
			func(p string) error { return os.Symlink(secretDir, p) },
			func(p string) error { return os.Symlink(secret, p) },
			func(p string) error { return syscall.Mkfifo(p, 0o666) },
			func(p string) error { return os.Mkdir(p, 0o700) },
			func(p string) error { return os.WriteFile(p, []byte("mine too"), 0o600) },
		}
		for i := 0; ctx.Err() == nil; i++ {
			for _, name := range []string{"x", "d"} {
				next := filepath.Join(w.path, ".next")
				if err := made[i%len(made)](next); err != nil {
					t.Error(err)
					return
				}
				p := filepath.Join(w.path, name)
				if err := os.Rename(next, p); err != nil { // a folder in its place, or one to be put there
					_ = os.RemoveAll(p)
					_ = os.Rename(next, p)
				}
			}
		}
	})
	seen := 0
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		files, err := w.changed(t.Context(), nil, maxHashed)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			seen++
			if f.Size == int64(len("host secret")) {
				t.Fatalf("%s was followed", f.Path)
			}
		}
	}
	stop(nil)
	swapper.Wait()
	if seen == 0 {
		t.Error("nothing was ever listed; the test shows nothing")
	}
}
