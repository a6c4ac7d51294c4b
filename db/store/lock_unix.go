//go:build !windows

package store

import (
	"os"
	"syscall"
)

// errLocked is what tryLock gives for a file that another process has locked.
const errLocked = syscall.EWOULDBLOCK

func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
