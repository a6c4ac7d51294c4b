//go:build linux

package local_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// attack is what the red team's programs have at hand. They say what they
// gained, with a line that begins with GOT, and end with the line over.
const attack = `
import ctypes, errno, os, socket, struct, sys, mmap, time, resource, signal
libc = ctypes.CDLL(None, use_errno=True)
def call(nr, *a):
    r = libc.syscall(nr, *a)
    return (r, 0 if r >= 0 else ctypes.get_errno())
def refused(name, nr, *a, by=(errno.EPERM,)):
    r, e = call(nr, *a)
    if r >= 0 or e not in by: print("GOT", name, r, e)
def gone(name, f):
    try: print("GOT", name, f())
    except OSError: pass
def child(f):
    pid = os.fork()
    if pid == 0:
        try: f()
        except BaseException as e: print("child", e)
        sys.stdout.flush(); os._exit(0)
    return os.waitpid(pid, 0)[1]
`

// gains runs an attack and gives the lines about what it got.
func gains(t *testing.T, b backend, s sandbox.Spec) []string {
	t.Helper()
	s.Code = attack + s.Code + "\nprint('over', flush=True)\n"
	res, r := execute(t, b, s)
	if res.Class != run.ClassOK || !strings.HasSuffix(r.stdout(), "over\n") {
		t.Fatalf("the attack did not run to its end: %s %v, stdout %q, stderr %s", res.Class, res.Warnings, r.stdout(), r.stderr())
	}
	var got []string
	for line := range strings.Lines(r.stdout()) {
		if strings.HasPrefix(line, "GOT") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	return got
}

// TestRedTeam tries to get out of the sandbox, one test for each thing that must
// not be reached.
func TestRedTeam(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	outside := workspace(t)
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("host secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]string{
		"HostFiles": `
os.symlink(` + pyString(secret) + `, "link")
for p in (` + pyString(secret) + `, "link", "/etc/shadow", "/etc/hostname", "/etc/machine-id", "/root", "/home", "/var", "/run", "/srv", "/mnt", "/opt", "/boot", "/sys",
          "/proc/1/root/etc/shadow", "/proc/self/root/root", "/proc/1/cwd` + secret + `", "/proc/kcore", "/proc/kmsg", "/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda"):
    gone(p, lambda: os.listdir(p) if os.path.isdir(p) else open(p, "rb").read(10))
if os.stat("/..").st_ino != os.stat("/").st_ino: print("GOT out of the root")
if sorted(os.listdir("/")) != sorted(set(os.listdir("/")) & {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr", "weir", "workspace"}): print("GOT", os.listdir("/"))
h = struct.pack("<Ii", 128, 0) + bytes(128)
refused("open_by_handle_at", 304, os.open("/workspace", os.O_RDONLY), h, 0)
`,
		"OtherWorkspaces": `
for p in (` + pyString(outside) + `, "/workspace/..` + outside + `", "/workspace/../workspace", "/proc/1/root/` + outside + `"):
    gone(p, lambda: [x for x in os.listdir(p) if x == "secret"] or 1/0) if not os.path.exists(p) or "secret" in os.listdir(p) else None
`,
		"ServerEnvironment": `
for pid in [p for p in os.listdir("/proc") if p.isdigit()]:
    for f in ("environ", "cmdline", "mem", "auxv", "maps"):
        try: data = open("/proc/%s/%s" % (pid, f), "rb").read(1 << 20)
        except OSError: continue
        for bad in (b"must-not-be-" + b"seen", b"WEIR_" + b"SECRET"):
            if bad in data: print("GOT", pid, f)
`,
		"KernelSettings": `
tried = 0
for top, dirs, files in os.walk("/proc"):
    if top == "/proc": dirs[:] = [d for d in dirs if not d.isdigit() and d not in ("self", "thread-self", "pressure")]
    for f in files:
        p = os.path.join(top, f); tried += 1
        try: fd = os.open(p, os.O_WRONLY | os.O_NONBLOCK)
        except OSError: continue
        print("GOT", p)
for p in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/1/oom_score_adj", "/proc/self/uid_map", "/proc/1/loginuid", "/sys/kernel/uevent_helper"):
    def write():
        fd = os.open(p, os.O_WRONLY)
        return os.write(fd, b"-1000" if "oom" in p else b"0 0 1")
    gone(p, write)
if tried < 500: print("GOT only", tried, "files to try")
`,
		"DockerSocket": `
for p in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/dbus/system_bus_socket", "/run/systemd/private", "SOCKET"):
    s = socket.socket(socket.AF_UNIX); gone(p, lambda: s.connect(p))
`,
		"MetadataAddresses": `
for family, addr in ((socket.AF_INET, "169.254.169.254"), (socket.AF_INET, "169.254.170.2"), (socket.AF_INET6, "fd00:ec2::254"), (socket.AF_INET, "8.8.8.8"), (socket.AF_INET, "10.0.0.1")):
    s = socket.socket(family); s.settimeout(2); gone(addr, lambda: s.connect((addr, 80)))
    u = socket.socket(family, socket.SOCK_DGRAM); gone("udp " + addr, lambda: u.sendto(b"x", (addr, 53)))
gone("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
gone("packet", lambda: socket.socket(17, socket.SOCK_RAW))
gone("vsock", lambda: (lambda s: (s.settimeout(1), s.connect((2, 1024))))(socket.socket(40, socket.SOCK_STREAM)))
if [n for _, n in socket.if_nameindex()] != ["lo"]: print("GOT", socket.if_nameindex())
`,
		"LoopbackServices": `
s = socket.socket(); s.settimeout(2); gone("tcp", lambda: s.connect(("127.0.0.1", PORT)))
s = socket.socket(socket.AF_UNIX); gone("abstract", lambda: s.connect("\0ABSTRACT"))
`,
		"UserNamespaces": `
full = (errno.EPERM, errno.ENOSPC)
for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x08000000, 0x02000000):
    refused("unshare", 272, flag)
    for name, nr, args in (("clone", 56, (flag | 17, 0, 0, 0, 0)), ("clone3", 435, (struct.pack("<8Q", flag, 0, 0, 0, 17, 0, 0, 0), 64))):
        r, e = call(nr, *args)
        if r == 0: os._exit(0)
        if r > 0 or e not in full: print("GOT", name, hex(flag), r, e)
for ns in os.listdir("/proc/1/ns"):
    refused("setns", 308, os.open("/proc/1/ns/" + ns, os.O_RDONLY), 0)
`,
		"TIOCSTI": `
a, b = os.openpty()
refused("TIOCSTI", 16, b, 0x5412, b"x")
refused("TIOCSTI with high bits", 16, b, 0x5412 | 1 << 40, b"x")
refused("TIOCLINUX", 16, b, 0x541c, b"\x02")
gone("/dev/tty", lambda: os.open("/dev/tty", os.O_RDWR))
if os.getsid(0) == 0: print("GOT a session from outside")
`,
		"HostProcesses": `
inside = [int(p) for p in os.listdir("/proc") if p.isdigit()]
if len(inside) > 3: print("GOT", inside)
for pid in range(3, 40000):
    if pid != os.getpid():
        try: os.kill(pid, 0); print("GOT", pid)
        except OSError: pass
refused("ptrace", 101, 16, 1, 0, 0); refused("process_vm_readv", 310, 1, 0, 0, 0, 0, 0); refused("process_vm_writev", 311, 1, 0, 0, 0, 0, 0); refused("kcmp", 312, 1, 1, 0, 0, 0)
try: os.kill(-1, 9) # everyone but itself
except ProcessLookupError: pass
`,
		"Mounts": `
for name, nr in (("mount", 165), ("umount2", 166), ("pivot_root", 155), ("open_tree", 428), ("move_mount", 429), ("fsopen", 430), ("fsconfig", 431), ("fsmount", 432), ("fspick", 433), ("mount_setattr", 442), ("swapon", 167)):
    refused(name, nr, 0, 0, 0, 0, 0, 0)
refused("chroot", 161, b"/tmp")
for d, mode in (("/workspace", 0o20666), ("/tmp", 0o20666), ("/tmp", 0o60666)):
    gone("mknod", lambda: os.mknod(d + "/dev", mode, os.makedev(1, 1)))
`,
		"KernelInterfaces": `
for name, nr in (("keyctl", 250), ("add_key", 248), ("request_key", 249), ("bpf", 321), ("perf_event_open", 298), ("userfaultfd", 323), ("io_uring_setup", 425), ("io_uring_enter", 426), ("io_uring_register", 427),
                 ("landlock_create_ruleset", 444), ("io_setup", 206), ("memfd_secret", 447), ("kexec_load", 246), ("init_module", 175), ("finit_module", 313), ("syslog", 103), ("acct", 163), ("quotactl", 179), ("quotactl_fd", 443), ("reboot", 169),
                 ("settimeofday", 164), ("clock_settime", 227), ("sethostname", 170)):
    refused(name, nr, 0, 0, 0, 0, 0, 0)
refused("huge memfd", 319, b"x", 4); refused("huge pages", 9, 0, 2 << 20, 3, 0x40022, -1, 0); refused("huge shm", 29, 0, 2 << 20, 0o4000 | 0o1600)
if call(319, b"x", 1)[0] < 0: print("GOT no memfd at all")
`,
		"OtherCallTables": `
def x32(): libc.syscall(0x40000000 | 39)
def int80():
    m = mmap.mmap(-1, 4096, prot=7)
    m.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
for f in (x32, int80):
    if os.WTERMSIG(child(f)) != signal.SIGSYS: print("GOT", f)
`,
		"SetuidPrograms": `
import shutil, subprocess, stat
found = [p for d in ("/usr/bin", "/usr/sbin", "/usr/lib/openssh") if os.path.isdir(d) for p in (os.path.join(d, f) for f in os.listdir(d)) if os.path.isfile(p) and os.stat(p).st_mode & 0o6000]
for d in ("/usr", "/workspace", "/tmp", "/dev/shm"):
    if not os.statvfs(d).f_flag & os.ST_NOSUID: print("GOT a mount with setuid", d)
shutil.copy("/bin/sh", "sh"); os.chmod("sh", 0o6755)
if subprocess.run(["./sh", "-p", "-c", "id -u"], capture_output=True).stdout != b"1000\n": print("GOT another user")
for p in found[:4]:
    pr = subprocess.Popen([p, "--weir"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        st = open("/proc/%d/status" % pr.pid).read()
        if "Uid:\t1000\t1000\t1000\t1000" not in st and "Uid:" in st: print("GOT", p, st)
    except OSError: pass
    pr.wait()
`,
		"RaisingLimits": `
for name in ("CORE", "FSIZE", "NPROC", "NOFILE", "MEMLOCK", "DATA"):
    n = getattr(resource, "RLIMIT_" + name); soft, hard = resource.getrlimit(n)
    if hard == -1: continue
    try: resource.prlimit(0, n, (hard + 1, hard + 1)); print("GOT", name)
    except (OSError, ValueError): pass
if not set(resource.getrlimit(resource.RLIMIT_CORE)) <= {0, 1}: print("GOT core dumps")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def big():
    f = os.open("big", os.O_CREAT | os.O_RDWR); return os.pwrite(f, b"x", 1 << 30)
gone("a file over the limit", big)
def grown():
    f = os.open("big", os.O_CREAT | os.O_RDWR); return os.ftruncate(f, (1 << 30) + 1)
gone("a sparse file over the limit", grown)
`,
		"Sockets": `
for family in range(64):
    for kind in (1, 2, 3, 5):
        for name, nr in (("socket", 41), ("socketpair", 53)):
            for high in (0, 1 << 32):
                r, e = call(nr, ctypes.c_long(high | family), kind, 0, (ctypes.c_int * 2)())
                if r >= 0 and nr == 41: os.close(r)
                if family in (1, 2, 10, 16): continue
                if r >= 0 or e != errno.EAFNOSUPPORT: print("GOT", name, family, kind, high, r, e)
for protocol in range(1, 40):
    for high in (0, 1 << 32):
        r, e = call(41, 16, 3, ctypes.c_long(high | protocol))
        if r >= 0 or e != errno.EPROTONOSUPPORT: print("GOT netlink", protocol, high, r, e)
for f in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX): socket.socket(f).close()
[x.close() for x in socket.socketpair()]
s = socket.socket(16, 3, 0); s.bind((0, 0))
try: s.sendto(bytes(64), (os.getpid(), 0)); print("GOT a message to itself")
except OSError: pass
if len(socket.if_nameindex()) != 1: print("GOT no interfaces")
`,
		"Descriptors": `
n = 0
try:
    while n < 5000: os.dup(0); n += 1
    print("GOT", n, "descriptors")
except OSError as e:
    if e.errno != errno.EMFILE or n < 1000: print("GOT", n, e)
`,
		"InheritedDescriptors": `
for pid in ("self", "1"):
    for fd in os.listdir("/proc/%s/fd" % pid):
        try: target = os.readlink("/proc/%s/fd/%s" % (pid, fd))
        except OSError: continue
        if not target.startswith(("pipe:", "/dev/null", "/proc/", "anon_inode:[eventfd]")): print("GOT", pid, fd, target)
if len(os.listdir("/proc/self/fd")) > 4: print("GOT", os.listdir("/proc/self/fd"))
`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := python(t, code)
			switch name {
			case "DockerSocket":
				s.Code = strings.ReplaceAll(s.Code, "SOCKET", unvisited(t, "unix", filepath.Join(outside, "docker.sock")).String())
			case "LoopbackServices":
				tcp, ok := unvisited(t, "tcp", "127.0.0.1:0").(*net.TCPAddr)
				if !ok {
					t.Fatal("no TCP address")
				}
				name := "weir-test-" + string(run.NewID())
				unvisited(t, "unix", "@"+name)
				s.Code = strings.NewReplacer("PORT", fmt.Sprint(tcp.Port), "ABSTRACT", name).Replace(s.Code)
			case "InheritedDescriptors":
				f, err := os.Open(secret)
				if err != nil {
					t.Fatal(err)
				}
				// Without O_CLOEXEC, and beyond the numbers that a start uses itself.
				fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 100)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = f.Close(); _ = unix.Close(fd) }()
			}
			for _, line := range gains(t, b, s) {
				t.Error(line)
			}
		})
	}
}

