//go:build linux

package local_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local"
)

// pythonCommand is a command that runs a file of the workspace.
func pythonCommand(t *testing.T, files map[string]string) sandbox.Spec {
	t.Helper()
	s := spec(t)
	put(t, s.Workspace, files)
	s.Command = []string{"/usr/bin/python3", "train.py"}
	return s
}

func put(t *testing.T, workspace string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(workspace, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func onePoint(t *testing.T, res sandbox.Result, r *recorder, name string, value float64) {
	t.Helper()
	if res.IsError() || len(r.points) != 1 || r.points[0].Name != name || r.points[0].Float() != value {
		t.Errorf("%s, points %+v, want %s = %v; stderr %q", res.Class, r.points, name, value, r.stderr())
	}
}

// Code and commands alike can log, and leave nothing behind.
func TestPythonCanLog(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		const script = "import weir\nweir.log(loss=0.5)\n"
		code := python(t, script)
		res, r := execute(t, b, code)
		onePoint(t, res, r, "loss", 0.5)
		command := pythonCommand(t, map[string]string{"train.py": script})
		res, r = execute(t, b, command)
		onePoint(t, res, r, "loss", 0.5)
		for _, w := range []string{code.Workspace, command.Workspace} {
			out, err := exec.CommandContext(t.Context(), "find", w, "-mindepth", "1").Output()
			if err != nil {
				t.Fatal(err)
			}
			if left := strings.ReplaceAll(string(out), w+"/train.py\n", ""); left != "" {
				t.Errorf("left in the workspace: %s", left)
			}
		}
	})
}

// The user's PYTHONPATH comes first, then the workspace, its src, the helpers.
func TestPythonFindsTheUsersModulesFirst(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		files := map[string]string{
			"tools/train.py":       "import mine, deep, top, weir\nweir.log({mine.NAME + deep.NAME + top.NAME: 1}, step=1)\n",
			"own/mine.py":          "NAME = 'own'",
			"mine.py":              "NAME = 'workspace'",
			"src/top.py":           "NAME = 'src'",
			"top.py":               "NAME = 'top'",
			"src/deep/part.py":     "PART = 'deep'",
			"src/deep/__init__.py": "from .part import PART\nNAME = PART\n",
		}
		s := pythonCommand(t, files)
		s.Command = []string{"/usr/bin/python3", "tools/train.py"}
		s.Env = []run.EnvVar{{Name: "PYTHONPATH", Value: "own:"}}
		res, r := execute(t, b, s)
		onePoint(t, res, r, "owndeeptop", 1)

		s = python(t, "import weir\nprint(weir.WHOSE)")
		put(t, s.Workspace, map[string]string{"weir.py": "WHOSE = 'the workspace'"})
		if _, r := execute(t, b, s); r.stdout() != "the workspace\n" {
			t.Errorf("with a weir.py of one's own: %q %q", r.stdout(), r.stderr())
		}
	})
}

// One run writes a module, the next one of the session imports it, from any folder.
func TestLaterExecutionImportsSrc(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		first := python(t, "import os\nos.mkdir('src')\nopen('src/mymodel.py', 'w').write('def predict():\\n    return 42\\n')")
		if res, r := execute(t, b, first); res.IsError() {
			t.Fatalf("%s %q", res.Class, r.stderr())
		}
		for _, cmd := range [][]string{nil, {"sh", "-c", "mkdir -p /tmp/x && cd / && /usr/bin/python3 -c 'import mymodel, weir; weir.log(1, answer=mymodel.predict())'"}} {
			s := spec(t)
			s.Workspace = first.Workspace
			if s.Command = cmd; cmd == nil {
				s.Code = "import mymodel, weir\nweir.log(1, answer=mymodel.predict())"
			}
			res, r := execute(t, b, s)
			onePoint(t, res, r, "answer", 42)
		}
		if _, err := os.Stat(filepath.Join(first.Workspace, "src", "__pycache__")); err == nil {
			t.Error("Python left a __pycache__ in src")
		}
	})
}

