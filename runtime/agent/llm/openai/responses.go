package openai

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/meter"
)

const (
	maxCallID   = 64 // characters of an id that the API takes
	maxCacheKey = 64
)

// Responses is the adapter of the Responses API. The API keeps nothing: each
// request says all, with the reasoning that came before in its sealed form.
type Responses struct {
	client client
	// What a model or an account turned out not to have.
	noReasoning, noSummary atomic.Bool
}

// NewResponses makes the adapter. It takes nothing from the environment.
func NewResponses(o Options) *Responses {
	m := &Responses{client: newClient(o)}
	m.client.without = func(p problem) bool {
		switch p.param {
		case "include": // encrypted content is not supported with this model
			return !m.noReasoning.Swap(true)
		case "reasoning.summary": // for organizations that are verified
			return !m.noSummary.Swap(true)
		}
		return false
	}
	return m
}

// Stream implements chat.Model.
func (m *Responses) Stream(ctx context.Context, q chat.Request, text func(int, string) error) (reply chat.Reply, err error) {
	usage, err := chat.NewMeter(meter.ResponsesSSE, m.client.provider, q)
	if err != nil {
		return chat.Reply{}, err
	}
	a := response{text: text, client: m.client}
	defer func() {
		reply = a.reply()
		usage.Settle(&reply)
	}()
	err = m.client.stream(ctx, "/responses", m.params(q), func(data []byte) error {
		if string(data) == "[DONE]" { // of servers that also speak Chat Completions
			return errOver
		}
		usage.Event(string(data))
		return a.event(data)
	})
	if err == nil && !a.over {
		err = chat.Broke(ctx, "the answer broke off", nil)
	}
	return reply, err
}

// sealed is the form of a reasoning that the API wants back.
type sealed struct {
	Own *struct {
		Provider  string `json:"provider"`
		ID        string `json:"id"`
		Encrypted string `json:"encrypted"`
	} `json:"openai-responses"`
}

// responseRequest is a request as the API reads it.
type responseRequest struct {
	Model        string             `json:"model"`
	Instructions string             `json:"instructions,omitempty"`
	Input        []any              `json:"input"`
	Tools        []responseTool     `json:"tools,omitempty"`
	MaxOutput    int64              `json:"max_output_tokens,omitempty"`
	Reasoning    *responseReasoning `json:"reasoning,omitempty"`
	Include      []string           `json:"include,omitempty"`
	CacheKey     string             `json:"prompt_cache_key,omitempty"`
	Store        bool               `json:"store"`
	Stream       bool               `json:"stream"`
}

type responseReasoning struct {
	Effort  string `json:"effort,omitempty"`
	Summary string `json:"summary,omitempty"`
}

type responseTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"` // true when it is missing
}

type inputMessage struct {
	Type    string `json:"type"`
	Role    string `json:"role"`
	Content string `json:"content"`
}

type inputReasoning struct {
	Type      string  `json:"type"`
	ID        string  `json:"id"`
	Summary   []words `json:"summary"`
	Encrypted string  `json:"encrypted_content"`
}

type inputCall struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type inputResult struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output string `json:"output"`
}

func (m *Responses) params(q chat.Request) responseRequest {
	p := responseRequest{
		Model: q.Model, Instructions: q.Instructions, Input: []any{}, MaxOutput: q.MaxOutput,
		CacheKey: shortID(q.CacheKey, maxCacheKey), Stream: true,
	}
	if reasons(q.Model) && !m.noReasoning.Load() {
		p.Include = []string{"reasoning.encrypted_content"}
		p.Reasoning = &responseReasoning{Effort: effortOf(q.Model, q.Reasoning)}
		if !m.noSummary.Load() {
			p.Reasoning.Summary = "auto"
		}
	}
	for _, t := range q.Tools {
		p.Tools = append(p.Tools, responseTool{Type: "function", Name: t.Name, Description: t.Description, Parameters: t.Schema})
	}
	for _, msg := range q.Messages {
		for i, part := range msg.Parts {
			if item := m.item(msg, i, part); item != nil {
				p.Input = append(p.Input, item)
			}
		}
	}
	return p
}

// item is a part as an item of the input; nil when it is none.
func (m *Responses) item(msg chat.Message, i int, part chat.Part) any {
	switch part := part.(type) {
	case chat.Text:
		if part.Text != "" {
			return inputMessage{Type: "message", Role: string(msg.Role), Content: part.Text}
		}
	case chat.Reasoning:
		var s sealed
		if json.Unmarshal(part.Opaque, &s) != nil || s.Own == nil || s.Own.Encrypted == "" || s.Own.Provider != m.client.provider || !followed(msg.Parts[i+1:]) {
			return nil
		}
		r := inputReasoning{Type: "reasoning", ID: s.Own.ID, Summary: []words{}, Encrypted: s.Own.Encrypted}
		if part.Text != "" {
			r.Summary = append(r.Summary, words{Type: "summary_text", Text: part.Text})
		}
		return r
	case chat.Call:
		return inputCall{Type: "function_call", CallID: shortID(part.ID, maxCallID), Name: part.Name, Arguments: arguments(part)}
	case chat.Result:
		return inputResult{Type: "function_call_output", CallID: shortID(part.ID, maxCallID), Output: resultText(part)}
	}
	return nil
}

// followed tells whether something comes behind a reasoning: the API refuses one
// that stands alone.
func followed(parts []chat.Part) bool {
	for _, p := range parts {
		switch p := p.(type) {
		case chat.Text:
			if p.Text != "" {
				return true
			}
		case chat.Call:
			return true
		}
	}
	return false
}
