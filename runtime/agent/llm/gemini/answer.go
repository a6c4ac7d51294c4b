package gemini

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/run"
)

// event is a piece of an answer.
type event struct {
	ID         string `json:"responseId"`
	Candidates []struct {
		Content content `json:"content"`
		Finish  string  `json:"finishReason"`
		Message string  `json:"finishMessage"`
	} `json:"candidates"`
	Feedback struct {
		Reason  string `json:"blockReason"`
		Message string `json:"blockReasonMessage"`
	} `json:"promptFeedback"`
}

// content is a message on the wire.
type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts,omitempty"`
}

type part struct {
	Text      *string           `json:"text,omitempty"`
	Thought   bool              `json:"thought,omitempty"`
	Signature string            `json:"thoughtSignature,omitempty"`
	Call      *functionCall     `json:"functionCall,omitempty"`
	Result    *functionResponse `json:"functionResponse,omitempty"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type functionResponse struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
}

// opaque is what the API wants back. A signature belongs to a call, to what was
// thought, or else to the text before it: then it stands alone.
type opaque struct {
	Own struct {
		Signature string `json:"signature,omitempty"`
		Thought   bool   `json:"thought,omitempty"`
		ID        bool   `json:"id,omitempty"` // the call's id is the API's
	} `json:"gemini"`
}

// own writes it.
func own(signature string, thought, id bool) json.RawMessage {
	if signature == "" && !id {
		return nil
	}
	var o opaque
	o.Own.Signature, o.Own.Thought, o.Own.ID = signature, thought, id
	raw, err := json.Marshal(o)
	if err != nil {
		return nil
	}
	return raw
}

// answer puts a streamed message together.
type answer struct {
	text    func(int, string) error
	id      string
	blocks  []*block
	stop    string
	why     string
	refused bool // the prompt was
}

// block is a part of the reply: a call, or what is still being written.
type block struct {
	kind      kind
	text      strings.Builder
	signature string
	call      chat.Call
}

type kind int

const (
	isText kind = iota
	isThought
	isMark // a signature of a text
	isCall
)

func (a *answer) event(raw []byte) error {
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return malformed(err.Error(), err)
	}
	a.id = cmp.Or(a.id, e.ID)
	if e.Feedback.Reason != "" {
		a.refused, a.why = true, because(e.Feedback.Reason, e.Feedback.Message)
	}
	if len(e.Candidates) == 0 {
		return nil
	}
	c := e.Candidates[0]
	for _, p := range c.Content.Parts {
		if err := a.part(p); err != nil {
			return err
		}
	}
	if c.Finish != "" && c.Finish != "FINISH_REASON_UNSPECIFIED" {
		a.stop, a.why = c.Finish, because(c.Finish, c.Message)
	}
	return nil
}

func because(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ": " + message
}

func (a *answer) part(p part) error {
	switch {
	case p.Call != nil:
		id := cmp.Or(p.Call.ID, run.NewKey("call"))
		call := chat.NewCall(id, p.Call.Name, string(p.Call.Args), own(p.Signature, false, p.Call.ID != ""))
		a.blocks = append(a.blocks, &block{kind: isCall, call: call})
	case p.Text == nil: // of server tools, which are not asked for
	case p.Thought:
		b := a.last(isThought)
		if b == nil || b.signature != "" {
			b = a.add(isThought)
		}
		b.text.WriteString(*p.Text)
		b.signature = p.Signature
	default:
		if *p.Text != "" {
			if err := a.say(*p.Text); err != nil {
				return err
			}
		}
		if p.Signature != "" {
			a.add(isMark).signature = p.Signature
		}
	}
	return nil
}

// say adds to the text, which marks do not divide.
func (a *answer) say(piece string) error {
	i := len(a.blocks) - 1
	for i >= 0 && a.blocks[i].kind == isMark {
		i--
	}
	if i < 0 || a.blocks[i].kind != isText {
		a.add(isText)
		i = len(a.blocks) - 1
	}
	a.blocks[i].text.WriteString(piece)
	return a.text(i, piece)
}

func (a *answer) add(k kind) *block {
	b := &block{kind: k}
	a.blocks = append(a.blocks, b)
	return b
}

func (a *answer) last(k kind) *block {
	if n := len(a.blocks); n > 0 && a.blocks[n-1].kind == k {
		return a.blocks[n-1]
	}
	return nil
}

// reply gives what has come.
func (a *answer) reply() chat.Reply {
	r := chat.Reply{ID: a.id, Stop: chat.Done}
	for _, b := range a.blocks {
		switch b.kind {
		case isText:
			r.Parts = append(r.Parts, chat.Text{Text: b.text.String()})
		case isThought:
			r.Parts = append(r.Parts, chat.Reasoning{Text: b.text.String(), Opaque: own(b.signature, true, false)})
		case isMark:
			r.Parts = append(r.Parts, chat.Reasoning{Opaque: own(b.signature, false, false)})
		case isCall:
			r.Parts = append(r.Parts, b.call)
			r.Stop = chat.Calls
		}
	}
	switch a.stop {
	case "MAX_TOKENS", "CONTINUATION":
		r.Stop = chat.MaxOutput
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "OTHER",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER", "NO_IMAGE":
		r.Stop, r.Why = chat.Refused, a.why
	}
	if a.refused {
		r.Stop, r.Why = chat.Refused, a.why
	}
	return r
}

// over tells whether the API said that the answer is whole.
func (a *answer) over() bool { return a.stop != "" || a.refused }

// broken tells what is wrong with an answer that came to its end.
func (a *answer) broken() error {
	switch a.stop {
	case "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS":
		return malformed("the model's call of a tool is no call ("+a.why+")", nil)
	case "MISSING_THOUGHT_SIGNATURE":
		return &chat.Error{Class: chat.Invalid, Text: "a signature of the model's thoughts is missing (" + a.why + ")"}
	case "STOP":
		if len(a.blocks) == 0 && !a.refused {
			return malformed("it is empty", nil)
		}
	}
	return nil
}

func malformed(what string, cause error) error {
	return &chat.Error{Class: chat.Malformed, Text: fmt.Sprintf("the answer cannot be read: %s", what), Cause: cause}
}
