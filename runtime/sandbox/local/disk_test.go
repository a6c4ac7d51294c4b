//go:build linux

package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local"
)

// filled makes folders that are large though empty, and goes on to keep them.
const filled = `
keep = []
def fill(d, n=600):
    os.mkdir(d)
    for j in range(n): os.close(os.open("%s/%0200d" % (d, j), os.O_CREAT))
def empty(d):
    for n in os.listdir(d): os.unlink(d + "/" + n)
    os.rmdir(d)
`

// fills are ways to fill the disk past a limit of some MiB, file by file
// within it. None ends by itself before a good many looks, and none leaves
// something then: only the watcher ends it.
var fills = map[string]string{
	"ManyFiles": `
i = 0
while True:
    open("f%d" % i, "wb").write(quarter); i += 1; time.sleep(0.005)`,
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
    f = open("x", "wb"); f.write(quarter); f.flush(); os.unlink("x"); keep.append(f); time.sleep(0.005)`,
	"NeverNamed": `
keep = []
while True:
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600); os.write(fd, quarter); keep.append(fd); time.sleep(0.005)`,
	"DeletedButMapped": `
import ctypes
libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p # Python's own mmap would keep a descriptor
while True:
    f = open("x", "w+b"); f.write(quarter); f.flush(); libc.mmap(None, ctypes.c_size_t(4096), 1, 1, f.fileno(), ctypes.c_long(0)); f.close(); os.unlink("x"); time.sleep(0.005)`,
	"InFlight": `
import socket
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
keep = []
while True:
    f = open("x", "wb"); f.write(quarter); f.flush(); os.unlink("x")
    try:
        try: a.setblocking(False); socket.send_fds(a, [b"x"], [f.fileno()])
        except BlockingIOError: keep.append((a, b)); a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.send(b"x") ; socket.send_fds(a, [b"x"], [f.fileno()])
    except OSError: time.sleep(0.1) # the kernel keeps no more of this user's: what is there counts on
    f.close(); time.sleep(0.005)`,
	"Allocated": `
i = 0
while True:
    fd = os.open("a%d" % i, os.O_CREAT | os.O_RDWR); os.posix_fallocate(fd, 0, 1 << 18); os.close(fd); i += 1; time.sleep(0.005)`,
	"ClosedFolder": `
os.mkdir("d")
for i in range(20): open("d/f%d" % i, "wb").write(quarter)
os.chmod("d", 0); time.sleep(100)`,
	"ThreadWithItsOwnDescriptors": `
import ctypes, threading
def hide():
    if ctypes.CDLL(None).syscall(436, ctypes.c_long(1000), ctypes.c_long(1001), ctypes.c_long(2)) != 0: os._exit(9) # close_range, CLOSE_RANGE_UNSHARE
    keep = []
    while True:
        f = open("x", "wb"); f.write(quarter); f.flush(); os.unlink("x"); keep.append(f); time.sleep(0.005)
t = threading.Thread(target=hide); t.start(); t.join()`,
	"ThreadWhoseFirstHasEnded": `
import ctypes, threading
def hide():
    time.sleep(0.1)
    libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p
    while True:
        f = open("x", "w+b"); f.write(quarter); f.flush(); libc.mmap(None, ctypes.c_size_t(4096), 1, 1, f.fileno(), ctypes.c_long(0)); f.close(); os.unlink("x"); time.sleep(0.005)
