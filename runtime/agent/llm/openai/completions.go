package openai

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/meter"
)

// Chat is the adapter of Chat Completions, as OpenAI and many other servers
// speak them.
type Chat struct {
	client  client
	dialect dialect
	noUsage atomic.Bool // the server turned out not to know stream_options
}

// NewChat makes the adapter. It takes nothing from the environment.
func NewChat(o Options) *Chat {
	c := &Chat{client: newClient(o), dialect: dialectOf(o.Provider, o.BaseURL)}
	c.client.without = func(p problem) bool {
		return (p.param == "stream_options" || strings.Contains(p.text, "stream_options")) && !c.noUsage.Swap(true)
	}
	return c
}

// Stream implements chat.Model.
func (c *Chat) Stream(ctx context.Context, q chat.Request, text func(int, string) error) (reply chat.Reply, err error) {
	format := meter.CompatibleSSE
	if c.client.provider == ownProvider {
		format = meter.ChatSSE
	}
	usage, err := chat.NewMeter(format, c.client.provider, q)
	if err != nil {
		return chat.Reply{}, err
	}
	a := completion{text: text, client: c.client, used: callIDs(q)}
	defer func() {
		reply = a.reply()
		usage.Settle(&reply)
	}()
	err = c.client.stream(ctx, "/chat/completions", c.params(q), func(data []byte) error {
		if string(data) == doneMark {
			usage.Event(doneMark)
			a.marked = true
			return errOver
		}
		ch, err := a.read(data)
		if err != nil {
			return err
		}
		usage.Event(string(a.sameID(ch, data)))
		return a.event(ch)
	})
	if err == nil {
		err = a.whole(ctx)
	}
	return reply, err
}

const doneMark = "[DONE]"

// returned is how a reasoning goes back to the server that said it.
type returned struct {
	Own *struct {
		Provider string            `json:"provider"`
		Field    string            `json:"field,omitempty"` // that the text was in
		Details  []json.RawMessage `json:"details,omitempty"`
	} `json:"openai-chat"`
}

// chatRequest is a request as servers read it.
type chatRequest struct {
	Model         string         `json:"model"`
	Messages      []chatMessage  `json:"messages"`
	Tools         []chatTool     `json:"tools,omitempty"`
	MaxTokens     int64          `json:"max_tokens,omitempty"`
	MaxCompletion int64          `json:"max_completion_tokens,omitempty"`
	Effort        string         `json:"reasoning_effort,omitempty"`
	CacheKey      string         `json:"prompt_cache_key,omitempty"`
	Stream        bool           `json:"stream"`
	StreamOptions *streamOptions `json:"stream_options,omitempty"`
}

type streamOptions struct {
	Usage bool `json:"include_usage"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

type chatMessage struct {
	Role    string     `json:"role"`
	Content *string    `json:"content"` // null beside calls: some servers want it to be there
	Calls   []chatCall `json:"tool_calls,omitempty"`
	CallID  string     `json:"tool_call_id,omitempty"`

	Thought   string            `json:"reasoning_content,omitempty"`
	Reasoning string            `json:"reasoning,omitempty"`
	Details   []json.RawMessage `json:"reasoning_details,omitempty"`
}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func (c *Chat) params(q chat.Request) chatRequest {
	p := chatRequest{Model: q.Model, Effort: c.dialect.effort(q.Model, q.Reasoning), Stream: true}
	if !c.dialect.usageUnasked && !c.noUsage.Load() {
		p.StreamOptions = &streamOptions{Usage: true}
	}
	if c.dialect.own {
		p.MaxCompletion, p.CacheKey = q.MaxOutput, shortID(q.CacheKey, maxCacheKey)
	} else {
		p.MaxTokens = q.MaxOutput
	}
	for _, t := range q.Tools {
		p.Tools = append(p.Tools, chatTool{Type: "function", Function: chatFunction{Name: t.Name, Description: t.Description, Parameters: t.Schema}})
	}
	if q.Instructions != "" {
		p.Messages = append(p.Messages, chatMessage{Role: "system", Content: &q.Instructions})
	}
	for _, m := range q.Messages {
		if m.Role == chat.Assistant {
			if a := c.assistant(m.Parts); a.Content != nil || len(a.Calls) > 0 {
				p.Messages = append(p.Messages, a)
			}
			continue
		}
		for _, part := range m.Parts {
			switch part := part.(type) {
			case chat.Text:
				if part.Text != "" {
					p.Messages = append(p.Messages, chatMessage{Role: "user", Content: &part.Text})
				}
			case chat.Result:
				text := resultText(part)
				p.Messages = append(p.Messages, chatMessage{Role: "tool", Content: &text, CallID: c.dialect.callID(part.ID)})
			}
		}
	}
	return p
}

// assistant is an answer as it goes back.
func (c *Chat) assistant(parts []chat.Part) chatMessage {
	a := chatMessage{Role: "assistant"}
	var texts []string
	for _, part := range parts {
		switch part := part.(type) {
		case chat.Text:
			if part.Text != "" {
				texts = append(texts, part.Text)
			}
		case chat.Reasoning:
			c.reasoning(part, &a)
		case chat.Call:
			call := chatCall{ID: c.dialect.callID(part.ID), Type: "function"}
			call.Function.Name, call.Function.Arguments = part.Name, arguments(part)
			a.Calls = append(a.Calls, call)
		}
	}
	if len(texts) > 0 {
		text := strings.Join(texts, "\n\n")
		a.Content = &text
	}
	return a
}

// reasoning adds a reasoning of this server's to a message.
func (c *Chat) reasoning(part chat.Reasoning, to *chatMessage) {
	var r returned
	if json.Unmarshal(part.Opaque, &r) != nil || r.Own == nil || r.Own.Provider != c.client.provider {
		return
	}
	switch r.Own.Field {
	case "reasoning_content":
		to.Thought += part.Text
	case "reasoning":
		to.Reasoning += part.Text
	}
	to.Details = append(to.Details, r.Own.Details...)
}

// callIDs gives the ids of the conversation's calls: some servers count anew with
// each answer.
func callIDs(q chat.Request) map[string]bool {
	ids := map[string]bool{}
	for _, m := range q.Messages {
		for _, p := range m.Parts {
			if c, ok := p.(chat.Call); ok {
				ids[c.ID] = true
			}
		}
	}
	return ids
}
