//go:build linux

package llm_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/weirhq/weir/runtime/agent/llm"
	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/agent/llm/openai"
	"github.com/weirhq/weir/runtime/run"
)

// responses is OpenAI's Responses API, as its reference of streaming events shows it.
type responses struct{}

func (responses) name() string     { return "openai-responses" }
func (responses) provider() string { return "openai" }

func (responses) model(t llm.Target) chat.Model {
	return openai.NewResponses(openai.Options{BaseURL: t.BaseURL + "/v1", Key: t.Key, Provider: t.Provider, Client: t.Client})
}

func (responses) billed(t run.Tokens) run.Tokens { return t }

type obj = map[string]any

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// usageOf is how OpenAI counts: what was cached lies inside the input, what was
// reasoned inside the output.
func usageOf(t run.Tokens, input, output string) obj {
	in := t.Input + t.CacheRead + t.CacheWriteShort + t.CacheWriteLong
	return obj{
		input + "_tokens": in, output + "_tokens": t.Output, "total_tokens": in + t.Output,
		input + "_tokens_details": obj{
			"cached_tokens": t.CacheRead, "cache_write_tokens": t.CacheWriteShort + t.CacheWriteLong,
			"cache_write_tokens_details": obj{"ttl_30m_tokens": t.CacheWriteShort, "ttl_12h_tokens": t.CacheWriteLong},
		},
		output + "_tokens_details": obj{"reasoning_tokens": t.Reasoning},
	}
}

func (responses) frames(model string, s said) []string {
	var out []string
	event := func(kind string, fields obj) {
		fields["type"], fields["sequence_number"] = kind, len(out)
		out = append(out, frame(kind, jsonOf(fields)))
	}
	response := func(status string) obj {
		return obj{
			"id": s.id, "object": "response", "status": status, "model": model, "error": nil, "incomplete_details": nil,
			"output": []any{}, "usage": nil, "store": false, "service_tier": "default",
		}
	}
	event("response.created", obj{"response": response("in_progress")})
	event("response.in_progress", obj{"response": response("in_progress")})
	items := []any{}
	item := func(open, done obj, between func(index int)) {
		index := len(items)
		event("response.output_item.added", obj{"output_index": index, "item": open})
		between(index)
		event("response.output_item.done", obj{"output_index": index, "item": done})
		items = append(items, done)
	}
	if s.reasoning != "" {
		id := "rs_" + s.id
		item(obj{"id": id, "type": "reasoning", "summary": []any{}, "encrypted_content": "not yet"}, obj{
			"id": id, "type": "reasoning", "encrypted_content": "sig-of-" + s.id,
			"summary": []any{obj{"type": "summary_text", "text": s.reasoning}},
		}, func(index int) {
			event("response.reasoning_summary_part.added", obj{"item_id": id, "output_index": index, "summary_index": 0, "part": obj{"type": "summary_text", "text": ""}})
			event("response.reasoning_summary_text.delta", obj{"item_id": id, "output_index": index, "summary_index": 0, "delta": s.reasoning})
			event("response.reasoning_summary_text.done", obj{"item_id": id, "output_index": index, "summary_index": 0, "text": s.reasoning})
		})
	}
	message := func(kind, field string, pieces []string) {
		id := "msg_" + s.id
		whole := obj{"type": kind, field: strings.Join(pieces, "")}
		item(obj{"id": id, "type": "message", "role": "assistant", "status": "in_progress", "content": []any{}}, obj{
			"id": id, "type": "message", "role": "assistant", "status": "completed", "content": []any{whole},
		}, func(index int) {
			event("response.content_part.added", obj{"item_id": id, "output_index": index, "content_index": 0, "part": obj{"type": kind, field: ""}})
			for _, p := range pieces {
				event("response."+kind+".delta", obj{"item_id": id, "output_index": index, "content_index": 0, "delta": p, "logprobs": []any{}})
			}
			event("response."+kind+".done", obj{"item_id": id, "output_index": index, "content_index": 0, field: whole[field]})
			event("response.content_part.done", obj{"item_id": id, "output_index": index, "content_index": 0, "part": whole})
		})
	}
	if len(s.pieces) > 0 {
		message("output_text", "text", s.pieces)
	}
	if s.stop == chat.Refused {
		message("refusal", "refusal", []string{s.why})
	}
	for _, c := range s.calls {
		call := obj{"id": "fc_" + c.id, "type": "function_call", "status": "in_progress", "call_id": c.id, "name": c.name, "arguments": ""}
		done := obj{"id": "fc_" + c.id, "type": "function_call", "status": "completed", "call_id": c.id, "name": c.name, "arguments": c.args}
		item(call, done, func(index int) {
			half := len(c.args) / 2
			for _, piece := range []string{c.args[:half], c.args[half:]} {
				event("response.function_call_arguments.delta", obj{"item_id": call["id"], "output_index": index, "delta": piece})
			}
			event("response.function_call_arguments.done", obj{"item_id": call["id"], "output_index": index, "arguments": c.args})
		})
	}
	end := response("completed")
	if s.stop == chat.MaxOutput {
		end["status"], end["incomplete_details"] = "incomplete", obj{"reason": "max_output_tokens"}
	}
	end["output"], end["usage"] = items, usageOf(s.tokens, "input", "output")
	event("response."+end["status"].(string), obj{"response": end})
	return out
}

