package pricebook

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// Rows gives all rows, models before sandboxes, by name and time.
func (b *Book) Rows() []*Row {
	var all []*Row
	for _, list := range b.rows {
		all = append(all, list...)
	}
	models := len(all)
	for _, list := range b.compute {
		all = append(all, list...)
	}
	byName := func(x, y *Row) int {
		return cmp.Or(cmp.Compare(x.title(), y.title()), x.From.Compare(y.From))
	}
	slices.SortFunc(all[:models], byName)
	slices.SortFunc(all[models:], byName)
	return all
}

// InForce gives the rows that hold at an instant.
func (b *Book) InForce(at time.Time) []*Row { return At(b.Rows(), at) }

// IsCompute tells whether the row is of a sandbox.
func (r *Row) IsCompute() bool { return r.isCompute() }

// Aliases gives the other names of a row's model at an instant.
func (b *Book) Aliases(r *Row, at time.Time) []string {
	names := []string{}
	for name, list := range b.aliases {
		if of, ok := aliasAt(list, at); ok && of == (subject{r.Provider, r.Model}) && !r.isCompute() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Of gives all rows of the models that a name can mean at an instant.
func (b *Book) Of(name string, at time.Time) []*Row {
	row := b.Find(run.UsageRecord{Kind: run.ModelCall, Model: name, At: at})
	var all []*Row
	for _, r := range b.Rows() {
		switch {
		case row != nil && r.title() == row.title(), row == nil && (r.title() == name || (r.Model == name && !r.isCompute())):
			all = append(all, r)
		}
	}
	return all
}

// Summary is what a book holds.
type Summary struct {
	Files     []string // the lowest first
	Rows      int
	Models    int
	Providers int
	Newest    string   // the day of the newest source
	Notes     []string // what of a foreign file was left out, and why
}

// Summary counts.
func (b *Book) Summary() Summary {
	s := Summary{Files: b.files, Notes: b.notes, Models: len(b.rows)}
	providers := map[string]bool{}
	for _, r := range b.Rows() {
		s.Rows++
		if !r.isCompute() {
			providers[r.Provider] = true
		}
		s.Newest = max(s.Newest, r.SourceDate)
	}
	s.Providers = len(providers)
	return s
}

// TierNames gives the service tiers that the row has prices for.
func (r *Row) TierNames() []string { return slices.Sorted(maps.Keys(r.Tiers)) }

// ToolNames gives the tools that the row has prices for.
func (r *Row) ToolNames() []string { return slices.Sorted(maps.Keys(r.Tools)) }

// PerTime writes what an execution costs, as 3.95/hour.
func (r *Row) PerTime() string {
	if r.Seconds == 3600 {
		return USD(r.Compute) + "/hour"
	}
	return USD(r.Compute) + "/second"
}

// Words writes when a window holds, as mon tue 01:00-04:00.
func (w *Window) Words() string {
	var parts []string
	for _, d := range w.Weekdays {
		parts = append(parts, strings.ToLower(d.String()[:3]))
	}
	for _, s := range w.Hours {
		parts = append(parts, clock(s.From)+"-"+clock(s.To))
	}
	return strings.Join(parts, " ")
}

func clock(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60, minute%60) }

// At keeps the rows that hold at an instant.
func At(rows []*Row, at time.Time) []*Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r *Row) bool { return !r.inForce(at) })
}

// Standard gives the rates of a short prompt at an instant.
func (r *Row) Standard(at time.Time) Rates { return r.Set.at(at, 0) }

// RowsOf counts the rows that are of one file.
func (b *Book) RowsOf(file string) int {
	n := 0
	for _, r := range b.Rows() {
		if r.at.file == file {
			n++
		}
	}
	return n
}

// Period writes when the row is in force.
func (r *Row) Period() string {
	switch {
	case r.From.IsZero() && r.To.IsZero():
		return "always"
	case r.To.IsZero():
		return "from " + instant(r.From)
	case r.From.IsZero():
		return "before " + instant(r.To)
	}
	return "from " + instant(r.From) + ", before " + instant(r.To)
}
