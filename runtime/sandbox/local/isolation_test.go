//go:build linux

package local_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local"
)

// runsPython gives what code prints in a sandbox; it must end well.
func runsPython(t *testing.T, b backend, s sandbox.Spec) string {
	t.Helper()
	res, r := execute(t, b, s)
	if res.Class != run.ClassOK {
		t.Fatalf("%s, stderr %s", res.Class, r.stderr())
	}
	return r.stdout()
}

func TestNothingOfTheHostCanBeChanged(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	outside := filepath.Join(workspace(t), "target")
	if err := os.WriteFile(outside, []byte("safe"), 0o666); err != nil {
		t.Fatal(err)
	}
	s := python(t, `
import os
for p in ("/x", "/usr/x", "/etc/x", "/etc/passwd", "/dev/x", "/weir/main.py", "/proc/sys/vm/swappiness", "/proc/sys/kernel/core_pattern", "`+outside+`", "/proc/sysrq-trigger", "/sys/x"):
    try:
        open(p, "w").write("60")
        print("WROTE", p)
    except OSError as e:
        pass
print(open("/proc/self/status").read())
print("MOUNT", [l for l in open("/proc/mounts").read().splitlines() if " /proc/sys " in l])
print("ENV", sorted(os.environ))
print("INIT", sorted(v.split(b"=")[0].decode() for v in open("/proc/1/environ", "rb").read().split(b"\0") if v))
print("CODES", os.path.exists("/root"), os.path.exists("/home"), os.path.exists("/var"), os.path.exists("/tmp/x"))
`)
	out := runsPython(t, b, s)
	if strings.Contains(out, "WROTE") {
		t.Errorf("written: %s", out)
	}
	for _, want := range []string{
		"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "MOUNT ['proc /proc/sys proc ro,",
		"ENV ['HOME', 'LANG', 'PATH', 'PWD', 'PYTHONDONTWRITEBYTECODE', 'PYTHONPATH', 'PYTHONUNBUFFERED', 'TMPDIR', 'USER', 'WEIR_EXECUTION', 'WEIR_RUN']",
		"INIT ['LANG', 'PATH', 'WEIR_EXECUTION', 'WEIR_REPLICA', 'WEIR_RUN']", "CODES False False False False",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	if got, err := os.ReadFile(outside); err != nil || string(got) != "safe" {
		t.Errorf("the file outside is %q, %v", got, err)
	}
}

func TestSystemCallsAreFiltered(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	out := runsPython(t, b, python(t, `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for name, nr in (("keyctl", 250), ("bpf", 321), ("io_uring_setup", 425), ("ptrace", 101), ("unshare", 272), ("mount", 165)):
    r = libc.syscall(nr, 0, 0, 0, 0, 0, 0)
    print(name, r, ctypes.get_errno())
pid = os.fork()
if pid == 0:
    libc.syscall(0x40000000 | 39)
    os._exit(0)
print("x32", os.WTERMSIG(os.waitpid(pid, 0)[1]))
`))
	if strings.Count(out, " -1 1\n") != 6 || !strings.Contains(out, "x32 31\n") {
		t.Errorf("the filter let through: %s", out)
	}
}

func TestRestartedSandboxKeepsTheWorkspaceAndNothingElse(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	s := shell(t, "echo kept > made; mkdir -p d; echo x > d/y; echo lost > /tmp/lost; cat given; echo more >> given")
	if err := os.MkdirAll(filepath.Join(s.Workspace, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Workspace, "given"), []byte("given\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(s.Workspace, "link")); err != nil {
		t.Fatal(err)
	}
	if out := runsPython(t, b, s); out != "given\n" {
		t.Errorf("stdout %q", out)
	}
	s.Execution = run.NewExecutionID()
	s.Command = []string{"sh", "-c", "cat made d/y given; ls /tmp; rm -r d; echo done > sub/z"}
	if out := runsPython(t, b, s); out != "kept\nx\ngiven\nmore\n" {
		t.Errorf("stdout %q", out)
	}
	info, err := os.Stat(s.Workspace)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the workspace is %v, %v", info.Mode(), err)
	}
	if host, err := os.Stat("/etc/passwd"); err != nil || host.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("a link out of the workspace was followed: %v %v", host, err)
	}
}

// Each session of a root server has a user of its own, who keeps its files.
func TestEachWorkspaceHasItsOwnUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		skip(t, "needs root")
	}
	owner := func(path string) uint32 {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Gid != st.Uid {
			t.Errorf("%s: %+v", path, info.Sys())
		}
		return st.Uid
	}
	forced := local.NewBubblewrap(local.Options{UID: local.DefaultUID}) // as servers did before
	t.Cleanup(func() { _ = forced.Close() })
	b := bubblewrap(t)
	first, second := shell(t, "id -u; touch made; echo x >> made; echo x >> old"), shell(t, "touch made")
	old := first
	old.Command = []string{"sh", "-c", "umask 77; mkdir deep; echo x > deep/file; echo x > old"}
	runsPython(t, forced, old)
	if u := owner(filepath.Join(first.Workspace, "deep", "file")); u != local.DefaultUID {
		t.Errorf("the forced user is %d", u)
	}
	for range 2 { // the second time the folder is its user's already, who stays the same elsewhere
		first.Execution = run.NewExecutionID()
		if out := runsPython(t, b, first); out != "1000\n" {
			t.Errorf("stdout %q", out)
		}
		u := owner(first.Workspace)
		if u < 1879048192 || u > 2147483646 || owner(filepath.Join(first.Workspace, "made")) != u || owner(filepath.Join(first.Workspace, "deep", "file")) != u {
			t.Errorf("the user is %d", u)
		}
		moved := first.Workspace + "-moved"
		if err := os.Rename(first.Workspace, moved); err != nil {
			t.Fatal(err)
		}
		first.Workspace = moved
	}
	runsPython(t, b, second)
	if one, two := owner(first.Workspace), owner(filepath.Join(second.Workspace, "made")); one == two {
		t.Errorf("two workspaces have the user %d", one)
	}
}

