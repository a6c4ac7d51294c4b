package pricebook

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// price reads a price as an integer of 10^-places.
func (r *reader) price(e entry, places int) int64 {
	s, ok := r.scalar(e)
	if !ok {
		return 0
	}
	n, err := decimal(s, places)
	if err != nil {
		r.add(r.start(e.value), "%s %q: %v", e.key, clip(s), err)
	}
	return n
}

// rates reads rates in USD per million tokens.
func (r *reader) rates(e entry) Rates {
	var rates Rates
	known := map[string]func(entry){}
	for _, n := range rates.named() {
		known[n.name] = func(e entry) {
			price := r.price(e, picoPerMillion)
			*n.rate = &price
		}
	}
	if !r.fields(e.value, "rates", known) {
		return rates
	}
	if rates.Input == nil || rates.Output == nil {
		r.add(e.at, "rates need input and output, in USD per million tokens")
	}
	return rates
}

// maxParts bounds the parts of one row.
const maxParts = 32

func (r *reader) parts(e entry, what string) []ast.Node {
	list := r.list(e.value, what)
	if len(list) > maxParts {
		r.add(e.at, "%s has %d parts, at most %d are read", what, len(list), maxParts)
		list = list[:maxParts]
	}
	return list
}

// some gives the parts of a list that is not empty.
func (r *reader) some(e entry, what string) []ast.Node {
	list := r.parts(e, what)
	if s, ok := e.value.(*ast.SequenceNode); ok && len(s.Values) == 0 {
		r.add(e.at, "%s is empty; leave it out to mean all", what)
	}
	return list
}

func (r *reader) long(e entry) []Step {
	var steps []Step
	for _, n := range r.parts(e, "long") {
		var s Step
		var above, rates bool
		r.fields(n, "a step of long", map[string]func(entry){
			"above":     func(e entry) { above = true; s.Above = r.count(e) },
			"inclusive": func(e entry) { s.Inclusive = r.truth(e) },
			"rates":     func(e entry) { rates = true; s.Rates = r.rates(e) },
		})
		switch {
		case !above || !rates:
			r.add(r.start(n), "a step of long needs above (tokens of the whole prompt) and rates")
		case len(steps) > 0 && steps[len(steps)-1].Above >= s.Above:
			r.add(r.start(n), "the steps of long go up, but %d follows %d", s.Above, steps[len(steps)-1].Above)
		}
		steps = append(steps, s)
	}
	return steps
}

func (r *reader) windows(e entry) []Window {
	var windows []Window
	for _, n := range r.parts(e, "windows") {
		var w Window
		var rates, bounded bool
		r.fields(n, "a window", map[string]func(entry){
			"hours":    func(e entry) { bounded = true; w.Hours = r.hours(e) },
			"weekdays": func(e entry) { bounded = true; w.Weekdays = r.weekdays(e) },
			"except":   func(e entry) { w.Except = r.days(e) },
			"rates":    func(e entry) { rates = true; w.Rates = r.rates(e) },
			"long":     func(e entry) { w.Long = r.long(e) },
		})
		if !rates {
			r.add(r.start(n), "a window needs rates")
		}
		if !bounded {
			r.add(r.start(n), "a window needs hours or weekdays, else it holds always")
		}
		for _, other := range windows {
			if w.overlaps(other) {
				r.add(r.start(n), "this window overlaps the one before it; the price of a time is given once")
				break
			}
		}
		windows = append(windows, w)
	}
	return windows
}

func (w *Window) overlaps(other Window) bool {
	days := len(w.Weekdays) == 0 || len(other.Weekdays) == 0 ||
		slices.ContainsFunc(w.Weekdays, func(d time.Weekday) bool { return slices.Contains(other.Weekdays, d) })
	hours := len(w.Hours) == 0 || len(other.Hours) == 0 ||
		slices.ContainsFunc(w.Hours, func(a Span) bool {
			return slices.ContainsFunc(other.Hours, func(b Span) bool { return a.From < b.To && b.From < a.To })
		})
	return days && hours
}

func (r *reader) hours(e entry) []Span {
	var spans []Span
	for _, n := range r.some(e, "hours") {
		s, _ := plain(n)
		span, err := parseSpan(s)
		if err == nil && span.From >= span.To {
			err = fmt.Errorf("it ends before it begins; write two, up to 24:00 and from 00:00")
		}
		if err != nil {
			r.add(r.start(n), "hours %q: %v", clip(s), err)
			continue
		}
		spans = append(spans, span)
	}
	return spans
}

// parseSpan reads 01:00-04:00.
func parseSpan(s string) (Span, error) {
	from, to, _ := strings.Cut(s, "-")
	a, ok1 := minutes(from)
	b, ok2 := minutes(to)
	if !ok1 || !ok2 {
		return Span{}, fmt.Errorf("it is not a time of day such as 01:00-04:00")
	}
	return Span{a, b}, nil
}

func minutes(s string) (int, bool) {
	if s == "24:00" {
		return 24 * 60, true
	}
	t, err := time.Parse("15:04", s)
	return t.Hour()*60 + t.Minute(), err == nil
}

func (r *reader) weekdays(e entry) []time.Weekday {
	var days []time.Weekday
	for _, n := range r.some(e, "weekdays") {
		s, _ := plain(n)
		day, ok := weekday(s)
		if !ok {
			r.add(r.start(n), "the weekday %q is not one of mon, tue, wed, thu, fri, sat, sun", clip(s))
			continue
		}
		days = append(days, day)
	}
	return days
}

