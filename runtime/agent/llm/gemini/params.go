package gemini

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
)

// request is what is asked, on the wire.
type request struct {
	Contents     []content   `json:"contents"`
	Instructions *content    `json:"systemInstruction,omitempty"`
	Tools        []tools     `json:"tools,omitempty"`
	Config       *generation `json:"generationConfig,omitempty"`
}

type tools struct {
	Functions []function `json:"functionDeclarations"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"parametersJsonSchema"`
}

type generation struct {
	MaxOutput int32           `json:"maxOutputTokens,omitempty"`
	Thinking  *thinkingConfig `json:"thinkingConfig,omitempty"`
}

type thinkingConfig struct {
	Include bool   `json:"includeThoughts,omitempty"`
	Budget  *int32 `json:"thinkingBudget,omitempty"`
	Level   string `json:"thinkingLevel,omitempty"`
}

// The roles on the wire.
const (
	roleUser  = "user"
	roleModel = "model"
)

// body writes a request.
func body(q chat.Request) request {
	r := request{Contents: contents(q.Messages)}
	if q.Instructions != "" {
		r.Instructions = &content{Parts: []part{{Text: &q.Instructions}}}
	}
	if len(q.Tools) > 0 {
		var t tools
		for _, f := range q.Tools {
			t.Functions = append(t.Functions, function{Name: f.Name, Description: f.Description, Schema: f.Schema})
		}
		r.Tools = []tools{t}
	}
	g := generation{MaxOutput: int32(min(q.MaxOutput, math.MaxInt32)), Thinking: thinking(q.Model, q.Reasoning)}
	if g != (generation{}) {
		r.Config = &g
	}
	return r
}

func contents(messages []chat.Message) []content {
	var out []content
	given := map[string]bool{} // ids of calls that are the API's
	for _, m := range messages {
		role := roleUser
		if m.Role == chat.Assistant {
			role = roleModel
		}
		list := parts(m.Parts, given)
		last := len(out) - 1
		switch {
		case len(list) == 0:
		case last >= 0 && out[last].Role == role: // nothing was left of the message between
			out[last].Parts = append(out[last].Parts, list...)
		default:
			out = append(out, content{Role: role, Parts: list})
		}
	}
	return out
}

func parts(list []chat.Part, given map[string]bool) []part {
	var out []part
	for _, p := range list {
		switch p := p.(type) {
		case chat.Text:
			if p.Text != "" {
				out = append(out, part{Text: &p.Text})
			}
		case chat.Reasoning:
			// Another provider's is of no use, and thoughts go back for their signature only.
			if o := read(p.Opaque); o.Own.Signature != "" {
				out = append(out, part{Text: &p.Text, Thought: o.Own.Thought, Signature: o.Own.Signature})
			}
		case chat.Call:
			o := read(p.Opaque)
			call := functionCall{Name: p.Name, Args: p.Arguments}
			if given[p.ID] = o.Own.ID; o.Own.ID {
				call.ID = p.ID
			}
			out = append(out, part{Call: &call, Signature: o.Own.Signature})
		case chat.Result:
			key := "output"
			if p.IsError {
				key = "error"
			}
			r := functionResponse{Name: p.Name, Response: map[string]string{key: p.Text}}
			if given[p.ID] {
				r.ID = p.ID
			}
			out = append(out, part{Result: &r})
		}
	}
	return out
}

func read(raw json.RawMessage) (o opaque) {
	_ = json.Unmarshal(raw, &o) // none, or another provider's
	return o
}

// thinking says how much a model thinks: up to 2.5 in tokens, since then by a
// level. Before 2.5 none does.
func thinking(model string, level chat.Level) *thinkingConfig {
	if level == "" {
		return nil
	}
	model = strings.TrimPrefix(model, "models/")
	switch v := version(model); {
	case v < 2.5:
		return nil
	case v < 3:
		return &thinkingConfig{Include: level != chat.None, Budget: new(budget(model, level))}
	}
	return &thinkingConfig{Include: level != chat.None, Level: levelOf(model, level)}
}

var versioned = regexp.MustCompile(`^gemini-([0-9]+(?:\.[0-9]+)?)(?:-|$)`)

// version of a model; a name without one is of a new model.
func version(model string) float64 {
	m := versioned.FindStringSubmatch(model)
	if m == nil {
		return math.Inf(1)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return math.Inf(1)
	}
	return v
}

// budget is what Google's own translation of OpenAI's levels takes, within the
// bounds of the models: 2.5 Pro always thinks.
func budget(model string, level chat.Level) int32 {
	pro := strings.Contains(model, "pro")
	switch level {
	case chat.None:
		if pro {
			return 128
		}
		return 0
	case chat.Low:
		return 1024
	case chat.Medium:
		return 8192
	case chat.Max:
		if pro {
			return 32_768
		}
	case chat.High:
	}
	return 24_576
}

// levelOf gives the level. None of these models can be kept from thinking.
func levelOf(model string, level chat.Level) string {
	switch level {
	case chat.None:
		flash := strings.HasPrefix(model, "gemini-3") && strings.Contains(model, "flash") && version(model) < 3.7
		if flash || strings.Contains(model, "flash-lite") {
			return "MINIMAL"
		}
		return "LOW"
	case chat.Low:
		return "LOW"
	case chat.Medium:
		if strings.HasPrefix(model, "gemini-3-pro") { // it knows low and high
			return "LOW"
		}
		return "MEDIUM"
	case chat.High, chat.Max:
	}
	return "HIGH"
}
