//go:build unix && !linux

package local

import (
	"context"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// plainDisk is what the label adds on this system.
const plainDisk = "; on this system nobody measures the workspace: it holds for each file only"

const goneWait = 5 * time.Second

// elsewhere is what to do about the missing sandbox.
const elsewhere = "run weir serve on Linux, for example in a virtual machine; or, if you trust all that will run, start weir serve with --allow-unsandboxed"

func plainAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() } // the status stands in its state

func reapExited(*exec.Cmd) {}

// killTree kills the group once more; this system has no way to find processes
// by their environment.
func killTree(group int, _ string, _ time.Duration) []int {
	_ = unix.Kill(-group, unix.SIGKILL)
	return nil
}

// Reap implements sandbox.Backend. Nothing can be found by label on this system.
func (b *Plain) Reap(context.Context, string) ([]int, error) { return nil, nil }
