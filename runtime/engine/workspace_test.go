package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// newPlace makes a workspace with files in it, remembered as they are.
func newPlace(t *testing.T, files map[string]string) *workspace {
	t.Helper()
	e := &Engine{opts: Options{DataDir: t.TempDir()}}
	w, err := e.openWorkspace(run.Run{Session: run.NewSessionID(), StartedAt: time.Now()}, files)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	if err := w.remember(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *workspace) put(t *testing.T, name, content string) {
	t.Helper()
	full := filepath.Join(w.path, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// names gives "path kind" of what has changed.
func names(t *testing.T, w *workspace, known ...run.Artifact) []string {
	t.Helper()
	files, err := w.changed(t.Context(), known, maxHashed)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		out = append(out, f.Path+" "+f.Kind)
	}
	return out
}

func TestArtifactsAreTheNewAndTheChanged(t *testing.T) {
	t.Parallel()
	w := newPlace(t, map[string]string{"data/in.csv": "1,2", "keep.py": "print()", "touched.txt": "old"})
	w.put(t, "touched.txt", "new")
	w.put(t, "out/loss.png", "png")
	w.put(t, "out/deep/report.md", "# deep")
	w.put(t, "report.md", "# top")
	w.put(t, "model.pt", "weights")
	w.put(t, ".weir/main.py", "hidden")
	w.put(t, ".cache", "hidden")
	w.put(t, "__pycache__/x.pyc", "hidden")
	want := []string{"model.pt model", "out/deep/report.md report", "out/loss.png chart", "report.md report", "touched.txt file"}
	if got := names(t, w); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	files, err := w.changed(t.Context(), nil, maxHashed)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := reportIn(files); got != "report.md" {
		t.Errorf("the report is %q, want the one at the top", got)
	}
}

func TestArtifactRewrittenAsItWasIsNotListedAgain(t *testing.T) {
	t.Parallel()
	w := newPlace(t, nil)
	w.put(t, "a.csv", "same")
	w.put(t, "b.csv", "other")
	files, err := w.changed(t.Context(), nil, maxHashed)
	if err != nil || len(files) != 2 {
		t.Fatalf("got %v, %v", files, err)
	}
	if err := w.remember(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour)
	for _, name := range []string{"a.csv", "b.csv"} {
		if err := os.Chtimes(filepath.Join(w.path, name), past, past); err != nil {
			t.Fatal(err)
		}
	}
	w.put(t, "b.csv", "changed")
	if got := names(t, w, files...); !slices.Equal(got, []string{"b.csv dataset"}) {
		t.Errorf("got %q", got)
	}
}

func TestArtifactsFollowNothingThatTheAgentLaid(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(secret, []byte("host secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newPlace(t, nil)
	for name, target := range map[string]string{"link.txt": secret, "dir": filepath.Dir(secret), "self": ".", "up": ".."} {
		if err := os.Symlink(target, filepath.Join(w.path, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(w.path, "pipe.csv"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.put(t, "real.txt", "x")
	if got := names(t, w); !slices.Equal(got, []string{"real.txt file"}) {
		t.Errorf("got %q", got)
	}
	budget := int64(maxHashed)
	for _, name := range []string{"link.txt", "pipe.csv", "dir/secret.txt"} {
		if sum, err := w.hash(name, 11, &budget); err == nil {
			t.Errorf("%s was read: %s", name, sum)
		}
	}
}

// A report is a regular file of a size that can be shown, and nothing else is
// read for it.
func TestReportThatIsNone(t *testing.T) {
	t.Parallel()
	w := newPlace(t, nil)
	secret := filepath.Join(t.TempDir(), "secret.md")
	if err := os.WriteFile(secret, []byte("host secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(w.path, "report.md")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(w.path, "report.html"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.put(t, "a/report.md", "")
	if err := os.Truncate(filepath.Join(w.path, "a", "report.md"), 8<<30); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	files, err := w.changed(t.Context(), nil, maxHashed)
	if err != nil || len(files) != 1 || files[0].Size != 8<<30 || files[0].SHA256 != "" {
		t.Errorf("files %+v, %v", files, err)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("looking at it took %s", d)
	}
	if report, large := reportIn(files); report != "" || len(large) != 1 {
		t.Errorf("report %q, too large %v", report, large)
	}
	w.put(t, "a/b/report.html", "<p>small")
	if files, err = w.changed(t.Context(), nil, maxHashed); err != nil {
		t.Fatal(err)
	}
	if report, _ := reportIn(files); report != "a/b/report.html" {
		t.Errorf("report %q, want the one that can be shown", report)
	}
}

func TestArtifactsAreBounded(t *testing.T) {
	t.Parallel()
	w := newPlace(t, nil)
	for i := range maxArtifacts + 5 {
		w.put(t, fmt.Sprintf("f%04d.txt", i), "x")
	}
	files, err := w.changed(t.Context(), nil, maxHashed)
	if !errors.Is(err, errTooMuch) || len(files) != maxArtifacts {
		t.Errorf("got %d files and %v", len(files), err)
	}
	if files, err := w.changed(t.Context(), nil, 3); !errors.Is(err, errTooMuch) || files[2].SHA256 == "" || files[3].SHA256 != "" {
		t.Errorf("with a budget of 3 bytes the third and fourth hash are %q and %q, %v", files[2].SHA256, files[3].SHA256, err)
	}
	deep := newPlace(t, nil)
	deep.put(t, strings.Repeat("d/", maxDepthDirs+2)+"x.txt", "x")
	if _, err := deep.changed(t.Context(), nil, maxHashed); !errors.Is(err, errTooMuch) {
		t.Errorf("folders without end: got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errShutdown)
	if _, err := w.changed(ctx, nil, maxHashed); !errors.Is(err, errShutdown) {
		t.Errorf("a scan that was stopped: got %v", err)
	}
}

func TestAgentFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := &Engine{opts: Options{DataDir: dir}}
	r := run.Run{Session: run.NewSessionID()}
	open := func(files map[string]string) error {
		w, err := e.openWorkspace(r, files)
		w.close()
		return err
	}
	if err := open(map[string]string{"data/x.csv": "first"}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "workspaces", string(r.Session))
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("the workspace is %v, %v; want 0700", info, err)
	}
	if err := os.WriteFile(filepath.Join(path, "data/x.csv"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := open(map[string]string{"data/x.csv": "second", "y.csv": "y"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"data/x.csv": "mine", "y.csv": "y"} {
		if got, err := os.ReadFile(filepath.Join(path, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
		}
	}
	for _, bad := range []string{"../out.txt", "/etc/x", "a/../../x", ""} {
		if err := open(map[string]string{bad: "x"}); run.CodeOf(err) != run.Invalid {
			t.Errorf("the file %q: got %v, want INVALID", bad, err)
		}
	}
	// A folder that the agent has replaced by a link leads nowhere.
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(path, "sub")); err != nil {
		t.Fatal(err)
	}
	if err := open(map[string]string{"sub/x.txt": "x"}); err == nil {
		t.Error("a file was written through a link")
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside there is now %v, %v", left, err)
	}
	if err := e.removeWorkspace(t.Context(), r.Session); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the workspace is still there: %v", err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("what a link pointed at was removed: %v", err)
	}
}

// A folder with more files than are looked at hides nothing beside it, nor in a
// folder that comes after it.
func TestLargeFoldersHideNoOthers(t *testing.T) {
	t.Parallel()
	w := newPlace(t, nil)
	w.before = nil
	for n := range maxWalked/2 + 50 {
		w.put(t, fmt.Sprintf("data/%06d", n), "")
	}
	if err := w.remember(t.Context(), false); !errors.Is(err, errTooMuch) {
		t.Fatalf("before the run: got %v", err)
	}
	w.since = time.Now().Add(time.Hour) // of a run after all that
	for _, name := range []string{"model.pt", "out/report.md"} {
		w.put(t, name, "x")
		if err := os.Chtimes(filepath.Join(w.path, name), w.since, w.since); err != nil {
			t.Fatal(err)
		}
	}
	files, err := w.changed(t.Context(), nil, maxHashed)
	var got []string
	for _, f := range files {
		got = append(got, f.Path)
	}
	if want := []string{"model.pt", "out/report.md"}; !slices.Equal(got, want) || !errors.Is(err, errTooMuch) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
