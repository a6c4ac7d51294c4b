package meter

import (
	"encoding/json"

	"github.com/weirhq/weir/runtime/run"
)

// usageEvents reads usage in Weir's own framing: a request key, and the usage
// object of any provider.
type usageEvents struct{ r *Reader }

func newUsageEvents(r *Reader) parser {
	r.sums = true
	return usageEvents{r}
}

func (p usageEvents) event(b []byte) bool {
	var e struct {
		answer
		Key      string `json:"request_key"`
		Source   string `json:"source"` // stream: before the end; final
		Provider string `json:"provider"`
		At       string `json:"at"`
		Cost     money  `json:"cost_usd"`
	}
	if !decode(b, &e) {
		return false
	}
	if !object(e.Usage) {
		return true // of something else
	}
	key := e.Key
	if key == "" {
		key = e.key(p.r)
	}
	records := p.r.anyUsage(name(key), e.Provider, &e.answer)
	for i := range records {
		rec := &records[i]
		if e.Provider != "" {
			rec.Provider = name(e.Provider)
		}
		if at := timestamp(e.At); !at.IsZero() {
			rec.At = at
		}
		if e.Source == "stream" {
			rec.Rank, rec.Provenance = run.FromEstimate, rec.Provenance.Worse(run.Partial)
		}
		if i == 0 {
			p.r.cost(rec, e.Cost)
		}
		p.r.out.put(*rec)
	}
	return true
}

func (p usageEvents) close() { p.r.rep.Ended = true }

// anyUsage reads the usage object of a provider that its fields tell.
func (r *Reader) anyUsage(key, provider string, a *answer) []run.UsageRecord {
	var fields map[string]json.RawMessage
	decode(a.Usage, &fields)
	has := func(names ...string) bool {
		for _, n := range names {
			if _, ok := fields[n]; ok {
				return true
			}
		}
		return false
	}
	switch {
	case has("promptTokenCount", "candidatesTokenCount", "totalTokenCount"):
		var u geminiUsage
		decode(a.Usage, &u)
		f, t := u.tokens()
		return []run.UsageRecord{r.record(key, a.Model, f, t, a.Usage)}
	case has("prompt_tokens", "completion_tokens", "input_tokens_details", "total_tokens") || provider == "openai":
		return []run.UsageRecord{r.openAI(key, a, a.Usage)}
	}
	var u anthropicUsage
	decode(a.Usage, &u)
	return r.anthropic(key, a.Model, &u, a.Usage)
}

// usageStatus reads the answers of a service's usage endpoint: the totals of one
// start of it. They are one request: a smaller poll changes nothing, and the
// transcript of the same stream takes their place.
type usageStatus struct{ r *Reader }

func newUsageStatus(r *Reader) parser { return usageStatus{r} }

func (p usageStatus) event(b []byte) bool {
	var u struct {
		Input  count  `json:"tokens_input"`
		Output count  `json:"tokens_output"`
		Read   count  `json:"tokens_cache_read"`
		Write  count  `json:"tokens_cache_write"`
		Turns  count  `json:"turns"`
		Model  string `json:"model"`
	}
	if !decode(b, &u) {
		return false
	}
	var f figures
	t := run.Tokens{
		Input: f.take("tokens_input", u.Input), Output: f.take("tokens_output", u.Output),
		CacheRead: f.take("tokens_cache_read", u.Read), CacheWriteShort: f.take("tokens_cache_write", u.Write),
	}
	if !u.Turns.bad {
		p.r.rep.Turns = max(p.r.rep.Turns, int(u.Turns.n))
	}
	key := p.r.scoped("status")
	if p.r.src.Stream != "" { // another reader may poll the same start
		key = "status/" + p.r.src.Stream
	}
	rec := p.r.record(key, u.Model, f, t, b)
	rec.Rank, rec.Stream, rec.Summed = run.FromStatusPoll, p.r.stream("status", ""), true
	p.r.out.put(rec)
	return true
}

func (p usageStatus) close() { p.r.rep.Ended = true }
