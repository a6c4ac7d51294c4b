package meter

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/run"
)

// chunk is a piece of a streamed chat completion.
type chunk struct {
	answer
	Choices []struct {
		Delta struct {
			Content   string `json:"content"`
			Refusal   string `json:"refusal"`
			Reasoning string `json:"reasoning_content"`
			Thought   string `json:"reasoning"` // the same, of other servers
			Calls     []struct {
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		Finish *string `json:"finish_reason"`
	} `json:"choices"`
}

// streamed is an answer that is being streamed.
type streamed struct {
	answer answer
	key    string
	raw    []byte // the last usage that was there
	chars  int    // of text received
	ended  bool
}

// empty tells whether nothing has come of the answer.
func (s *streamed) empty() bool { return s.raw == nil && s.chars == 0 && !s.ended }

// guess estimates the counts of an answer that said nothing of its usage.
func (r *Reader) guess(s *streamed) run.UsageRecord {
	t := run.Tokens{Input: tokensOf(utf8.RuneCountInString(r.src.Prompt) + r.src.PromptChars), Output: tokensOf(s.chars)}
	rec := r.record(s.key, s.answer.Model, figures{known: t != run.Tokens{}}, t, nil)
	rec.Rank, rec.Provenance = run.FromEstimate, run.Estimated
	if t == (run.Tokens{}) {
		rec.Provenance = run.UnknownProvenance
	}
	rec.Tier = chatTier(s.answer.Tier)
	r.incomplete("an answer without usage: its tokens are estimated from its text")
	return rec
}

// chatStream reads chunks: the usage is in the last one, whose choices are
// empty, or grows with each; others say null.
type chatStream struct {
	r *Reader
	s *streamed
}

func newChatSSE(r *Reader) parser {
	p := &chatStream{r: r}
	r.done = func() {
		if p.s != nil {
			p.s.ended = true
		}
	}
	return p
}

func (p *chatStream) event(b []byte) bool {
	var c chunk
	if !decode(b, &c) {
		return false
	}
	switch {
	case p.s != nil && p.s.answer.ID == "" && c.ID != "" && p.s.empty(): // Azure begins with a chunk that names nothing
		p.s.answer.ID, p.s.key = c.ID, c.key(p.r)
	case p.s == nil || c.ID != "" && c.ID != p.s.answer.ID:
		p.finish()
		p.s = &streamed{answer: answer{ID: c.ID}, key: c.key(p.r)}
		p.r.rep.Ended = false
	}
	if c.Model != "" {
		p.s.answer.Model = c.Model
	}
	if c.Tier != "" {
		p.s.answer.Tier = c.Tier
	}
	if object(c.Usage) {
		p.s.raw = append([]byte(nil), c.Usage...)
	}
	for _, choice := range c.Choices {
		d := &choice.Delta
		p.s.chars += utf8.RuneCountInString(d.Content) + utf8.RuneCountInString(d.Refusal) + max(utf8.RuneCountInString(d.Reasoning), utf8.RuneCountInString(d.Thought))
		for _, call := range choice.Delta.Calls {
			p.s.chars += utf8.RuneCountInString(call.Function.Name) + utf8.RuneCountInString(call.Function.Arguments)
		}
		if choice.Finish != nil && *choice.Finish != "" {
			p.s.ended = true
		}
	}
	return true
}

// finish books the answer: nothing before its end is final.
func (p *chatStream) finish() {
	if p.s == nil {
		return
	}
	p.r.rep.Ended = p.s.ended
	if p.s.raw == nil {
		p.r.out.put(p.r.guess(p.s))
	} else {
		rec := p.r.openAI(p.s.key, &p.s.answer, p.s.raw)
		if !p.s.ended {
			rec.Provenance = rec.Provenance.Worse(run.Partial)
			p.r.incomplete("an answer that broke off")
		}
		p.r.out.put(rec)
	}
	p.s = nil
}

func (p *chatStream) close() { p.finish() }

// responseStream reads the events of a streamed response; its usage comes once,
// with the last of them.
type responseStream struct {
	r *Reader
	s *streamed
}

func newResponsesSSE(r *Reader) parser { return &responseStream{r: r} }

func (p *responseStream) event(b []byte) bool {
	var e struct {
		Type     string          `json:"type"`
		Delta    json.RawMessage `json:"delta"`
		Response response        `json:"response"`
	}
	if !decode(b, &e) {
		return false
	}
	switch e.Type {
	case "response.created":
		p.finish()
		p.s = &streamed{answer: e.Response.answer, key: e.Response.key(p.r)}
		p.r.rep.Ended = false
	case "error":
		p.r.rep.Failed = errorText(b)
	case "response.completed", "response.incomplete", "response.failed":
		if p.s == nil {
			p.s = &streamed{answer: e.Response.answer, key: e.Response.key(p.r)}
		}
		p.r.rep.Ended = true
		if e.Type == "response.failed" && p.r.rep.Failed == "" {
			p.r.rep.Failed = "the response failed"
		}
		if null(e.Response.Usage) {
			p.r.out.put(p.r.guess(p.s))
		} else {
			p.r.out.put(p.r.responses(p.s.key, &e.Response, e.Response.Usage))
		}
		p.s = nil
	default:
		var delta string
		if p.s != nil && json.Unmarshal(e.Delta, &delta) == nil {
			p.s.chars += utf8.RuneCountInString(delta)
		}
	}
	return true
}

// finish estimates a response that never ended.
func (p *responseStream) finish() {
	if p.s != nil {
		p.r.out.put(p.r.guess(p.s))
		p.s = nil
	}
}

func (p *responseStream) close() { p.finish() }
