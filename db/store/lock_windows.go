package store

import (
	"os"

	"golang.org/x/sys/windows"
)

// errLocked is what tryLock gives for a file that another process has locked.
const errLocked = windows.ERROR_LOCK_VIOLATION

// tryLock locks one byte far behind the end of the file: what is locked here
// cannot be read by others, and they read who holds the lock.
func tryLock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
}
