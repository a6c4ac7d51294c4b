package graph

import (
	"context"

	"github.com/weirhq/weir/graph/model"
	"github.com/weirhq/weir/runtime/run"
)

// Session gives the run's session. Runs outlive a deleted session; such a
// session shows with its id alone.
func (r runResolver) Session(ctx context.Context, obj *model.Run) (*model.Session, error) {
	s, err := r.Reader.Session(ctx, run.SessionID(obj.SessionID))
	if run.CodeOf(err) == run.NotFound {
		return &model.Session{ID: obj.SessionID, CreatedAt: obj.CreatedAt}, nil
	}
	if err != nil {
		return nil, err
	}
	return toSession(s), nil
}

func (r runResolver) Parent(ctx context.Context, obj *model.Run) (*model.Run, error) {
	if obj.ParentID == "" {
		return nil, nil
	}
	return r.load(ctx, run.ID(obj.ParentID))
}

func (r runResolver) Children(ctx context.Context, obj *model.Run) ([]*model.Run, error) {
	return list(ctx, obj, r.Reader.Children, toRun)
}

func (r runResolver) UsageInclusive(ctx context.Context, obj *model.Run) (*model.Usage, error) {
	u, err := r.Reader.InclusiveUsage(ctx, run.ID(obj.ID))
	if err != nil {
		return nil, err
	}
	return toUsage(u), nil
}

func (r runResolver) Executions(ctx context.Context, obj *model.Run) ([]*model.Execution, error) {
	live := r.Runs.Losses(run.ID(obj.ID)) // before the rows: see there
	return list(ctx, obj, r.Reader.Executions, func(e run.Execution) *model.Execution {
		if loss, ok := live[e.ID]; ok && e.EndedAt.IsZero() {
			e.Loss = loss
		}
		out := toExecution(e)
		out.SessionID = obj.SessionID
		return out
	})
}

// Outputs looks into the data folder.
func (r executionResolver) Outputs(_ context.Context, obj *model.Execution) ([]*model.ExecutionOutput, error) {
	id := run.ExecutionID(obj.ID)
	kept, err := r.Runs.Outputs(run.SessionID(obj.SessionID), id)
	if err != nil {
		return nil, err
	}
	return each(kept, func(o run.Output) *model.ExecutionOutput { return toOutput(id, o) }), nil
}

func (r runResolver) Artifacts(ctx context.Context, obj *model.Run) ([]*model.Artifact, error) {
	return list(ctx, obj, r.Reader.Artifacts, toArtifact)
}

func (r runResolver) Questions(ctx context.Context, obj *model.Run) ([]*model.Question, error) {
	return list(ctx, obj, r.Reader.Questions, toQuestion)
}

func list[F, T any](ctx context.Context, obj *model.Run, read func(context.Context, run.ID) ([]F, error), convert func(F) T) ([]T, error) {
	from, err := read(ctx, run.ID(obj.ID))
	if err != nil {
		return nil, err
	}
	return each(from, convert), nil
}

func (r runResolver) Metrics(ctx context.Context, obj *model.Run, names []string, maxPoints *int, from, to *int64) ([]*model.MetricSeries, error) {
	q, err := metricQuery(names, maxPoints, from, to)
	if err != nil {
		return nil, err
	}
	s, err := r.Reader.Metrics(ctx, run.ID(obj.ID), q)
	if err != nil {
		return nil, err
	}
	return each(s, toSeries), nil
}

func (r sessionResolver) ActiveRun(ctx context.Context, obj *model.Session) (*model.Run, error) {
	if obj.ActiveRunID == "" {
		return nil, nil
	}
	return r.load(ctx, run.ID(obj.ActiveRunID))
}

func (r sessionResolver) Runs(ctx context.Context, obj *model.Session, first *int, after *string) (*model.RunConnection, error) {
	return r.page(ctx, run.RunFilter{Session: run.SessionID(obj.ID)}, first, after)
}
