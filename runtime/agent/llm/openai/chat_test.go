package openai_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/agent/llm/openai"
	"github.com/weirhq/weir/runtime/run"
)

// partsOf writes a reply's parts in short.
func partsOf(r chat.Reply) string {
	var out []string
	for _, p := range r.Parts {
		switch p := p.(type) {
		case chat.Text:
			out = append(out, "text "+p.Text)
		case chat.Reasoning:
			out = append(out, "reasoning "+p.Text)
		case chat.Call:
			id := p.ID
			if strings.HasPrefix(id, "call") && len(id) > 8 {
				id = "new"
			}
			out = append(out, fmt.Sprintf("call %s %s %s%s", id, p.Name, p.Arguments, p.Broken))
		}
	}
	return strings.Join(out, "; ")
}

func TestChatOfOtherServers(t *testing.T) {
	t.Parallel()
	one := run.Tokens{Input: 10, Output: 5}
	const usage = `"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`
	end := func(reason string) string {
		return `{"id":"a","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}],` + usage + `}`
	}
	calls := func(list string) string {
		return `{"id":"a","choices":[{"index":0,"delta":{"tool_calls":` + list + `}}]}`
	}
	text := func(s string) string { return `{"id":"a","choices":[{"index":0,"delta":{"content":"` + s + `"}}]}` }
	for name, c := range map[string]struct {
		stream []string
		want   string
		stop   chat.Stop
		usage  run.Tokens
		how    run.Provenance
	}{
		"error is null": {[]string{
			`{"id":"a","error":null,"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}],"usage":null}`, end("stop"), "[DONE]",
		}, "text Hi", chat.Done, one, run.Measured},
		"usage grows with each chunk": {[]string{
			`{"id":"a","choices":[{"index":0,"delta":{"content":"H"}}],"usage":{"prompt_tokens":10,"completion_tokens":1,"total_tokens":11}}`,
			`{"id":"a","choices":[{"index":0,"delta":{"content":"i"}}],"usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14}}`, end("stop"), "[DONE]",
		}, "text Hi", chat.Done, one, run.Measured},
		"a new id for each chunk": {[]string{
			`{"id":"x1","choices":[{"index":0,"delta":{"content":"H"}}]}`, `{"id":"x2","choices":[{"index":0,"delta":{"content":"i"}}]}`, end("stop"), "[DONE]",
		}, "text Hi", chat.Done, one, run.Measured},
		"no [DONE]":           {[]string{text("Hi"), end("stop")}, "text Hi", chat.Done, one, run.Measured},
		"no id, no role":      {[]string{`{"choices":[{"delta":{"content":"Hi"}}]}`, end("stop"), "[DONE]"}, "text Hi", chat.Done, one, run.Measured},
		"Azure's beginning":   {[]string{`{"id":"","model":"","choices":[],"prompt_filter_results":[]}`, text("Hi"), end("stop"), "[DONE]"}, "text Hi", chat.Done, one, run.Measured},
		"whole calls":         {[]string{calls(`[{"id":"c1","function":{"name":"look","arguments":"{\"a\":1}"}},{"id":"c2","function":{"name":"look","arguments":"{}"}}]`), end("stop"), "[DONE]"}, `call c1 look {"a":1}; call c2 look {}`, chat.Calls, one, run.Measured},
		"calls in turn":       {[]string{calls(`[{"id":"c1","function":{"name":"look","arguments":"{\"a\""}}]`), calls(`[{"function":{"arguments":":1}"}}]`), calls(`[{"id":"c2","function":{"name":"look","arguments":"{}"}}]`), end("tool_calls"), "[DONE]"}, `call c1 look {"a":1}; call c2 look {}`, chat.Calls, one, run.Measured},
		"always index 0":      {[]string{calls(`[{"index":0,"id":"c1","function":{"name":"look","arguments":"{}"}}]`), calls(`[{"index":0,"id":"c2","function":{"name":"look","arguments":"{\"b\":2}"}}]`), end("tool_calls"), "[DONE]"}, `call c1 look {}; call c2 look {"b":2}`, chat.Calls, one, run.Measured},
		"pieces interleaved":  {[]string{calls(`[{"index":0,"id":"c1","function":{"name":"look"}},{"index":1,"id":"c2","function":{"name":"see"}}]`), calls(`[{"index":1,"function":{"arguments":"{\"b\""}},{"index":0,"function":{"arguments":"{\"a\""}}]`), calls(`[{"index":0,"function":{"arguments":":1}"}},{"index":1,"function":{"arguments":":2}"}}]`), end("tool_calls"), "[DONE]"}, `call c1 look {"a":1}; call c2 see {"b":2}`, chat.Calls, one, run.Measured},
		"an id in each piece": {[]string{calls(`[{"index":0,"id":"c1","function":{"name":"look","arguments":"{\"a\""}}]`), calls(`[{"index":0,"id":"other","function":{"arguments":":1}"}}]`), end("tool_calls"), "[DONE]"}, `call c1 look {"a":1}`, chat.Calls, one, run.Measured},
		"no ids":              {[]string{calls(`[{"function":{"name":"look","arguments":"{}"}},{"function":{"name":"see","arguments":{"b":2}}}]`), end("tool_calls"), "[DONE]"}, `call new look {}; call new see {"b":2}`, chat.Calls, one, run.Measured},
		"one id twice":        {[]string{calls(`[{"index":0,"id":"c1","function":{"name":"look","arguments":"{}"}},{"index":1,"id":"c1","function":{"name":"see","arguments":"{}"}}]`), end("tool_calls"), "[DONE]"}, `call c1 look {}; call new see {}`, chat.Calls, one, run.Measured},
		"cut in a call":       {[]string{calls(`[{"index":0,"id":"c1","function":{"name":"look","arguments":"{\"a"}}]`), calls(`[{"index":1,"id":"c2","function":{"name":"look","arguments":""}}]`), end("length"), "[DONE]"}, `call c1 look {}{"a`, chat.MaxOutput, one, run.Measured},
		"reasoning_content":   {[]string{`{"id":"a","choices":[{"delta":{"reasoning_content":"Hm"}}]}`, text("Hi"), end("stop"), "[DONE]"}, "reasoning Hm; text Hi", chat.Done, one, run.Measured},
		"reasoning":           {[]string{`{"id":"a","choices":[{"delta":{"reasoning":"Hm","content":""}}]}`, text("Hi"), end("stop"), "[DONE]"}, "reasoning Hm; text Hi", chat.Done, one, run.Measured},
		"a list of contents":  {[]string{`{"id":"a","choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]}]}}]}`, text("Hi"), end("stop"), "[DONE]"}, "reasoning Hm; text Hi", chat.Done, one, run.Measured},
		"a full context":      {[]string{text("Hi"), end("model_length"), "[DONE]"}, "text Hi", chat.Full, one, run.Measured},
		"a filter":            {[]string{text("Hi"), end("content_filter"), "[DONE]"}, "text Hi", chat.Refused, one, run.Measured},
		"fields of any type":  {[]string{`{"id":7,"choices":[{"index":0,"delta":{"content":"Hi","refusal":[]},"new":{}}],"created":"now"}`, end("stop"), "[DONE]"}, "text Hi", chat.Done, one, run.Measured},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, sse(c.stream...))
			reply, _, err := ask(t, openai.NewChat(s.options("vllm")), request())
			if err != nil || partsOf(reply) != c.want || reply.Stop != c.stop {
				t.Errorf("the reply is %q, %s, %v; want %q, %s", partsOf(reply), reply.Stop, err, c.want, c.stop)
			}
			wantUsage(t, reply, c.usage, c.how)
		})
	}
}

