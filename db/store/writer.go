package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"
	"golang.org/x/sync/semaphore"

	"github.com/weirhq/weir/runtime/run"
)

const (
	queueBytes  = 64 << 20 // what may wait for the database before callers are held back
	groupEvents = 512      // of one transaction
	groupBytes  = 4 << 20
	closeWait   = 10 * time.Second // for a database that is gone
	busyTries   = 3                // for a lock that another transaction holds
	foldEvery   = time.Second
	foldPoints  = 200_000 // unfolded points that do not wait for the second
)

// op is one change that waits for the writer.
type op struct {
	ctx   context.Context
	batch *prepared       // an Append, or
	logic func(*tx) error // a transaction of its own; may run several times
	size  int64
	state atomic.Int32
	done  chan error // capacity 1
}

// The states of an op: who takes it first decides.
const (
	opWaiting int32 = iota
	opTaken
	opLeft // its caller went away before it began
)

// writer is the goroutine that does all writing.
type writer struct {
	s   *Store
	ctx context.Context // ends when Close has waited long enough

	room *semaphore.Weighted

	mu       sync.Mutex
	queue    []*op
	closed   bool
	down     atomic.Bool
	failure  atomic.Pointer[error]
	wake     chan struct{} // capacity 1
	stop     chan struct{} // closed by Close
	stopped  chan struct{}
	giveUp   func()
	stopOnce sync.Once

	// Owned by the goroutine.
	conn      bun.Conn
	connected bool
	seriesIDs map[run.SeriesKey]int64
	attempts  map[run.ID]int
	prices    map[string]*run.Price // rows of the table prices
	folds     map[run.SessionID]*foldState
	foldTimer *time.Timer
	foldDue   bool
	purge     bool
}

func newWriter(s *Store) *writer {
	ctx, cancel := context.WithCancelCause(context.Background())
	w := &writer{
		s: s, ctx: ctx, giveUp: func() { cancel(errClosed) }, room: semaphore.NewWeighted(queueBytes),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
		seriesIDs: map[run.SeriesKey]int64{}, attempts: map[run.ID]int{}, prices: map[string]*run.Price{}, folds: map[run.SessionID]*foldState{},
	}
	if s.d.name() == sqliteName {
		// The driver watches a context that can end with a goroutine per statement.
		// Nothing on SQLite waits for long, so nothing needs it.
		w.ctx = context.Background()
	}
	return w
}

// start reads what a crash left to do and runs the goroutine.
func (w *writer) start(ctx context.Context) error {
	if err := w.leftovers(ctx); err != nil {
		return err
	}
	w.foldTimer = time.NewTimer(foldEvery)
	if len(w.folds) == 0 {
		w.foldTimer.Stop()
	} else {
		w.foldDue = true
	}
	go w.run()
	return nil
}

// close stops the goroutine after the queue is written.
func (w *writer) close() {
	w.stopOnce.Do(func() {
		w.mu.Lock()
		w.closed = true
		w.mu.Unlock()
		close(w.stop)
	})
	timer := time.AfterFunc(closeWait, w.giveUp)
	<-w.stopped
	timer.Stop()
	w.giveUp()
}

var errClosed = run.Errorf(run.Unavailable, "the server is shutting down; try again when it is back")

// do hands an op to the writer and waits for its end. When ctx ends first, an op
// that has not begun is dropped; one that has goes on without the caller.
func (w *writer) do(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o.ctx, o.done = ctx, make(chan error, 1)
	o.size = min(max(o.size, 1), queueBytes)
	if o.logic != nil && w.down.Load() {
		return unavailable(w.lastFailure())
	}
	if err := w.room.Acquire(ctx, o.size); err != nil {
		return err
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		w.room.Release(o.size)
		return errClosed
	}
	w.queue = append(w.queue, o)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		if o.state.CompareAndSwap(opWaiting, opLeft) {
			return ctx.Err()
		}
		select {
		case err := <-o.done: // it ended just now
			return err
		default:
			return ctx.Err()
		}
	}
}

// finish answers an op.
func (w *writer) finish(o *op, err error) {
	o.done <- err
	w.room.Release(o.size)
}

