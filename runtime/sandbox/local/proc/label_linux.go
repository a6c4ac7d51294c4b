package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Labelled tells whether a process carries all the labels in its environment.
func Labelled(pid int, want ...string) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if len(env) == 0 && (err == nil || errors.Is(err, unix.ESRCH)) { // its first thread has ended before others
		if tid := living(pid); tid != 0 {
			env, err = os.ReadFile(fmt.Sprintf("/proc/%d/environ", tid))
		}
	}
	if err != nil || len(env) == 0 {
		return false
	}
	env = append([]byte{0}, append(env, 0)...)
	for _, w := range want {
		if !bytes.Contains(env, []byte("\x00"+w)) {
			return false
		}
	}
	return true
}

// KillLabelled kills every process with the labels, again and again until none
// is found: one may have forked meanwhile. It gives those it killed, and those
// that are still alive at the end.
func KillLabelled(ctx context.Context, limit time.Duration, want ...string) (killed, alive []int) {
	seen := map[int]bool{}
	for end := time.Now().Add(limit); ; {
		alive = nil
		for _, pid := range All() {
			if pid == os.Getpid() || !Labelled(pid, want...) || zombie(pid) {
				continue
			}
			p, err := Open(pid)
			if err != nil {
				continue
			}
			// Look again: now the number cannot have come to mean another process.
			if Labelled(pid, want...) {
				alive = append(alive, pid)
				if p.Signal(unix.SIGKILL) == nil && !seen[pid] {
					seen[pid] = true
					killed = append(killed, pid)
				}
				if p.Gone(100 * time.Millisecond) {
					alive = alive[:len(alive)-1]
				}
			}
			p.Close()
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return killed, alive
		}
		if len(alive) == 0 && !anyLabelled(want...) {
			return killed, nil
		}
	}
}

// WithLabel gives the living processes with the labels.
func WithLabel(want ...string) []int {
	var found []int
	for _, pid := range All() {
		if pid != os.Getpid() && Labelled(pid, want...) && !zombie(pid) {
			found = append(found, pid)
		}
	}
	return found
}

func anyLabelled(want ...string) bool {
	for _, pid := range All() {
		if pid != os.Getpid() && Labelled(pid, want...) && !zombie(pid) {
			return true
		}
	}
	return false
}