func pyString(s string) string { return fmt.Sprintf("%q", s) }

// unvisited listens, and fails when somebody comes.
func unvisited(t *testing.T, network, address string) net.Addr {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	if network == "unix" && !strings.HasPrefix(address, "@") {
		if err := os.Chmod(address, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	came := make(chan struct{})
	go func() {
		defer close(came)
		if c, err := l.Accept(); err == nil {
			t.Errorf("somebody reached %s", l.Addr())
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-came })
	return l.Addr()
}

// TestRedTeamCannotUpsetItsKeeper attacks the first process of its namespace,
// which belongs to bubblewrap. Nothing of it may outlive the run.
func TestRedTeamCannotUpsetItsKeeper(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	for name, code := range map[string]string{
		"Signals": `
for n in range(1, 65):
    try: os.kill(1, n)
    except OSError: pass
os.kill(-1, signal.SIGSTOP)
time.sleep(100)`,
		"Memory": `
fd = os.open("/proc/1/mem", os.O_RDWR)
for line in open("/proc/1/maps"):
    a, b = (int(x, 16) for x in line.split()[0].split("-"))
    try: os.pwrite(fd, b"\xcc" * (b - a), a)
    except (OSError, OverflowError): pass
child(lambda: 0)
time.sleep(100)`,
		"Descriptors": `
for d in os.listdir("/proc/1/fd"):
    try:
        fd = os.open("/proc/1/fd/" + d, os.O_RDWR | os.O_NONBLOCK); os.write(fd, struct.pack("<Q", 1))
    except OSError: pass
if os.fork() == 0:
    os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(100)
time.sleep(100)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := python(t, attack+code)
			s.Limits.Timeout, s.Limits.Grace = 500*time.Millisecond, 200*time.Millisecond
			began := time.Now()
			res, _ := execute(t, b, s)
			if res.Class == run.ClassOK || len(res.Survivors) > 0 || time.Since(began) > 10*time.Second {
				t.Errorf("%+v after %s", res, time.Since(began))
			}
			mustBeGone(t, s)
		})
	}
}
