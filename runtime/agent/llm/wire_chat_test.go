//go:build linux

package llm_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/weirhq/weir/runtime/agent/llm"
	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/agent/llm/openai"
	"github.com/weirhq/weir/runtime/run"
)

// completions is Chat Completions, as OpenAI's reference shows them, with the
// reasoning as OpenRouter writes it.
type completions struct{}

func (completions) name() string     { return "openai-chat" }
func (completions) provider() string { return "openrouter" }

func (completions) model(t llm.Target) chat.Model {
	return openai.NewChat(openai.Options{BaseURL: t.BaseURL + "/v1", Key: t.Key, Provider: t.Provider, Client: t.Client})
}

func (completions) billed(t run.Tokens) run.Tokens { return t }

func (completions) frames(model string, s said) []string {
	var out []string
	chunk := func(delta obj, finish any) {
		out = append(out, frame("", jsonOf(obj{
			"id": s.id, "object": "chat.completion.chunk", "created": 1764547200, "model": model, "system_fingerprint": nil, "usage": nil,
			"choices": []any{obj{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}},
		})))
	}
	chunk(obj{"role": "assistant", "content": "", "refusal": nil}, nil)
	if s.reasoning != "" {
		detail := obj{"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, "text": s.reasoning, "signature": nil}
		chunk(obj{"content": "", "reasoning": s.reasoning, "reasoning_details": []any{detail}}, nil)
		chunk(obj{"content": "", "reasoning_details": []any{obj{"type": "reasoning.text", "index": 0, "signature": "sig-of-" + s.id}}}, nil)
	}
	for _, p := range s.pieces {
		chunk(obj{"content": p}, nil)
	}
	if s.stop == chat.Refused {
		chunk(obj{"refusal": s.why}, nil)
	}
	for i, c := range s.calls {
		half := len(c.args) / 2
		chunk(obj{"tool_calls": []any{obj{"index": i, "id": c.id, "type": "function", "function": obj{"name": c.name, "arguments": ""}}}}, nil)
		for _, piece := range []string{c.args[:half], c.args[half:]} {
			chunk(obj{"tool_calls": []any{obj{"index": i, "function": obj{"arguments": piece}}}}, nil)
		}
	}
	finish := map[chat.Stop]string{chat.Calls: "tool_calls", chat.MaxOutput: "length"}[s.stop]
	if finish == "" {
		finish = "stop"
	}
	chunk(obj{}, finish)
	// [DONE] is of this frame: with the reason and the usage an answer is whole.
	return append(out, frame("", jsonOf(obj{
		"id": s.id, "object": "chat.completion.chunk", "created": 1764547200, "model": model, "choices": []any{},
		"usage": usageOf(s.tokens, "prompt", "completion"),
	}))+frame("", "[DONE]"))
}

func (completions) fault(status int, text string) string { return openAIFault(status, text) }

func (completions) parse(r *http.Request, body []byte) (a asked, err error) {
	if err := checkOpenAI(r, "/v1/chat/completions"); err != nil {
		return a, err
	}
	var q struct {
		Model  string
		Stream bool
		Usage  struct {
			Include bool `json:"include_usage"`
		} `json:"stream_options"`
		Effort string `json:"reasoning_effort"`
		Tools  []struct {
			Type     string
			Function struct {
				Name       string
				Parameters struct{ Type string }
			}
		}
		Messages []struct {
			Role    string
			Content *string
			Details []struct{ Text, Signature string } `json:"reasoning_details"`
			Calls   []struct {
				ID       string
				Type     string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
			CallID string `json:"tool_call_id"`
		}
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return a, err
	}
	if !q.Stream || !q.Usage.Include {
		return a, fmt.Errorf("stream %t, include_usage %t", q.Stream, q.Usage.Include)
	}
	a.key, a.model, a.reasoning = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), q.Model, q.Effort
	for _, t := range q.Tools {
		if t.Type != "function" || t.Function.Parameters.Type != "object" {
			return a, fmt.Errorf("the tool %+v", t)
		}
		a.tools = append(a.tools, t.Function.Name)
	}
	open := map[string]bool{}
	for i, m := range q.Messages {
		if m.Role != "tool" && len(open) > 0 {
			return a, fmt.Errorf("an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id': %v", open)
		}
		if m.Content == nil && (m.Role != "assistant" || len(m.Calls) == 0) {
			return a, fmt.Errorf("messages[%d] of the role %s has no content", i, m.Role)
		}
		switch m.Role {
		case "system":
			if i > 0 {
				return a, fmt.Errorf("messages[%d] is of the system", i)
			}
			a.instructions = *m.Content
		case "user":
			a.messages = append(a.messages, "user: "+*m.Content)
		case "assistant":
			for _, d := range m.Details {
				a.messages = append(a.messages, "thinking "+d.Signature+" "+d.Text)
			}
			if m.Content != nil {
				a.messages = append(a.messages, "assistant: "+*m.Content)
			}
			for _, c := range m.Calls {
				if c.ID == "" || len(c.ID) > 40 || c.Type != "function" || !json.Valid([]byte(c.Function.Arguments)) {
					return a, fmt.Errorf("the call %+v", c)
				}
				open[c.ID] = true
				a.messages = append(a.messages, "call "+c.ID+" "+c.Function.Name+" "+plain(json.RawMessage(c.Function.Arguments)))
			}
		case "tool":
			if !open[m.CallID] {
				return a, fmt.Errorf("messages with role 'tool' must be a response to a preceding message with 'tool_calls': %s", m.CallID)
			}
			delete(open, m.CallID)
			a.messages = append(a.messages, resultLine(m.CallID, *m.Content))
		default:
			return a, fmt.Errorf("the role %q", m.Role)
		}
	}
	if len(open) > 0 {
		return a, fmt.Errorf("no tool messages for %v", open)
	}
	return a, nil
}
