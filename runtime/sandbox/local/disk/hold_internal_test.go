//go:build linux

package disk

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local/proc"
	"github.com/weirhq/weir/runtime/sandbox/local/tree"
)

// sleeper starts a process that does nothing.
func sleeper(t *testing.T) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func stateBecomes(t *testing.T, pid int, want byte) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); proc.State(pid) != want; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d is in state %c, want %c", pid, proc.State(pid), want)
		}
	}
}

// TestWhatStoodStillStays holds a process that runs and one that was stopped
// before, and one that is none of theirs.
func TestWhatStoodStillStays(t *testing.T) {
	t.Parallel()
	runs, stands, other := sleeper(t), sleeper(t), sleeper(t)
	if err := unix.Kill(stands, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stateBecomes(t, stands, 'T')
	h := &Hold{Members: func() []int { return []int{runs, stands, other} }, Member: func(pid int) bool { return pid != other }}
	if !h.stop(t.Context()) || proc.State(runs) != 'T' || proc.State(stands) != 'T' || proc.State(other) == 'T' {
		t.Errorf("held: %c, %c and the other one %c", proc.State(runs), proc.State(stands), proc.State(other))
	}
	h.resume()
	stateBecomes(t, runs, 'S')
	if proc.State(stands) != 'T' {
		t.Errorf("who stood still before is in state %c", proc.State(stands))
	}
}

// TestAStopEndsACertainLook has a process that cannot be held: the look waits
// for it, until the command is to be stopped. What it held goes on.
func TestAStopEndsACertainLook(t *testing.T) {
	t.Parallel()
	var d Meters
	m, err := d.Meter(t.Context(), sandbox.Spec{Workspace: t.TempDir(), Limits: sandbox.Limits{DiskMiB: 1}})
	if err != nil {
		t.Fatal(err)
	}
	held, never := sleeper(t), sleeper(t)
	asked := 0
	h := &Hold{Members: func() []int { return []int{held, never} }, Member: func(pid int) bool {
		if pid == never {
			if asked++; asked == 20 {
				m.Release()
			}
			return asked%2 == 1 // it is one when it is looked at, and none when it is to be signalled
		}
		return true
	}}
	use, err := m.certain(t.Context(), 1<<20, 0, h)
	if err != nil || use != 0 || asked < 20 || asked > 100 { // it would ask on for a second, and then look
		t.Errorf("%d bytes, %v, asked %d times", use, err, asked)
	}
	stateBecomes(t, held, 'S')
	ctx, stop := context.WithCancelCause(t.Context())
	stop(nil)
	if _, err := m.certain(ctx, 1<<20, 0, h); err == nil && asked > 100 {
		t.Error("it does not end with its context")
	}
	stateBecomes(t, held, 'S')
	if rest := time.Until(m.patience.rest); rest <= 0 {
		t.Errorf("the next one may follow in %s", rest)
	}
}

// TestAWalkNotesMoves moves a file from before the walk to behind it, from the
// same folder and from another one; and looks twice while nothing moves.
func TestAWalkNotesMoves(t *testing.T) {
	t.Parallel()
	for _, between := range []bool{false, true} {
		t.Run(fmt.Sprintf("Between%v", between), func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			for i := range 20 {
				if err := os.WriteFile(filepath.Join(top, fmt.Sprintf("f%d", i)), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				dir := filepath.Join(top, fmt.Sprintf("d%d", i))
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "in"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			order := readingOrder(t, top)
			left := slices.IndexFunc(order, func(name string) bool { return name[0] == 'd' })
			slices.Reverse(order[left+2:])
			last := order[left+2+slices.IndexFunc(order[left+2:], func(name string) bool { return (name[0] == 'd') == between })]
			if between {
				last += "/in"
			}
			moves := false
			look := func() bool {
				w := &tree.Walk{Ctx: t.Context(), Since: coarse()}
				w.Visit = func(_ int, name string, _ *unix.Stat_t) error {
					if name == order[left+1] && moves {
						return os.Rename(filepath.Join(top, last), filepath.Join(top, order[left], "z"))
					}
					return nil
				}
				if err := w.Below(top); err != nil {
					t.Fatal(err)
				}
				return w.Disturbed
			}
			nextTick()
			for range 2 {
				if look() {
					t.Error("it was disturbed by nobody")
				}
			}
			if moves = true; !look() {
				t.Error("it does not note a move")
			}
		})
	}
}

// readingOrder gives the names of a folder as a walk comes by them.
func readingOrder(t *testing.T, path string) []string {
	t.Helper()
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestAHoldCatchesWhatIsStarted holds a process that starts others as fast as it can.
func TestAHoldCatchesWhatIsStarted(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "while :; do sleep 0.001 & sleep 0.001; done")
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL); _ = cmd.Wait() })
	member := func(pid int) bool {
		group, err := unix.Getpgid(pid)
		return err == nil && group == cmd.Process.Pid
	}
	h := &Hold{Member: member, Members: func() []int { return slices.DeleteFunc(proc.All(), func(pid int) bool { return !member(pid) }) }}
	for range 5 {
		if !h.stop(t.Context()) {
			t.Error("they do not stand still")
		}
		for _, pid := range h.Members() {
			if stopped, stuck := standing(pid); !stopped && !stuck {
				t.Errorf("process %d is in state %c", pid, proc.State(pid))
			}
		}
		h.resume()
		stateBecomes(t, cmd.Process.Pid, 'S')
	}
}