threading.Thread(target=hide).start()
ctypes.CDLL(None).syscall(60, ctypes.c_long(0)) # exit of this thread alone`,
	"DeletedFolderStoodIn": `
for i in range(30): # each is emptied and deleted, and keeps the size that it had
    os.mkdir("d"); os.chdir("d")
    for j in range(600): open("%0250d" % j, "w").close()
    for j in range(600): os.unlink("%0250d" % j)
    if os.fork() == 0: time.sleep(100)
    os.chdir(".."); os.rmdir("d")
time.sleep(100)`,
	"DeletedFoldersAboveIt": `
top = os.getcwd()
for c in range(8): # each time some folders one below the other, of which the last one keeps the others
    for i in range(10):
        os.mkdir("d"); os.chdir("d")
        for j in range(300): open("%0250d" % j, "w").close()
        for j in range(300): os.unlink("%0250d" % j)
    for i in range(10): os.rmdir("../" * i + "../d")
    if os.fork() == 0: time.sleep(100)
    os.chdir(top)
time.sleep(100)`,
	"DeletedFolderOfAFile": filled + `
while True: # one folder after the other of the same name, which only a deleted file of it keeps
    fill("d"); keep.append(os.open("d/f", os.O_CREAT | os.O_RDWR)); empty("d")`,
	"DeletedFolderOfALinkedFile": filled + `
open("f", "w").close()
while True: # always the same file, which has a name
    fill("d"); os.link("f", "d/f"); keep.append(os.open("d/f", os.O_RDWR)); empty("d")`,
	"DeletedFolderOfANamelessFile": filled + `
while True:
    fill("d"); keep.append(os.open("d", os.O_TMPFILE | os.O_RDWR)); empty("d")`,
	"DeletedFolderOfAFIFO": filled + `
while True:
    fill("d"); os.mkfifo("d/f"); keep.append(os.open("d/f", os.O_RDWR)); empty("d")`,
	"DeletedFolderOfASymlink": filled + `
while True:
    fill("d"); os.symlink("x", "d/f"); keep.append(os.open("d/f", os.O_PATH | os.O_NOFOLLOW)); empty("d")`,
	"DeletedFolderOfAMapping": filled + `
import ctypes
libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p
open("f", "w").write("x" * 4096)
while True:
    fill("d"); os.mkdir("d/e"); os.link("f", "d/e/f"); fd = os.open("d/e/f", os.O_RDWR)
    libc.mmap(None, ctypes.c_size_t(4096), 1, 1, fd, ctypes.c_long(0)); os.close(fd); empty("d/e"); empty("d")`,
	"DeletedFoldersAboveAFile": filled + `
while True: # with others in their place
    path = "."
    for i in range(20): path += "/d"; fill(path, 30)
    keep.append(os.open(path + "/f", os.O_CREAT | os.O_RDWR))
    for i in range(20): empty(path); path = path[:-2]
    os.makedirs("d/d/d"); open("d/d/d/f (deleted)", "w").close(); [empty(d) for d in ("d/d/d", "d/d", "d")]`,
	"DeletedProgram": `
import shutil
# From memory of its own: munmap(2) of all that is mapped of the program, then pause(2) for ever.
child = """
import ctypes, mmap, os
at = [[int(x, 16) for x in l.split()[0].split("-")] for l in open("/proc/self/maps") if l.rstrip().endswith(("/x", "/x (deleted)"))]
m = mmap.mmap(-1, 4096, prot=7); m.write(bytes.fromhex("b80b0000000f05b8220000000f05ebf7"))
ctypes.CFUNCTYPE(None, ctypes.c_long, ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(m)))(at[0][0], at[-1][1] - at[0][0])
"""
for i in range(12):
    shutil.copy("/usr/bin/python3", "x"); os.chmod("x", 0o700)
    r, w = os.pipe() # closed by the exec
    if os.fork() == 0: os.execve("./x", ["./x", "-c", child], dict(os.environ, PYTHONHOME="/usr"))
    os.close(w); os.read(r, 1); os.close(r); os.unlink("x"); time.sleep(0.1)
time.sleep(100)`,
	"MovedBehindTheLook": `
import ctypes, struct
libc = ctypes.CDLL(None)
for i in range(12): os.mkdir("d%d" % i)
names = [n for n in os.listdir(".") if n[0] == "d"] # in the order in which a look reads them
for n in names[1:-1]:
    for i in range(600): open("%s/%d" % (n, i), "w").close()
early, late = names[0] + "/big", names[-1] + "/big"
os.mkdir(late); big = os.open(late, os.O_RDONLY)
mover = os.fork()
if mover == 0:
    fd = libc.inotify_init1(0)
    first, top = (libc.inotify_add_watch(fd, p.encode(), 0x10) for p in (names[0], ".")) # IN_CLOSE_NOWRITE
    at = late
    while True:
        events = os.read(fd, 8192)
        while events:
            wd, _, _, size = struct.unpack_from("iIII", events); events = events[16 + size:]
            to = early if wd == first else late
            if size == 0 and at != to: os.rename(at, to); at = to
time.sleep(0.3)
print("fills", flush=True)
for i in range(100):
    fd = os.open(str(i), os.O_CREAT | os.O_WRONLY, dir_fd=big); os.write(fd, quarter * 4); os.close(fd); time.sleep(0.01)
time.sleep(60)
for i in range(100): os.unlink(str(i), dir_fd=big)
os.kill(mover, 9)`,
	"MovingFolders": `
os.mkdir("a"); i = 0
while True:
    os.rename("a", "b"); open("b/f%d" % i, "wb").write(quarter); os.rename("b", "a"); i += 1; time.sleep(0.005)`,
}

