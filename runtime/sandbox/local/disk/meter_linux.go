package disk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local/tree"
)

const (
	// EntryBytes is what each name counts at least, so that a limit of bytes is
	// one of files as well.
	EntryBytes = 4 << 10
	// maxLinked bounds how many files with several names are remembered, to be
	// counted once; beyond it each name counts in full.
	maxLinked = 1 << 18
	// blindLooks is how many looks in a row something must have been hidden until
	// the free space of the file system decides. Descriptors on their way from one
	// process to another are hidden for a moment, and space is lost to others, too.
	blindLooks = 10
	// unknownShare is the part of the limit that a file or folder counts whose size
	// the server may not ask for.
	unknownShare = 64
)

// errEnough ends a walk that has found more than the limit.
var errEnough = errors.New("over the limit")

type fileID struct{ dev, ino uint64 }

// Meters measures workspaces, each by one walk at a time: several executions may
// share one.
type Meters struct {
	free func(path string) int64 // nil: freeBytes

	mu   sync.Mutex
	busy map[string]*turn
}

type turn struct {
	one   chan struct{} // holds something while somebody measures
	users int
}

// take waits for the turn to measure a workspace; give gives it back.
func (d *Meters) take(ctx context.Context, workspace string) (give func(), err error) {
	d.mu.Lock()
	t := d.busy[workspace]
	if t == nil {
		t = &turn{one: make(chan struct{}, 1)}
		if d.busy == nil {
			d.busy = make(map[string]*turn)
		}
		d.busy[workspace] = t
	}
	t.users++
	d.mu.Unlock()
	leave := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(d.busy, workspace)
		}
	}
	select {
	case t.one <- struct{}{}:
		return func() { <-t.one; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// Meter measures the workspace of one execution.
type Meter struct {
	disks     *Meters
	workspace string
	watched   watched
	base      int64 // bytes that do not count: they were the user's before
	start     int64 // bytes that were in use when the execution started
	free      int64 // bytes of the file system when the execution started
	most      int64 // the most free bytes that were seen
	blind     int   // looks in a row that something was hidden from
	unheld    int   // certain looks in a row that something moved in
	patience  patience

	mu  sync.Mutex
	end context.CancelCauseFunc // ends a certain look; nil: there is none
}

// gauge is one measurement.
type gauge struct {
	limit, bytes int64
	unknown      int64 // what something counts whose size the server may not ask for
	linked       map[fileID]struct{}
	blind        bool // something was hidden
	pinned       bool // a call under way may keep something
}

func (g *gauge) add(st *unix.Stat_t) error {
	n := max(st.Blocks*512, EntryBytes)
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		id := fileID{st.Dev, st.Ino}
		if _, again := g.linked[id]; again {
			n = EntryBytes
		} else if len(g.linked) < maxLinked {
			g.linked[id] = struct{}{}
		}
	}
	if g.bytes += n; g.bytes > g.limit {
		return errEnough
	}
	return nil
}

// Meter looks at a workspace before a command starts in it, and refuses one
// that is over its limit already.
func (d *Meters) Meter(ctx context.Context, spec sandbox.Spec) (*Meter, error) {
	m := &Meter{disks: d, workspace: spec.Workspace}
	if spec.Limits.DiskMiB <= 0 {
		return m, nil
	}
	m.free, m.watched = d.freeBytes(m.workspace), watchedOn(m.workspace)
	limit := spec.Limits.DiskMiB << 20
	most := limit
	if spec.Place != nil {
		most = math.MaxInt64
	}
	use, err := m.Use(ctx, most, 0, nil)
	if err != nil {
		return nil, fmt.Errorf("measuring the workspace: %w", err)
	}
	if spec.Place != nil {
		m.base, m.start, m.most = use, use, m.free
		return m, nil
	}
	if use > limit {
		return nil, run.Errorf(run.Invalid, "the workspace is over its disk limit before the command starts: %s; raise that, delete files of the workspace, or use a new session",
			sandbox.DiskWords(use, limit))
	}
	m.start, m.most = use, m.free
	return m, nil
}

// Use gives the bytes on disk of what the workspace holds and of what the
// execution's processes keep, and those that are known already. Every name counts
// 4 KiB at least, a file with several names is counted once. Counting ends over
// the limit. Without processes h is nil.
func (m *Meter) Use(ctx context.Context, limit, known int64, h *Hold) (int64, error) {
	give, err := m.disks.take(ctx, m.workspace)
	if err != nil {
		return 0, err
	}
	defer give()
	limit += m.base
	g, disturbed, err := m.look(ctx, limit, known, h)
	if err != nil {
		return 0, err
	}
	if m.blind++; !g.blind {
		m.blind = 0
	}
	// What hides can only be over the limit if the file system has lost as much.
	if m.blind >= blindLooks && m.free > 0 {
		g.bytes = max(g.bytes, m.base+m.free-m.disks.freeBytes(m.workspace))
	}
	if h == nil || g.bytes > limit || !m.patience.due(disturbed || g.pinned || m.watched == anything, m.lost(limit), time.Now()) {
		return max(g.bytes-m.base, 0), nil
	}
	certain, err := m.certain(ctx, limit, known, h)
	return max(max(g.bytes, certain)-m.base, 0), err
}

// look measures once. It tells whether something was changed meanwhile so that
// it may have missed it.
func (m *Meter) look(ctx context.Context, limit, known int64, h *Hold) (_ *gauge, disturbed bool, err error) {
	g := &gauge{limit: limit, bytes: known, unknown: (limit - m.base) / unknownShare, linked: map[fileID]struct{}{}}
	var top unix.Stat_t
	if err := unix.Lstat(m.workspace, &top); err != nil {
		return nil, false, fmt.Errorf("looking at the workspace: %w", err)
	}
	t := &tree.Walk{Ctx: ctx, Reopen: os.Geteuid() != 0, Since: coarse()}
	t.Visit = func(_ int, _ string, st *unix.Stat_t) error {
		if m.watched == files {
			t.Note(st)
		}
		return g.add(st)
	}
	err = g.add(&top)
	if err == nil {
		err = t.Below(m.workspace)
	}
	g.blind = t.Blind && h != nil
	if err == nil && h != nil {
		err = g.addHeld(ctx, m.workspace, &top, h)
	}
	if err != nil && !errors.Is(err, errEnough) {
		return nil, false, err
	}
	return g, t.Disturbed, nil
}

func (d *Meters) freeBytes(path string) int64 {
	if d.free != nil {
		return d.free(path)
	}
	return freeBytes(path)
}

// freeBytes gives what the file system of a path can still take; 0 when unknown.
func freeBytes(path string) int64 {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return 0
	}
	return int64(fs.Bfree) * fs.Bsize
}
