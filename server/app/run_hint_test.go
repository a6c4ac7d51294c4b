package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/server/cli"
)

// A failing import says which environment was looked in, or where there is one.
func TestHintOfAFailingImport(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	for _, dir := range []string{"home/none", "home/has it/.venv", "home/has it/src/deep", "home/other/env"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	for _, env := range []string{"home/has it/.venv", "home/other/env", "venv"} { // that one lies above the home
		if err := os.MkdirAll(filepath.Join(base, env, "bin"), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(base, env, "pyvenv.cfg"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	active := []run.EnvVar{{Name: "VIRTUAL_ENV", Value: "/e"}}
	for name, c := range map[string]struct {
		folder, program string
		env             []run.EnvVar
		want            string
	}{
		"active":          {"home/none", "python3", active, "the active environment /e has no module 'm'; install it there"},
		"conda":           {"home/none", "train", []run.EnvVar{{Name: "CONDA_PREFIX", Value: "/c"}}, "the active environment /c has no module 'm'; install it there"},
		"the program's":   {"home/none", "../other/env/bin/python", active, "the environment BASE/home/other/env, which ../other/env/bin/python belongs to, has no module 'm'; install it there"},
		"past the active": {"home/none", "/usr/bin/python3", active, "/usr/bin/python3 is no environment's Python, and has no module 'm'; say python3 for"},
		"a script":        {"home/none", "./train.sh", active, "the active environment /e has no module 'm'"},
		"one beside it":   {"home/has it", "python3", nil, "no environment is active, but there is one here: source .venv/bin/activate, and run it again"},
		"one above it":    {"home/has it/src/deep", "python3", nil, "source ../../.venv/bin/activate, and"},
		"none":            {"home/none", "python3", nil, "no environment is active, and there is no .venv, venv or env in or above BASE/home/none: activate"},
	} {
		e := &embedded{call: &call{streams: streams{getenv: func(string) string { return filepath.Join(base, "home") }}}}
		e.input.Place = &run.Place{Folder: filepath.Join(base, c.folder)}
		e.input.Command, e.input.Env = []string{c.program, "x"}, c.env
		got := e.hint(&cli.Run{Error: "the command ended with exit code 1: ModuleNotFoundError: No module named 'm'\nmore"})
		if want := strings.ReplaceAll(c.want, "BASE", base); !strings.Contains(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	e := &embedded{call: &call{streams: streams{getenv: func(string) string { return "" }}}} // an agent has no command
	e.input.Place = &run.Place{Folder: base}
	if got := e.hint(&cli.Run{Error: "ModuleNotFoundError: No module named 'm'"}); got != "" {
		t.Errorf("of an agent: %q", got)
	}
}
