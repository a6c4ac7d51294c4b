package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// lockFolder makes the data folder if needed, proves that it can be written and
// takes its lock. The system frees the lock when the process ends, however it
// ends, and children do not inherit it. It does not hold on network file systems.
func lockFolder(dir string, patience time.Duration) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, folderError(dir, err)
	}
	name := filepath.Join(dir, "weir.lock")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, folderError(dir, err)
	}
	if err := lockError(dir, f, flock(f, patience)); err != nil {
		_ = f.Close()
		return nil, err
	}
	// The test write: a full or read-only disk shows here and not in the first run.
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(fmt.Sprintf("%d\n", os.Getpid())), 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		_ = f.Close()
		return nil, folderError(dir, err)
	}
	return f, nil
}

// lockError says who holds the lock of a data folder.
func lockError(dir string, f *os.File, err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, errLocked) {
		return run.Errorf(run.Unavailable, "the data folder %s cannot be locked: %w; put it on a local disk", dir, err)
	}
	by := ""
	holder, _ := os.ReadFile(f.Name())
	if pid := strings.TrimSpace(string(holder)); pid != "" {
		by = " (process " + pid + ")"
	}
	return &run.Error{
		Code: run.Unavailable, Err: ErrInUse,
		Message: fmt.Sprintf("the data folder %s is in use by another Weir server%s; stop that one, or give this one another folder with --data", dir, by),
	}
}

// ErrInUse is the cause of an error for a data folder that another process has.
var ErrInUse = errors.New("the data folder is in use")

// lockPatience is how long a taken lock is waited for: a server that is just
// ending holds it, and so does a child of ours between its fork and its exec.
const lockPatience = time.Second

// flock waits for the lock of f, and gives errLocked if another process keeps it.
func flock(f *os.File, patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := tryLock(f)
		if !errors.Is(err, errLocked) || time.Now().After(deadline) {
			return err
		}
	}
}

func folderError(dir string, err error) error {
	remedy := "check the path"
	switch {
	case errors.Is(err, os.ErrPermission):
		remedy = "give this user write permission, or choose another folder with --data"
	case errors.Is(err, syscall.EROFS):
		remedy = "the file system is mounted read-only: choose another folder with --data"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		remedy = "free some space on that disk"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, os.ErrExist):
		remedy = "a file stands in the way: choose another folder with --data"
	}
	return run.Errorf(run.Unavailable, "the data folder %s cannot be written: %w; %s", dir, err, remedy)
}
