package graph

import (
	"context"

	"github.com/weirhq/weir/graph/model"
	"github.com/weirhq/weir/runtime/run"
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
	return pipe(ctx, &r.feeds, func(send func([]model.Event) error) error {
		return r.Feed.Follow(ctx, q.Session, q.After, q.Filter, func(events []*run.Event) error {
			return send(toEvents(events))
		})
	}), nil
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
