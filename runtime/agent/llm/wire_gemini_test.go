//go:build linux

package llm_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/weirhq/weir/runtime/agent/llm"
	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/agent/llm/gemini"
	"github.com/weirhq/weir/runtime/run"
)

// generate is the Gemini API's streamGenerateContent, as its reference shows it.
type generate struct{}

func (generate) name() string     { return "gemini" }
func (generate) provider() string { return "google" }

func (generate) model(t llm.Target) chat.Model {
	return gemini.New(gemini.Options{BaseURL: t.BaseURL, Key: t.Key, Provider: t.Provider, Client: t.Client})
}

// billed: what is written to the cache is part of the prompt and not told.
func (generate) billed(t run.Tokens) run.Tokens {
	t.Input += t.CacheWriteShort + t.CacheWriteLong
	t.CacheWriteShort, t.CacheWriteLong = 0, 0
	return t
}

func (generate) frames(model string, s said) []string {
	type m = map[string]any
	var out []string
	prompt := s.tokens.Input + s.tokens.CacheRead + s.tokens.CacheWriteShort + s.tokens.CacheWriteLong
	chunk := func(candidate, usage m) {
		candidate["index"] = 0
		b, err := json.Marshal(m{"candidates": []m{candidate}, "usageMetadata": usage, "modelVersion": model, "responseId": s.id})
		if err != nil {
			panic(err)
		}
		out = append(out, frame("", string(b)))
	}
	begun := func() m {
		return m{"promptTokenCount": prompt, "totalTokenCount": prompt, "promptTokensDetails": []m{{"modality": "TEXT", "tokenCount": prompt}}}
	}
	say := func(parts ...m) { chunk(m{"content": m{"role": "model", "parts": parts}}, begun()) }
	signature := ""
	chunk(m{"content": m{"role": "model"}}, begun())
	if s.reasoning != "" {
		say(m{"text": s.reasoning, "thought": true})
		signature = base64.StdEncoding.EncodeToString([]byte("sig-of-" + s.id))
	}
	for _, p := range s.pieces {
		say(m{"text": p})
	}
	for _, c := range s.calls { // of calls side by side the first has the signature
		p := m{"functionCall": m{"id": c.id, "name": c.name, "args": json.RawMessage(c.args)}}
		if signature != "" {
			p["thoughtSignature"], signature = signature, ""
		}
		say(p)
	}
	last := m{"finishReason": map[chat.Stop]string{chat.Done: "STOP", chat.Calls: "STOP", chat.MaxOutput: "MAX_TOKENS", chat.Refused: "SAFETY"}[s.stop]}
	if s.stop == "" {
		last["finishReason"] = "STOP"
	}
	if s.why != "" {
		last["finishMessage"] = s.why
	}
	if s.stop != chat.Refused {
		text := m{"text": ""}
		if signature != "" {
			text["thoughtSignature"] = signature
		}
		last["content"] = m{"role": "model", "parts": []m{text}}
	}
	usage := begun()
	usage["cachedContentTokenCount"], usage["thoughtsTokenCount"] = s.tokens.CacheRead, s.tokens.Reasoning
	usage["candidatesTokenCount"], usage["totalTokenCount"] = s.tokens.Output-s.tokens.Reasoning, prompt+s.tokens.Output
	chunk(last, usage)
	return out
}

func (generate) fault(status int, text string) string {
	name := map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE",
	}[status]
	return fmt.Sprintf("{\n  \"error\": {\n    \"code\": %d,\n    \"message\": %q,\n    \"status\": %q\n  }\n}\n", status, text, name)
}

type geminiPart struct {
	Text      *string `json:"text"`
	Thought   bool    `json:"thought"`
	Signature []byte  `json:"thoughtSignature"`
	Call      *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Result *struct {
		ID       string         `json:"id"`
		Name     string         `json:"name"`
		Response map[string]any `json:"response"`
	} `json:"functionResponse"`
}

type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

