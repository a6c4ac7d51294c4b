//go:build linux

package local_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// What all sandboxes share in the kernel is attacked in this file: processes,
// memory, and what is counted by user.

// TestRedTeamForksAgainstOthers fills one sandbox with processes while another
// one, of the same user, goes on making some.
func TestRedTeamForksAgainstOthers(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	bomb := python(t, attack+`
pids = []
try:
    while len(pids) < 100:
        pid = os.fork()
        if pid == 0: time.sleep(100); os._exit(0)
        pids.append(pid)
except OSError: pass
print("full %d\n" % len(pids), end="")
time.sleep(100)
`)
	bomb.Limits.PIDs, bomb.Limits.Timeout, bomb.Limits.Grace = 40, 20*time.Second, time.Millisecond
	full := make(chan string, 1)
	r := &recorder{onText: func(text string) {
		if strings.HasPrefix(text, "full") {
			full <- text
		}
	}}
	ended := make(chan sandbox.Result, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		res, err := sandbox.Run(ctx, b, bomb, r, sandbox.Options{})
		if err != nil {
			t.Error(err)
		}
		ended <- res
	}()
	var n int
	if _, err := fmt.Sscanf(<-full, "full %d", &n); err != nil || n < 20 || n > 40 {
		t.Errorf("the bomb made %d processes, %v; the limit is 40", n, err)
	}
	other := python(t, attack+`
pids = []
for i in range(30):
    pid = os.fork()
    if pid == 0: time.sleep(0.2); os._exit(0)
    pids.append(pid)
for p in pids: os.waitpid(p, 0)
`)
	other.Limits.PIDs = 40
	if res, r := execute(t, b, other); res.Class != run.ClassOK {
		t.Errorf("the other one: %s, %s", res.Class, r.stderr())
	}
	stop()
	if res := <-ended; len(res.Survivors) > 0 || res.Class != run.ClassCancelled {
		t.Errorf("%+v", res)
	}
	mustBeGone(t, bomb)
}

// TestRedTeamMemory fills memory in every way that is not a process's own.
func TestRedTeamMemory(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	all := !strings.Contains(b.Probe(t.Context()).Reason, "for each process")
	for name, code := range map[string]string{
		"Memfd":  `f = os.memfd_create("x"); [os.write(f, bytes(1 << 20)) for _ in range(300)]`,
		"Shared": `m = mmap.mmap(-1, 300 << 20); [m.write(bytes(1 << 20)) for _ in range(300)]`,
		"SysV": `
i = libc.shmget(0, ctypes.c_size_t(300 << 20), 0o1600); libc.shmat.restype = ctypes.c_void_p
a = libc.shmat(i, None, 0); ctypes.memset(a, 1, 300 << 20)`,
		"Files": `
for d in ("/tmp", "/dev/shm"):
    try:
        f = open(d + "/x", "wb"); [f.write(bytes(1 << 20)) for _ in range(300)]
    except OSError as e: print(e)
raise SystemExit(7)`,
		"Names": `
i = 0
while True:
    os.close(os.open("/tmp/%d" % i, os.O_CREAT | os.O_WRONLY)); i += 1`,
		"Pipes": `
import fcntl
keep = []
for _ in range(1000):
    r, w = os.pipe(); fcntl.fcntl(w, 1031, 1 << 20); os.set_blocking(w, False); os.write(w, bytes(1 << 20)); keep.append((r, w))`,
		"Sockets": `
keep = []
for _ in range(4000):
    a, b = socket.socketpair(); a.setblocking(False); keep.append((a, b))
    try:
        while True: a.send(bytes(65536))
    except BlockingIOError: pass`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := python(t, attack+code)
			s.Limits.MemoryMiB, s.Limits.DiskMiB = 64, 64
			want := []run.ExitClass{run.ClassOOM, run.ClassError}
			switch {
			case name == "Names":
				want = append(want, run.ClassDiskLimit)
			case !all && name != "Files":
				return // its label says that only each process's own memory is bounded
			}
			if res, r := execute(t, b, s); !slices.Contains(want, res.Class) {
				t.Errorf("%s, stdout %.300q, stderr %.300q", res.Class, r.stdout(), r.stderr())
			}
		})
	}
}

// TestRedTeamDatagrams leaves messages unread, which lie in the kernel: what the
// sockets of a sandbox keep of them stays below its memory limit.
func TestRedTeamDatagrams(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	if os.Geteuid() != 0 {
		t.Log("the memory limit of a server without root is soft, and its label says so")
		return
	}
	if strings.Contains(b.Probe(t.Context()).Reason, "for each process") {
		skip(t, "needs a memory control group")
	}
	s := python(t, `
SO_MEMINFO = 55
held = most = 0
for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
    keep = []; most += held; held = 0
    for _ in range(600):
        a = socket.socket(socket.AF_INET, kind); a.bind(("127.0.0.1", 0))
        to, ends = a, [a]
        if kind == socket.SOCK_STREAM:
            a.listen(1); to = socket.create_connection(a.getsockname()); ends = [to, a.accept()[0]]
        to.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24); to.setblocking(False)
        if to is a: a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        try:
            for _ in range(10): to.send(bytes(60000)) if to is not a else a.sendto(bytes(60000), a.getsockname())
        except OSError: pass
        for e in ends:
            m = struct.unpack("9I", e.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36)); held += m[0] + m[2]
        keep.append(ends)
    print(kind, held >> 20)
    if held >> 20 > 40: print("GOT", held >> 20, "MiB of messages, kind", kind)
    if held >> 20 < 4: print("GOT no messages at all to measure")
`)
	s.Limits.MemoryMiB = 32
	for _, line := range gains(t, b, s) {
		t.Error(line)
	}
}

// TestRedTeamStarvesOthers uses up what the kernel counts by user, while another
// session wants some of it.
func TestRedTeamStarvesOthers(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	if os.Geteuid() != 0 {
		t.Log("the sandboxes of an ordinary user are all that user's")
		return
	}
	greedy := python(t, attack+`
n = 0
while libc.inotify_init() >= 0: n += 1
print("full %d" % n, flush=True)
time.sleep(100)
`)
	full := make(chan string, 1)
	r := &recorder{onText: func(text string) {
		if strings.HasPrefix(text, "full") {
			full <- text
		}
	}}
	ended := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		if _, err := sandbox.Run(ctx, b, greedy, r, sandbox.Options{}); err != nil {
			t.Error(err)
		}
	}()
	defer func() { stop(); <-ended }()
	select {
	case text := <-full:
		t.Log(text)
	case <-ended:
		t.Fatal("the greedy one has ended")
	}
	for _, line := range gains(t, b, python(t, `
if libc.inotify_init() < 0: print("GOT nothing left:", ctypes.get_errno())
`)) {
		t.Error(line)
	}
}
