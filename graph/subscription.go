package graph

import (
	"context"

	"github.com/weirhq/weir/graph/model"
	"github.com/weirhq/weir/runtime/run"
)

// The bounds of one message of the events subscription. A single event over
// the second bound goes alone.
const (
	batchEvents = 64
	batchBytes  = 256 << 10 // of event bodies
)

// Events refuses an unknown session before it streams anything.
func (r subscriptionResolver) Events(
	ctx context.Context, session string, after *int64, types []model.EventType, runID *string,
) (<-chan []model.Event, error) {
	q, err := eventQuery(session, after, nil, nil, nil, types, runID)
	if err != nil {
		return nil, err
	}
	if _, err := r.Reader.Session(ctx, q.Session); err != nil {
		return nil, err
	}
	at, _ := ctx.Value(cursorKey{}).(*cursor)
	if at != nil {
		q.After = max(q.After, at.after)
	}
	return pipe(ctx, &r.feeds, func(send func([]model.Event) error) error {
		return r.Feed.Follow(ctx, q.Session, q.After, q.Filter, func(events []*run.Event) error {
			for len(events) > 0 {
				n := batch(events)
				if at != nil {
					at.handOn(events[n-1].Seq)
				}
				if err := send(toEvents(events[:n])); err != nil {
					return err
				}
				events = events[n:]
			}
			return nil
		})
	}), nil
}

// batch tells how many of events make one message.
func batch(events []*run.Event) int {
	bytes := 0
	for i, e := range events {
		bytes += len(e.Body)
		if i > 0 && (i == batchEvents || bytes > batchBytes) {
			return i
		}
	}
	return len(events)
}

func (r subscriptionResolver) Runs(ctx context.Context, filter *model.RunFilter) (<-chan *model.Run, error) {
	f, err := runFilter(filter)
	if err != nil {
		return nil, err
	}
	return pipe(ctx, &r.feeds, func(send func(*model.Run) error) error {
		return r.Feed.FollowRuns(ctx, f, func(v run.Run) error { return send(toRun(v)) })
	}), nil
}
