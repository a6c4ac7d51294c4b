package local

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// A program that notices where a look is can move files from before it to
// behind it. Each such move changes a folder while the look is under way. If the
// workspace can be over its limit at all, because the file system has lost as
// much, a disturbed look is followed by a certain one, in which the program
// stands still.
const (
	// holdShare is how many times as long as a certain look took the program
	// then goes on at least.
	holdShare = 10
	// unheldLooks is how many certain looks in a row something must have moved in
	// until the free space of the file system decides.
	unheldLooks = 5
	// tickWait bounds how long the kernel's coarse clock may take to go on.
	tickWait = 100 * time.Millisecond
)

var errReleased = errors.New("the command is to be stopped")

// watched tells which changes can hide something from a look, by file system.
type watched int

const (
	folders  watched = iota // what is in a file stays in it
	files                   // a file can be given what another has, without a copy
	anything                // its times may be those of another clock, or coarse: every look counts as disturbed
)

func watchedOn(path string) watched {
	var fs unix.Statfs_t
	var st unix.Stat_t
	if unix.Statfs(path, &fs) != nil || unix.Lstat(path, &st) != nil || st.Ctim.Nsec == 0 { // times in seconds
		return anything
	}
	switch fs.Type {
	case unix.EXT4_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return folders
	case unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC:
		return files
	}
	return anything
}

// mayHide tells whether a disturbed look can have missed that the workspace is
// over its limit. Others write to the file system too: this is no verdict.
func (m *meter) mayHide(limit int64) bool {
	free := freeBytes(m.workspace)
	m.most = max(m.most, free)
	return free > 0 && m.most-free > limit-m.start && !time.Now().Before(m.rest)
}

// certain looks while the processes stand still, and lets them go on in any case.
// It gives no more than 0 if they are to be stopped for good meanwhile.
func (m *meter) certain(ctx context.Context, limit, known int64, h *hold) (int64, error) {
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	m.holding(cancel)
	defer func() {
		h.resume()
		m.holding(nil)
		cancel(nil)
		m.rest = time.Now().Add(holdShare * time.Since(began))
	}()
	still := h.stop(ctx)
	nextTick()
	g, disturbed, err := m.look(ctx, limit, known, h)
	switch {
	case errors.Is(context.Cause(ctx), errReleased):
		return 0, nil
	case err != nil:
		return 0, err
	}
	if m.unheld++; still && (!disturbed || m.watched == anything) {
		m.unheld = 0
	}
	if m.unheld >= unheldLooks && m.free > 0 {
		g.bytes = max(g.bytes, m.base+m.free-freeBytes(m.workspace))
	}
	return g.bytes, nil
}

// holding remembers how to end the certain look that is under way.
func (m *meter) holding(end context.CancelCauseFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end = end
}

// release ends a certain look soon: a command that was asked to stop has its
// grace for that.
func (m *meter) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.end != nil {
		m.end(errReleased)
	}
}

// coarse gives the time in nanoseconds of the clock from which the kernel takes
// the times of files. It never goes ahead of the exact one.
func coarse() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &t) != nil {
		return time.Now().UnixNano()
	}
	return t.Nano()
}

// nextTick waits until what happens gets a later time than what has happened.
func nextTick() {
	began := time.Now()
	for coarse() <= began.UnixNano() && time.Since(began) < tickWait {
		<-time.After(holdPoll)
	}
}
