package graph

import (
	"context"

	"github.com/weirhq/weir/graph/model"
	"github.com/weirhq/weir/runtime/run"
)

func (r queryResolver) Session(ctx context.Context, id string) (*model.Session, error) {
	sid, err := sessionID(id)
	if err != nil {
		return nil, err
	}
	s, err := r.Reader.Session(ctx, sid)
	if err != nil {
		return nil, err
	}
	return toSession(s), nil
}

func (r queryResolver) Sessions(ctx context.Context, first *int, after *string, filter *model.SessionFilter) (*model.SessionConnection, error) {
	page, err := pageQuery("ses", first, after)
	if err != nil {
		return nil, err
	}
	f, err := sessionFilter(filter)
	if err != nil {
		return nil, err
	}
	p, err := r.Reader.Sessions(ctx, f, page)
	if err != nil {
		return nil, err
	}
	return &model.SessionConnection{Nodes: each(p.Nodes, toSession), EndCursor: text(p.End), HasMore: p.HasMore}, nil
}

func (r queryResolver) Run(ctx context.Context, id string) (*model.Run, error) {
	rid, err := runID(id)
	if err != nil {
		return nil, err
	}
	return r.load(ctx, rid)
}

func (r *resolver) load(ctx context.Context, id run.ID) (*model.Run, error) {
	v, err := r.Reader.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	return toRun(v), nil
}

func (r queryResolver) Runs(ctx context.Context, first *int, after *string, filter *model.RunFilter) (*model.RunConnection, error) {
	f, err := runFilter(filter)
	if err != nil {
		return nil, err
	}
	return r.page(ctx, f, first, after)
}

func (r *resolver) page(ctx context.Context, f run.RunFilter, first *int, after *string) (*model.RunConnection, error) {
	page, err := pageQuery("run", first, after)
	if err != nil {
		return nil, err
	}
	p, err := r.Reader.Runs(ctx, f, page)
	if err != nil {
		return nil, err
	}
	return &model.RunConnection{Nodes: each(p.Nodes, toRun), EndCursor: text(p.End), HasMore: p.HasMore}, nil
}

func (r queryResolver) Events(
	ctx context.Context, session string, after, before *int64, first, last *int, types []model.EventType, runID *string,
) (*model.EventPage, error) {
	q, err := eventQuery(session, after, before, first, last, types, runID)
	if err != nil {
		return nil, err
	}
	p, err := r.Reader.Events(ctx, q)
	if err != nil {
		return nil, err
	}
	return &model.EventPage{Nodes: toEvents(p.Events), LastSeq: p.LastSeq, HasMore: p.HasMore}, nil
}

func (r queryResolver) Agents(ctx context.Context) ([]*model.Agent, error) {
	return each(r.Options.Agents.Agents(ctx), toAgent), nil
}

func (r queryResolver) Models(ctx context.Context) ([]*model.Model, error) {
	return each(r.Options.Server.Models(ctx), toModel), nil
}

func (r queryResolver) CompareMetrics(ctx context.Context, ids []string, names []string, maxPoints *int) ([]*model.MetricSeries, error) {
	q, err := metricQuery(names, maxPoints, nil, nil)
	if err != nil {
		return nil, err
	}
	runs, err := runIDs("runIds", ids, maxCompared)
	if err != nil {
		return nil, err
	}
	series := []*model.MetricSeries{}
	for _, id := range runs {
		s, err := r.Reader.Metrics(ctx, id, q)
		if err != nil {
			return nil, err
		}
		series = append(series, each(s, toSeries)...)
	}
	return series, nil
}

func (r queryResolver) Server(ctx context.Context) (*model.ServerInfo, error) {
	return toServer(r.Options.Server.Info(ctx)), nil
}
