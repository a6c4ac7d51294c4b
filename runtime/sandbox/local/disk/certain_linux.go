package disk

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// A program that notices where a look is can move files from before it to
// behind it. Each such move changes a folder while the look is under way. A
// disturbed look is followed by a certain one, in which the program stands still:
// at once if the file system has lost so much that the workspace can be over its
// limit, and now and then whatever others write and free.
const (
	// holdShare is how many times as long as a certain look took the program
	// then goes on at least.
	holdShare = 10
	// patienceLeast is after how many disturbed looks in a row a certain one is
	// due. Each that finds nothing doubles that, up to patienceMost.
	patienceLeast, patienceMost = 4, 64
	// patienceEnd bounds how long looks are disturbed without a certain one.
	patienceEnd = time.Minute
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

// patience tells when a certain look is due.
type patience struct {
	moved int       // disturbed looks in a row since the last certain one
	wait  int       // after how many of them a certain one is due; 0: patienceLeast
	rest  time.Time // no certain look before
	end   time.Time // after it the next disturbed look is followed by a certain one
}

// due hears of a look, and whether the file system has lost so much that the
// workspace can be over its limit.
func (p *patience) due(disturbed, lost bool, now time.Time) bool {
	if !disturbed {
		*p = patience{rest: p.rest}
		return false
	}
	if p.moved++; p.end.IsZero() {
		p.end = now.Add(patienceEnd)
	}
	return !now.Before(p.rest) && (lost || p.moved >= max(p.wait, patienceLeast) || !now.Before(p.end))
}

// looked hears of a certain look, and whether it has found more than the limit.
func (p *patience) looked(began, ended time.Time, found bool) {
	wait := min(2*max(p.wait, patienceLeast), patienceMost)
	if found {
		wait = patienceLeast
	}
	*p = patience{wait: wait, rest: ended.Add(holdShare * ended.Sub(began)), end: ended.Add(patienceEnd)}
}

// lost tells whether the file system has lost so much that the workspace can be
// over its limit. Others write to it and free some too: this is no verdict.
func (m *Meter) lost(limit int64) bool {
	free := m.disks.freeBytes(m.workspace)
	m.most = max(m.most, free)
	return free > 0 && m.most-free > limit-m.start
}

// certain looks while the processes stand still, and lets them go on in any case.
// It gives no more than 0 if they are to be stopped for good meanwhile.
func (m *Meter) certain(ctx context.Context, limit, known int64, h *Hold) (bytes int64, err error) {
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	m.holding(cancel)
	defer func() {
		h.resume()
		m.holding(nil)
		cancel(nil)
		m.patience.looked(began, time.Now(), bytes > limit)
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
		g.bytes = max(g.bytes, m.base+m.free-m.disks.freeBytes(m.workspace))
	}
	return g.bytes, nil
}

// holding remembers how to end the certain look that is under way.
func (m *Meter) holding(end context.CancelCauseFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end = end
}

// Release ends a certain look soon: a command that was asked to stop has its
// grace for that.
func (m *Meter) Release() {
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
