package meter

import (
	"encoding/json"

	"github.com/weirhq/weir/runtime/run"
)

// geminiUsage is usageMetadata: the cache lies inside the prompt, thoughts
// beside the candidates, what tools fed back beside the prompt.
type geminiUsage struct {
	Prompt     count  `json:"promptTokenCount"`
	Cached     count  `json:"cachedContentTokenCount"`
	ToolPrompt count  `json:"toolUsePromptTokenCount"`
	Candidates count  `json:"candidatesTokenCount"`
	Thoughts   count  `json:"thoughtsTokenCount"`
	Total      count  `json:"totalTokenCount"`
	Tier       string `json:"serviceTier"`
}

func (u *geminiUsage) tokens() (f figures, t run.Tokens) {
	prompt := f.take("promptTokenCount", u.Prompt)
	t.CacheRead = f.take("cachedContentTokenCount", u.Cached)
	fed := f.take("toolUsePromptTokenCount", u.ToolPrompt)
	candidates, thoughts := f.take("candidatesTokenCount", u.Candidates), f.take("thoughtsTokenCount", u.Thoughts)
	total := f.take("totalTokenCount", u.Total)
	if t.CacheRead > prompt {
		f.odd = "more cached tokens than prompt"
	}
	t.Input = max(prompt-t.CacheRead, 0) + fed
	t.Output = candidates + thoughts
	t.Reasoning = thoughts
	switch {
	case u.Prompt.bad || u.ToolPrompt.bad: // the total says nothing of the output
	case total > prompt+fed+t.Output:
		// Something that has no name: it was generated.
		t.Output = total - prompt - fed
		f.odd = "totalTokenCount is more than its parts"
	case total > 0 && thoughts > 0 && thoughts <= candidates && total == prompt+fed+candidates:
		t.Output = candidates // a server that counts thoughts among the candidates
	}
	return f, t
}

type geminiAnswer struct {
	ID    string          `json:"responseId"`
	Model string          `json:"modelVersion"`
	Usage json.RawMessage `json:"usageMetadata"`

	Candidates []struct {
		Finish    string `json:"finishReason"`
		Grounding struct {
			Queries []json.RawMessage `json:"webSearchQueries"`
		} `json:"groundingMetadata"`
	} `json:"candidates"`
	Feedback struct {
		Block string `json:"blockReason"` // the prompt was refused; no candidate comes
	} `json:"promptFeedback"`
}

// geminiAnswers reads whole answers, or the chunks of streamed ones: each chunk
// tells the running total of its answer.
type geminiAnswers struct {
	r        *Reader
	streamed bool
	id, key  string // of the answer under way
	open     bool   // its end has not come
	queries  int64  // searches that it says it was grounded on
}

func newGeminiUsage(r *Reader) parser { return &geminiAnswers{r: r} }

func newGeminiSSE(r *Reader) parser { return &geminiAnswers{r: r, streamed: true} }

func (p *geminiAnswers) event(b []byte) bool {
	var a geminiAnswer
	if !decode(b, &a) {
		return false
	}
	switch {
	case p.streamed && p.key != "" && (a.ID == "" || a.ID == p.id):
	case a.ID != "":
		p.close()
		p.id, p.queries = a.ID, 0
		p.key, p.open = p.r.scoped(a.ID), p.streamed
	default:
		p.close()
		p.id, p.queries = "", 0
		p.key, p.open = p.r.scoped(p.r.next()), p.streamed
	}
	p.open = p.open && a.Feedback.Block == ""
	for _, c := range a.Candidates {
		p.open = p.open && (c.Finish == "" || c.Finish == "FINISH_REASON_UNSPECIFIED")
		p.queries = max(p.queries, int64(len(c.Grounding.Queries)))
	}
	p.r.rep.Ended = !p.open
	raw := a.Usage
	if raw == nil {
		if p.streamed {
			return true
		}
		raw = b
	}
	var u geminiUsage
	decode(raw, &u)
	f, t := u.tokens()
	rec := p.r.record(p.key, a.Model, f, t, raw)
	if rec.Tier = tier(u.Tier); p.queries > 0 {
		rec.ToolCalls = map[string]int64{grounding: p.queries}
	}
	if p.open {
		rec.Rank, rec.Provenance = run.FromEstimate, rec.Provenance.Worse(run.Partial)
	}
	p.r.out.put(rec)
	return true
}

func (p *geminiAnswers) close() {
	if p.open {
		p.r.incomplete("an answer that broke off")
	}
	p.open = false
}
