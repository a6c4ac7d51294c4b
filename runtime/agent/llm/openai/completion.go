package openai

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
)

// completion puts a streamed chat completion together.
type completion struct {
	client client
	text   func(int, string) error
	used   map[string]bool // ids of calls that are taken

	id     string
	first  *string // the id of the first event, which may be none
	parts  []*piece
	said   *piece // the text
	mind   *piece // the reasoning
	finish string
	why    string // of a refusal
	billed bool   // the usage came, with the end or behind it
	marked bool   // [DONE] came
}

// piece is a part of the reply.
type piece struct {
	n       int
	text    strings.Builder // or arguments
	field   string          // of a reasoning: the one that it was in
	details details
	call    *head // of a call
}

// chunk is an event.
type chunk struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"`
	Error   json.RawMessage `json:"error"`
	Usage   json.RawMessage `json:"usage"`
	Choices []struct {
		Index  int             `json:"index"`
		Delta  delta           `json:"delta"`
		Finish string          `json:"finish_reason"`
		Error  json.RawMessage `json:"error"`
	} `json:"choices"`
}

type delta struct {
	Content   json.RawMessage   `json:"content"`
	Refusal   string            `json:"refusal"`
	Content2  string            `json:"reasoning_content"`
	Reasoning string            `json:"reasoning"`
	Details   []json.RawMessage `json:"reasoning_details"`
	Calls     []callDelta       `json:"tool_calls"`
}

func (a *completion) read(data []byte) (*chunk, error) {
	c := &chunk{}
	if err := read(data, c); err != nil {
		return nil, err
	}
	if c.Object == "error" && null(c.Error) { // the fields stand alone
		c.Error = data
	}
	return c, nil
}

// sameID gives an event the id of the first one, for the bill: a server that makes
// one for each chunk, or begins without, answers once all the same.
func (a *completion) sameID(c *chunk, data []byte) []byte {
	if a.first == nil {
		a.first = &c.ID
	}
	if a.id == "" {
		a.id = c.ID
	}
	if c.ID == "" || c.ID == *a.first {
		return data
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return data
	}
	fields["id"], _ = json.Marshal(*a.first) // a string always can be
	if again, err := json.Marshal(fields); err == nil {
		return again
	}
	return data
}

func (a *completion) event(c *chunk) error {
	if !null(c.Error) {
		return a.client.within(c.Error)
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if !null(choice.Error) {
			return a.client.within(choice.Error)
		}
		if choice.Index != 0 {
			continue
		}
		if err := a.delta(&choice.Delta); err != nil {
			return err
		}
		if choice.Finish != "" {
			a.finish = choice.Finish
		}
	}
	if a.finish != "" && !null(c.Usage) {
		a.billed = true
	}
	return nil
}

func (a *completion) delta(d *delta) error {
	text, thought := contentOf(d.Content)
	switch {
	case d.Content2 != "": // some servers say the same in both
		a.think("reasoning_content", d.Content2)
	case d.Reasoning != "":
		a.think("reasoning", d.Reasoning)
	case thought != "":
		a.think("", thought)
	}
	if len(d.Details) > 0 {
		a.think("", "")
		for _, raw := range d.Details {
			a.mind.details.add(raw)
		}
	}
	if text != "" {
		if a.said == nil {
			a.said = a.part()
		}
		a.said.text.WriteString(text)
		if err := a.text(a.said.n, text); err != nil {
			return err
		}
	}
	a.why += d.Refusal
	for _, c := range d.Calls {
		a.call(c)
	}
	return nil
}

func (a *completion) part() *piece {
	p := &piece{n: len(a.parts)}
	a.parts = append(a.parts, p)
	return p
}

func (a *completion) think(field, text string) {
	if a.mind == nil {
		a.mind = a.part()
	}
	if field != "" {
		a.mind.field = field
	}
	a.mind.text.WriteString(text)
}

// contentOf reads a content: a text, or, as Mistral writes it, a list of texts
// and thoughts.
func contentOf(raw json.RawMessage) (text, thought string) {
	if null(raw) || json.Unmarshal(raw, &text) == nil {
		return text, ""
	}
	var list []struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
	}
	if read(raw, &list) != nil {
		return "", ""
	}
	for _, p := range list {
		text += p.Text
		if p.Type == "thinking" {
			t, _ := contentOf(p.Thinking)
			thought += t
		}
	}
	return text, thought
}

// whole tells what is missing of an answer whose stream has ended. A server that
// sends no [DONE] has said all when the reason and the usage came.
func (a *completion) whole(ctx context.Context) error {
	switch {
	case a.finish == "" && a.marked:
		return malformed("it has an end, but no finish_reason")
	case a.finish == "" || !a.marked && !a.billed:
		return chat.Broke(ctx, "the answer broke off", nil)
	case a.finish == "error" || a.finish == "insufficient_system_resource":
		return &chat.Error{Class: chat.Passing, Text: "the server ended the answer for the reason " + a.finish}
	}
	return nil
}

func (a *completion) reply() chat.Reply {
	r := chat.Reply{ID: a.id, Stop: chat.Done, Why: a.why}
	calls := 0
	for _, p := range a.parts {
		switch {
		case p.call != nil:
			if args := p.text.String(); a.finish != "length" || strings.TrimSpace(args) != "" { // else cut before it could say anything
				r.Parts = append(r.Parts, chat.NewCall(a.freeID(p.call.id), p.call.name, args, nil))
				calls++
			}
		case p == a.mind:
			r.Parts = append(r.Parts, chat.Reasoning{Text: p.text.String(), Opaque: a.opaque()})
		default:
			r.Parts = append(r.Parts, chat.Text{Text: p.text.String()})
		}
	}
	switch {
	case a.why != "":
		r.Stop = chat.Refused
	case a.finish == "content_filter":
		r.Stop, r.Why = chat.Refused, "the provider's content filter stopped the answer"
	case a.finish == "length":
		r.Stop = chat.MaxOutput
	case a.finish == "model_length": // Mistral's
		r.Stop = chat.Full
	case calls > 0: // whatever the reason says
		r.Stop = chat.Calls
	}
	return r
}

// opaque is what the server wants to see of its reasoning again.
func (a *completion) opaque() json.RawMessage {
	own := map[string]any{"provider": a.client.provider}
	if a.mind.field != "" {
		own["field"] = a.mind.field
	}
	if list := a.mind.details.list(); len(list) > 0 {
		own["details"] = list
	}
	raw, err := json.Marshal(map[string]any{"openai-chat": own})
	if err != nil || len(own) == 1 {
		return nil
	}
	return raw
}
