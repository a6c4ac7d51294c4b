package around_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/server/around"
)

// machine is a folder that stands for a user's home, with a project in it.
type machine struct {
	t       *testing.T
	home    string
	project string
	env     map[string]string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, home: home, project: filepath.Join(home, "project")}
	m.dir("project")
	m.env = map[string]string{"HOME": home, "PATH": "/usr/bin:/bin"}
	return m
}

func (m *machine) dir(name string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Join(m.home, name), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) file(name, content string) {
	m.t.Helper()
	m.dir(filepath.Dir(name))
	if err := os.WriteFile(filepath.Join(m.home, name), []byte(content), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) link(name, to string) {
	m.t.Helper()
	m.dir(filepath.Dir(name))
	if err := os.Symlink(to, filepath.Join(m.home, name)); err != nil {
		m.t.Fatal(err)
	}
}

// find gives the mounts relative to the home, as "at" or "at<from".
func (m *machine) find(change func(*around.Request)) ([]string, around.Found) {
	m.t.Helper()
	q := around.Request{Folder: m.project, Program: "python3", Getenv: func(name string) string { return m.env[name] }}
	if change != nil {
		change(&q)
	}
	found, err := around.Find(q)
	if err != nil {
		m.t.Fatal(err)
	}
	var out []string
	for _, mount := range found.Mounts {
		text := strings.TrimPrefix(mount.At, m.home+"/")
		if mount.From != mount.At {
			text += "<" + strings.TrimPrefix(mount.From, m.home+"/")
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out, found
}

func TestPythonIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		build func(m *machine)
		want  []string // mounts
		path  []string // relative to the home
	}{
		"the system's": {func(*machine) {}, nil, nil},
		"an environment of the system's": {func(m *machine) {
			m.file("project/venv/pyvenv.cfg", "home = /usr/bin\n")
			m.link("project/venv/bin/python3", "/usr/bin/python3")
			m.env["VIRTUAL_ENV"] = m.project + "/venv"
		}, []string{"project/venv"}, []string{"project/venv/bin"}},
		"uv: the version is a link": {func(m *machine) {
			m.file("uv/python/cpython-3.12.4/bin/python3.12", "x")
			m.link("uv/python/cpython-3.12", "cpython-3.12.4")
			m.file("project/.venv/pyvenv.cfg", "version = 3.12.4\nhome = "+m.home+"/uv/python/cpython-3.12/bin\n")
			m.link("project/.venv/bin/python", m.home+"/uv/python/cpython-3.12/bin/python3.12")
			m.link("project/.venv/bin/python3", "python")
			m.env["VIRTUAL_ENV"] = m.project + "/.venv"
		}, []string{"project/.venv", "uv/python/cpython-3.12.4", "uv/python/cpython-3.12<uv/python/cpython-3.12.4"}, []string{"project/.venv/bin"}},
		"pyenv: a version below it": {func(m *machine) {
			m.file("pyenv/versions/3.11/bin/python3.11", "x")
			m.link("pyenv/versions/3.11/bin/python3", "python3.11")
			m.file("env/pyvenv.cfg", "home = "+m.home+"/pyenv/versions/3.11/bin\n")
			m.link("env/bin/python3", m.home+"/pyenv/versions/3.11/bin/python3")
			m.env["VIRTUAL_ENV"] = m.home + "/env"
		}, []string{"env", "pyenv/versions/3.11"}, []string{"env/bin"}},
		"conda": {func(m *machine) {
			m.file("conda/envs/x/bin/python3", "x")
			m.env["CONDA_PREFIX"] = m.home + "/conda/envs/x"
		}, []string{"conda/envs/x"}, []string{"conda/envs/x/bin"}},
		"the first of PATH": {func(m *machine) {
			m.file("opt/py/bin/python3", "x")
			m.env["PATH"] = "/nothere:" + m.home + "/opt/py/bin:/usr/bin"
		}, []string{"opt/py"}, []string{"opt/py/bin"}},
		"a link among other programs": {func(m *machine) {
			m.file("opt/py/bin/python3.12", "x")
			m.link(".local/bin/python3", m.home+"/opt/py/bin/python3.12")
			m.file(".local/share/keys", "secret")
			m.env["PATH"] = m.home + "/.local/bin:/usr/bin"
		}, []string{".local/bin", "opt/py"}, []string{".local/bin"}},
		"a Python of the home itself": {func(m *machine) {
			m.file(".local/bin/python3", "x")
			m.file(".local/lib/python3.12/os.py", "x")
			m.file(".local/share/keys", "secret")
			m.env["PATH"] = m.home + "/.local/bin:/usr/bin"
		}, []string{".local/bin", ".local/lib"}, []string{".local/bin"}},
		"the user's own packages": {func(m *machine) {
			m.file(".local/lib/python3.11/site-packages/x.py", "")
			m.file(".local/lib/python3.12/site-packages/x.py", "")
			m.file(".local/lib/other/x", "secret")
		}, []string{".local/lib/python3.11/site-packages", ".local/lib/python3.12/site-packages"}, nil},
		"the user's own packages elsewhere": {func(m *machine) {
			m.file(".local/lib/python3.11/site-packages/x.py", "")
			m.file("a [b]*/lib/python3.11/site-packages/x.py", "")
			m.env["PYTHONUSERBASE"] = m.home + "/a [b]*"
		}, []string{"a [b]*/lib/python3.11/site-packages"}, nil},
		"the user's own packages, not wanted": {func(m *machine) {
			m.file(".local/lib/python3.11/site-packages/x.py", "")
			m.env["PYTHONNOUSERSITE"] = "1"
		}, nil, nil},
		"the user's own packages, and an environment": {func(m *machine) {
			m.file(".local/lib/python3.11/site-packages/x.py", "")
			m.env["CONDA_PREFIX"] = m.project
		}, []string{"project"}, []string{"project/bin"}},
		"an environment that is gone": {func(m *machine) {
			m.env["VIRTUAL_ENV"] = m.home + "/gone"
		}, nil, nil},
		"an environment in the place of the sandbox's own root, as if gone": {func(m *machine) {
			m.env["CONDA_PREFIX"] = "/"
		}, nil, nil},
		"an environment by a link": {func(m *machine) {
			m.file("real/pyvenv.cfg", "home = /usr/bin\n")
			m.link("current", "real")
			m.env["VIRTUAL_ENV"] = m.home + "/current"
		}, []string{"current<real", "real"}, []string{"current/bin"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			c.build(m)
			mounts, found := m.find(nil)
			if !slices.Equal(mounts, c.want) {
				t.Errorf("mounts %q, want %q", mounts, c.want)
			}
			var path []string
			for _, dir := range found.Path {
				path = append(path, strings.TrimPrefix(dir, m.home+"/"))
			}
			if !slices.Equal(path, c.path) {
				t.Errorf("PATH begins with %q, want %q", path, c.path)
			}
			if gone := strings.Contains(name, "gone"); gone != (len(found.Notes) == 1) {
				t.Errorf("notes: %q", found.Notes)
			}
			for _, v := range found.Env {
				if v.Name == "PYTHONUSERBASE" && m.env[v.Name] == "" {
					m.env[v.Name] = m.home + "/.local"
				}
				if m.env[v.Name] != v.Value {
					t.Errorf("%s is %s, want %s", v.Name, v.Value, m.env[v.Name])
				}
			}
		})
	}
}

// A program of an environment that is not active brings it along, and nothing of
// the user's own, where such an environment does not look.
func TestTheProgramsOwnEnvironment(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.file(".local/lib/python3.11/site-packages/x.py", "")
	m.file("project/e/pyvenv.cfg", "home = /usr/bin\n")
	m.link("project/e/bin/python", "/usr/bin/python3")
	mounts, found := m.find(func(q *around.Request) { q.Program = "e/bin/python" })
	if !slices.Equal(mounts, []string{"project/e"}) || len(found.Path) > 0 {
		t.Errorf("mounts %q, path %q", mounts, found.Path)
	}
}

func TestMounts(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.dir("data/x")
	m.dir("project/in")
	mounts, _ := m.find(func(q *around.Request) { q.Mounts = []string{m.home + "/data", "../data/x", "in", "/usr/share"} })
	if want := []string{"data", "project/in"}; !slices.Equal(mounts, want) {
		t.Errorf("mounts %q, want %q", mounts, want)
	}
	m.link("project/up", "/")
	for at, word := range map[string]string{"": "needs the path", "/": "root folder of its own", "up": "root folder of its own", "/proc": "a /proc of its own", "/proc/self/fd": "of its own", "/dev/": "a /dev of its own", "/tmp": "a /tmp of its own"} {
		_, err := around.Find(around.Request{Folder: m.project, Mounts: []string{at}, Getenv: func(string) string { return "" }})
		if run.CodeOf(err) != run.Invalid || !strings.Contains(err.Error(), word) {
			t.Errorf("--mount %q: got %v", at, err)
		}
	}
	q := around.Request{Folder: m.project, Mounts: []string{"none"}, Getenv: func(string) string { return "" }}
	if _, err := around.Find(q); run.CodeOf(err) != run.Invalid || err.Error() != "--mount none: no such file or directory" {
		t.Errorf("got %v", err)
	}
}

func TestHolds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		folder, path string
		want         bool
	}{
		{"/a", "/a", true},
		{"/a", "/a/b", true},
		{"/", "/a", true},
		{"/a", "/ab", false},
		{"/a/b", "/a", false},
		{"/a", "", false},
		{"/a", "/a/..b", true},
	} {
		if got := around.Holds(c.folder, c.path); got != c.want {
			t.Errorf("Holds(%q, %q) = %v", c.folder, c.path, got)
		}
	}
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := m.project + "/closed/inner"
	m.dir("project/closed/inner")
	closed := filepath.Dir(dir)
	info, err := os.Stat(closed)
	if err != nil {
		t.Fatal(err)
	}
	uid, gid, ok := around.Owner(info)
	if !ok {
		t.Skip("this system has no user ids")
	}
	// Above it lie folders of the test that others may not enter.
	for _, up := range []string{m.home, filepath.Dir(m.home)} {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for mode, want := range map[os.FileMode][2]string{ // of the owner, of another user
		0o755: {"", ""},
		0o700: {"", closed},
		0o077: {closed, ""},
	} {
		if err := os.Chmod(closed, mode); err != nil {
			t.Fatal(err)
		}
		got := [2]string{around.Blocks(closed, uid, gid), around.Blocks(closed, uid+1, gid+1)}
		if got != want {
			t.Errorf("mode %04o: %q, want %q", mode, got, want)
		}
	}
	if err := os.Chmod(closed, 0o755); err != nil {
		t.Fatal(err)
	}
}
