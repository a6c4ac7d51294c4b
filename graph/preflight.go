package graph

import (
	"context"
	"strconv"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
)

// The bounds of a document before it is validated. The full introspection has
// about 100 selections.
const (
	maxTokens    = 5_000
	maxWritten   = 1_000  // selections, each fragment counted once
	maxPairs     = 10_000 // of selections for the same place of the answer; the validation compares each with each
	maxNameBytes = 100    // the validation compares an unknown name with all known ones
)

// preflight judges a document after it was parsed and before it is validated.
// It refuses what would take long to validate, and numbers that no variable
// could hold either: what comes later takes every literal for readable.
type preflight struct {
	valid graphql.Cache[*ast.QueryDocument] // these have been judged before
}

var (
	_ graphql.HandlerExtension          = preflight{}
	_ graphql.OperationParameterMutator = preflight{}
)

// ExtensionName implements graphql.HandlerExtension.
func (preflight) ExtensionName() string { return "Preflight" }

// Validate implements graphql.HandlerExtension.
func (preflight) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationParameters implements graphql.OperationParameterMutator.
func (p preflight) MutateOperationParameters(ctx context.Context, params *graphql.RawParams) *gqlerror.Error {
	if ctx.Err() != nil { // the client is gone: the presenter has the words
		return gqlerror.Wrap(context.Cause(ctx))
	}
	if _, ok := p.valid.Get(ctx, params.Query); ok {
		return nil
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: params.Query}, maxTokens)
	if err != nil && strings.Contains(err.Error(), "exceeded token limit") {
		return refuse("the document has over %d tokens; send long lists as variables, or ask in several requests", maxTokens)
	}
	if err != nil || doc == nil {
		return nil //nolint:nilerr // the executor says so in its own words
	}
	j := &judge{fragments: doc.Fragments, open: map[string]bool{}}
	for _, op := range doc.Operations {
		j.name(op.Name, op.Position)
		for _, v := range op.VariableDefinitions {
			j.name(v.Variable, v.Position)
			j.name(v.Type.Name(), v.Position)
			j.value("the default of $"+v.Variable, v.DefaultValue)
			j.directives(v.Directives)
		}
		j.directives(op.Directives)
		j.selections(op.SelectionSet)
	}
	for _, f := range doc.Fragments {
		j.name(f.Name, f.Position)
		j.name(f.TypeCondition, f.Position)
		j.directives(f.Directives)
		j.selections(f.SelectionSet)
	}
	for _, op := range doc.Operations {
		j.pair(op.SelectionSet, new(place))
	}
	return j.refusal
}

// judge walks a document and keeps the first refusal.
type judge struct {
	fragments ast.FragmentDefinitionList
	written   int
	spread    int             // selections, fragments counted wherever they are spread
	pairs     int             // of selections for the same place
	open      map[string]bool // fragments that are being spread, against cycles
	refusal   *gqlerror.Error
}

// place is a place of the answer: a response name below another.
type place struct {
	asked int // selections for it
	below map[string]*place
}

// pair counts how many pairs of selections want the same place.
func (j *judge) pair(set ast.SelectionSet, at *place) {
	for _, s := range set {
		if j.refusal != nil {
			return
		}
		if j.spread++; j.spread > maxSelections {
			j.refuse(s.GetPosition(), tooManySelections, maxSelections)
			return
		}
		switch s := s.(type) {
		case *ast.Field:
			p := at.below[s.Alias]
			if p == nil {
				p = new(place)
				if at.below == nil {
					at.below = map[string]*place{}
				}
				at.below[s.Alias] = p
			}
			j.pairs += p.asked
			p.asked++
			if j.pairs > maxPairs {
				j.refuse(s.Position, "the document selects the same fields over and over (%s is one); select a field once, or give each its own alias", s.Alias)
				return
			}
			j.pair(s.SelectionSet, p)
		case *ast.InlineFragment:
			j.pair(s.SelectionSet, at)
		case *ast.FragmentSpread:
			if f := j.fragments.ForName(s.Name); f != nil && !j.open[s.Name] {
				j.open[s.Name] = true
				j.pair(f.SelectionSet, at)
				delete(j.open, s.Name)
			}
		}
	}
}

func (j *judge) refuse(at *ast.Position, format string, args ...any) {
	if j.refusal != nil {
		return
	}
	j.refusal = refuse(format, args...)
	if at != nil {
		j.refusal.Locations = []gqlerror.Location{{Line: at.Line, Column: at.Column}}
	}
}

func (j *judge) name(name string, at *ast.Position) {
	if len(name) > maxNameBytes {
		j.refuse(at, "the name %q... has %d bytes; a name has at most %d", name[:30], len(name), maxNameBytes)
	}
}

func (j *judge) selections(set ast.SelectionSet) {
	for _, s := range set {
		if j.refusal != nil {
			return
		}
		if j.written++; j.written > maxWritten {
			j.refuse(s.GetPosition(), "the document has over %d selections; ask in several requests", maxWritten)
			return
		}
		switch s := s.(type) {
		case *ast.Field:
			j.name(s.Alias, s.Position)
			j.name(s.Name, s.Position)
			j.arguments(s.Arguments)
			j.directives(s.Directives)
			j.selections(s.SelectionSet)
		case *ast.InlineFragment:
			j.name(s.TypeCondition, s.Position)
			j.directives(s.Directives)
			j.selections(s.SelectionSet)
		case *ast.FragmentSpread:
			j.name(s.Name, s.Position)
			j.directives(s.Directives)
		}
	}
}

func (j *judge) directives(list ast.DirectiveList) {
	for _, d := range list {
		j.name(d.Name, d.Position)
		j.arguments(d.Arguments)
	}
}

func (j *judge) arguments(list ast.ArgumentList) {
	for _, a := range list {
		j.name(a.Name, a.Position)
		j.value(a.Name, a.Value)
	}
}

// value judges a literal; path is where it stands, for example input.labels.a.
func (j *judge) value(path string, v *ast.Value) {
	if v == nil {
		return
	}
	switch v.Kind {
	case ast.IntValue:
		if _, err := strconv.ParseInt(v.Raw, 10, 64); err != nil {
			j.refuse(v.Position, "%s is %s, which is out of range; an integer has 64 bits", path, short(v.Raw))
		}
	case ast.FloatValue:
		if _, err := strconv.ParseFloat(v.Raw, 64); err != nil {
			j.refuse(v.Position, "%s is %s, which is out of range; a number is finite and has 64 bits", path, short(v.Raw))
		}
	case ast.EnumValue, ast.Variable:
		j.name(v.Raw, v.Position)
	case ast.ListValue:
		for _, c := range v.Children {
			j.value(path, c.Value)
		}
	case ast.ObjectValue:
		for _, c := range v.Children {
			j.name(c.Name, c.Position)
			j.value(path+"."+c.Name, c.Value)
		}
	case ast.StringValue, ast.BlockValue, ast.BooleanValue, ast.NullValue:
	}
}

// short keeps a wrong value short enough to be named in a message.
func short(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}
