package pricebook

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// Find gives the row that holds for a record, nil for none.
func (b *Book) Find(u run.UsageRecord) *Row {
	if u.Kind == run.ComputeUsage {
		return b.findCompute(u.Backend, u.GPU, u.At)
	}
	provider := b.canonical(u.Provider)
	wanted, dated := b.spellings(provider, u.Model)
	for i, w := range wanted {
		if row, found := b.exact(w, u.At); found {
			return row
		}
		if i >= dated {
			continue // an alias means the newest of a day, a date behind it nothing
		}
		if of, ok := aliasAt(b.aliases[w.model], u.At); ok && (w.provider == "" || w.provider == of.provider) {
			return rowAt(b.rows[of], u.At)
		}
	}
	for _, w := range append(wanted, subject{provider, u.Model}) {
		if list := b.rows[subject{w.provider, anyModel}]; list != nil {
			return rowAt(list, u.At)
		}
	}
	return nil
}

func (b *Book) canonical(provider string) string {
	if name, ok := b.providers[provider]; ok {
		return name
	}
	return provider
}

// exact looks for a model by its id. It is found also when no row is in force:
// the price at that time is then not known, and no other spelling is tried.
func (b *Book) exact(w subject, at time.Time) (row *Row, found bool) {
	if w.provider != "" {
		list := b.rows[w]
		return rowAt(list, at), list != nil
	}
	// Several sellers: the price is known only if it is the same at all of them.
	for _, owner := range b.owners[w.model] {
		r := rowAt(b.rows[subject{owner, w.model}], at)
		if r == nil || (row != nil && !same(row, r)) {
			return nil, true
		}
		if row == nil {
			row = r
		}
	}
	return row, row != nil
}

// date is what providers put behind the id of a model for its version of a day.
var date = regexp.MustCompile(`[-@]20\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$|-20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$`)

// spellings gives what a model's id may mean, the nearest first; from the index
// dated on without the date that the id ends with.
func (b *Book) spellings(provider, model string) (all []subject, dated int) {
	if model == "" || model == anyModel {
		return nil, 0
	}
	all = []subject{{provider, model}}
	add := func(s subject) {
		if s.model != "" && s.model != anyModel && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	if provider != "" {
		add(subject{provider, provider + "/" + model}) // foreign price files name some so
	}
	for _, p := range b.prefixes {
		if rest, ok := strings.CutPrefix(model, p.text); ok && (provider == "" || provider == p.provider) {
			add(subject{p.provider, rest})
		}
	}
	for _, w := range slices.Clone(all) {
		for _, s := range b.suffixes {
			if rest, ok := strings.CutSuffix(w.model, s.text); ok && (w.provider == "" || w.provider == s.provider) {
				add(subject{s.provider, rest})
			}
		}
	}
	dated = len(all)
	for _, w := range slices.Clone(all) {
		if at := date.FindStringIndex(w.model); at != nil {
			add(subject{w.provider, w.model[:at[0]]})
		}
	}
	return all, dated
}

// findCompute prefers the row of the gpu; a local machine costs nothing whatever
// it has.
func (b *Book) findCompute(backend, gpu string, at time.Time) *Row {
	if row := rowAt(b.compute[subject{backend, gpu}], at); row != nil {
		return row
	}
	if row := rowAt(b.compute[subject{backend, ""}], at); row != nil && row.Local {
		return row
	}
	return nil
}
