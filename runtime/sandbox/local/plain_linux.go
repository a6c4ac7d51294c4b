package local

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/sandbox/local/disk"
	"github.com/weirhq/weir/runtime/sandbox/local/proc"
)

const plainDisk = ""

// plainAttr makes the command lead a session of its own and die with the server.
func plainAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
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
	_, alive := proc.KillLabelled(context.Background(), limit, labelExecution+"="+execution+"\x00")
	return alive
}

// DiskUse implements sandbox.DiskMeter.
func (p *plainProcess) DiskUse(ctx context.Context, limit int64) (int64, error) {
	label := labelExecution + "=" + string(p.spec.Execution) + "\x00"
	return p.meter.Use(ctx, limit, 0, &disk.Hold{
		Members: func() []int {
			if p.over.Load() {
				return nil
			}
			return proc.WithLabel(label)
		},
		Member: func(pid int) bool { return proc.Labelled(pid, label) },
	})
}

// Reap implements sandbox.Backend.
func (b *Plain) Reap(ctx context.Context, replica string) ([]int, error) { return reap(ctx, replica) }
