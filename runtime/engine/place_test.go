package engine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// A folder of the user's own is worked in as it is: its mode stays, the data
// folder gets no workspace, installed packages are not looked through, and the
// end of the session leaves it alone.
func TestAPlaceIsTheUsersOwn(t *testing.T) {
	t.Parallel()
	e := &Engine{opts: Options{DataDir: t.TempDir(), Places: true}}
	r := run.Run{Session: run.NewSessionID(), StartedAt: time.Now(), Input: run.Input{Place: &run.Place{Folder: t.TempDir()}}}
	path := r.Input.Place.Folder
	if err := os.Chmod(path, 0o770); err != nil {
		t.Fatal(err)
	}
	w, err := e.openWorkspace(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if err := w.remember(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"model.pt", "venv/pyvenv.cfg", "venv/lib/x.py", "conda/conda-meta/history", "conda/x.py", "node_modules/x.js", "src/x.py"} {
		w.put(t, name, "x")
	}
	if got, want := names(t, w), []string{"model.pt model", "src/x.py script"}; !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	found, err := e.findWorkspace(r)
	if err != nil {
		t.Fatal(err)
	}
	defer found.close()
	if found.path != path {
		t.Errorf("after a restart it is %s", found.path)
	}
	if err := e.removeWorkspace(t.Context(), r.Session); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o770 {
		t.Errorf("its mode is %v", info.Mode())
	}
	if _, err := os.Stat(filepath.Join(path, "model.pt")); err != nil {
		t.Errorf("a file is gone: %v", err)
	}
	if _, err := os.Stat(e.workspacePath(r.Session)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the session has a workspace of its own: %v", err)
	}

	r.Input.Place.Folder = filepath.Join(path, "none")
	if _, err := e.openWorkspace(r, nil); run.CodeOf(err) != run.Invalid {
		t.Errorf("a folder that is gone: got %v", err)
	}
	e.opts.Places = false
	if _, err := e.openWorkspace(r, nil); run.CodeOf(err) != run.Forbidden {
		t.Errorf("at a server: got %v", err)
	}
}

// Of a folder like /tmp only its own files are listed: what lies in its folders is
// anybody's.
func TestAPlaceOfEverybody(t *testing.T) {
	t.Parallel()
	e := &Engine{opts: Options{DataDir: t.TempDir(), Places: true}}
	r := run.Run{Session: run.NewSessionID(), StartedAt: time.Now(), Input: run.Input{Place: &run.Place{Folder: t.TempDir()}}}
	for mode, want := range map[fs.FileMode][]string{
		0o777 | fs.ModeSticky: {"mine.csv dataset"},
		0o755 | fs.ModeSticky: {"mine.csv dataset", "theirs/x.csv dataset"},
		0o777:                 {"mine.csv dataset", "theirs/x.csv dataset"},
	} {
		if err := os.Chmod(r.Input.Place.Folder, mode); err != nil {
			t.Fatal(err)
		}
		w, err := e.openWorkspace(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.remember(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		w.put(t, "mine.csv", mode.String())
		w.put(t, "theirs/x.csv", mode.String())
		if got := names(t, w); !slices.Equal(got, want) {
			t.Errorf("in a folder of the mode %s: files %q, want %q", mode, got, want)
		}
		w.close()
	}
}

func TestConfigReachesTheProgram(t *testing.T) {
	t.Parallel()
	if got := configEnv([]byte(`{"lr":0.1}`)); len(got) != 1 || got[0] != (run.EnvVar{Name: "WEIR_CONFIG", Value: `{"lr":0.1}`}) {
		t.Errorf("got %v", got)
	}
	for _, none := range [][]byte{nil, []byte("null"), append([]byte(`"`), make([]byte, maxConfigEnv)...)} {
		if got := configEnv(none); got != nil {
			t.Errorf("%.20q: got %v", none, got)
		}
	}
}
