package openai

import (
	"encoding/json"
	"strings"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
)

// response puts a streamed response together. What is in an item counts when the
// item is done; only its text is shown before.
type response struct {
	client  client
	text    func(int, string) error
	id      string
	items   []*item
	at      map[int]*item // by output_index
	refusal string
	stop    chat.Stop
	over    bool
}

// item is one of a response's output, and a part of the reply.
type item struct {
	n    int
	kind string
	text strings.Builder
	done bool
	last output
}

// output is an item as the API writes it.
type output struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Status    string `json:"status"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Encrypted string `json:"encrypted_content"`
	Summary   []words
	Content   []words
}

type words struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal,omitempty"`
}

func (a *response) event(data []byte) error {
	var e struct {
		Type     string          `json:"type"`
		Index    int             `json:"output_index"`
		Item     output          `json:"item"`
		Delta    json.RawMessage `json:"delta"`
		Error    json.RawMessage `json:"error"`
		Response struct {
			ID         string          `json:"id"`
			Error      json.RawMessage `json:"error"`
			Incomplete struct {
				Reason string `json:"reason"`
			} `json:"incomplete_details"`
			Output []output `json:"output"`
		} `json:"response"`
	}
	if err := read(data, &e); err != nil {
		return err
	}
	switch e.Type {
	case "response.created":
		a.id = e.Response.ID
	case "response.output_item.added":
		a.begin(e.Index, e.Item)
	case "response.output_text.delta":
		it := a.at[e.Index]
		if it == nil {
			return malformed("a piece belongs to item %d, which never began", e.Index)
		}
		return a.say(it, plain(e.Delta))
	case "response.refusal.delta":
		a.refusal += plain(e.Delta)
	case "response.output_item.done":
		return a.finish(e.Index, e.Item)
	case "error":
		if null(e.Error) {
			return a.client.within(data)
		}
		return a.client.within(e.Error)
	case "response.failed":
		return a.client.within(e.Response.Error)
	case "response.completed", "response.incomplete":
		a.id = e.Response.ID
		for i, it := range e.Response.Output {
			if at := a.at[i]; at == nil || !at.done {
				if err := a.finish(i, it); err != nil {
					return err
				}
			}
		}
		return a.end(e.Type == "response.completed", e.Response.Incomplete.Reason)
	}
	return nil
}

func (a *response) begin(index int, o output) *item {
	it := &item{n: len(a.items), kind: o.Type, last: o}
	a.items = append(a.items, it)
	if a.at == nil {
		a.at = map[int]*item{}
	}
	a.at[index] = it
	return it
}

func (a *response) say(it *item, piece string) error {
	if piece == "" {
		return nil
	}
	it.text.WriteString(piece)
	return a.text(it.n, piece)
}

// finish takes an item as it came to be.
func (a *response) finish(index int, o output) error {
	it := a.at[index]
	if it == nil || it.done {
		it = a.begin(index, o)
	}
	it.done, it.last = true, o
	if o.Type != "message" {
		return nil
	}
	var text, refusal strings.Builder
	for _, w := range o.Content {
		text.WriteString(w.Text)
		refusal.WriteString(w.Refusal)
	}
	if refusal.Len() > 0 {
		a.refusal = refusal.String()
	}
	if rest, ok := strings.CutPrefix(text.String(), it.text.String()); ok {
		return a.say(it, rest) // what no piece told
	}
	return nil
}

// end closes the answer, whose items have to be whole now, unless it was cut.
func (a *response) end(whole bool, why string) error {
	a.over, a.stop = true, chat.Done
	switch {
	case a.refusal != "":
		a.stop = chat.Refused
	case why == "content_filter":
		a.stop, a.refusal = chat.Refused, "the provider's content filter stopped the answer"
	case !whole:
		a.stop = chat.MaxOutput
	}
	for i, it := range a.items {
		if whole && !it.done {
			return malformed("item %d was never done", i)
		}
		if it.kind == "function_call" && it.done && a.stop == chat.Done {
			a.stop = chat.Calls
		}
	}
	return errOver
}

// reply gives what has come. A call that was not done is left out: nobody knows
// what it would have asked for.
func (a *response) reply() chat.Reply {
	r := chat.Reply{ID: a.id, Stop: a.stop, Why: a.refusal}
	for _, it := range a.items {
		switch it.kind {
		case "message":
			r.Parts = append(r.Parts, chat.Text{Text: it.text.String()})
		case "reasoning":
			r.Parts = append(r.Parts, a.reasoning(it))
		case "function_call":
			if it.done && it.last.Status != "incomplete" {
				r.Parts = append(r.Parts, chat.NewCall(it.last.CallID, it.last.Name, it.last.Arguments, nil))
				continue
			}
			r.Parts = append(r.Parts, chat.Text{}) // the parts behind it keep their places
		default: // of the provider's own tools, which are not asked for
			r.Parts = append(r.Parts, chat.Text{})
		}
	}
	return r
}

func (a *response) reasoning(it *item) chat.Reasoning {
	list := it.last.Summary
	if len(list) == 0 {
		list = it.last.Content // of models that show their thoughts
	}
	var texts []string
	for _, w := range list {
		if w.Text != "" {
			texts = append(texts, w.Text)
		}
	}
	r := chat.Reasoning{Text: strings.Join(texts, "\n\n")}
	if it.done && it.last.Encrypted != "" {
		raw, err := json.Marshal(map[string]any{"openai-responses": map[string]string{
			"provider": a.client.provider, "id": it.last.ID, "encrypted": it.last.Encrypted,
		}})
		if err == nil {
			r.Opaque = raw
		}
	}
	return r
}
