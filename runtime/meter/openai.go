package meter

import (
	"encoding/json"

	"github.com/weirhq/weir/runtime/run"
)

// inclusive is a usage object whose cached and written tokens lie inside the
// prompt and whose reasoning lies inside the output: Chat Completions name the
// sums prompt and completion, Responses and Codex input and output.
type inclusive struct {
	Prompt     count          `json:"prompt_tokens"`
	Completion count          `json:"completion_tokens"`
	PromptPart promptParts    `json:"prompt_tokens_details"`
	OutputPart reasoningParts `json:"completion_tokens_details"`

	Input      count          `json:"input_tokens"`
	Output     count          `json:"output_tokens"`
	InputPart  promptParts    `json:"input_tokens_details"`
	AnswerPart reasoningParts `json:"output_tokens_details"`

	Total count `json:"total_tokens"`

	// As some compatible servers and Codex write them.
	Hits      count `json:"prompt_cache_hit_tokens"`
	Cached    count `json:"cached_input_tokens"`
	Written   count `json:"cache_write_input_tokens"`
	Reasoning count `json:"reasoning_output_tokens"`
}

type promptParts struct {
	Cached  count `json:"cached_tokens"`
	Written count `json:"cache_write_tokens"`
	Kept    struct {
		Long count `json:"ttl_12h_tokens"`
	} `json:"cache_write_tokens_details"`
}

type reasoningParts struct {
	Reasoning count `json:"reasoning_tokens"`
}

// either gives the first number that is there.
func either(counts ...count) count {
	for _, c := range counts {
		if c.set {
			return c
		}
	}
	return count{}
}

// tokens sorts the counts into buckets.
func (u *inclusive) tokens() (f figures, t run.Tokens) {
	whole := either(u.Prompt, u.Input)
	prompt := f.take("prompt_tokens", whole)
	cached := f.take("cached_tokens", either(u.PromptPart.Cached, u.InputPart.Cached, u.Hits, u.Cached))
	written := f.take("cache_write_tokens", either(u.PromptPart.Written, u.InputPart.Written, u.Written))
	long := f.part("ttl_12h_tokens", either(u.PromptPart.Kept.Long, u.InputPart.Kept.Long), written)
	completion := f.take("completion_tokens", either(u.Completion, u.Output))
	reasoning := either(u.OutputPart.Reasoning, u.AnswerPart.Reasoning, u.Reasoning)
	total := f.take("total_tokens", u.Total)

	if cached+written > prompt {
		f.odd = "more cached tokens than prompt"
	}
	t.Input = max(prompt-cached-written, 0)
	t.CacheRead, t.CacheWriteShort, t.CacheWriteLong = cached, written-long, long
	// Some servers count reasoning beside the completion. Only the total tells.
	t.Output = completion
	switch {
	case whole.good():
		t.Output = max(completion, total-prompt)
	case total > completion: // the prompt is in there, nobody knows how much of it
		f.odd = "total_tokens without a prompt"
	}
	t.Reasoning = f.part("reasoning_tokens", reasoning, t.Output)
	return f, t
}

// chatTier gives an OpenAI tier the name of price rows: fast is what the API
// calls priority by now.
func chatTier(s string) string {
	if s == "fast" {
		return "priority"
	}
	return tier(s)
}

// openAI makes the record of one request.
func (r *Reader) openAI(key string, a *answer, raw []byte) run.UsageRecord {
	var u inclusive
	decode(raw, &u)
	f, t := u.tokens()
	rec := r.record(key, a.Model, f, t, raw)
	rec.Tier = chatTier(a.Tier)
	return rec
}

type chatDocuments struct{ r *Reader }

func newChatUsage(r *Reader) parser { return chatDocuments{r} }

func (p chatDocuments) event(b []byte) bool {
	var a answer
	if !decode(b, &a) {
		return false
	}
	p.r.out.put(p.r.openAI(a.key(p.r), &a, a.usage(b)))
	p.r.rep.Ended = true
	return true
}

func (p chatDocuments) close() {}

// response is an answer of the Responses API.
type response struct {
	answer
	Output []struct {
		Type   string `json:"type"`
		Action struct {
			Type string `json:"type"`
		} `json:"action"`
	} `json:"output"`
}

// responses makes the record of one response.
func (r *Reader) responses(key string, a *response, raw []byte) run.UsageRecord {
	rec := r.openAI(key, &a.answer, raw)
	calls := map[string]int64{}
	for _, item := range a.Output {
		switch item.Type {
		case "web_search_call": // opening a page or looking into it is not billed
			if item.Action.Type == "" || item.Action.Type == "search" {
				calls[webSearch]++
			}
		case "file_search_call":
			calls[fileSearch]++
		}
	}
	if len(calls) > 0 {
		rec.ToolCalls = calls
	}
	return rec
}

type responseDocuments struct{ r *Reader }

func newResponsesUsage(r *Reader) parser { return responseDocuments{r} }

func (p responseDocuments) event(b []byte) bool {
	var a response
	if !decode(b, &a) {
		return false
	}
	p.r.out.put(p.r.responses(a.key(p.r), &a, a.usage(b)))
	p.r.rep.Ended = true
	return true
}

func (p responseDocuments) close() {}

// null tells whether a raw value says nothing.
func null(b json.RawMessage) bool { return len(b) == 0 || string(b) == "null" }
