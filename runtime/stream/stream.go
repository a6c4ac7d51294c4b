// Package stream joins a session's kept history and its live end into one
// sequence, for any number of readers.
//
// Guarantees:
//   - Order: a follower gets the events after its cursor once each, in order,
//     whatever is committed meanwhile; history and live come from one loop, so
//     there is no hand-over between them and therefore no gap and no double.
//   - Only committed events are shown: Committed is called after the commit.
//   - Blocking: Committed never waits for a follower. A slow follower falls out
//     of the recent events and reads the store; it loses nothing and holds nobody.
//   - Cost: a session that nobody follows keeps nothing in memory.
//   - Closing: Follow, FollowRuns and FollowUsage return when their context ends or send
//     fails, Follow also when its session is deleted; they start no goroutine.
package stream

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// Source is the kept log. A page's Scanned must reach its last event, and
// LastSeq when nothing more is there, so that a reader always advances.
type Source interface {
	Events(ctx context.Context, q run.EventQuery) (run.EventPage, error)
	Session(ctx context.Context, id run.SessionID) (run.Session, error)
	Run(ctx context.Context, id run.ID) (run.Run, error)
	ActiveUsage(ctx context.Context) (run.UsageTotals, error)
}

// Options tune a Stream; zero fields take the defaults.
type Options struct {
	RingEvents int // recent events kept per followed session (4096)
	RingBytes  int // and their bytes (2 MiB)
	SendEvents int // events per send (256)
	SendBytes  int // and their bytes (256 KiB); one larger event is sent alone
	PageEvents int // events per page read from the store (256)
	Readers    int // concurrent reads of the store by all followers (16)
	// Poll is how often followed sessions are checked for events that another
	// process wrote; 0 when this process is the only writer. With it the usage is
	// read once a second.
	Poll   time.Duration
	Logger *slog.Logger // default: discards
}

func (o Options) withDefaults() Options {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&o.RingEvents, 4096)
	def(&o.RingBytes, 2<<20)
	def(&o.SendEvents, 256)
	def(&o.SendBytes, 256<<10)
	def(&o.PageEvents, 256)
	def(&o.Readers, 16)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Stream distributes what the store commits. It is safe for concurrent use.
type Stream struct {
	source Source
	opts   Options
	reads  chan struct{} // a slot per concurrent read of the store

	mu    sync.RWMutex
	feeds map[run.SessionID]*feed

	runs  runFeed
	usage usageFeed
}

// New makes a stream over the kept log. The caller hands it to the store as
// listener and, when Poll is set, lets Run work.
func New(source Source, opts Options) *Stream {
	opts = opts.withDefaults()
	return &Stream{
		source: source,
		opts:   opts,
		reads:  make(chan struct{}, opts.Readers),
		feeds:  map[run.SessionID]*feed{},
		runs:   newRunFeed(),
		usage:  newUsageFeed(),
	}
}

// Committed takes what one commit wrote: events, each session's in order, and
// the runs whose status or totals changed. It does not block.
func (s *Stream) Committed(events []*run.Event, changed []run.ID) {
	for len(events) > 0 {
		n := 1
		for n < len(events) && events[n].Session == events[0].Session {
			n++
		}
		s.mu.RLock()
		f := s.feeds[events[0].Session]
		s.mu.RUnlock()
		if f != nil {
			f.publish(events[:n])
		}
		events = events[n:]
	}
	s.runs.changed(changed)
	if len(changed) > 0 {
		s.usage.changed()
	}
}

// Deleted ends the followers of a session that was deleted. It does not block.
func (s *Stream) Deleted(session run.SessionID) {
	s.mu.RLock()
	f := s.feeds[session]
	s.mu.RUnlock()
	if f != nil {
		f.end()
	}
}

// Run watches for the events of other processes until ctx ends; without Poll
// it only waits.
func (s *Stream) Run(ctx context.Context) error {
	if s.opts.Poll <= 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(s.opts.Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.poll(ctx)
		}
	}
}

func (s *Stream) poll(ctx context.Context) {
	s.mu.RLock()
	feeds := make([]*feed, 0, len(s.feeds))
	for _, f := range s.feeds {
		feeds = append(feeds, f)
	}
	s.mu.RUnlock()
	for _, f := range feeds {
		ses, err := s.source.Session(ctx, f.session)
		if run.CodeOf(err) == run.NotFound {
			f.end() // another process deleted it
			continue
		}
		if err != nil {
			if ctx.Err() == nil {
				s.opts.Logger.Debug("polling a followed session", "session", f.session, "error", err)
			}
			continue
		}
		f.learn(ses.LastSeq)
	}
}

// join finds or makes the session's feed and counts the follower in.
func (s *Stream) join(id run.SessionID) *feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[id]
	if f == nil {
		f = newFeed(id, s.opts)
		s.feeds[id] = f
	}
	f.followers++
	return f
}

// leave counts the follower out; the last one takes the feed along.
func (s *Stream) leave(f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.followers--; f.followers == 0 {
		delete(s.feeds, f.session)
	}
}

// read runs one read of the store, at most opts.Readers at a time. While the
// store is unavailable it waits and tries again: the store's absence is no
// reason to cut a reader who can wait for its return.
func read[T any](ctx context.Context, s *Stream, get func(context.Context) (T, error)) (T, error) {
	const firstPause, longestPause = 100 * time.Millisecond, 2 * time.Second
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		v, err := readOnce(ctx, s, get)
		if err == nil || ctx.Err() != nil || run.CodeOf(err) != run.Unavailable {
			return v, err
		}
		s.opts.Logger.Debug("waiting for the store", "error", err)
		if err := pause(ctx, wait); err != nil {
			return v, err
		}
	}
}

func readOnce[T any](ctx context.Context, s *Stream, get func(context.Context) (T, error)) (T, error) {
	select {
	case s.reads <- struct{}{}:
		defer func() { <-s.reads }()
		return get(ctx)
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}
