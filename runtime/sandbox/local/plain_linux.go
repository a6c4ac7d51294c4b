package local

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/sandbox"
)

// plainAttr makes the command lead a session of its own and die with the server.
func plainAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

const plainCaveat = "the memory and disk limits hold for each process and each file, process and cpu limits are not enforced"

// limitPlain sets what limits a process can have by itself. The command has
// begun by then, but hardly got far.
func limitPlain(pid int, l sandbox.Limits) {
	set := func(resource int, value int64) {
		_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: uint64(value), Max: uint64(value)}, nil) //nolint:gosec // not negative; the process may have ended
	}
	set(unix.RLIMIT_CORE, 0)
	if l.DiskMiB > 0 {
		set(unix.RLIMIT_FSIZE, l.DiskMiB<<20)
	}
	if l.MemoryMiB > 0 {
		set(unix.RLIMIT_DATA, l.MemoryMiB<<20)
	}
}

// awaitExit waits until the command has ended and leaves it unreaped, so that
// its number, which is that of its group, cannot come to mean another.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// reapExited takes the status of a command that has ended.
func reapExited(cmd *exec.Cmd) { _ = cmd.Wait() } // the status stands in its state

// killTree kills every process with the execution's label and gives those that
// are still alive after limit. A process that cleared its environment and left
// the group is not found.
func killTree(_ int, execution string, limit time.Duration) []int {
	_, alive := killLabelled(context.Background(), limit, labelExecution+"="+execution+"\x00")
	return alive
}

// Reap implements sandbox.Backend.
func (b *Plain) Reap(ctx context.Context, replica string) ([]int, error) { return reap(ctx, replica) }