func TestAnUnreachableWorkspaceIsExplained(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	if os.Geteuid() != 0 {
		skip(t, "needs root")
	}
	s := shell(t, "true")
	if err := os.Chmod(filepath.Dir(s.Workspace), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := b.Start(t.Context(), s)
	if err == nil || !strings.Contains(err.Error(), "the user of a sandbox cannot reach the workspace") || !strings.Contains(err.Error(), "0711") || run.CodeOf(err) != run.Unavailable {
		t.Errorf("error %v", err)
	}
	mustBeGone(t, s)
}

func TestEnvironmentArrivesUnchangedAndUnseen(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		env := []run.EnvVar{
			{Name: "TOKEN", Value: "s3cret-" + string(run.NewID())},
			{Name: "QUOTES", Value: `it's "quoted" $HOME \n`},
			{Name: "LINES", Value: "a\nb\n"},
			{Name: "EMPTY", Value: ""},
			{Name: "my.dotted-name", Value: "it's dotted"},
			{Name: "IFS", Value: ","},
			{Name: "HOME", Value: "/elsewhere"},
			{Name: "LD_LIBRARY_PATH", Value: "/nowhere"},
			{Name: "UMLAUT", Value: "größe"},
		}
		s := python(t, "import os,time\nfor k in "+pyList(env)+":\n    print(k, repr(os.environ.get(k)))\nprint('WEIR_SECRET' in os.environ)\ntime.sleep(0.3)\n")
		s.Env = env
		r := &recorder{}
		var seen []string
		r.onText = func(text string) {
			if !strings.Contains(text, "False\n") {
				return
			}
			lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, f := range lines {
				if data, err := os.ReadFile(f); err == nil && bytes.Contains(data, []byte(env[0].Value)) {
					seen = append(seen, f)
				}
			}
		}
		res, err := sandbox.Run(t.Context(), b, s, r, sandbox.Options{})
		if err != nil || res.Class != run.ClassOK {
			t.Fatalf("%+v %v %s", res, err, r.stderr())
		}
		want := "TOKEN '" + env[0].Value + `'
QUOTES 'it\'s "quoted" $HOME \\n'
LINES 'a\nb\n'
EMPTY ''
my.dotted-name "it's dotted"
IFS ','
HOME '/elsewhere'
LD_LIBRARY_PATH '/nowhere'
UMLAUT 'größe'
False
`
		if r.stdout() != want {
			t.Errorf("stdout\n%s\nwant\n%s", r.stdout(), want)
		}
		if len(seen) > 0 {
			t.Errorf("every user of the machine can read the value in %v", seen)
		}
	})
}

func pyList(env []run.EnvVar) string {
	names := make([]string, len(env))
	for i, e := range env {
		names[i] = "'" + e.Name + "'"
	}
	return "[" + strings.Join(names, ",") + "]"
}

func TestCodeImportsItsWorkspaceAndShowsItsLines(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		s := python(t, "import helper\nprint(helper.answer)\ndef f():\n    raise ValueError('here')\nf()\n")
		if err := os.WriteFile(filepath.Join(s.Workspace, "helper.py"), []byte("answer = 42\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		res, r := execute(t, b, s)
		if r.stdout() != "42\n" || res.Class != run.ClassError {
			t.Errorf("stdout %q, %s", r.stdout(), res.Class)
		}
		for _, want := range []string{"line 5, in <module>\n    f()\n", "raise ValueError('here')", ".py\""} {
			if !strings.Contains(r.stderr(), want) {
				t.Errorf("no %q in the traceback:\n%s", want, r.stderr())
			}
		}
		left, err := filepath.Glob(filepath.Join(s.Workspace, ".*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left in the workspace: %v %v", left, err)
		}
	})
}

func TestPlainPrintIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		s := python(t, "import time\nprint('early')\ntime.sleep(100)\n")
		ctx, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		r := &recorder{onText: func(string) { stop(nil) }}
		began := time.Now()
		if _, err := sandbox.Run(ctx, b, s, r, sandbox.Options{}); err != nil || time.Since(began) > 10*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestDevStdoutAndBothStreams(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		_, r := execute(t, b, shell(t, "echo a > /dev/stdout; echo b > /dev/stderr; cat; echo end"))
		if r.stdout() != "a\nend\n" || r.stderr() != "b\n" {
			t.Errorf("stdout %q stderr %q", r.stdout(), r.stderr())
		}
	})
}

func TestNetworkHostIsReallyTheHosts(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s := python(t, "import socket\ntry:\n    socket.create_connection(('127.0.0.1', "+port+"), 2)\n    print('reached')\nexcept OSError as e:\n    print('closed')\n")
	for network, want := range map[string]string{"": "closed\n", sandbox.NetworkNone: "closed\n", sandbox.NetworkHost: "reached\n"} {
		s.Execution, s.Network = run.NewExecutionID(), network
		if out := runsPython(t, b, s); out != want {
			t.Errorf("network %q: %q, want %q", network, out, want)
		}
	}
	s.Execution, s.Network = run.NewExecutionID(), "internal"
	if _, err := b.Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), `"internal"`) || !strings.Contains(err.Error(), "NONE and HOST") {
		t.Errorf("error %v", err)
	}
}

func TestLimitsAreInForce(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	s := python(t, `
import resource, os, shutil
print(set(resource.getrlimit(resource.RLIMIT_CORE)) <= {0, 1}, resource.getrlimit(resource.RLIMIT_FSIZE)[0] >> 20)
print(shutil.disk_usage("/dev/shm").total >> 20, shutil.disk_usage("/tmp").total >> 20)
`)
	s.Limits.MemoryMiB, s.Limits.DiskMiB = 256, 50
	if out := runsPython(t, b, s); out != "True 49\n64 50\n" {
		t.Errorf("limits %q", out)
	}
	if left := leftIn(t, s.Execution); left != "" {
		t.Errorf("left of it: %s", left)
	}
}

func TestCloseEndsWhatRuns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		s := shell(t, "trap '' TERM; echo up; while :; do sleep 0.05; done")
		r := &recorder{}
		closing := make(chan error, 1)
		r.onText = func(string) { r.onText = nil; go func() { closing <- b.Close() }() }
		res, err := sandbox.Run(t.Context(), b, s, r, sandbox.Options{})
		if err != nil || res.Class != run.ClassSignal || res.Signal != "SIGKILL" {
			t.Errorf("%+v %v", res, err)
		}
		if err := <-closing; err != nil {
			t.Error(err)
		}
		mustBeGone(t, s)
		s.Execution = run.NewExecutionID()
		if _, err := b.Start(t.Context(), s); err == nil || run.CodeOf(err) != run.Unavailable {
			t.Errorf("Start after Close: %v", err)
		}
	})
}

func TestStartsUnderACancelledContext(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		s := shell(t, "sleep 100")
		ctx, stop := context.WithCancelCause(t.Context())
		stop(nil)
		if p, err := b.Start(ctx, s); err == nil {
			t.Errorf("started %v", p)
		}
		mustBeGone(t, s)
	})
}

func TestProbeSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	b := local.NewBubblewrap(local.Options{Bwrap: "/nonexistent/bwrap"})
	defer func() { _ = b.Close() }()
	if st := b.Probe(t.Context()); st.Available || !strings.Contains(st.Reason, "/nonexistent/bwrap") {
		t.Errorf("status %+v", st)
	}
	if _, err := b.Start(t.Context(), shell(t, "true")); err == nil || run.CodeOf(err) != run.Unavailable || !strings.Contains(err.Error(), "/nonexistent/bwrap") {
		t.Errorf("Start: %v", err)
	}
	p := local.NewPlain(local.Options{})
	defer func() { _ = p.Close() }()
	if st := p.Probe(t.Context()); !st.Available || st.Isolation != local.Unsandboxed || !strings.Contains(st.Reason, "UNSANDBOXED") {
		t.Errorf("status %+v", st)
	}
	proc, err := p.Start(t.Context(), shell(t, "true"))
	if err != nil {
		t.Fatal(err)
	}
	if st := proc.Started(); st.Isolation != local.Unsandboxed || st.Backend != "local" || st.Command[0] != "sh" {
		t.Errorf("started %+v", st)
	}
	if _, err := proc.Wait(); err != nil {
		t.Error(err)
	}
}
