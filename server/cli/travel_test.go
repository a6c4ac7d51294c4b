package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a server does not have is told before a run fails for it.
func TestFilesThatDoNotTravel(t *testing.T) { //nolint:paralleltest // in a folder of its own
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"s.sh": "echo\n", "alone.py": "import os, json as j\nfrom sys import path\nimport weir\n", "weir.py": "",
		"train.py": "import os\nimport json, model as m\n", "sub.py": "  from nets.conv import x\n", "rel.py": "text = 'import model'\nimport models\n",
		"model.py": "", "nets/__init__.py": "", "data.csv": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		argv          string
		flags         RunFlags
		warns, refuse string
	}{
		{argv: "sh s.sh", refuse: "s.sh is a file here, which the server does not have: only one .py file travels"},
		{argv: "-- ./s.sh x", refuse: "./s.sh is a file here"},
		{argv: "sh s.sh", flags: RunFlags{Session: "ses_1"}},
		{argv: "sh s.sh", flags: RunFlags{Agent: "own"}},
		{argv: "cat -n data.csv", warns: "data.csv is here, and not at the server"},
		{argv: "sh -c ls"},
		{argv: "cat /etc/passwd"},
		{argv: "ls ."},
		{argv: "python3 alone.py"},
		{argv: "alone.py"},
		{argv: "rel.py"},
		{argv: "train.py", warns: "train.py imports model.py, which is here and not at the server: only one .py"},
		{argv: "python3 sub.py", warns: "imports nets/__init__.py"},
	} {
		warning, err := c.flags.travels(strings.Fields(c.argv))
		if (warning == "") != (c.warns == "") || !strings.Contains(warning, c.warns) {
			t.Errorf("%s: warns %q, want %q", c.argv, warning, c.warns)
		}
		code, _ := Exit(err)
		if (err == nil) != (c.refuse == "") || err != nil && (code != CodeUsage || !strings.Contains(err.Error(), c.refuse)) {
			t.Errorf("%s: refuses with %v, want %q", c.argv, err, c.refuse)
		}
	}
}

func TestFlagsAfterTheProgram(t *testing.T) {
	t.Parallel()
	for argv, want := range map[string]string{
		"train.py --set lr=1":          "--set",
		"train.py --max-output=3":      "--max-output",
		"train.py x --token-file f":    "--token-file",
		"train.py --lr 1":              "",
		"-- train.py --set lr=1":       "",
		"make all -- --set":            "",
		"train.py --on-busy=queue -- ": "",
		"train.py --on-busy=queue":     "--on-busy",
	} {
		if got := misplacedFlag(strings.Fields(argv)); got != want {
			t.Errorf("%q: %q, want %q", argv, got, want)
		}
		if note := FlagNote(strings.Fields(argv)); (note == "") != (want == "") || !strings.Contains(note, want) {
			t.Errorf("%q: %q", argv, note)
		}
	}
}
