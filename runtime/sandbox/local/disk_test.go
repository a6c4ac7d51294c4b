//go:build linux

package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// fills are ways to fill the disk past a limit of 20 MiB, file by file within
// it. Each goes on for ever, so that only the watcher ends it.
var fills = map[string]string{
	"ManyFiles": `
i = 0
while True:
    open("f%d" % i, "wb").write(bytes(1 << 20)); i += 1; time.sleep(0.01)`,
	"EmptyFiles": `
i = 0
while True:
    open("\n\xff%d" % i, "wb").close(); i += 1`,
	"EmptyFolders": `
i = 0
while True:
    os.mkdir("d%d" % i); i += 1`,
	"Deep": `
while True:
    os.mkdir("d"); os.chdir("d")`,
	"Symlinks": `
i = 0
while True:
    os.symlink("/etc/passwd", "l%d" % i); i += 1`,
	"FIFOs": `
i = 0
while True:
    os.mkfifo("p%d" % i); i += 1`,
	"HardLinks": `
i = 0
while True:
    if i % 1000 == 0: open("s%d" % i, "w").close(); last = "s%d" % i
    os.link(last, "h%d" % i); i += 1`,
	"DeletedButOpen": `
keep = []
while True:
    f = open("x", "wb"); f.write(bytes(1 << 20)); f.flush(); os.unlink("x"); keep.append(f); time.sleep(0.01)`,
	"NeverNamed": `
keep = []
while True:
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600); os.write(fd, bytes(1 << 20)); keep.append(fd); time.sleep(0.01)`,
	"DeletedButMapped": `
import mmap
keep = []
while True:
    f = open("x", "w+b"); f.write(bytes(1 << 20)); f.flush(); keep.append(mmap.mmap(f.fileno(), 4096)); f.close(); os.unlink("x"); time.sleep(0.01)`,
	"InFlight": `
import socket
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
keep = []
while True:
    f = open("x", "wb"); f.write(bytes(1 << 20)); f.flush(); os.unlink("x")
    try: a.setblocking(False); socket.send_fds(a, [b"x"], [f.fileno()])
    except BlockingIOError: keep.append((a, b)); a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.send(b"x") ; socket.send_fds(a, [b"x"], [f.fileno()])
    f.close(); time.sleep(0.01)`,
	"Allocated": `
i = 0
while True:
    fd = os.open("a%d" % i, os.O_CREAT | os.O_RDWR); os.posix_fallocate(fd, 0, 1 << 20); os.close(fd); i += 1; time.sleep(0.01)`,
	"ClosedFolder": `
os.mkdir("d"); i = 0
while True:
    os.chmod("d", 0o700); open("d/f%d" % i, "wb").write(bytes(1 << 20)); os.chmod("d", 0); i += 1; time.sleep(0.02)`,
	"MovingFolders": `
os.mkdir("a"); i = 0
while True:
    os.rename("a", "b"); open("b/f%d" % i, "wb").write(bytes(1 << 20)); os.rename("b", "a"); i += 1; time.sleep(0.01)`,
}

// TestTheDiskLimitEnds proves that whatever fills the workspace is ended, and
// how far over its limit it came by then.
func TestTheDiskLimitEnds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		for name, code := range fills {
			t.Run(name, func(t *testing.T) {
				began := time.Now()
				s := python(t, "import os, time, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up')\n"+code)
				s.Limits.DiskMiB = 20
				res, r := execute(t, b, s)
				if res.Class != run.ClassDiskLimit || res.Signal != "SIGKILL" || res.DiskLimit != 20<<20 || res.DiskUse <= 20<<20 {
					t.Errorf("%+v, stderr %s", res, r.stderr())
				}
				if !strings.Contains(strings.Join(res.Warnings, " "), "sandbox.diskMiB is 20") {
					t.Errorf("warnings %q", res.Warnings)
				}
				t.Logf("ended after %s, found %d MiB", time.Since(began).Round(time.Millisecond), res.DiskUse>>20)
				_ = sandbox.NetworkNone
				_ = filepath.Join
				_ = exec.Command
				_ = os.Getpid
			})
		}
	})
}
