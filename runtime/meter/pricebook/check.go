package pricebook

import (
	"maps"
	"slices"
	"time"
)

// finish makes the rows ready, after check.
func (f *file) finish(faults *faults) {
	for _, r := range f.rows {
		if err := r.freeze(); err != nil {
			faults.add(r.at, "%s: %v", r.title(), err)
		}
	}
}

// check notes what cannot stand beside each other in one file.
func (f *file) check(faults *faults) {
	rows := map[string][]*Row{}
	models := map[string]bool{}
	for _, r := range f.rows {
		if !r.From.IsZero() && !r.To.IsZero() && !r.From.Before(r.To) {
			faults.add(r.at, "%s is in force from %s, but its end is before that", r.title(), instant(r.From))
			continue
		}
		rows[r.title()] = append(rows[r.title()], r)
		models[r.Model] = true
	}
	for _, list := range rows {
		sortRows(list)
		for i, r := range list[1:] {
			if before := list[i]; before.To.IsZero() || r.From.Before(before.To) {
				faults.add(r.at, "%s has a price for the same time in line %d; end one with to before the other begins with from", r.title(), before.at.line)
			}
		}
	}
	f.checkAliases(models, faults)
	f.checkProviders(faults)
}

func sortRows(list []*Row) {
	slices.SortStableFunc(list, func(a, b *Row) int { return a.From.Compare(b.From) })
}

func (f *file) checkAliases(models map[string]bool, faults *faults) {
	named := map[string][]alias{}
	for _, a := range f.aliases {
		if models[a.name] {
			faults.add(a.at, "the alias %q is the id of a model, too, and would never be used; remove it", clip(a.name))
		}
		if !a.from.IsZero() && !a.to.IsZero() && !a.from.Before(a.to) {
			faults.add(a.at, "the alias %q ends before it begins", clip(a.name))
			continue
		}
		named[a.name] = append(named[a.name], a)
	}
	for _, list := range named {
		slices.SortStableFunc(list, func(a, b alias) int { return a.from.Compare(b.from) })
		for i, a := range list[1:] {
			if before := list[i]; before.to.IsZero() || a.from.Before(before.to) {
				faults.add(a.at, "the alias %q means %s/%s at the same time (line %d); give both from and to, or remove one", clip(a.name), before.of.provider, before.of.model, before.at.line)
			}
		}
	}
}

// checkProviders: a name or a prefix says which provider is meant.
func (f *file) checkProviders(faults *faults) {
	owner := map[string]string{}
	for _, name := range f.sortedProviders() {
		owner[name] = name
	}
	for _, name := range f.sortedProviders() {
		p := f.providers[name]
		for _, other := range append(slices.Clone(p.names), p.prefixes...) {
			if who, taken := owner[other]; taken && who != name {
				faults.add(p.at, "%q stands for the providers %s and %s; it can mean only one", clip(other), who, name)
			}
			owner[other] = name
		}
	}
}

func (f *file) sortedProviders() []string { return slices.Sorted(maps.Keys(f.providers)) }

// aliasAt finds which model a name means at an instant.
func aliasAt(list []alias, at time.Time) (subject, bool) {
	for _, a := range list {
		if (a.from.IsZero() || !at.Before(a.from)) && (a.to.IsZero() || at.Before(a.to)) {
			return a.of, true
		}
	}
	return subject{}, false
}

// rowAt finds the row in force; the rows do not overlap.
func rowAt(list []*Row, at time.Time) *Row {
	for _, r := range list {
		if r.inForce(at) {
			return r
		}
	}
	return nil
}
