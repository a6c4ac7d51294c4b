package meter

import (
	"maps"

	"github.com/weirhq/weir/runtime/run"
)

// windowSize is how many requests are remembered. Agents repeat the rows of a
// request close to each other; one that comes back later is merged by who books.
const windowSize = 4096

// window merges what is said of the same request, and tells what changed.
type window struct {
	entries map[string]*entry
	order   []string // keys as they came, with those that are gone
	dirty   []string // keys that changed since the last drain
	emitted int      // records given so far
	last    run.UsageRecord
}

type entry struct {
	rec   run.UsageRecord
	dirty bool
	held  bool // not to be given yet
	side  bool // a copy of the request in another conversation
}

func newWindow() *window { return &window{entries: map[string]*entry{}} }

// put merges a record with what is known of its request.
func (w *window) put(rec run.UsageRecord) *entry {
	w.last = rec
	e := w.entries[rec.RequestKey]
	switch {
	case e == nil || rec.Rank > e.rec.Rank:
		return w.set(rec)
	case rec.Rank < e.rec.Rank:
		return e
	}
	merged := e.rec
	merged.Tokens = merged.Tokens.Max(rec.Tokens)
	merged.ToolCalls = maxCalls(merged.ToolCalls, rec.ToolCalls)
	if merged.Provenance.Worse(rec.Provenance) == merged.Provenance {
		merged.Provenance = rec.Provenance // the better of the two
	}
	if merged.Model == "" {
		merged.Model = rec.Model
	}
	if merged.Tier == "" {
		merged.Tier = rec.Tier
	}
	if rec.CostNanoUSD != nil && (merged.CostNanoUSD == nil || *rec.CostNanoUSD > *merged.CostNanoUSD) {
		merged.CostNanoUSD, merged.CostSource = rec.CostNanoUSD, rec.CostSource
	}
	if merged.Tokens != e.rec.Tokens || merged.Provenance != e.rec.Provenance || merged.Model != e.rec.Model ||
		merged.Tier != e.rec.Tier || merged.CostNanoUSD != e.rec.CostNanoUSD || !maps.Equal(merged.ToolCalls, e.rec.ToolCalls) {
		merged.Raw = rec.Raw
		e.rec = merged
		w.touch(e)
	}
	return e
}

// set puts a record in place of what is known of its request.
func (w *window) set(rec run.UsageRecord) *entry {
	w.last = rec
	e := w.entries[rec.RequestKey]
	if e == nil {
		e = &entry{}
		w.entries[rec.RequestKey] = e
		w.order = append(w.order, rec.RequestKey)
	} else {
		rec.At = e.rec.At
	}
	e.rec = rec
	w.touch(e)
	return e
}

func (w *window) touch(e *entry) {
	if !e.dirty {
		e.dirty = true
		w.dirty = append(w.dirty, e.rec.RequestKey)
	}
}

// drop forgets a request that was held and never given.
func (w *window) drop(key string) { delete(w.entries, key) }

// drain gives the records that changed since the last call, in the order in
// which they first did.
func (w *window) drain() []run.UsageRecord {
	var out []run.UsageRecord
	var held []string
	for _, key := range w.dirty {
		switch e := w.entries[key]; {
		case e == nil || !e.dirty:
		case e.held:
			held = append(held, key)
		default:
			out = append(out, e.rec)
			e.dirty, e.rec.Raw = false, nil
		}
	}
	w.dirty = held
	w.emitted += len(out)
	w.forget()
	return out
}

// forget drops the oldest requests that were given.
func (w *window) forget() {
	n := 0
	for len(w.entries) > windowSize && n < len(w.order) {
		if e := w.entries[w.order[n]]; e != nil {
			if e.dirty {
				break
			}
			delete(w.entries, w.order[n])
		}
		n++
	}
	if n > 0 || len(w.order) > 4*windowSize {
		var live []string
		for _, key := range w.order[n:] {
			if w.entries[key] != nil {
				live = append(live, key)
			}
		}
		w.order = live
	}
}

func maxCalls(a, b map[string]int64) map[string]int64 {
	if len(b) == 0 {
		return a
	}
	out := maps.Clone(a)
	if out == nil {
		out = map[string]int64{}
	}
	for name, n := range b {
		out[name] = max(out[name], n)
	}
	return out
}
