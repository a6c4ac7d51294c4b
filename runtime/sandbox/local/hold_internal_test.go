//go:build linux

package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/sandbox"
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
	for end := time.Now().Add(5 * time.Second); state(pid) != want; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d is in state %c, want %c", pid, state(pid), want)
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
	h := &hold{members: func() []int { return []int{runs, stands, other} }, member: func(pid int) bool { return pid != other }}
	if !h.stop(t.Context()) || state(runs) != 'T' || state(stands) != 'T' || state(other) == 'T' {
		t.Errorf("held: %c, %c and the other one %c", state(runs), state(stands), state(other))
	}
	h.resume()
	stateBecomes(t, runs, 'S')
	if state(stands) != 'T' {
		t.Errorf("who stood still before is in state %c", state(stands))
	}
}

// TestAStopEndsACertainLook has a process that cannot be held: the look waits
// for it, until the command is to be stopped. What it held goes on.
func TestAStopEndsACertainLook(t *testing.T) {
	t.Parallel()
	var d disks
	m, err := d.meter(t.Context(), sandbox.Spec{Workspace: t.TempDir(), Limits: sandbox.Limits{DiskMiB: 1}})
	if err != nil {
		t.Fatal(err)
	}
	held, never := sleeper(t), sleeper(t)
	asked := 0
	h := &hold{members: func() []int { return []int{held, never} }, member: func(pid int) bool {
		if pid == never {
			if asked++; asked == 20 {
				m.release()
			}
			return asked%2 == 1 // it is one when it is looked at, and none when it is to be signalled
		}
		return true
	}}
	began := time.Now()
	use, err := m.certain(t.Context(), 1<<20, 0, h)
	if err != nil || use != 0 || time.Since(began) > holdWait-100*time.Millisecond {
		t.Errorf("%d bytes, %v, after %s", use, err, time.Since(began))
	}
	stateBecomes(t, held, 'S')
	ctx, stop := context.WithCancelCause(t.Context())
	stop(nil)
	if _, err := m.certain(ctx, 1<<20, 0, h); err == nil && asked > 100 {
		t.Error("it does not end with its context")
	}
	stateBecomes(t, held, 'S')
	if rest := time.Until(m.rest); rest <= 0 {
		t.Errorf("the next one may follow in %s", rest)
	}
}

// TestAWalkNotesMoves moves a file from before the walk to behind it, in the
// same folder and to another one; and looks twice while nothing moves.
func TestAWalkNotesMoves(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]string{"WithinAFolder": "z", "BetweenFolders": "9/z"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			for i := range 10 {
				if err := os.Mkdir(filepath.Join(top, strconv.Itoa(i)), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(top, from), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			nextTick()
			moves := false
			look := func() bool {
				w := &tree{ctx: t.Context(), since: coarse()}
				w.visit = func(int, string, *unix.Stat_t) error {
					if w.visited == 1 && moves {
						return os.Rename(filepath.Join(top, from), filepath.Join(top, "0", "z"))
					}
					return nil
				}
				if err := w.walk(top); err != nil {
					t.Fatal(err)
				}
				return w.disturbed
			}
			if look() || look() {
				t.Error("it was disturbed by nobody")
			}
			if moves = true; !look() {
				t.Error("it does not note a move")
			}
		})
	}
}
