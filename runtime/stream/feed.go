package stream

import (
	"sync"

	"github.com/weirhq/weir/runtime/run"
)

// feed is the live end of one followed session: its most recent events,
// consecutive and bounded, and the last seq known to be committed.
type feed struct {
	session   run.SessionID
	followers int // guarded by Stream.mu

	maxEvents, maxBytes   int
	sendEvents, sendBytes int

	mu    sync.Mutex
	ring  []*run.Event  // consecutive seqs up to ring's last
	head  int           // ring[head:] is valid
	bytes int           // of ring[head:]
	tail  int64         // last seq known to be committed; 0 before anything is known
	wake  chan struct{} // closed when tail moves or the session goes; nil while nobody waits
	gone  bool          // the session was deleted
}

func newFeed(id run.SessionID, o Options) *feed {
	return &feed{
		session: id, maxEvents: o.RingEvents, maxBytes: o.RingBytes,
		sendEvents: o.SendEvents, sendBytes: o.SendBytes,
	}
}

// weight is what an event counts against the byte bounds.
func weight(e *run.Event) int { return len(e.Body) + 128 }

// publish appends committed events. A hole before them (another process wrote
// there) empties the ring: what lies before it is read from the store.
func (f *feed) publish(events []*run.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range events {
		if live := f.ring[f.head:]; len(live) > 0 {
			last := live[len(live)-1].Seq
			if e.Seq <= last {
				continue // known, or older than what is kept
			}
			if e.Seq != last+1 {
				f.reset()
			}
		} else if e.Seq <= f.tail {
			continue // a late word about events that are in the store for long
		}
		f.ring = append(f.ring, e)
		f.bytes += weight(e)
	}
	f.trim()
	if n := len(events); n > 0 {
		f.advance(events[n-1].Seq)
	}
}

// learn takes note that the log reaches seq.
func (f *feed) learn(seq int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance(seq)
}

func (f *feed) advance(seq int64) {
	if seq <= f.tail {
		return
	}
	f.tail = seq
	f.stir()
}

// stir wakes who waits.
func (f *feed) stir() {
	if f.wake != nil {
		close(f.wake)
		f.wake = nil
	}
}

// end takes note that the session was deleted.
func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = true
	f.stir()
}

func (f *feed) reset() {
	clear(f.ring)
	f.ring, f.head, f.bytes = f.ring[:0], 0, 0
}

// trim keeps the bounds; the newest event always stays.
func (f *feed) trim() {
	for n := len(f.ring) - f.head; n > 1 && (n > f.maxEvents || f.bytes > f.maxBytes); n-- {
		f.bytes -= weight(f.ring[f.head])
		f.ring[f.head] = nil
		f.head++
	}
	if f.head > f.maxEvents {
		n := copy(f.ring, f.ring[f.head:])
		clear(f.ring[n:])
		f.ring, f.head = f.ring[:n], 0
	}
}

// look is what a follower at a cursor finds.
type look struct {
	events  []*run.Event    // what to send; may be empty though cur moved
	cur     int64           // the last seq examined
	behind  bool            // the store has to be read
	gone    bool            // the session was deleted: there will be nothing more
	changed <-chan struct{} // nothing is there: closed when something is
}

// look examines what comes after cur. The wake channel is taken under the same
// lock, so nothing can slip in between.
func (f *feed) look(cur int64, filter run.EventFilter) look {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return look{gone: true}
	}
	live := f.ring[f.head:]
	if len(live) > 0 && live[0].Seq <= cur+1 && cur < live[len(live)-1].Seq {
		l := look{cur: cur}
		bytes := 0
		for _, e := range live[cur+1-live[0].Seq:] {
			if filter.Match(e) {
				w := weight(e)
				if n := len(l.events); n > 0 && (n >= f.sendEvents || bytes+w > f.sendBytes) {
					break
				}
				l.events = append(l.events, e)
				bytes += w
			}
			l.cur = e.Seq
		}
		return l
	}
	if f.tail > cur {
		return look{cur: cur, behind: true}
	}
	if f.wake == nil {
		f.wake = make(chan struct{})
	}
	return look{cur: cur, changed: f.wake}
}