func openAIFault(status int, text string) string {
	kind, code := "invalid_request_error", any(nil)
	switch {
	case status == 401:
		code = "invalid_api_key"
	case status == 429:
		kind, code = "requests", "rate_limit_exceeded"
	case status >= 500:
		kind = "server_error"
	}
	return jsonOf(obj{"error": obj{"message": text, "type": kind, "param": nil, "code": code}})
}

func (responses) fault(status int, text string) string { return openAIFault(status, text) }

// checkOpenAI checks what both APIs share.
func checkOpenAI(r *http.Request, path string) error {
	for _, h := range []string{"OpenAI-Organization", "OpenAI-Project"} {
		if v := r.Header.Get(h); v != "" {
			return fmt.Errorf("the header %s is %q", h, v)
		}
	}
	if r.Method != http.MethodPost || r.URL.Path != path || r.Header.Get("Content-Type") != "application/json" {
		return fmt.Errorf("%s %s of the type %q", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
	}
	return nil
}

func (responses) parse(r *http.Request, body []byte) (a asked, err error) {
	if err := checkOpenAI(r, "/v1/responses"); err != nil {
		return a, err
	}
	var q struct {
		Model        string   `json:"model"`
		Stream       bool     `json:"stream"`
		Store        *bool    `json:"store"`
		Include      []string `json:"include"`
		CacheKey     string   `json:"prompt_cache_key"`
		Instructions string   `json:"instructions"`
		Reasoning    struct{ Effort, Summary string }
		Tools        []struct {
			Type       string
			Name       string
			Strict     *bool
			Parameters struct{ Type string }
		}
		Input []struct {
			Type      string
			Role      string
			Content   string
			ID        string
			Encrypted string `json:"encrypted_content"`
			Summary   *[]struct{ Type, Text string }
			CallID    string `json:"call_id"`
			Name      string
			Arguments *string
			Output    *string
		}
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return a, err
	}
	switch {
	case !q.Stream || q.Store == nil || *q.Store:
		return a, fmt.Errorf("stream %t, store %v", q.Stream, q.Store)
	case !slices.Contains(q.Include, "reasoning.encrypted_content") || q.Reasoning.Summary != "auto":
		return a, fmt.Errorf("include %q, summary %q", q.Include, q.Reasoning.Summary)
	case q.CacheKey == "" || len(q.CacheKey) > 64:
		return a, fmt.Errorf("prompt_cache_key %q", q.CacheKey)
	}
	a.key, a.model, a.instructions, a.reasoning = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), q.Model, q.Instructions, q.Reasoning.Effort
	for _, t := range q.Tools {
		if t.Type != "function" || t.Parameters.Type != "object" || t.Strict == nil || *t.Strict {
			return a, fmt.Errorf("the tool %+v", t)
		}
		a.tools = append(a.tools, t.Name)
	}
	open := map[string]bool{}
	lonely := ""
	for _, i := range q.Input {
		if lonely != "" && i.Type != "reasoning" && i.Type != "function_call" && i.Role != "assistant" {
			return a, fmt.Errorf("item '%s' of type 'reasoning' was provided without its required following item", lonely)
		}
		if i.Type != "function_call" && i.Type != "function_call_output" && len(open) > 0 && i.Role == "user" {
			return a, fmt.Errorf("no tool output found for function call %v", open)
		}
		lonely = ""
		switch i.Type {
		case "message":
			if i.Content == "" || i.Role != "user" && i.Role != "assistant" {
				return a, fmt.Errorf("a message of the role %q says %q", i.Role, i.Content)
			}
			a.messages = append(a.messages, i.Role+": "+i.Content)
		case "reasoning":
			if lonely = i.ID; i.ID == "" || i.Encrypted == "" || i.Summary == nil {
				return a, fmt.Errorf("the reasoning %+v", i)
			}
			text := ""
			for _, s := range *i.Summary {
				if s.Type != "summary_text" {
					return a, fmt.Errorf("a summary of the type %q", s.Type)
				}
				text += s.Text
			}
			a.messages = append(a.messages, "thinking "+i.Encrypted+" "+text)
		case "function_call":
			if i.CallID == "" || i.Name == "" || i.Arguments == nil || !json.Valid([]byte(*i.Arguments)) {
				return a, fmt.Errorf("the call %+v", i)
			}
			open[i.CallID] = true
			a.messages = append(a.messages, "call "+i.CallID+" "+i.Name+" "+plain(json.RawMessage(*i.Arguments)))
		case "function_call_output":
			if !open[i.CallID] || i.Output == nil {
				return a, fmt.Errorf("no tool call found for function call output with call_id %s", i.CallID)
			}
			delete(open, i.CallID)
			a.messages = append(a.messages, resultLine(i.CallID, *i.Output))
		default:
			return a, fmt.Errorf("an item of the type %q", i.Type)
		}
	}
	if len(open) > 0 {
		return a, fmt.Errorf("no tool output found for function call %v", open)
	}
	return a, nil
}

// resultLine reads a result of an API that has no field for errors.
func resultLine(id, text string) string {
	if rest, failed := strings.CutPrefix(text, "Error: "); failed {
		return "error " + id + " " + rest
	}
	return "result " + id + " " + text
}
