//go:build linux

package local

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// printed is a sink that keeps both outputs.
type printed struct{ out, err bytes.Buffer }

func (p *printed) Write(_ context.Context, c sandbox.Chunk) error {
	if c.Stream == run.Stdout {
		p.out.WriteString(c.Text)
	} else {
		p.err.WriteString(c.Text)
	}
	return nil
}

// What becomes the command does the same in both its forms.
func TestTheCommandIsExecuted(t *testing.T) {
	t.Parallel()
	inherited, err := unix.Dup(2) // as a server may be given it
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	small, shell := probed(t), probed(t)
	if small.stub.Load() == nil {
		t.Skip("SKIPPED: the small program does not run here")
	}
	if err := shell.stub.Swap(nil).Close(); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*Bubblewrap{"small": small, "shell": shell} {
		dir := reachableFolder(t)
		for file, text := range map[string]string{
			"script": "echo \"$0 got $*\"\n", "run": "#!/bin/sh\necho run \"$1\"\n", "text": "no program", "lost": "#!/nonexistent/program\n",
		} {
			mode := os.FileMode(0o755)
			if file == "text" {
				mode = 0o644
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), mode); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../run", filepath.Join(dir, "bin", "mine")); err != nil {
			t.Fatal(err)
		}
		path := []run.EnvVar{{Name: "PATH", Value: "/nowhere:/workspace/text:/workspace/bin:/usr/bin:/bin"}}
		for what, c := range map[string]struct {
			command []string
			env     []run.EnvVar
			out     string // of a command that runs
			err     string // of one that does not
		}{
			"by name":            {[]string{"echo", "a", "", "b c"}, nil, "a  b c\n", ""},
			"by path":            {[]string{"/bin/echo", "x"}, nil, "x\n", ""},
			"from the workspace": {[]string{"./run", "1"}, nil, "run 1\n", ""},
			"through PATH":       {[]string{"mine", "2"}, path, "run 2\n", ""},
			"without #!":         {[]string{"./script", "a", "b"}, nil, "./script got a b\n", ""},
			"an empty argument":  {[]string{"sh", "-c", "echo $#", "sh", "", ""}, nil, "2\n", ""},
			"only its own files": {[]string{"sh", "-c", "echo /proc/self/fd/*"}, nil, "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n", ""}, // 3 is the folder
			"its limits":         {[]string{"sh", "-c", "ulimit -c; ulimit -n; ulimit -f; ulimit -Hf"}, nil, "0\n4096\n32256\n32256\n", ""},
			"missing":            {[]string{"no-such-program"}, nil, "", "command not found: no-such-program"},
			"missing in PATH":    {[]string{"no-such-program"}, path, "", "PATH is /nowhere:"},
			"missing path":       {[]string{"./none"}, nil, "", "command not found: ./none"},
			"no program":         {[]string{"./text"}, nil, "", "not an executable file: ./text"},
			"a folder":           {[]string{"/usr"}, nil, "", "not an executable file: /usr"},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				t.Parallel()
				var p printed
				res, err := sandbox.Run(t.Context(), b, sandbox.Spec{
					Execution: run.NewExecutionID(), Command: c.command, Env: c.env, Workspace: dir,
					Limits: sandbox.Limits{Timeout: 20 * time.Second, MemoryMiB: 64, PIDs: 16, CPUs: 1, DiskMiB: 16, MaxOutputBytes: 1 << 20},
				}, &p, sandbox.Options{})
				if c.err != "" {
					if run.CodeOf(err) != run.Invalid || !strings.Contains(err.Error(), c.err) {
						t.Errorf("error %v, want %q", err, c.err)
					}
					return
				}
				if err != nil || res.Class != run.ClassOK || !strings.HasPrefix(p.out.String(), c.out) {
					t.Errorf("%v %+v\nstdout %q, want %q\nstderr %q", err, res, p.out.String(), c.out, p.err.String())
				}
			})
		}
	}
}

// Who gets the small program cannot change it.
func TestTheSmallProgramIsSealed(t *testing.T) {
	t.Parallel()
	f := stubFile()
	if f == nil {
		t.Skip("SKIPPED: no small program here")
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("it was written to")
	}
	if err := f.Truncate(0); err == nil {
		t.Error("it was cut off")
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, 0); err == nil {
		t.Error("its seals can be changed")
	}
}

// A machine that does not take the small program still has sandboxes.
func TestTheShellStandsIn(t *testing.T) {
	t.Parallel()
	b := probed(t)
	if b.stub.Load() == nil {
		t.Skip("SKIPPED: the shell is all there is here")
	}
	broken, err := memfd("broken", []byte("\x7fELF, or not"))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.stub.Swap(broken).Close(); err != nil {
		t.Fatal(err)
	}
	if s := b.Probe(t.Context()); !s.Available || b.stub.Load() != nil {
		t.Fatalf("%+v", s)
	}
	var p printed
	res, err := sandbox.Run(t.Context(), b, sandbox.Spec{Execution: run.NewExecutionID(), Command: []string{"echo", "up"}, Workspace: reachableFolder(t)}, &p, sandbox.Options{})
	if err != nil || res.Class != run.ClassOK {
		t.Errorf("%v %+v", err, res)
	}
}

// The count of processes is the command's alone: what makes its sandbox has room.
func TestOneProcessIsEnoughForOneCommand(t *testing.T) {
	t.Parallel()
	b := probed(t)
	if !b.cgroups.Has("pids") {
		t.Skip("SKIPPED: no pids control group") // also in CI: its kernel decides
	}
	for limit, want := range map[int64]string{1: "one\n", 2: "one\ntwo\n"} {
		for range 10 {
			var p printed
			_, err := sandbox.Run(t.Context(), b, sandbox.Spec{
				Execution: run.NewExecutionID(), Command: []string{"sh", "-c", "echo one; (exec echo two)"}, Workspace: reachableFolder(t),
				Limits: sandbox.Limits{Timeout: 20 * time.Second, PIDs: limit, MaxOutputBytes: 1 << 10},
			}, &p, sandbox.Options{})
			if err != nil || p.out.String() != want {
				t.Fatalf("with %d: %v, stdout %q, stderr %q", limit, err, p.out.String(), p.err.String())
			}
		}
	}
}
