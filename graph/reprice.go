package graph

import (
	"context"

	"github.com/weirhq/weir/graph/model"
	"github.com/weirhq/weir/runtime/run"
)

func (r mutationResolver) RepriceUsage(ctx context.Context, input model.RepriceUsageInput) (*model.UsageRepricing, error) {
	for name, text := range map[string]*string{"model": input.Model, "provider": input.Provider, "by": input.By} {
		if err := plain(name, value(text)); err != nil {
			return nil, err
		}
	}
	apply := value(input.Apply)
	lines, err := r.Runs.Reprice(ctx, run.Reprice{
		Filter: run.RepriceFilter{From: value(input.From), To: value(input.To), Model: value(input.Model), Provider: value(input.Provider), OnlyUnpriced: value(input.OnlyUnpriced)},
		DryRun: !apply, Who: value(input.By),
	})
	if err != nil {
		return nil, err
	}
	return &model.UsageRepricing{Applied: apply, Lines: each(lines, toRepricingLine)}, nil
}

func toRepricingLine(l run.RepriceLine) *model.UsageRepricingLine {
	return &model.UsageRepricingLine{
		Day: l.Day, Model: l.Model, Records: l.Records, Changed: l.Changed, OldNanoUsd: l.OldNanoUSD, NewNanoUsd: l.NewNanoUSD,
		OldUnpriced: l.OldUnknown, NewUnpriced: l.NewUnknown,
	}
}