// ofProcesses are the fills that depend on which processes are looked at. A
// plain process differs in nothing else: it runs the others when
// WEIR_EVERY_FILL is set.
var ofProcesses = map[string]bool{
	"ManyFiles": true, "DeletedButOpen": true, "NeverNamed": true, "DeletedButMapped": true, "InFlight": true,
	"ThreadWithItsOwnDescriptors": true, "ThreadWhoseFirstHasEnded": true, "DeletedFolderStoodIn": true, "DeletedFolderOfAFile": true,
	"DeletedProgram": true, "MovedBehindTheLook": true, "MovingFolders": true,
}

// TestTheDiskLimitEnds proves that whatever fills the workspace is ended, at
// once and though it ignores TERM.
func TestTheDiskLimitEnds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		_, plain := b.(*local.Plain)
		for name, code := range fills {
			if plain && !ofProcesses[name] && os.Getenv("WEIR_EVERY_FILL") == "" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := python(t, "import os, time, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nquarter = bytes(256 << 10)\n"+code)
				s.Limits.DiskMiB = 4
				if name == "DeletedButMapped" && os.Geteuid() != 0 {
					s.Limits.DiskMiB = 16 // 64 files of unknown size
				}
				if name == "DeletedProgram" {
					s.Limits.DiskMiB = 24 // it is Python, twice as it is started
				}
				r := &recorder{}
				if name == "MovedBehindTheLook" {
					s.Limits.DiskMiB = 48              // half of it makes a look take its time
					s.Limits.Timeout = 4 * time.Minute // which a busy machine needs to make that half
					r.onText = freesAsMuch(t, filepath.Dir(s.Workspace))
				}
				if name == "InFlight" || strings.HasPrefix(name, "DeletedFolder") {
					s.Limits.Timeout = 4 * time.Minute // looks are rare on a busy machine, and others free space
				}
				res, err := sandbox.Run(t.Context(), b, s, r, sandbox.Options{})
				if err != nil {
					t.Fatalf("%v, stderr %s", err, r.stderr())
				}
				if res.Class != run.ClassDiskLimit || res.Signal != "SIGKILL" || res.DiskLimit != s.Limits.DiskMiB<<20 || res.DiskUse <= res.DiskLimit {
					t.Errorf("%+v, stderr %s", res, r.stderr())
				}
				if want := fmt.Sprintf("sandbox.diskMiB is %d", s.Limits.DiskMiB); len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], want) {
					t.Errorf("warnings %q, want %q", res.Warnings, want)
				}
				mustBeGone(t, s)
			})
		}
	})
}

// freesAsMuch is a neighbour that, from the first word of a command on, frees
// what that takes: the file system never loses anything.
func freesAsMuch(t *testing.T, dir string) (onText func(string)) {
	t.Helper()
	hoard, err := os.Create(filepath.Join(dir, "neighbour"))
	if err != nil {
		t.Fatal(err)
	}
	left := int64(1 << 30)
	if err := unix.Fallocate(int(hoard.Fd()), 0, 0, left); err != nil {
		t.Fatal(err)
	}
	free := func() int64 {
		var fs unix.Statfs_t
		if err := unix.Fstatfs(int(hoard.Fd()), &fs); err != nil {
			t.Error(err)
		}
		return int64(fs.Bfree) * fs.Bsize
	}
	begin, end := make(chan struct{}), make(chan struct{})
	var neighbour sync.WaitGroup
	neighbour.Go(func() {
		select {
		case <-begin:
		case <-end:
			return
		}
		for most := free(); left > 0; {
			if now := free(); now >= most {
				most = now
			} else {
				left = max(left-(most-now)-(64<<10), 0)
				if err := hoard.Truncate(left); err != nil {
					t.Error(err)
					return
				}
			}
			select {
			case <-time.After(time.Millisecond):
			case <-end:
				return
			}
		}
		t.Log("the neighbour has nothing left to free")
	})
	t.Cleanup(func() {
		close(end)
		neighbour.Wait()
		_ = hoard.Close()
	})
	once := sync.OnceFunc(func() { close(begin) })
	return func(string) { once() }
}

