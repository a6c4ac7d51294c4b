//go:build linux

package local_test

import (
	"testing"
	"time"
)

// calls are ways to keep a deleted file by nothing but a call that waits: each
// begins one with the file f, in a thread of its own. What else it uses stays open.
var calls = map[string]string{
	"Sendfile": `
r, w = full_pipe()
begin(lambda: libc.sendfile(w, f, None, ctypes.c_size_t(1 << 20)))`,
	"SendfileToASocket": `
a, b = full_sockets(socket.SOCK_STREAM)
begin(lambda: libc.sendfile(a.fileno(), f, None, ctypes.c_size_t(1 << 20)))`,
	"SpliceOut": `
r, w = full_pipe()
begin(lambda: libc.splice(f, None, w, None, ctypes.c_size_t(1 << 20), 0))`,
	"SpliceIn": `
r, w = os.pipe()
begin(lambda: libc.splice(r, None, f, None, ctypes.c_size_t(1 << 20), 0))`,
	"DescriptorsOnTheirWay": `
a, b = full_sockets(socket.SOCK_DGRAM)
begin(lambda: socket.send_fds(a, [b"x"], [f]))`,
	"LocksOfEachOther": `
g = os.open("x", os.O_RDWR)
def lock(fd, byte, wait): fcntl.fcntl(fd, 38 if wait else 37, struct.pack("hhlliI", fcntl.F_WRLCK, 0, byte, 1, 0, 0)) # F_OFD_SETLKW, F_OFD_SETLK
lock(f, 0, False); lock(g, 1, False)
begin(lambda: lock(f, 1, True)); begin(lambda: lock(g, 0, True)); closed.append(g)`,
	"LocksOfTwoKinds": `
g = os.open("x", os.O_RDWR)
fcntl.flock(f, fcntl.LOCK_EX); fcntl.fcntl(g, 37, struct.pack("hhlliI", fcntl.F_WRLCK, 0, 0, 1, 0, 0))
begin(lambda: fcntl.fcntl(f, 38, struct.pack("hhlliI", fcntl.F_WRLCK, 0, 0, 1, 0, 0))); begin(lambda: fcntl.flock(g, fcntl.LOCK_EX)); closed.append(g)`,
	"SocketPolled": `
a, b = socket.socketpair(); socket.send_fds(b, [b"x"], [f]); a = a.detach()
begin(lambda: libc.poll((ctypes.c_int * 2)(a, 0), 1, -1)); closed.append(a)`,
	"SocketWrittenTo": `
a, b = socket.socketpair(); socket.send_fds(b, [b"x"], [f]); a = a.detach()
begin(lambda: os.write(a, bytes(1 << 22))); closed.append(a)`,
}

// TestRedTeamKeepsFilesInCalls closes the descriptors of a deleted file while a
// call waits that was given them: no part of /proc leads to that file any more.
// Looks make such calls begin anew, without it.
func TestRedTeamKeepsFilesInCalls(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	for name, code := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := python(t, `
import fcntl, select, threading
f = os.open("x", os.O_CREAT | os.O_RDWR); os.write(f, bytes(1 << 20)); os.lseek(f, 0, 0)
watch = libc.inotify_init1(0); libc.inotify_add_watch(watch, b"x", 0x400) # IN_DELETE_SELF: it is not on the disk any more
closed = [f]
def begin(call): threading.Thread(target=call, daemon=True).start()
def full_pipe():
    r, w = os.pipe(); os.set_blocking(w, False)
    try:
        while True: os.write(w, bytes(4096))
    except BlockingIOError: os.set_blocking(w, True)
    return r, w
def full_sockets(kind):
    a, b = socket.socketpair(socket.AF_UNIX, kind); a.setblocking(False)
    try:
        while True: a.send(bytes(1024))
    except BlockingIOError: a.setblocking(True)
    return a, b
`+code+`
time.sleep(0.2); [os.close(fd) for fd in closed]; os.unlink("x")
if select.select([watch], [], [], 0.1)[0]: print("GOT nothing: no call keeps it")
elif not select.select([watch], [], [], 60)[0]: print("GOT a file that nobody sees")
sys.stdout.flush()
`)
			s.Limits.Timeout = 2 * time.Minute // looks are rare on a busy machine
			for _, line := range gains(t, b, s) {
				t.Error(line)
			}
		})
	}
}
