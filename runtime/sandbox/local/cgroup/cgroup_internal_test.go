//go:build linux

package cgroup

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local/starter"
)

// fakeGroups makes a folder that looks like mounted control groups.
func fakeGroups(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func content(t *testing.T, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestGroupsOfVersion2(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		uid int
		own string // where the server is
		top string // below which groups are made
	}{
		"root":      {0, "/system.slice/weir.service", ""},
		"delegated": {1000, "/user.slice/run-1.scope", "user.slice/run-1.scope"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := fakeGroups(t, map[string]string{
				"cgroup.controllers":                        "cpu memory pids\n",
				c.top + "/cgroup.subtree_control":           "",
				c.top + "/cgroup.procs":                     "17\n",
				c.top + "/server/cgroup.procs":              "",
				c.top + "/weir/cgroup.subtree_control":      "",
				c.top + "/weir/weir-rep_1-exe_old/filler":   "",
				c.top + "/weir/weir-other-exe_a/cgroup.max": "",
			})
			g := find(root, "0::"+c.own+"\n", c.uid)
			if g.v2 != filepath.Join(root, c.top, "weir") || !slices.Equal(g.have, []string{"cpu", "memory", "pids"}) || !strings.Contains(g.Label(), "version 2 (experimental)") {
				t.Fatalf("%+v %s", g, g.Label())
			}
			// A plain file keeps the last write over those before.
			if got := content(t, g.v2, "cgroup.subtree_control"); !strings.HasPrefix(got, "+cpu") {
				t.Errorf("subtree_control %q", got)
			}
			if moved := content(t, root, c.top, "server/cgroup.procs"); (moved == "17") != (c.uid != 0) {
				t.Errorf("the server's own group holds %q", moved)
			}
			group, err := g.Make("rep_1", "exe_1")
			if err != nil {
				t.Fatal(err)
			}
			dir := group.dirs[""]
			if dir != filepath.Join(g.v2, "weir-rep_1-exe_1") {
				t.Fatalf("the group is %s", dir)
			}
			limits := map[string]string{"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "0", "pids.max": "18", "cpu.max": "150000 100000"}
			for f := range limits {
				if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := g.Limit(group, sandbox.Limits{MemoryMiB: 64, PIDs: 16, CPUs: 1.5}); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for f := range limits {
				got[f] = content(t, dir, f)
			}
			if !maps.Equal(got, limits) {
				t.Errorf("limits %v, want %v", got, limits)
			}
			if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte("low 0\nhigh 0\nmax 4\noom 2\noom_kill 3\noom_group_kill 0\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if n := group.OOMKills(); n != 3 {
				t.Errorf("%d were killed for memory, want 3", n)
			}
		})
	}
}

// Where nothing may be made no limit is claimed.
func TestGroupsThatCannotBeMade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		self  string
		uid   int
	}{
		"no control groups":        {nil, "", 0},
		"version 1, not mounted":   {nil, "4:memory:/a\n1:cpu,cpuacct:/\n0::/\n", 0},
		"version 2, no controller": {map[string]string{"cgroup.controllers": ""}, "0::/a\n", 0},
		"version 2, not delegated": {map[string]string{"cgroup.controllers": "memory", "cgroup.subtree_control": ""}, "0::/a\n", 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := fakeGroups(t, c.files)
			g := find(root, c.self, c.uid)
			if len(g.have) > 0 || g.v2 != "" || g.Label() != "none" {
				t.Errorf("%+v %s", g, g.Label())
			}
			if group, err := g.Make("rep", "exe_1"); group != nil || err != nil {
				t.Errorf("made %v, %v", group, err)
			}
		})
	}
}

// unified is a place of version 2 of this machine, with or without controllers.
func unified(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err != nil {
			continue
		}
		top := filepath.Join(dir, "weir-test-"+strconv.Itoa(os.Getpid()))
		if err := os.Mkdir(top, 0o755); err != nil {
			continue
		}
		t.Cleanup(func() {
			if !removeGroup(top) {
				t.Errorf("%s could not be removed", top)
			}
		})
		return top
	}
	t.Skip("SKIPPED: no control groups of version 2 that this user may make") // also in CI: its kernel decides
	return ""
}

// The kernel itself makes the child in its group, and kills the group.
func TestStartInAGroupOfVersion2(t *testing.T) {
	t.Parallel()
	g := &Groups{v2: unified(t), have: []string{"none"}}
	group, err := g.Make("rep", run.NewExecutionID())
	if err != nil {
		t.Fatal(err)
	}
	s := starter.New()
	defer s.Close()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "cat /proc/self/cgroup; sleep 100")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StartIn(cmd, group); err != nil {
		t.Fatal(err)
	}
	name, seen := filepath.Base(group.dirs[""]), make([]byte, 4096)
	text := ""
	for !strings.Contains(text, "0::") || !strings.HasSuffix(text, "\n") {
		n, err := out.Read(seen)
		if text += string(seen[:n]); err != nil {
			break
		}
	}
	if !strings.Contains(text, "/"+name+"\n") {
		t.Errorf("it lives in\n%s, want %s", text, name)
	}
	if os.Remove(group.dirs[""]) == nil {
		t.Error("a group with a process was removed")
	}
	if err := writeFile(filepath.Join(group.dirs[""], "cgroup.kill"), "1"); err != nil {
		t.Error(err)
		_ = cmd.Process.Kill()
	}
	_ = cmd.Wait() // was killed
	if st, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || st.Signal() != unix.SIGKILL {
		t.Errorf("it ended as %v", cmd.ProcessState)
	}
	if !group.Remove() {
		t.Error("the empty group was not removed")
	}
}

// On version 1 the starting thread is a member only while it starts.
func TestStartInGroupsOfVersion1(t *testing.T) {
	t.Parallel()
	g := Find(os.Geteuid())
	if len(g.v1) == 0 {
		t.Skip("SKIPPED: no control groups of version 1 that this user may make") // also in CI: its kernel decides
	}
	group, err := g.Make("rep", run.NewExecutionID())
	if err != nil {
		t.Fatal(err)
	}
	s := starter.New()
	cmd := exec.CommandContext(t.Context(), "sleep", "100")
	if err := s.StartIn(cmd, group); err != nil {
		t.Fatal(err)
	}
	for _, dir := range group.dirs {
		if procs := content(t, dir, "cgroup.procs"); !strings.Contains("\n"+procs, "\n"+strconv.Itoa(cmd.Process.Pid)+"\n") {
			t.Errorf("%s holds %q", dir, procs)
		}
	}
	next := exec.CommandContext(t.Context(), "true") // goes through the same thread
	if err := s.Start(next); err != nil {
		t.Fatal(err)
	}
	if err := next.Wait(); err != nil {
		t.Error(err)
	}
	for _, dir := range group.dirs {
		if tasks := strings.Fields(content(t, dir, "tasks")); !slices.Equal(tasks, []string{strconv.Itoa(cmd.Process.Pid)}) {
			t.Errorf("%s holds the tasks %v", dir, tasks)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // was killed
	s.Close()
	if !group.Remove() {
		t.Error("the empty group was not removed")
	}
}