func TestChatThatIsNotWhole(t *testing.T) {
	t.Parallel()
	const text = `{"id":"a","choices":[{"index":0,"delta":{"content":"Hi"}}]}`
	const stop = `{"id":"a","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	for name, c := range map[string]struct {
		stream []string
		class  chat.Class
		words  string
	}{
		"no reason":                  {[]string{text, "[DONE]"}, chat.Malformed, "no finish_reason"},
		"no end":                     {[]string{text, stop}, chat.Passing, "broke off"},
		"an error":                   {[]string{text, `{"id":"a","error":{"code":502,"message":"upstream is gone"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}`, "[DONE]"}, chat.Passing, "upstream is gone"},
		"an error of vLLM":           {[]string{`{"error":{"object":"error","message":"prompt is too long","type":"BadRequestError","code":400}}`, "[DONE]"}, chat.TooLong, "too long"},
		"an error that is the event": {[]string{`{"object":"error","message":"bad","type":"BadRequestError","code":400}`}, chat.Invalid, "bad"},
		"the server gave up":         {[]string{text, `{"choices":[{"delta":{},"finish_reason":"insufficient_system_resource"}]}`, "[DONE]"}, chat.Passing, "insufficient_system_resource"},
		"no JSON":                    {[]string{text, `{]`}, chat.Malformed, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, sse(c.stream...))
			reply, _, err := ask(t, openai.NewChat(s.options("vllm")), request())
			wantClass(t, err, c.class, c.words)
			for _, u := range reply.Usage {
				if u.Provenance == run.Measured {
					t.Errorf("the usage is %+v", u)
				}
			}
		})
	}
}

// Each server gets the fields that it takes.
func TestChatRequests(t *testing.T) {
	t.Parallel()
	q := request()
	q.MaxOutput, q.Reasoning, q.Model = 100, chat.Max, "gpt-5.4"
	for provider, c := range map[string]struct{ has, hasNot []string }{
		"openai":     {[]string{`"max_completion_tokens":100`, `"prompt_cache_key":"session-1"`, `"reasoning_effort":"xhigh"`, `"include_usage":true`}, []string{`"max_tokens"`}},
		"vllm":       {[]string{`"max_tokens":100`, `"reasoning_effort":"high"`, `"include_usage":true`}, []string{"max_completion_tokens", "prompt_cache_key"}},
		"openrouter": {[]string{`"max_tokens":100`, `"reasoning_effort":"xhigh"`}, []string{"prompt_cache_key"}},
		"mistral":    {[]string{`"max_tokens":100`, `"reasoning_effort":"high"`}, []string{"stream_options", "prompt_cache_key"}},
	} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			s := serve(t, "400 {}")
			_, _, err := ask(t, openai.NewChat(s.options(provider)), q)
			wantClass(t, err, chat.Invalid, "")
			for _, want := range c.has {
				if !strings.Contains(s.bodies[0], want) {
					t.Errorf("%s is not in %s", want, s.bodies[0])
				}
			}
			for _, no := range c.hasNot {
				if strings.Contains(s.bodies[0], no) {
					t.Errorf("%s is in %s", no, s.bodies[0])
				}
			}
		})
	}
}

func TestChatWithoutStreamOptions(t *testing.T) {
	t.Parallel()
	s := serve(t, `400 {"error":{"message":"Unknown field stream_options"}}`, `400 {"error":{"message":"Unknown field stream_options"}}`)
	m := openai.NewChat(s.options("old"))
	_, _, err := ask(t, m, request())
	wantClass(t, err, chat.Passing, "stream_options")
	_, _, err = ask(t, m, request())
	wantClass(t, err, chat.Invalid, "stream_options") // once
	if !strings.Contains(s.bodies[0], "stream_options") || strings.Contains(s.bodies[1], "stream_options") {
		t.Errorf("asked was %s", s.bodies)
	}
}

// What a server thought goes back to it in the field that it was in, and to no other.
func TestChatReasoningGoesBack(t *testing.T) {
	t.Parallel()
	s := serve(t, sse(
		`{"id":"a","choices":[{"delta":{"reasoning_content":"Hm"}}]}`,
		`{"id":"a","choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_0","function":{"name":"look","arguments":"{}"}}]}}]}`,
		`{"id":"a","choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, "[DONE]",
	), "400 {}", "400 {}", "400 {}", sse(
		`{"id":"a","choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_0","function":{"name":"look","arguments":"{}"}}]}}]}`,
		`{"id":"a","choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, "[DONE]",
	))
	reply, _, err := ask(t, openai.NewChat(s.options("deepseek")), request())
	if err != nil {
		t.Fatal(err)
	}
	q := request()
	q.Messages = append(q.Messages,
		chat.Message{Role: chat.Assistant, Parts: reply.Parts},
		chat.Message{Role: chat.User, Parts: []chat.Part{chat.Result{ID: "call_0", Name: "look", Text: "", IsError: true}, chat.Text{Text: "Go on"}}},
	)
	for i, provider := range []string{"deepseek", "vllm", "mistral"} {
		_, _, _ = ask(t, openai.NewChat(s.options(provider)), q)
		body := s.bodies[i+1]
		if has := strings.Contains(body, `"reasoning_content":"Hm"`); has != (provider == "deepseek") {
			t.Errorf("%s is asked with %s", provider, body)
		}
		var sent struct {
			Messages []struct {
				Role, Content string
				CallID        string                `json:"tool_call_id"`
				Calls         []struct{ ID string } `json:"tool_calls"`
			}
		}
		if err := json.Unmarshal([]byte(body), &sent); err != nil {
			t.Fatal(err)
		}
		m := sent.Messages
		if len(m) != 4 || m[2].Role != "tool" || m[2].Content != "Error: (no output)" || m[3].Role != "user" || m[1].Calls[0].ID != m[2].CallID {
			t.Errorf("the messages are %+v", m)
		}
		if id := m[2].CallID; provider == "mistral" && len(id) != 9 || provider != "mistral" && id != "call_0" {
			t.Errorf("%s gets the id %q", provider, id)
		}
	}
	// A server that counts its calls anew gets no id twice.
	reply, _, err = ask(t, openai.NewChat(s.options("deepseek")), q)
	if err != nil || partsOf(reply) != "call new look {}" {
		t.Errorf("the reply is %q, %v", partsOf(reply), err)
	}
}