func (generate) parse(r *http.Request, body []byte) (a asked, err error) {
	model, ok := strings.CutPrefix(r.URL.Path, "/v1beta/models/")
	model, verb, _ := strings.Cut(model, ":")
	if !ok || verb != "streamGenerateContent" || r.URL.RawQuery != "alt=sse" {
		return a, fmt.Errorf("asked is %s", r.URL)
	}
	var q struct {
		System   *geminiContent  `json:"systemInstruction"`
		Contents []geminiContent `json:"contents"`
		Tools    []struct {
			Functions []struct {
				Name        string `json:"name"`
				Description string `json:"description"`
				Schema      struct {
					Type string `json:"type"`
				} `json:"parametersJsonSchema"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
		Config struct {
			MaxOutput int `json:"maxOutputTokens"`
			Thinking  struct {
				Level   string `json:"thinkingLevel"`
				Include bool   `json:"includeThoughts"`
			} `json:"thinkingConfig"`
		} `json:"generationConfig"`
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		return a, err
	}
	delete(all, "tools") // a schema says what it wants
	if rest, err := json.Marshal(all); err != nil {
		return a, err
	} else if err := strict(rest, &q); err != nil { // the API refuses names that it does not know
		return a, err
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return a, err
	}
	a.key, a.model, a.reasoning = r.Header.Get("X-Goog-Api-Key"), model, strings.ToLower(q.Config.Thinking.Level)
	if a.reasoning != "" && !q.Config.Thinking.Include {
		return a, fmt.Errorf("thoughts are not asked for")
	}
	if q.System != nil {
		for _, p := range q.System.Parts {
			a.instructions += *p.Text
		}
	}
	for _, t := range q.Tools {
		for _, f := range t.Functions {
			if f.Schema.Type != "object" || f.Description == "" {
				return a, fmt.Errorf("the function %+v", f)
			}
			a.tools = append(a.tools, f.Name)
		}
	}
	if len(q.Contents) == 0 || q.Contents[0].Role != "user" {
		return a, fmt.Errorf("contents do not begin with the user")
	}
	before := geminiContent{}
	for i, c := range q.Contents {
		if c.Role != "user" && c.Role != "model" {
			return a, fmt.Errorf("valid roles are user and model, not %q", c.Role)
		}
		if c.Role == before.Role || len(c.Parts) == 0 {
			return a, fmt.Errorf("contents[%d] is of the %s like the one before, or empty", i, c.Role)
		}
		lines, err := c.lines(before)
		if err != nil {
			return a, fmt.Errorf("contents[%d]: %w", i, err)
		}
		a.messages = append(a.messages, lines...)
		before = c
	}
	return a, nil
}

// lines reads a content. The results of one answer those of the calls before it,
// in number and in order.
func (c geminiContent) lines(before geminiContent) (out []string, err error) {
	var open []geminiPart
	for _, p := range before.Parts {
		if p.Call != nil {
			open = append(open, p)
		}
	}
	for _, p := range c.Parts {
		if len(p.Signature) > 0 {
			text := ""
			if p.Thought {
				text = *p.Text
			}
			out = append(out, "thinking "+string(p.Signature)+" "+text)
		}
		switch {
		case p.Text != nil && p.Call == nil && p.Result == nil:
			if *p.Text != "" && !p.Thought {
				out = append(out, map[string]string{"user": "user: ", "model": "assistant: "}[c.Role]+*p.Text)
			}
		case p.Call != nil && p.Text == nil && p.Result == nil && c.Role == "model":
			out = append(out, "call "+p.Call.ID+" "+p.Call.Name+" "+plain(p.Call.Args))
		case p.Result != nil && p.Text == nil && p.Call == nil && c.Role == "user":
			if len(open) == 0 || open[0].Call.Name != p.Result.Name || open[0].Call.ID != p.Result.ID || len(p.Result.Response) != 1 {
				return nil, fmt.Errorf("the result %+v does not answer %+v", *p.Result, open)
			}
			open = open[1:]
			if text, ok := p.Result.Response["error"].(string); ok {
				out = append(out, "error "+p.Result.ID+" "+text)
			} else if text, ok := p.Result.Response["output"].(string); ok {
				out = append(out, "result "+p.Result.ID+" "+text)
			}
		default:
			return nil, fmt.Errorf("required oneof field 'data' must have one initialized field: %+v", p)
		}
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("please ensure that the number of function response parts is equal to the number of function call parts: %d are open", len(open))
	}
	return out, nil
}

func strict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}
