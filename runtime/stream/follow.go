package stream

import (
	"context"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// stall bounds the wait of a follower that knows of events which the store
// does not show yet.
const stall = 50 * time.Millisecond

// Follow hands the session's events after the cursor to send, in batches of at
// least one, in order and once each: history first, then live. A cursor beyond
// the end waits until the log gets there. It returns when ctx ends, send fails,
// or the session is unknown or was deleted; send must not keep or change the slice's events.
func (s *Stream) Follow(
	ctx context.Context, session run.SessionID, after int64, filter run.EventFilter, send func([]*run.Event) error,
) error {
	f := s.join(session) // before the first look at the store: nothing can be missed
	defer s.leave(f)
	cur := max(after, 0)
	for first := true; ; first = false {
		l := f.look(cur, filter)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case l.gone:
			return run.Errorf(run.NotFound, "the session %s was deleted; nothing more comes", session)
		case l.behind, first && l.changed != nil:
			next, err := s.page(ctx, f, cur, filter, send)
			if err != nil {
				return err
			}
			if next == cur && l.behind {
				if err := pause(ctx, stall); err != nil {
					return err
				}
			}
			cur = next
		case l.changed != nil:
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-l.changed:
			}
		default:
			if len(l.events) > 0 {
				if err := send(l.events); err != nil {
					return err
				}
			}
			cur = l.cur
		}
	}
}

// page sends one page of the store and gives the last seq examined.
func (s *Stream) page(
	ctx context.Context, f *feed, cur int64, filter run.EventFilter, send func([]*run.Event) error,
) (int64, error) {
	page, err := read(ctx, s, func(ctx context.Context) (run.EventPage, error) {
		return s.source.Events(ctx, run.EventQuery{Session: f.session, After: cur, First: s.opts.PageEvents, Filter: filter})
	})
	if err != nil {
		return cur, err
	}
	f.learn(page.LastSeq)
	for events := page.Events; len(events) > 0; {
		n, bytes := 0, 0
		for n < len(events) && n < s.opts.SendEvents {
			if bytes += weight(events[n]); n > 0 && bytes > s.opts.SendBytes {
				break
			}
			n++
		}
		if err := send(events[:n:n]); err != nil {
			return cur, err
		}
		cur = max(cur, events[n-1].Seq)
		events = events[n:]
	}
	return max(cur, page.Scanned), nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
