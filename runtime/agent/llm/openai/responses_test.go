package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/agent/llm/openai"
	"github.com/weirhq/weir/runtime/run"
)

const (
	created   = `{"type":"response.created","response":{"id":"r1","model":"model-1"}}`
	completed = `{"type":"response.completed","response":{"id":"r1","model":"model-1","output":[],"usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15}}}`
)

func TestResponsesThatAreNotWhole(t *testing.T) {
	t.Parallel()
	const begun = `{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c1","name":"look","arguments":""}}`
	for name, c := range map[string]struct {
		stream []string
		class  chat.Class
		words  string
	}{
		"no end":                       {[]string{created, begun}, chat.Passing, "broke off"},
		"an item not done":             {[]string{created, begun, completed}, chat.Malformed, "item 0 was never done"},
		"a failure":                    {[]string{created, `{"type":"response.failed","response":{"id":"r1","error":{"code":"server_error","message":"it broke"}}}`}, chat.Passing, "it broke"},
		"no quota":                     {[]string{created, `{"type":"error","sequence_number":2,"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"no quota","param":null}}`}, chat.NoCredit, "no quota"},
		"an error as it is documented": {[]string{created, `{"type":"error","code":"rate_limit_exceeded","message":"slow down","param":null,"sequence_number":1}`}, chat.Passing, "slow down"},
		"too long":                     {[]string{created, `{"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}}`}, chat.TooLong, "context window"},
		"invalid":                      {[]string{created, `{"type":"response.failed","response":{"error":{"code":"invalid_prompt","message":"not that"}}}`}, chat.Invalid, "not that"},
		"a piece of nothing":           {[]string{created, `{"type":"response.output_text.delta","output_index":3,"delta":"x"}`}, chat.Malformed, "item 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, sse(c.stream...))
			reply, _, err := ask(t, openai.NewResponses(s.options("")), request())
			wantClass(t, err, c.class, c.words)
			for _, p := range reply.Parts {
				if call, ok := p.(chat.Call); ok {
					t.Errorf("a call that was not done is in the reply: %+v", call)
				}
			}
			if name != "an item not done" && (len(reply.Usage) != 1 || reply.Usage[0].Provenance != run.Estimated) {
				t.Errorf("the usage is %+v", reply.Usage)
			}
		})
	}
}

func TestResponsesOfOtherServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream []string
		want   string
		stop   chat.Stop
	}{
		"text without pieces":      {[]string{created, `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"Hi"}]}}`, completed}, "text Hi", chat.Done},
		"all in the last event":    {[]string{created, `{"type":"response.completed","response":{"id":"r1","output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]},{"type":"function_call","call_id":"c1","name":"look","arguments":"{\"a\":1}","status":"completed"}],"usage":{"input_tokens":10,"output_tokens":5}}}`}, `text Hi; call c1 look {"a":1}`, chat.Calls},
		"unknown events and items": {[]string{created, `{"type":"response.new","delta":{"x":1},"item":"?"}`, `{"type":"response.output_item.done","output_index":0,"item":{"type":"web_search_call","arguments":{}}}`, `{"type":"keepalive"}`, completed}, "text ", chat.Done},
		"shown thoughts":           {[]string{created, `{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs","summary":[],"content":[{"type":"reasoning_text","text":"Hm"}]}}`, completed}, "reasoning Hm", chat.Done},
		"cut": {[]string{
			created, `{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}`, `{"type":"response.output_text.delta","output_index":0,"delta":"Hi"}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"c1","name":"look","arguments":"","status":"incomplete"}}`,
			`{"type":"response.incomplete","response":{"id":"r1","incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":10,"output_tokens":5}}}`,
		}, "text Hi; text ", chat.MaxOutput},
		"a filter": {[]string{created, `{"type":"response.incomplete","response":{"id":"r1","incomplete_details":{"reason":"content_filter"},"usage":{"input_tokens":10,"output_tokens":5}}}`}, "", chat.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, sse(c.stream...))
			reply, _, err := ask(t, openai.NewResponses(s.options("")), request())
			if err != nil || partsOf(reply) != c.want || reply.Stop != c.stop {
				t.Errorf("the reply is %q, %s, %v; want %q, %s", partsOf(reply), reply.Stop, err, c.want, c.stop)
			}
			wantUsage(t, reply, run.Tokens{Input: 10, Output: 5}, run.Measured)
		})
	}
}