// take gives the next op, or several batches that share a transaction.
func (w *writer) take() []*op {
	w.mu.Lock()
	defer w.mu.Unlock()
	var group []*op
	var left []*op
	var events int
	var bytes int64
	n := 0
	for _, o := range w.queue {
		if o.logic != nil && len(group) > 0 {
			break
		}
		if len(group) > 0 && (events+o.batch.weight() > groupEvents || bytes+o.size > groupBytes) {
			break
		}
		n++
		if !o.state.CompareAndSwap(opWaiting, opTaken) {
			left = append(left, o)
			continue
		}
		group = append(group, o)
		if o.logic != nil {
			break
		}
		events += o.batch.weight()
		bytes += o.size
	}
	rest := copy(w.queue, w.queue[n:])
	clear(w.queue[rest:])
	w.queue = w.queue[:rest]
	for _, o := range left {
		w.room.Release(o.size)
	}
	return group
}

func (w *writer) run() {
	defer close(w.stopped)
	defer w.disconnect()
	for {
		ops := w.take()
		switch {
		case len(ops) == 0:
			if w.purge {
				w.purgeSome()
				continue
			}
			select {
			case <-w.wake:
			case <-w.foldTimer.C:
				w.foldNow()
			case <-w.stop:
				if ops := w.take(); len(ops) > 0 {
					w.write(ops)
					continue
				}
				w.foldNow()
				return
			}
			continue
		default:
			w.write(ops)
		}
		select {
		case <-w.foldTimer.C:
			w.foldNow()
		default:
		}
	}
}

func (w *writer) write(ops []*op) {
	if ops[0].logic != nil {
		w.writeLogic(ops[0])
		return
	}
	w.writeGroup(ops)
}

// writeLogic runs a transaction of its own. It tries a few times, since the
// first try may only find out that the server was restarted, and then gives the
// caller an answer.
func (w *writer) writeLogic(o *op) {
	for attempt := 0; ; attempt++ {
		t, err := w.transact(o.logic)
		if err == nil {
			w.s.publish(t.events, t.changed)
			w.finish(o, nil)
			return
		}
		// A key that another process took meanwhile is found by the second try.
		again := classify(err).retry() || (uniqueViolation(err) && attempt == 0)
		if !again || attempt >= 3 {
			if classify(err).retry() {
				w.fail(err)
				w.down.Store(false) // nothing waits for the database: the next change tries it again
				err = unavailable(err)
			}
			w.finish(o, err)
			return
		}
		w.s.stats.retries.Add(1)
		if attempt > 0 && !w.sleep(backoff(attempt)) {
			w.finish(o, errClosed)
			return
		}
	}
}

// pause is called when nothing can be written: it fails what need not wait for
// the database and sleeps. False means that the store was closed for good. A
// lock that is held elsewhere gets a few tries before it counts as that.
func (w *writer) pause(attempt int, err error) bool {
	w.s.stats.retries.Add(1)
	if classify(err) == classBusy && attempt < busyTries {
		return w.sleep(backoff(attempt))
	}
	w.fail(err)
	if !w.down.Swap(true) {
		w.s.log.Warn("the database cannot be written; retrying until it can", "error", err)
		w.s.outage(err)
	}
	w.mu.Lock()
	var logic []*op
	kept := w.queue[:0]
	for _, o := range w.queue {
		if o.logic != nil && o.state.CompareAndSwap(opWaiting, opTaken) {
			logic = append(logic, o)
			continue
		}
		kept = append(kept, o)
	}
	clear(w.queue[len(kept):])
	w.queue = kept
	w.mu.Unlock()
	for _, o := range logic {
		w.finish(o, unavailable(err))
	}
	return w.sleep(backoff(attempt))
}

// backoff grows from 50 ms to 2 s, less up to a half at random.
func backoff(attempt int) time.Duration {
	d := min(50*time.Millisecond<<min(attempt, 6), 2*time.Second)
	return d - rand.N(d/2)
}

func (w *writer) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.quit():
		return false
	}
}

// quit ends when Close has waited long enough; on SQLite when it begins.
func (w *writer) quit() <-chan struct{} {
	if w.s.d.name() == sqliteName {
		return w.stop
	}
	return w.ctx.Done()
}

func (w *writer) fail(err error) { w.failure.Store(&err) }

func (w *writer) lastFailure() error {
	if p := w.failure.Load(); p != nil {
		return *p
	}
	return errors.New("no answer yet")
}

func (w *writer) healthy() {
	if w.down.CompareAndSwap(true, false) {
		w.s.log.Info("the database can be written again")
		w.s.outage(nil)
	}
}
