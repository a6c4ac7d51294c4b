package meter

import (
	"encoding/json"
	"strconv"

	"github.com/weirhq/weir/runtime/run"
)

// anthropicCounts is a usage object of the Messages API. Its buckets are disjoint
// but for the cache writes: cache_creation_input_tokens is the sum of its split.
type anthropicCounts struct {
	Input    count `json:"input_tokens"`
	Creation count `json:"cache_creation_input_tokens"`
	Read     count `json:"cache_read_input_tokens"`
	Output   count `json:"output_tokens"`
	Split    struct {
		Short count `json:"ephemeral_5m_input_tokens"`
		Long  count `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	Details struct {
		Thinking count `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
	Tools struct {
		WebSearch count `json:"web_search_requests"`
	} `json:"server_tool_use"`
}

type anthropicUsage struct {
	anthropicCounts
	Tier       string               `json:"service_tier"`
	Speed      string               `json:"speed"`
	Iterations []anthropicIteration `json:"iterations"`
}

// anthropicIteration is one of the model calls behind a message.
type anthropicIteration struct {
	anthropicCounts
	Type  string `json:"type"`
	Model string `json:"model"`
}

// maxIterations bounds the records of one message.
const maxIterations = 256

// over takes what a later usage object of the same message says.
func (u *anthropicUsage) over(v anthropicUsage) {
	u.Input.over(v.Input)
	u.Creation.over(v.Creation)
	u.Read.over(v.Read)
	u.Output.over(v.Output)
	u.Split.Short.over(v.Split.Short)
	u.Split.Long.over(v.Split.Long)
	u.Details.Thinking.over(v.Details.Thinking)
	u.Tools.WebSearch.over(v.Tools.WebSearch)
	if v.Tier != "" {
		u.Tier = v.Tier
	}
	if v.Speed != "" {
		u.Speed = v.Speed
	}
	if v.Iterations != nil {
		u.Iterations = v.Iterations
	}
}

// tokens sorts the counts into buckets. Writes that the split does not cover are
// short ones.
func (u *anthropicCounts) tokens() (f figures, t run.Tokens) {
	t.Input = f.take("input_tokens", u.Input)
	t.CacheRead = f.take("cache_read_input_tokens", u.Read)
	t.Output = f.take("output_tokens", u.Output)
	t.Reasoning = f.part("thinking_tokens", u.Details.Thinking, t.Output)
	creation, short, long := f.take("cache_creation_input_tokens", u.Creation),
		f.take("ephemeral_5m_input_tokens", u.Split.Short), f.take("ephemeral_1h_input_tokens", u.Split.Long)
	t.CacheWriteLong = long
	t.CacheWriteShort = max(short, creation-long)
	if u.Creation.set && !u.Creation.bad && short+long > creation {
		f.odd = "more cache writes in the split than in all"
	}
	return f, t
}

func (u *anthropicCounts) calls(f *figures) map[string]int64 {
	if n := f.take("web_search_requests", u.Tools.WebSearch); n > 0 {
		return map[string]int64{webSearch: n}
	}
	return nil
}

func (u *anthropicUsage) tier() string {
	if u.Speed == "fast" {
		return "fast"
	}
	return tier(u.Tier)
}

// anthropic makes the records of one message: its own, and one for each model
// call that its usage does not hold. Compactions and calls of an advisor are
// beside the sums at the top; messages and fallbacks are within them.
func (r *Reader) anthropic(key, m string, u *anthropicUsage, raw []byte) []run.UsageRecord {
	f, t := u.tokens()
	calls := u.calls(&f)
	inside := map[string]bool{"message": true, "fallback_message": true, "": true}
	var beside []run.UsageRecord
	for i, it := range u.Iterations {
		if i == maxIterations {
			f.odd = "more iterations than are read"
			break
		}
		if inside[it.Type] {
			continue
		}
		own := m
		switch it.Type {
		case "compaction":
		case "advisor_message":
			own = it.Model
		default:
			f.odd = "an iteration of the unknown type " + clip(it.Type, 64)
			continue
		}
		g, tokens := it.tokens()
		calls := it.calls(&g)
		rec := r.record(key+"/iteration-"+strconv.Itoa(i), own, g, tokens, nil)
		rec.ToolCalls, rec.Tier = calls, u.tier()
		beside = append(beside, rec)
	}
	rec := r.record(key, m, f, t, raw)
	rec.ToolCalls, rec.Tier = calls, u.tier()
	return append([]run.UsageRecord{rec}, beside...)
}

// Names of what providers bill by the call; price rows use the same.
const (
	webSearch  = "web_search"
	fileSearch = "file_search"
	grounding  = "grounding"
)

// tier gives a service tier the name that price rows have for it.
func tier(s string) string {
	switch s {
	case "standard", "default", "auto", "unspecified":
		return ""
	}
	return s // also one that no price row knows: what it costs is not the standard price
}

// answer is a response of a provider, or an object with its model and usage.
type answer struct {
	ID      string          `json:"id"`
	Request string          `json:"request"`
	Model   string          `json:"model"`
	Usage   json.RawMessage `json:"usage"`
	Tier    string          `json:"service_tier"`
}

// usage finds the usage object; a document without one may be it.
func (a *answer) usage(whole []byte) []byte {
	if a.Usage != nil {
		return a.Usage
	}
	return whole
}

// key names the request.
func (a *answer) key(r *Reader) string {
	switch {
	case a.ID != "":
		return r.scoped(a.ID)
	case a.Request != "":
		return r.scoped(a.Request)
	}
	return r.scoped(r.next())
}

type anthropicDocuments struct{ r *Reader }

func newAnthropicUsage(r *Reader) parser { return anthropicDocuments{r} }

func (p anthropicDocuments) event(b []byte) bool {
	var a answer
	if !decode(b, &a) {
		return false
	}
	raw := a.usage(b)
	var u anthropicUsage
	decode(raw, &u)
	for _, rec := range p.r.anthropic(a.key(p.r), a.Model, &u, raw) {
		p.r.out.put(rec)
	}
	p.r.rep.Ended = true
	return true
}

func (p anthropicDocuments) close() {}
