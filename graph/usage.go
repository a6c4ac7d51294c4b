package graph

import (
	"context"
	"time"

	"github.com/weirhq/weir/graph/model"
	"github.com/weirhq/weir/runtime/run"
)

func (r queryResolver) UsageRollups(
	ctx context.Context, from, to time.Time, groupBy []model.UsageDimension, filter *model.UsageFilter,
) ([]*model.UsageRollup, error) {
	q, err := rollupQuery(from, to, groupBy, filter)
	if err != nil {
		return nil, err
	}
	rows, err := r.Reader.GroupRollups(ctx, q)
	if err != nil {
		return nil, err
	}
	return each(rows, func(u run.UsageRollup) *model.UsageRollup { return toRollup(u, q.GroupBy) }), nil
}

func (r subscriptionResolver) Usage(ctx context.Context) (<-chan *model.UsageTotals, error) {
	return pipe(ctx, &r.feeds, func(send func(*model.UsageTotals) error) error {
		return r.Feed.FollowUsage(ctx, func(n run.UsageTotals) error { return send(toTotals(n)) })
	}), nil
}

// Usage is of the session's runs, which outlive it.
func (r sessionResolver) Usage(ctx context.Context, obj *model.Session) (*model.Usage, error) {
	u, err := r.Reader.SessionUsage(ctx, run.SessionID(obj.ID))
	if err != nil {
		return nil, err
	}
	return toUsage(u), nil
}

func (r runResolver) UsageRecords(ctx context.Context, obj *model.Run, first *int, after *string) ([]*model.UsageRecord, error) {
	n, err := count("first", first, defaultRecords, maxRecords)
	if err != nil {
		return nil, err
	}
	if err := plain("after", value(after)); err != nil {
		return nil, err
	}
	list, err := r.Reader.RecordPage(ctx, run.RecordQuery{Run: run.ID(obj.ID), After: value(after), First: n})
	if err != nil {
		return nil, err
	}
	return each(list, toRecord), nil
}

func (r runResolver) Snapshots(ctx context.Context, obj *model.Run, first *int, after *time.Time) ([]*model.UsageSnapshot, error) {
	n, err := count("first", first, defaultRecords, maxRecords)
	if err != nil {
		return nil, err
	}
	list, err := r.Reader.Snapshots(ctx, run.SnapshotQuery{Run: run.ID(obj.ID), After: value(after), First: n})
	if err != nil {
		return nil, err
	}
	return each(list, func(n run.UsageSnapshot) *model.UsageSnapshot {
		return &model.UsageSnapshot{At: n.At, Usage: toUsage(n.Usage)}
	}), nil
}

func rollupQuery(from, to time.Time, groupBy []model.UsageDimension, filter *model.UsageFilter) (run.RollupQuery, error) {
	q := run.RollupQuery{From: from, To: to}
	if from.After(to) {
		return q, run.Errorf(run.Invalid, "from is %s and to is %s; from must not be later", from.Format(time.DateOnly), to.Format(time.DateOnly))
	}
	if len(groupBy) > maxNames {
		return q, run.Errorf(run.Invalid, "groupBy has %d entries; there are only %d dimensions", len(groupBy), len(run.UsageDimensions()))
	}
	for _, d := range groupBy {
		q.GroupBy = append(q.GroupBy, run.UsageDimension(d))
	}
	if filter == nil {
		return q, nil
	}
	for _, f := range []struct {
		name string
		text *string
	}{
		{"agent", filter.Agent}, {"team", filter.Team}, {"model", filter.Model}, {"provider", filter.Provider}, {"backend", filter.Backend},
	} {
		if err := plain("filter."+f.name, value(f.text)); err != nil {
			return q, err
		}
	}
	q.Filter = run.RollupFilter{Agent: filter.Agent, Team: filter.Team, Model: filter.Model, Provider: filter.Provider, Backend: filter.Backend}
	return q, nil
}
