package app

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/agent"
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

// A file in the place of a folder is refused at the start, and the doctor says so.
func TestAFileInTheWayIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"outputs", "workspaces"} {
		data := dataFolder(t)
		path := filepath.Join(data, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		want := path + " is a file, and Weir keeps a folder there; move it away"
		if _, err := build(t.Context(), options{cfg: config.Serve{Data: data}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		found, _ := doctor(t, "--listen", "127.0.0.1:0", "--data", data)
		if f := found["data"]; f.Verdict != problem || !strings.Contains(f.What+f.Remedy, path) {
			t.Errorf("the doctor found %+v", f)
		}
	}
}

// The demo says when it cannot use the Python that was asked for.
func TestDemoSaysThatAPythonIsHidden(t *testing.T) {
	t.Parallel()
	python := filepath.Join(t.TempDir(), "python3")
	if err := os.WriteFile(python, []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var log text
	l, err := listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	srv, err := build(t.Context(), options{
		cfg: config.Serve{Data: dataFolder(t), Concurrency: 1, Python: python}, agents: agent.NewSet(), listener: l,
		log: slog.New(slog.NewTextHandler(&log, nil)), examplesOnly: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	works := srv.sandboxes.work()
	if err := srv.close(); err != nil {
		t.Error(err)
	}
	if said := strings.Contains(log.String(), "not with WEIR_PYTHON: "+python+" cannot be used"); said != works {
		t.Errorf("with a sandbox that works (%t) it said %s", works, log.String())
	}
}
