package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// DiskMeter is a Process that can tell how much its workspace holds.
type DiskMeter interface {
	// DiskUse counts the bytes on disk of everything in the workspace, and of what
	// the command's processes keep though it has been deleted. It may stop counting
	// once they are more than limit. It is called until Wait has returned and once
	// more after that, never twice at a time.
	DiskUse(ctx context.Context, limit int64) (int64, error)
}

// The watcher of the workspace's size looks, pauses, and looks again. What an
// execution can write over its limit is what it writes in one pause and one look.
const (
	diskPauseLeast = 250 * time.Millisecond
	diskPauseMost  = 5 * time.Second
	// diskPauseShare is the length of a pause in looks, so that looking costs at
	// most a tenth of a processor while the pause is not at its most.
	diskPauseShare = 10
	// diskLastLook bounds the look after the end, which decides whether an
	// execution that ended in a pause had stayed within its limit.
	diskLastLook = 30 * time.Second
)

func (x *execution) diskLimit() int64 { return x.spec.Limits.DiskMiB << 20 }

// watchDisk starts the watcher and gives what ends it and waits for it.
func (x *execution) watchDisk(ctx context.Context) (stop func()) {
	m, ok := x.proc.(DiskMeter)
	if !ok || x.diskLimit() <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for pause := diskPauseLeast; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			began := time.Now()
			if x.lookAtDisk(ctx, m) {
				// Who was asked to stop and has its grace is killed as well, for the
				// reason that it had.
				x.reason.CompareAndSwap(noReason, diskLimit)
				x.full <- struct{}{}
				return
			}
			pause = min(max(diskPauseShare*time.Since(began), diskPauseLeast), diskPauseMost)
		}
	})
	return func() { cancel(nil); watcher.Wait() }
}

// lookAtDisk tells whether the workspace is over its limit.
func (x *execution) lookAtDisk(ctx context.Context, m DiskMeter) bool {
	use, err := m.DiskUse(ctx, x.diskLimit())
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) {
			x.diskErr = err
		}
		return false
	}
	if use <= x.diskLimit() {
		return false
	}
	x.diskUse = use
	return true
}

// lastDiskLook judges what was written after the watcher's last look by a
// command that ended by itself.
func (x *execution) lastDiskLook(ctx context.Context) {
	m, ok := x.proc.(DiskMeter)
	if !ok || x.diskLimit() <= 0 || x.reason.Load() != noReason {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, diskLastLook)
	defer cancel()
	if x.lookAtDisk(ctx, m) {
		x.reason.CompareAndSwap(noReason, diskLimit)
	}
}

// tellDisk puts into the result what was found out about the workspace's size.
func (x *execution) tellDisk(res *Result) {
	if res.Class == run.ClassDiskLimit {
		res.DiskUse, res.DiskLimit = x.diskUse, x.diskLimit()
		res.Warnings = append(res.Warnings, "the workspace was over its disk limit: "+res.DiskWords())
	}
	if x.diskErr != nil {
		res.Warnings = append(res.Warnings, fmt.Sprintf("the size of the workspace could not be watched all the time: %v", x.diskErr))
	}
}

// DiskWords says how much the workspace held and how much it may hold.
func (r Result) DiskWords() string {
	return DiskWords(r.DiskUse, r.DiskLimit)
}

// DiskWords says that a workspace is over its limit.
func DiskWords(use, limit int64) string {
	// Rounded up, so that it does not look as if it were within.
	return fmt.Sprintf("%.1f MiB were counted, and sandbox.diskMiB is %d", math.Ceil(float64(use)/(1<<20)*10)/10, limit>>20)
}
