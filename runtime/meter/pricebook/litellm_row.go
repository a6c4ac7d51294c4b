package pricebook

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// row reads one model; nil when it was left out or has faults.
func (l *foreign) row(e jsonEntry) *Row {
	fields, err := jsonEntries(e.value, e.begin)
	if err != nil {
		l.add(l.at(e.begin), "%q: %v", clip(e.key), err)
		return nil
	}
	by := map[string]jsonEntry{}
	for _, f := range fields {
		by[f.key] = f
	}
	row := &Row{Model: e.key, Source: "LiteLLM " + l.name, at: l.at(e.offset)}
	if f, ok := by["litellm_provider"]; ok && json.Unmarshal(f.value, &row.Provider) != nil {
		l.add(l.at(f.begin), "litellm_provider of %q is not a text", clip(e.key))
		return nil
	}
	before := len(l.list)
	rates := l.rates(fields)
	tiered, ok := l.tiered(by["tiered_pricing"])
	if !ok {
		l.left["tiered_pricing in a form that is not known"]++
		return nil
	}
	row.Set = build(append(tiered, rates...), "", nil)
	if row.Rates.Input == nil || row.Rates.Output == nil || row.Provider == "" || e.key == anyModel {
		if len(l.list) == before {
			l.left["no price per input and output token, or no provider"]++
		}
		return nil
	}
	if row.Provider == "xai" { // its limits belong to the long prompts
		for i := range row.Long {
			row.Long[i].Inclusive = true
		}
	}
	if !l.offPeak(row, by["off_peak_pricing"]) {
		l.left["off_peak_pricing in a form that is not known"]++
		return nil
	}
	for _, tier := range []string{"batch", "flex", "priority"} {
		if slices.ContainsFunc(rates, func(k keyed) bool { return k.tier == tier }) {
			l.tier(row, tier, build(rates, tier, &row.Set))
		}
	}
	l.specific(row, by["provider_specific_entry"])
	if f, ok := by["search_context_cost_per_query"]; ok {
		l.search(row, f)
	}
	return row
}

func (l *foreign) tier(row *Row, name string, set Set) {
	if row.Tiers == nil {
		row.Tiers = map[string]Set{}
	}
	row.Tiers[name] = set
}

// tiered reads prices by ranges of the prompt: [{"range": [0, 32000], ...}, ...].
func (l *foreign) tiered(f jsonEntry) ([]keyed, bool) {
	if f.value == nil || string(f.value) == "null" {
		return nil, true
	}
	var list []json.RawMessage
	if json.Unmarshal(f.value, &list) != nil {
		return nil, false
	}
	var all []keyed
	for _, raw := range list {
		fields, err := jsonEntries(raw, f.begin)
		if err != nil {
			return nil, false
		}
		var bounds struct{ Range []float64 }
		if json.Unmarshal(raw, &bounds) != nil || len(bounds.Range) < 1 || bounds.Range[0] < 0 || bounds.Range[0] > 1e9 {
			return nil, false
		}
		for _, k := range l.rates(fields) {
			k.above = int64(bounds.Range[0])
			all = append(all, k)
		}
	}
	return all, true
}

// offPeak reads the hours with other rates.
func (l *foreign) offPeak(row *Row, f jsonEntry) bool {
	if f.value == nil || string(f.value) == "null" || string(f.value) == "{}" {
		return true
	}
	fields, err := jsonEntries(f.value, f.begin)
	if err != nil {
		return false
	}
	type window struct {
		Hours    json.RawMessage `json:"hours_utc"`
		Weekdays []any           `json:"weekdays"`
	}
	var block struct {
		window
		Windows  []window `json:"windows"`
		Timezone string   `json:"weekday_timezone"`
	}
	if json.Unmarshal(f.value, &block) != nil || (block.Timezone != "" && block.Timezone != "UTC") {
		return false
	}
	set := build(l.rates(fields), "", &Set{Rates: row.Rates})
	list := block.Windows
	if block.Hours != nil {
		list = append(list, block.window)
	}
	for _, w := range list {
		hours, ok1 := foreignHours(w.Hours)
		days, ok2 := foreignDays(w.Weekdays)
		if !ok1 || !ok2 {
			return false
		}
		row.Windows = append(row.Windows, Window{Hours: hours, Weekdays: days, Rates: set.Rates})
	}
	return true
}

// foreignHours reads "16:30-00:30", or a list of such; the same time twice is
// the whole day.
func foreignHours(raw json.RawMessage) ([]Span, bool) {
	var list []string
	var one string
	if json.Unmarshal(raw, &one) == nil {
		list = []string{one}
	} else if json.Unmarshal(raw, &list) != nil {
		return nil, false
	}
	var spans []Span
	for _, s := range list {
		span, err := parseSpan(strings.TrimSpace(s))
		switch {
		case err != nil:
			return nil, false
		case span.From < span.To:
			spans = append(spans, span)
		case span.To == 0:
			spans = append(spans, Span{span.From, 24 * 60})
		case span.From == span.To:
			spans = append(spans, Span{0, 24 * 60})
		default:
			spans = append(spans, Span{span.From, 24 * 60}, Span{0, span.To})
		}
	}
	return spans, len(spans) > 0
}

// foreignDays reads names of days, or numbers from 1 (Monday) to 7.
func foreignDays(list []any) ([]time.Weekday, bool) {
	var days []time.Weekday
	for _, d := range list {
		switch v := d.(type) {
		case string:
			day, ok := weekday(v)
			if !ok {
				return nil, false
			}
			days = append(days, day)
		case float64:
			if v != float64(int(v)) || v < 1 || v > 7 {
				return nil, false
			}
			days = append(days, time.Weekday(int(v)%7))
		default:
			return nil, false
		}
	}
	return days, true
}

// specific reads multiples of all rates by name. Those of regions are no tiers.
func (l *foreign) specific(row *Row, f jsonEntry) {
	fields, err := jsonEntries(f.value, f.begin)
	if f.value == nil || err != nil {
		return
	}
	for _, m := range fields {
		if m.key != "fast" {
			continue
		}
		n, err := decimal(string(m.value), factorPlaces)
		if err != nil {
			l.add(l.at(m.begin), "%s %s: %v", m.key, clip(string(m.value)), err)
			continue
		}
		set, err := row.Set.times(n, factorPlaces)
		if err != nil {
			l.add(l.at(m.begin), "%s %s: %v", m.key, clip(string(m.value)), err)
			continue
		}
		l.tier(row, "fast", set)
	}
}

// search reads the price of a search, when it is the same for all sizes.
func (l *foreign) search(row *Row, f jsonEntry) {
	fields, err := jsonEntries(f.value, f.begin)
	if err != nil {
		return
	}
	var prices []int64
	for _, s := range fields {
		if strings.HasPrefix(s.key, "search_context_size_") {
			if p, ok := l.pico(s); ok {
				prices = append(prices, p)
			}
		}
	}
	slices.Sort(prices)
	if prices = slices.Compact(prices); len(prices) != 1 {
		return
	}
	name := "web_search"
	if strings.HasPrefix(row.Provider, "vertex_ai") || row.Provider == "gemini" {
		name = "grounding"
	}
	row.addTool(name, prices[0])
}