// The shell command is found behind any PATH.
func TestShellCanLog(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		res, r := execute(t, b, shell(t, "weir-log step=1 loss=0.5"))
		onePoint(t, res, r, "loss", 0.5)
		s := spec(t)
		s.Command = []string{"weir-log", "step=1", "loss=0.25"}
		s.Env = []run.EnvVar{{Name: "PATH", Value: "/usr/bin:/bin"}}
		res, r = execute(t, b, s)
		onePoint(t, res, r, "loss", 0.25)
	})
}

// Nobody in a sandbox can change what others log with.
func TestHelpersAreReadOnly(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	_, r := execute(t, b, shell(t, `
for f in weir.py weir-log new; do
	(echo x > /weir/lib/$f) 2>/dev/null && echo "wrote $f"
	chmod 777 /weir/lib/$f 2>/dev/null && echo "opened $f"
	rm -f /weir/lib/weir.py 2>/dev/null && echo "removed $f"
done
ls -l /weir/lib | cut -c1-10`))
	if _, list, _ := strings.Cut(r.stdout(), "\n"); list != "-r-xr-xr-x\n-r--r--r--\n" {
		t.Errorf("printed %q", r.stdout())
	}
}

// Long lines of several processes and threads come whole.
func TestLinesOfSeveralProcessesStayWhole(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		const workers, lines = 4, 20
		s := python(t, fmt.Sprintf(`
import os, threading, weir
def work(name):
    for i in range(1, %d + 1):
        weir.log_text("%%s/%%s" %% (os.getpid(), name), name * 100000, step=i)
        weir.log({name: i}, step=i, run=str(os.getpid()))
children = []
for _ in range(%d):
    pid = os.fork()
    if pid == 0:
        threads = [threading.Thread(target=work, args=(n,)) for n in "ab"]
        [t.start() for t in threads]
        [t.join() for t in threads]
        os._exit(0)
    children.append(pid)
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
`, lines, workers))
		res, r := execute(t, b, s)
		if res.IsError() || res.Loss.LinesRejected != 0 || len(r.points) != 2*workers*lines || len(r.media) != 2*workers*lines {
			t.Errorf("%s, %d points, %d texts, loss %+v, stderr %q", res.Class, len(r.points), len(r.media), res.Loss, r.stderr())
		}
		for _, m := range r.media {
			var data struct{ Text string }
			if err := json.Unmarshal(m.Data, &data); err != nil || len(data.Text) != 100000 {
				t.Fatalf("a text of %d bytes: %v", len(data.Text), err)
			}
		}
	})
}

// A program that catches what it prints still draws its curves, in order with
// what it printed before.
func TestCaughtOutputStillLogs(t *testing.T) {
	t.Parallel()
	res, r := execute(t, bubblewrap(t), python(t, `
import contextlib, io, sys, weir
sys.stdout.reconfigure(line_buffering=False, write_through=False)
print("before")
weir.log(1, a=1)
with contextlib.redirect_stdout(io.StringIO()):
    print("caught")
    weir.log(2, a=2)
sys.stdout = None
weir.log(3, a=3)
sys.stdout = sys.__stdout__
print("after")
`))
	if res.IsError() || len(r.points) != 3 || !strings.HasPrefix(r.stdout(), "before\n{") || !strings.HasSuffix(r.stdout(), "}\nafter\n") {
		t.Errorf("%s, points %v, stdout %q, stderr %q", res.Class, r.points, r.stdout(), r.stderr())
	}
}

// The folder for plain processes is made anew where it was changed, and a
// temporary one goes with the backend.
func TestPlainHelperFolder(t *testing.T) {
	t.Parallel()
	lib := filepath.Join(workspace(t), "lib")
	put(t, lib, map[string]string{"weir.py": "broken"})
	b := local.NewPlain(local.Options{Helpers: lib})
	res, r := execute(t, b, python(t, "import weir\nweir.log(a=1)"))
	onePoint(t, res, r, "a", 1)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if names, err := filepath.Glob(lib + "/*"); err != nil || len(names) != 2 {
		t.Errorf("the folder holds %v, %v", names, err)
	}
	b = local.NewPlain(local.Options{})
	_, r = execute(t, b, python(t, "import weir\nprint(weir.__file__)"))
	file := strings.TrimSpace(r.stdout())
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) || !filepath.IsAbs(file) {
		t.Errorf("the temporary folder of %q is still there: %v", file, err)
	}
}
