//go:build linux

package disk

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/sandbox"
)

// TestPatience disturbs look after look, and counts those that a certain one follows.
func TestPatience(t *testing.T) {
	t.Parallel()
	const hold = 10 * time.Millisecond
	for name, c := range map[string]struct {
		every     time.Duration       // from look to look
		lost      func(look int) bool // the file system has lost much
		disturbed func(look int) bool
		found     bool
		want      []int
	}{
		"NothingFound":      {every: time.Second / 4, want: []int{4, 12, 28, 60, 124, 188}},
		"Found":             {every: time.Second / 4, found: true, want: []int{4, 8, 12, 16}},
		"RareLooks":         {every: 5 * time.Second, want: []int{4, 12, 24, 36, 48}}, // a minute after the last one
		"FreeSpaceFalls":    {every: time.Second / 4, lost: func(look int) bool { return look == 2 }, want: []int{2, 10, 26}},
		"AlwaysLost":        {every: hold, lost: func(int) bool { return true }, want: []int{1, 11, 21, 31}}, // a tenth of the time
		"UndisturbedResets": {every: time.Second / 4, disturbed: func(look int) bool { return look != 14 && look != 17 }, want: []int{4, 12, 21, 29}},
		"NeverDisturbed":    {every: time.Second / 4, disturbed: func(int) bool { return false }, lost: func(int) bool { return true }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p patience
			var got []int
			now := time.Now()
			for look := 1; look < 200 && (len(got) < len(c.want) || len(c.want) == 0); look++ {
				if p.due(c.disturbed == nil || c.disturbed(look), c.lost != nil && c.lost(look), now) {
					got = append(got, look)
					p.looked(now, now.Add(hold), c.found)
					now = now.Add(hold)
				}
				now = now.Add(c.every)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("certain looks follow %v, want %v", got, c.want)
			}
		})
	}
}

// TestWhatIsFreedHidesNothing moves a large file behind each look, while the
// free space of the file system rises.
func TestWhatIsFreedHidesNothing(t *testing.T) {
	t.Parallel()
	free := int64(1 << 40)
	d := Meters{free: func(string) int64 { free += 1 << 30; return free }}
	dir := t.TempDir()
	const limit = 48 << 20
	m, err := d.Meter(t.Context(), sandbox.Spec{Workspace: dir, Limits: sandbox.Limits{DiskMiB: limit >> 20}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-c", `
import ctypes, os, struct
libc = ctypes.CDLL(None)
for i in range(12): os.mkdir("d%d" % i)
names = [n for n in os.listdir(".") if n[0] == "d"] # in the order in which a look reads them
for n in names[1:-1]:
    for i in range(600): open("%s/%d" % (n, i), "w").close()
early, late = names[0] + "/big", names[-1] + "/big"
os.posix_fallocate(os.open(late, os.O_CREAT | os.O_RDWR), 0, 64 << 20)
fd = libc.inotify_init1(0)
first, top = (libc.inotify_add_watch(fd, p.encode(), 0x10) for p in (names[0], ".")) # IN_CLOSE_NOWRITE
print("ready", flush=True)
at = late
while True:
    events = os.read(fd, 8192)
    while events:
        wd, _, _, size = struct.unpack_from("iIII", events); events = events[16 + size:]
        to = early if wd == first else late
        if size == 0 and at != to: os.rename(at, to); at = to`)
	cmd.Dir, cmd.SysProcAttr = dir, &unix.SysProcAttr{Setpgid: true}
	ready, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := ready.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	h := &Hold{Members: func() []int { return []int{cmd.Process.Pid} }, Member: func(int) bool { return true }}
	for look := 1; ; look++ {
		use, err := m.Use(t.Context(), limit, 0, h)
		switch {
		case err != nil:
			t.Fatal(err)
		case use > limit:
			t.Logf("found by look %d", look)
			return
		case look == 100:
			t.Fatalf("%d looks have seen %d bytes", look, use)
		}
		<-time.After(20 * time.Millisecond) // until it has moved the file back
	}
}
