//go:build linux

package local_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox/local"
)

// TestTheLabelOfPlainIsTrue compares what the label of a plain process says with
// what such a process can do. Where one of these no longer works, the label is
// to say less; what is not in it is to be proved for both kinds.
func TestTheLabelOfPlainIsTrue(t *testing.T) {
	t.Parallel()
	b := local.NewPlain(local.Options{})
	defer func() { _ = b.Close() }()
	label := b.Probe(t.Context()).Reason
	outside := filepath.Join(workspace(t), "outside")
	if err := os.WriteFile(outside, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ says, code string }{
		{"read and change the host's files", "p = " + pyString(outside) + "; x = open(p).read(); open(p, 'w').write('2'); print(x == '1')"},
		{"use the host's network", "socket.create_connection(('127.0.0.1', " + port + "), 5); print(True)"},
		{"read the environment of other processes", "print(len(open('/proc/" + strconv.Itoa(os.Getpid()) + "/environ', 'rb').read()) > 0)"},
		{"and end them", "os.kill(" + strconv.Itoa(os.Getpid()) + ", 0); print(True)"},
		{"make user namespaces", "print(call(272, 0x10000000)[0] == 0)"},
		{"processes are not counted", `
pids = []
for _ in range(30):
    pid = os.fork()
    if pid == 0: time.sleep(0.3); os._exit(0)
    pids.append(pid)
for p in pids: os.waitpid(p, 0)
print(True)`},
		{"processor time is not limited", "a = time.process_time(); w = time.monotonic()\nwhile time.process_time() - a < 0.1: pass\nprint(time.monotonic() - w < 1)"},
		{"a daemon that leaves its group and clears its environment is left behind", `
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    n = os.open("/dev/null", os.O_RDWR)
    for f in (0, 1, 2): os.dup2(n, f)
    os.execve("/bin/sh", ["sh", "-c", "echo $$ > daemon.new; mv daemon.new daemon; exec sleep 1000"], {"PATH": "/usr/bin:/bin"})
while not os.path.exists("daemon"): time.sleep(0.01)
print(True)`},
	} {
		if !strings.Contains(label, c.says) {
			t.Errorf("the label does not say that it can %q: %s", c.says, label)
		}
		s := python(t, attack+c.code)
		s.Limits.PIDs, s.Limits.CPUs = 20, 0.01
		if res, r := execute(t, b, s); res.Class != run.ClassOK || r.stdout() != "True\n" {
			t.Errorf("the label says %q, but: %s, stdout %q, stderr %s", c.says, res.Class, r.stdout(), r.stderr())
		}
		data, err := os.ReadFile(filepath.Join(s.Workspace, "daemon"))
		if err != nil {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil || pid <= 1 {
			t.Fatalf("the daemon's number is %q", data)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("the label says that a daemon is left behind: %v", err)
		}
	}
	const says = "the memory limit holds for each process, so going over it is an ERROR and not OOM"
	if !strings.Contains(label, says) || !strings.HasPrefix(label, "UNSANDBOXED") {
		t.Errorf("the label does not say %q: %s", says, label)
	}
	s := python(t, "x = bytearray(500 << 20)")
	s.Limits.MemoryMiB = 100
	if res, _ := execute(t, b, s); res.Class != run.ClassError {
		t.Errorf("over the memory limit: %s", res.Class)
	}
}