// weekday reads a day's name, short or long.
func weekday(s string) (time.Weekday, bool) {
	s = strings.ToLower(s)
	for d := time.Sunday; d <= time.Saturday; d++ {
		if name := strings.ToLower(d.String()); len(s) >= 3 && strings.HasPrefix(name, s) {
			return d, true
		}
	}
	return 0, false
}

const maxDays = 1_000

func (r *reader) days(e entry) []string {
	all := r.texts(e)
	if len(all) > maxDays {
		r.add(e.at, "%s has %d days, at most %d are read", e.key, len(all), maxDays)
		return nil
	}
	for _, d := range all {
		if _, err := time.Parse(time.DateOnly, d); err != nil {
			r.add(e.at, "the day %q of %s is not a date such as 2026-10-01", clip(d), e.key)
		}
	}
	return all
}

// from and to read the ends of a time: a day, both ends included, or an instant.
func (r *reader) from(e entry) time.Time { t, _ := r.instant(e); return t }

func (r *reader) to(e entry) time.Time {
	t, day := r.instant(e)
	if day {
		return t.AddDate(0, 0, 1)
	}
	return t
}

func (r *reader) instant(e entry) (t time.Time, day bool) {
	s, ok := r.scalar(e)
	if !ok {
		return time.Time{}, false
	}
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, true
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		r.add(r.start(e.value), "%s %q is not a day such as 2026-09-22, nor an instant such as 2026-09-22T16:00:00Z", e.key, clip(s))
		return time.Time{}, false
	}
	return t.UTC(), false
}

// date reads the day of a source, or its month.
func (r *reader) date(e entry) string {
	s, ok := r.scalar(e)
	if !ok {
		return ""
	}
	if _, err := time.Parse(time.DateOnly, s); err != nil {
		if _, err := time.Parse("2006-01", s); err != nil {
			r.add(r.start(e.value), "%s %q is not a day such as 2026-09-22, nor a month such as 2026-09", e.key, clip(s))
		}
	}
	return s
}

func (r *reader) tools(e entry) map[string]int64 {
	tools := map[string]int64{}
	list, _ := r.entries(e.value, "tools")
	for _, t := range list {
		tools[t.key] = r.price(t, picoPerUSD)
	}
	return tools
}

// tiers reads the tiers of a row and adds those of its provider.
func (r *reader) tiers(row *Row, own []entry, p *provider) {
	row.Tiers = map[string]Set{}
	for _, t := range own {
		var set Set
		var f *factor
		var rates bool
		r.fields(t.value, "a tier", map[string]func(entry){
			"factor":  func(e entry) { f = &factor{r.price(e, factorPlaces), e.at} },
			"rates":   func(e entry) { rates = true; set.Rates = r.rates(e) },
			"long":    func(e entry) { set.Long = r.long(e) },
			"windows": func(e entry) { set.Windows = r.windows(e) },
		})
		switch {
		case standardTier(t.key) == "":
			r.add(t.at, "the tier %q is the standard one; its prices are the row's rates", t.key)
		case f != nil && (rates || len(set.Long)+len(set.Windows) > 0):
			r.add(t.at, "the tier %q has a factor and rates; leave one of them out", clip(t.key))
		case f != nil:
			set = r.scaled(row, *f)
		case !rates:
			r.add(t.at, "the tier %q needs factor or rates", clip(t.key))
		}
		r.sameRates(t.at, "the tier "+clip(t.key), &set)
		row.Tiers[t.key] = set
	}
	for name, f := range p.tiers {
		if _, there := row.Tiers[name]; !there {
			row.Tiers[name] = r.scaled(row, f)
		}
	}
	if len(row.Tiers) == 0 {
		row.Tiers = nil
	}
}

// scaled multiplies all rates of a row.
func (r *reader) scaled(row *Row, f factor) Set {
	set, err := row.Set.times(f.n, factorPlaces)
	if err != nil {
		r.add(f.at, "the factor cannot be used for %s: %v; give the tier's rates instead", row.title(), err)
	}
	return set
}

// times gives the set with every rate multiplied.
func (s *Set) times(n int64, places int) (Set, error) {
	out := Set{Long: cloneSteps(s.Long), Rates: s.Rates}
	for _, w := range s.Windows {
		w.Long = cloneSteps(w.Long)
		out.Windows = append(out.Windows, w)
	}
	for _, rates := range out.all() {
		for _, named := range rates.named() {
			if *named.rate == nil {
				continue
			}
			product, err := times(**named.rate, n, places)
			if err != nil {
				return Set{}, err
			}
			*named.rate = &product
		}
	}
	return out, nil
}

func cloneSteps(steps []Step) []Step { return slices.Clone(steps) }

// sameRates checks that a price which stands in for another one names the same
// rates: what it leaves out would have no price.
func (r *reader) sameRates(at place, what string, s *Set) {
	for _, rates := range s.all()[1:] {
		theirs := rates.named()
		for i, n := range s.Rates.named() {
			if (*n.rate == nil) != (*theirs[i].rate == nil) {
				r.add(at, "%s: rates, long and windows must name the same rates, but %s is not in all of them", what, n.name)
				return
			}
		}
	}
}
