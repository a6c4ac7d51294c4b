//go:build linux

package llm_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/weirhq/weir/runtime/agent/llm"
	"github.com/weirhq/weir/runtime/agent/llm/anthropic"
	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/run"
)

// messages is Anthropic's Messages API, as its documentation on streaming shows it.
type messages struct{}

func (messages) name() string     { return "anthropic-messages" }
func (messages) provider() string { return "anthropic" }

func (messages) model(t llm.Target) chat.Model {
	return anthropic.New(anthropic.Options{BaseURL: t.BaseURL, Key: t.Key, Provider: t.Provider, Client: t.Client})
}

func (messages) billed(t run.Tokens) run.Tokens { return t }

func (messages) frames(model string, s said) []string {
	j := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	type m = map[string]any
	out := []string{
		frame("message_start", j(m{"type": "message_start", "message": m{
			"id": s.id, "type": "message", "role": "assistant", "model": model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil,
			"usage": m{
				"input_tokens": s.tokens.Input, "cache_read_input_tokens": s.tokens.CacheRead,
				"cache_creation_input_tokens": s.tokens.CacheWriteShort + s.tokens.CacheWriteLong,
				"cache_creation":              m{"ephemeral_5m_input_tokens": s.tokens.CacheWriteShort, "ephemeral_1h_input_tokens": s.tokens.CacheWriteLong},
				"output_tokens":               1,
			},
		}})),
		frame("ping", `{"type": "ping"}`),
	}
	n := 0
	block := func(start m, deltas ...m) {
		out = append(out, frame("content_block_start", j(m{"type": "content_block_start", "index": n, "content_block": start})))
		for _, d := range deltas {
			out = append(out, frame("content_block_delta", j(m{"type": "content_block_delta", "index": n, "delta": d})))
		}
		out = append(out, frame("content_block_stop", j(m{"type": "content_block_stop", "index": n})))
		n++
	}
	if s.reasoning != "" {
		block(
			m{"type": "thinking", "thinking": "", "signature": ""},
			m{"type": "thinking_delta", "thinking": s.reasoning}, m{"type": "signature_delta", "signature": "sig-of-" + s.id},
		)
	}
	if len(s.pieces) > 0 {
		var deltas []m
		for _, p := range s.pieces {
			deltas = append(deltas, m{"type": "text_delta", "text": p})
		}
		block(m{"type": "text", "text": ""}, deltas...)
	}
	for _, c := range s.calls {
		half := len(c.args) / 2
		block(
			m{"type": "tool_use", "id": c.id, "name": c.name, "input": m{}},
			m{"type": "input_json_delta", "partial_json": ""},
			m{"type": "input_json_delta", "partial_json": c.args[:half]}, m{"type": "input_json_delta", "partial_json": c.args[half:]},
		)
	}
	reason := map[chat.Stop]string{
		chat.Done: "end_turn", chat.Calls: "tool_use", chat.MaxOutput: "max_tokens", chat.Refused: "refusal", chat.Full: "model_context_window_exceeded", chat.Paused: "pause_turn",
	}[s.stop]
	delta := m{"stop_reason": reason, "stop_sequence": nil}
	if s.stop == chat.Refused {
		delta["stop_details"] = m{"type": "refusal", "category": "bio", "explanation": s.why}
	}
	return append(
		out,
		frame("message_delta", j(m{"type": "message_delta", "delta": delta, "usage": m{
			"output_tokens": s.tokens.Output, "output_tokens_details": m{"thinking_tokens": s.tokens.Reasoning},
		}})),
		frame("message_stop", `{"type": "message_stop"}`),
	)
}

func (messages) fault(status int, text string) string {
	kind := map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
	}[status]
	return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_1"}`, kind, text)
}

func (messages) parse(r *http.Request, body []byte) (a asked, err error) {
	if r.URL.Path != "/v1/messages" || r.Header.Get("Anthropic-Version") == "" {
		return a, fmt.Errorf("%s, version %q", r.URL.Path, r.Header.Get("Anthropic-Version"))
	}
	var q struct {
		Model     string                  `json:"model"`
		MaxTokens int                     `json:"max_tokens"`
		Stream    bool                    `json:"stream"`
		System    []struct{ Text string } `json:"system"`
		Tools     []struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"input_schema"`
		} `json:"tools"`
		Thinking struct{ Type string } `json:"thinking"`
		Output   struct {
			Effort string `json:"effort"`
		} `json:"output_config"`
		Cache    struct{ Type string } `json:"cache_control"`
		Messages []struct {
			Role    string `json:"role"`
			Content []struct {
				Type      string          `json:"type"`
				Text      string          `json:"text"`
				Thinking  string          `json:"thinking"`
				Signature string          `json:"signature"`
				ID        string          `json:"id"`
				Name      string          `json:"name"`
				Input     json.RawMessage `json:"input"`
				ToolUseID string          `json:"tool_use_id"`
				IsError   bool            `json:"is_error"`
				Content   json.RawMessage `json:"content"`
			} `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return a, err
	}
	switch {
	case !q.Stream || q.MaxTokens <= 0:
		return a, fmt.Errorf("stream %t, max_tokens %d", q.Stream, q.MaxTokens)
	case q.Cache.Type != "ephemeral":
		return a, fmt.Errorf("the conversation is not cached: %q", q.Cache.Type)
	}
	a.key, a.model, a.reasoning = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), q.Model, q.Output.Effort
	if q.Thinking.Type == "disabled" {
		a.reasoning = "none"
	}
	for _, s := range q.System {
		a.instructions += s.Text
	}
	for _, t := range q.Tools {
		var schema struct{ Type string }
		if err := json.Unmarshal(t.Schema, &schema); err != nil || schema.Type != "object" {
			return a, fmt.Errorf("the schema of %s is %s", t.Name, t.Schema)
		}
		a.tools = append(a.tools, t.Name)
	}
	open := map[string]bool{}
	role := ""
	for _, m := range q.Messages {
		if m.Role == role {
			return a, fmt.Errorf("two messages of the %s in a row", role)
		}
		role = m.Role
		for _, c := range m.Content {
			switch c.Type {
			case "text":
				if c.Text == "" {
					return a, fmt.Errorf("messages: text content blocks must be non-empty")
				}
				a.messages = append(a.messages, role+": "+c.Text)
			case "thinking":
				a.messages = append(a.messages, "thinking "+c.Signature+" "+c.Thinking)
			case "tool_use":
				open[c.ID] = true
				a.messages = append(a.messages, "call "+c.ID+" "+c.Name+" "+plain(c.Input))
			case "tool_result":
				if !open[c.ToolUseID] {
					return a, fmt.Errorf("the result of %s has no call", c.ToolUseID)
				}
				delete(open, c.ToolUseID)
				var parts []struct{ Text string }
				if err := json.Unmarshal(c.Content, &parts); err != nil || len(parts) != 1 {
					return a, fmt.Errorf("the result is %s", c.Content)
				}
				kind := "result "
				if c.IsError {
					kind = "error "
				}
				a.messages = append(a.messages, kind+c.ToolUseID+" "+parts[0].Text)
			default:
				return a, fmt.Errorf("a block of the type %q", c.Type)
			}
		}
		if role == "user" && len(open) > 0 {
			return a, fmt.Errorf("tool_use ids were found without tool_result blocks immediately after: %v", open)
		}
	}
	return a, nil
}
