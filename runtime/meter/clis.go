package meter

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// geminiCLI reads gemini --output-format stream-json: only the result tells of
// the usage. The cache lies inside input_tokens; thoughts, and what tools fed
// back, have no field and show only in the total.
type geminiCLI struct{ r *Reader }

func newGeminiCLI(r *Reader) parser { return geminiCLI{r} }

type geminiStats struct {
	Total  count `json:"total_tokens"`
	Input  count `json:"input_tokens"`
	Output count `json:"output_tokens"`
	Cached count `json:"cached"`
}

func (u *geminiStats) tokens() (f figures, t run.Tokens) {
	total, input, output := f.take("total_tokens", u.Total), f.take("input_tokens", u.Input), f.take("output_tokens", u.Output)
	t.CacheRead = f.take("cached", u.Cached)
	if t.CacheRead > input {
		f.odd = "more cached tokens than input"
	}
	t.Input = max(input-t.CacheRead, 0)
	if t.Output = output; u.Input.good() {
		t.Output = max(total-input, output)
	}
	t.Reasoning = t.Output - output
	return f, t
}

func (p geminiCLI) event(b []byte) bool {
	var e struct {
		Type    string `json:"type"`
		Session string `json:"session_id"`
		Model   string `json:"model"`
		Status  string `json:"status"`
		Error   struct {
			Message string `json:"message"`
		} `json:"error"`
		Stats json.RawMessage `json:"stats"`
		At    string          `json:"timestamp"`
	}
	if !decode(b, &e) {
		return false
	}
	switch e.Type {
	case "init":
		p.r.rep.Session, p.r.rep.Model, p.r.rep.Ended = name(e.Session), model(e.Model), false
	case "error":
		p.r.rep.Warnings++
	case "result":
		p.r.rep.Ended = true
		p.r.rep.Turns++
		if p.r.rep.Failed = ""; e.Status == "error" {
			p.r.rep.Failed = clip(e.Error.Message, maxText)
		}
		p.result(e.Stats, timestamp(e.At))
	}
	return true
}

func (p geminiCLI) result(stats []byte, at time.Time) {
	var s struct {
		geminiStats
		Models map[string]json.RawMessage `json:"models"`
	}
	decode(stats, &s)
	put := func(m string, u *geminiStats, raw []byte) {
		f, t := u.tokens()
		rec := p.r.record(p.r.scoped("result-"+strconv.Itoa(p.r.rep.Turns)+"/"+model(m)), m, f, t, raw)
		rec.Summed = true
		if !at.IsZero() {
			rec.At = at
		}
		p.r.out.put(rec)
	}
	if len(s.Models) == 0 {
		put(p.r.rep.Model, &s.geminiStats, stats)
		return
	}
	for i, m := range slices.Sorted(maps.Keys(s.Models)) {
		if i == windowSize/16 {
			p.r.incomplete("more models than are read")
			break
		}
		var u geminiStats
		decode(s.Models[m], &u)
		put(m, &u, s.Models[m])
	}
}

func (p geminiCLI) close() {
	if !p.r.rep.Ended {
		p.r.incomplete("no result at the end")
	}
}

// openCode reads opencode run --format json: each step tells its own usage, the
// cache beside the input and reasoning beside the output. No event names the
// model, and child sessions do not appear.
type openCode struct {
	r    *Reader
	open int // steps that did not finish
}

func newOpenCode(r *Reader) parser {
	r.sums = false // what is no JSON on stdout is a log line
	return &openCode{r: r}
}

func (p *openCode) event(b []byte) bool {
	var e struct {
		Type    string          `json:"type"`
		At      int64           `json:"timestamp"` // milliseconds
		Session string          `json:"sessionID"`
		Part    json.RawMessage `json:"part"`
	}
	if !decode(b, &e) {
		return false
	}
	if e.Session != "" {
		p.r.rep.Session = name(e.Session)
	}
	switch e.Type {
	case "step_start":
		p.open++
		p.r.rep.Ended = false
	case "step_finish":
		p.open = max(p.open-1, 0)
		p.step(e.Part, e.At)
	case "error":
		p.r.rep.Failed = errorText(b)
	}
	return true
}

func (p *openCode) step(raw []byte, at int64) {
	var s struct {
		ID     string `json:"id"`
		Reason string `json:"reason"`
		Cost   money  `json:"cost"`
		Tokens struct {
			Input     count `json:"input"`
			Output    count `json:"output"`
			Reasoning count `json:"reasoning"`
			Cache     struct {
				Read  count `json:"read"`
				Write count `json:"write"`
			} `json:"cache"`
		} `json:"tokens"`
	}
	decode(raw, &s)
	var f figures
	u := &s.Tokens
	t := run.Tokens{
		Input: f.take("input", u.Input), CacheRead: f.take("cache.read", u.Cache.Read), CacheWriteShort: f.take("cache.write", u.Cache.Write),
		Reasoning: f.take("reasoning", u.Reasoning),
	}
	t.Output = f.take("output", u.Output) + t.Reasoning
	if t == (run.Tokens{}) {
		f.known = false // seen at the end of runs whose last step was billed
	}
	if s.ID == "" {
		s.ID = p.r.next()
	}
	rec := p.r.record(p.r.scoped(s.ID), "", f, t, raw)
	p.r.cost(&rec, s.Cost)
	if ms := plausible(time.UnixMilli(at)); !ms.IsZero() {
		rec.At = ms
	}
	p.r.out.put(rec)
	p.r.rep.Ended = s.Reason != "tool-calls"
}

func (p *openCode) close() {
	if p.open > 0 {
		p.r.incomplete("a step that did not finish")
		p.r.mark("unfinished", run.Partial)
	}
}
