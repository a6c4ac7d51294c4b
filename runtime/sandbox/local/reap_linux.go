package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// inNamespace lists the processes of a process namespace, by its inode.
func inNamespace(inode uint64) []int {
	want := fmt.Sprintf("pid:[%d]", inode)
	var found []int
	for _, pid := range allPIDs() {
		if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err == nil && ns == want {
			found = append(found, pid)
		}
	}
	return found
}

func allPIDs() []int {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	pids := make([]int, 0, len(dirs))
	for _, d := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// labelled tells whether a process carries all the labels in its environment.
func labelled(pid int, want ...string) bool {
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

// killLabelled kills every process with the labels, again and again until none
// is found: one may have forked meanwhile. It gives those it killed, and those
// that are still alive at the end.
func killLabelled(ctx context.Context, limit time.Duration, want ...string) (killed, alive []int) {
	seen := map[int]bool{}
	for end := time.Now().Add(limit); ; {
		alive = nil
		for _, pid := range allPIDs() {
			if pid == os.Getpid() || !labelled(pid, want...) || zombie(pid) {
				continue
			}
			p, err := openPidfd(pid)
			if err != nil {
				continue
			}
			// Look again: now the number cannot have come to mean another process.
			if labelled(pid, want...) {
				alive = append(alive, pid)
				if p.signal(unix.SIGKILL) == nil && !seen[pid] {
					seen[pid] = true
					killed = append(killed, pid)
				}
				if p.gone(100 * time.Millisecond) {
					alive = alive[:len(alive)-1]
				}
			}
			p.close()
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return killed, alive
		}
		if len(alive) == 0 && !anyLabelled(want...) {
			return killed, nil
		}
	}
}

// withLabel gives the living processes with the labels.
func withLabel(want ...string) []int {
	var found []int
	for _, pid := range allPIDs() {
		if pid != os.Getpid() && labelled(pid, want...) && !zombie(pid) {
			found = append(found, pid)
		}
	}
	return found
}

func anyLabelled(want ...string) bool {
	for _, pid := range allPIDs() {
		if pid != os.Getpid() && labelled(pid, want...) && !zombie(pid) {
			return true
		}
	}
	return false
}

// zombie tells whether a process is dead and only waits to be reaped.
func zombie(pid int) bool { return ended(pid) && living(pid) == 0 }

// ended tells whether one thread has ended; the first of a process may long
// before the others.
func ended(tid int) bool {
	s := state(tid)
	return s == 0 || s == 'Z' || s == 'X'
}

// living gives a thread of a process that has not ended, other than the first; 0 when there is none.
func living(pid int) int {
	threads, _ := threadsOf(pid)
	for _, tid := range threads {
		if tid != pid && !ended(tid) {
			return tid
		}
	}
	return 0
}

// state gives the kernel's letter for what a process does; 0 when there is none.
func state(pid int) byte {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	if i := bytes.LastIndexByte(data, ')'); i >= 0 && i+2 < len(data) {
		return data[i+2]
	}
	return 0
}

// Reap implements sandbox.Backend.
func (b *Bubblewrap) Reap(ctx context.Context, replica string) ([]int, error) {
	killed, err := reap(ctx, replica)
	b.cgroups.sweep(replica)
	return killed, err
}

func reap(ctx context.Context, replica string) ([]int, error) {
	if replica == "" {
		return nil, nil
	}
	killed, alive := killLabelled(ctx, goneWait, labelExecution+"=", labelReplica+"="+replica+"\x00")
	if len(alive) > 0 {
		return killed, fmt.Errorf("processes %v of an earlier server are still alive after a KILL", alive)
	}
	return killed, nil
}