func TestResponsesLevels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		model string
		level chat.Level
		want  string // "-": the model does not reason
	}{
		{"gpt-6-sol", chat.Max, "max"},
		{"gpt-5.6-sol", chat.Max, "max"},
		{"gpt-5.4", chat.Max, "xhigh"},
		{"gpt-5.1", chat.Max, "high"},
		{"gpt-5.1", chat.None, "none"},
		{"gpt-5-mini", chat.None, "minimal"},
		{"gpt-5-mini", chat.Max, "high"},
		{"gpt-5.2-codex", chat.None, "low"},
		{"gpt-5.1-codex-max", chat.Max, "xhigh"},
		{"o3", chat.Max, "high"},
		{"o4-mini", chat.None, "low"},
		{"openai/o3", chat.Low, "low"},
		{"gpt-6-sol", "", ""},
		{"something-new", chat.Medium, "medium"},
		{"gpt-4.1-mini", chat.High, "-"},
		{"gpt-4o", "", "-"},
		{"gpt-5-chat-latest", chat.Low, "-"},
	} {
		s := serve(t, "400 {}")
		q := request()
		q.Model, q.Reasoning = c.model, c.level
		_, _, err := ask(t, openai.NewResponses(s.options("")), q)
		wantClass(t, err, chat.Invalid, "")
		var sent struct {
			Reasoning *struct{ Effort string }
			Include   []string
		}
		if err := json.Unmarshal([]byte(s.bodies[0]), &sent); err != nil {
			t.Fatal(err)
		}
		got := "-"
		if sent.Reasoning != nil {
			got = sent.Reasoning.Effort
		}
		if got != c.want || (sent.Reasoning == nil) != (len(sent.Include) == 0) {
			t.Errorf("%s at %q is asked with %q, include %q; want %q", c.model, c.level, got, sent.Include, c.want)
		}
	}
}

// What an account or a model does not have is left out when the run asks again.
func TestResponsesWithoutReasoning(t *testing.T) {
	t.Parallel()
	const summary = `400 {"error":{"message":"Your organization must be verified to generate reasoning summaries.","type":"invalid_request_error","param":"reasoning.summary","code":"unsupported_value"}}`
	const include = `400 {"error":{"message":"Encrypted content is not supported with this model.","type":"invalid_request_error","param":"include","code":null}}`
	s := serve(t, summary, summary, include, include)
	m := openai.NewResponses(s.options(""))
	for _, class := range []chat.Class{chat.Passing, chat.Invalid, chat.Passing, chat.Invalid} {
		_, _, err := ask(t, m, request())
		wantClass(t, err, class, "")
	}
	for i, want := range []struct{ summary, include bool }{{true, true}, {false, true}, {false, true}, {false, false}} {
		b := s.bodies[i]
		if strings.Contains(b, `"summary":"auto"`) != want.summary || strings.Contains(b, "reasoning.encrypted_content") != want.include {
			t.Errorf("request %d is %s", i, b)
		}
	}
}

// A reasoning goes back to the server that sealed it, and not alone.
func TestResponsesReasoningGoesBack(t *testing.T) {
	t.Parallel()
	s := serve(t, sse(
		created,
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs1","summary":[],"encrypted_content":"not yet"}}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs1","summary":[{"type":"summary_text","text":"Hm"}],"encrypted_content":"sealed"}}`,
		completed,
	), "400 {}", "400 {}", "400 {}")
	reply, _, err := ask(t, openai.NewResponses(s.options("")), request())
	if err != nil || partsOf(reply) != "reasoning Hm" {
		t.Fatalf("the reply is %q, %v", partsOf(reply), err)
	}
	for i, c := range []struct {
		provider string
		behind   []chat.Part
		has      bool
	}{
		{"", []chat.Part{chat.Text{Text: "So."}}, true},
		{"", nil, false},
		{"other", []chat.Part{chat.Text{Text: "So."}}, false},
	} {
		q := request()
		q.Messages = append(q.Messages,
			chat.Message{Role: chat.Assistant, Parts: append(append([]chat.Part{}, reply.Parts...), c.behind...)},
			chat.Message{Role: chat.User, Parts: []chat.Part{chat.Text{Text: "Go on"}}},
		)
		_, _, _ = ask(t, openai.NewResponses(s.options(c.provider)), q)
		const want = `{"type":"reasoning","id":"rs1","summary":[{"type":"summary_text","text":"Hm"}],"encrypted_content":"sealed"}`
		if strings.Contains(s.bodies[i+1], want) != c.has || strings.Contains(s.bodies[i+1], "not yet") {
			t.Errorf("request %d is %s", i, s.bodies[i+1])
		}
	}
}