// TestTheDiskLimitIsOfTheWorkspace has files in it before, sees what a command
// leaves that ends before anybody looks, and counts what has several names once.
func TestTheDiskLimitIsOfTheWorkspace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		fill := func(s sandbox.Spec, mib int) sandbox.Spec {
			s.Execution, s.Command = run.NewExecutionID(), []string{"sh", "-c", fmt.Sprintf("head -c %d /dev/zero > f$(ls | wc -l); ln -f f0 again", mib<<20)}
			return s
		}
		s := spec(t)
		s.Limits.DiskMiB = 10
		if res, r := execute(t, b, fill(s, 6)); res.Class != run.ClassOK {
			t.Errorf("6 of 10 MiB: %s %s", res.Class, r.stderr())
		}
		res, _ := execute(t, b, fill(s, 6))
		if res.Class != run.ClassDiskLimit || !res.IsError() || res.DiskUse < 11<<20 { // it may still run when it is found
			t.Errorf("12 of 10 MiB: %+v", res)
		}
		_, err := b.Start(t.Context(), fill(s, 0))
		if run.CodeOf(err) != run.Invalid || !strings.Contains(err.Error(), " MiB were counted, and sandbox.diskMiB is 10; raise that") {
			t.Errorf("a start over the limit: %v", err)
		}
		s.Limits.DiskMiB = 20
		if res, r := execute(t, b, fill(s, 0)); res.Class != run.ClassOK {
			t.Errorf("12 of 20 MiB: %s %s", res.Class, r.stderr())
		}
	})
}

// TestNeighboursEndNobody lets a program that moves its folders all the time,
// within its limit, be held while somebody else fills the file system.
func TestNeighboursEndNobody(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		s := python(t, `
import os, time
os.mkdir("a"); open("a/f", "wb").write(bytes(1 << 20)); print("up")
until = time.monotonic() + 3
while time.monotonic() < until: os.rename("a", "b"); os.rename("b", "a")
print("over")`)
		s.Limits.DiskMiB = 4
		r := &recorder{}
		filled := make(chan error, 1)
		r.onText = func(text string) {
			if strings.HasPrefix(text, "up") {
				filled <- os.WriteFile(filepath.Join(filepath.Dir(s.Workspace), "neighbour"), make([]byte, 64<<20), 0o600)
			}
		}
		res, err := sandbox.Run(t.Context(), b, s, r, sandbox.Options{})
		if err != nil || res.Class != run.ClassOK || len(res.Warnings) > 0 || !strings.HasSuffix(r.stdout(), "over\n") {
			t.Errorf("%v, %+v, stdout %q, stderr %q", err, res, r.stdout(), r.stderr())
		}
		if err := <-filled; err != nil {
			t.Error(err)
		}
	})
}

// TestClosedFoldersStayClosed looks into a folder that its owner has closed to
// itself, which a server without root can only if it opens it for a moment.
func TestClosedFoldersStayClosed(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	s := python(t, `
import os, time
os.makedirs("d/e"); os.chmod("d/e", 0o100); os.chmod("d", 0o2000)
time.sleep(0.6)
print(oct(os.stat("d").st_mode)); os.chmod("d", 0o700); print(oct(os.stat("d/e").st_mode))
`)
	if out := runsPython(t, b, s); out != "0o42000\n0o40100\n" {
		t.Errorf("the modes are now %q", out)
	}
}
