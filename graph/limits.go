package graph

import (
	"context"
	"fmt"
	"time"

	gqlcomplexity "github.com/99designs/gqlgen/complexity"
	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/weirhq/weir/graph/generated"
	"github.com/weirhq/weir/graph/model"
	"github.com/weirhq/weir/runtime/run"
)

// The lengths that the complexity of a list without a length argument assumes.
const (
	assumedRows    = 10
	assumedSeries  = 4
	assumedRollups = 1000
)

// maxSelections bounds the selections of one operation.
const maxSelections = 5_000

const tooManySelections = "the operation selects over %d fields, fragments counted wherever they are spread; ask in several operations"

// limit refuses operations that are too deep or may yield too much, before
// they run. It reads fragments as often as they are used.
type limit struct {
	schema     graphql.ExecutableSchema
	depth      int
	complexity int
}

var (
	_ graphql.HandlerExtension        = (*limit)(nil)
	_ graphql.OperationContextMutator = (*limit)(nil)
)

// ExtensionName implements graphql.HandlerExtension.
func (*limit) ExtensionName() string { return "Limit" }

// Validate implements graphql.HandlerExtension.
func (*limit) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationContext implements graphql.OperationContextMutator.
func (l *limit) MutateOperationContext(ctx context.Context, op *graphql.OperationContext) *gqlerror.Error {
	w := walker{max: l.depth}
	w.walk(op.Operation.SelectionSet, 1)
	if w.visited > maxSelections {
		return refuse(tooManySelections, maxSelections)
	}
	if w.deepest > l.depth {
		return refuse("the operation nests %d levels deep; at most %d are allowed: ask in several operations", w.deepest, l.depth)
	}
	if c := gqlcomplexity.Calculate(ctx, l.schema, op.Operation, op.Variables); c > l.complexity {
		return refuse("the operation may yield %d fields; at most %d are allowed: ask for fewer rows (first, last, maxPoints) or fewer fields", c, l.complexity)
	}
	return oneStream(op)
}

// oneStream refuses a subscription that does not come down to one stream once
// its aliases, @skip and @include are applied.
func oneStream(op *graphql.OperationContext) *gqlerror.Error {
	if op.Operation.Operation != ast.Subscription {
		return nil
	}
	fields := graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Subscription"})
	switch len(fields) {
	case 1:
		return nil
	case 0:
		return refuse("the subscription selects nothing, since @skip or @include leave everything out; a subscription selects exactly one field")
	}
	return refuse("the subscription selects %d fields, %s and %s among them; a subscription selects exactly one: open one for each",
		len(fields), fields[0].Alias, fields[1].Alias)
}

func refuse(format string, args ...any) *gqlerror.Error {
	return &gqlerror.Error{Message: fmt.Sprintf(format, args...), Extensions: map[string]any{"code": string(run.Invalid)}}
}

// walker measures an operation. It reads fragments wherever they are spread,
// and gives up after maxSelections: fragments that spread others twice would
// take exponential time, here and in the complexity calculation.
type walker struct {
	max     int
	visited int
	deepest int
}

// walk measures a selection whose fields lie at depth. Introspection, which
// nests deeper than data does, has depth 0: the validation bounds it by itself.
func (w *walker) walk(set ast.SelectionSet, depth int) {
	if depth > w.max+1 {
		return // refused anyway
	}
	for _, s := range set {
		if w.visited++; w.visited > maxSelections {
			return
		}
		switch s := s.(type) {
		case *ast.Field:
			below := depth + 1
			if depth == 0 || s.Name == "__schema" || s.Name == "__type" {
				below = 0
			}
			w.deepest = max(w.deepest, depth)
			w.walk(s.SelectionSet, below)
		case *ast.InlineFragment:
			w.walk(s.SelectionSet, depth)
		case *ast.FragmentSpread:
			w.walk(s.Definition.SelectionSet, depth)
		}
	}
}

// complexity counts the fields that an operation may yield: a list counts its
// longest length times what one element asks for.
func complexity() generated.ComplexityRoot {
	var c generated.ComplexityRoot
	rows := func(child int, first *int) int { return times(child, length(first, defaultRows, maxRows)) }

	c.Query.Sessions = func(child int, first *int, _ *string, _ *model.SessionFilter) int { return rows(child, first) }
	c.Query.Runs = func(child int, first *int, _ *string, _ *model.RunFilter) int { return rows(child, first) }
	c.Session.Runs = func(child int, first *int, _ *string) int { return rows(child, first) }
	c.Query.Events = func(child int, _ string, _, _ *int64, first, last *int, _ []model.EventType, _ *string) int {
		if last != nil {
			first = last
		}
		return times(child, length(first, defaultEvents, maxEvents))
	}
	c.Query.UsageRollups = func(child int, _, _ time.Time, by []model.UsageDimension, _ *model.UsageFilter) int {
		return times(child, rollups(by))
	}
	c.Run.UsageRecords = func(child int, first *int, _ *string) int {
		return times(child, length(first, defaultRecords, maxRecords))
	}
	c.Run.Snapshots = func(child int, first *int, _ *time.Time) int {
		return times(child, length(first, defaultRecords, maxRecords))
	}
	c.Query.Agents = func(child int) int { return times(child, assumedRows) }
	c.Query.Budgets = func(child int) int { return times(child, assumedRows) }
	c.Query.Models = func(child int) int { return times(child, assumedRows) }
	c.Query.CompareMetrics = func(child int, ids, names []string, points *int) int {
		return times(times(child, len(ids)), series(names)*buckets(points))
	}
	c.Run.Metrics = func(child int, names []string, points *int, _, _ *int64) int {
		return times(child, series(names)*buckets(points))
	}
	c.Run.Children = func(child int) int { return times(child, assumedRows) }
	c.Run.Executions = func(child int) int { return times(child, assumedRows) }
	c.Run.Artifacts = func(child int) int { return times(child, assumedRows) }
	c.Run.Questions = func(child int) int { return times(child, assumedRows) }
	return c
}

func length(n *int, standard, most int) int {
	if n == nil {
		return standard
	}
	return min(max(*n, 1), most)
}

func series(names []string) int {
	if len(names) == 0 {
		return assumedSeries
	}
	return min(len(names), maxNames)
}

// rollups is how many rows a report may have.
func rollups(by []model.UsageDimension) int {
	if len(by) == 0 {
		return 1
	}
	return assumedRollups
}

func buckets(points *int) int { return length(points, defaultPoints, maxPointsAsked) }

// times saturates: nested lists multiply far beyond what an int holds.
func times(child, n int) int {
	const most = 1 << 40
	return 1 + min(child, most)*min(n, 1<<20)
}
