package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
)

// answer puts a streamed message together. The SDK's own accumulator takes a
// stream that ends early for a whole one.
type answer struct {
	text   func(int, string) error
	id     string
	blocks []*block
	stop   string
	why    string
	over   bool
}

type block struct {
	kind      string
	id, name  string
	text      strings.Builder // or the arguments
	signature string
	data      string // of redacted thinking
	closed    bool
}

// opaque is what the API wants back with a thinking block.
type opaque struct {
	Own struct {
		Signature string `json:"signature,omitempty"`
		Data      string `json:"data,omitempty"`
	} `json:"anthropic"`
}

func (a *answer) event(e sdk.MessageStreamEventUnion) error {
	switch e.Type {
	case "message_start":
		a.id = e.Message.ID
	case "content_block_start":
		if int(e.Index) != len(a.blocks) {
			return malformed("block %d begins where block %d is due", e.Index, len(a.blocks))
		}
		b := e.ContentBlock
		n := &block{kind: b.Type, id: b.ID, name: b.Name, signature: b.Signature, data: b.Data}
		a.blocks = append(a.blocks, n)
		if b.Type == "thinking" {
			n.text.WriteString(b.Thinking)
		}
		if b.Type == "text" && b.Text != "" {
			return a.say(int(e.Index), b.Text)
		}
	case "content_block_delta":
		if e.Index < 0 || int(e.Index) >= len(a.blocks) {
			return malformed("a piece belongs to block %d, which never began", e.Index)
		}
		b := a.blocks[e.Index]
		switch e.Delta.Type {
		case "text_delta":
			return a.say(int(e.Index), e.Delta.Text)
		case "thinking_delta":
			b.text.WriteString(e.Delta.Thinking)
		case "signature_delta":
			b.signature += e.Delta.Signature
		case "input_json_delta":
			b.text.WriteString(e.Delta.PartialJSON)
		}
	case "content_block_stop":
		if e.Index >= 0 && int(e.Index) < len(a.blocks) {
			a.blocks[e.Index].closed = true
		}
	case "message_delta":
		if e.Delta.StopReason != "" {
			a.stop = string(e.Delta.StopReason)
			a.why = e.Delta.StopDetails.Explanation
		}
	case "message_stop":
		a.over = true
	}
	return nil
}

func (a *answer) say(i int, piece string) error {
	a.blocks[i].text.WriteString(piece)
	return a.text(i, piece)
}

// reply gives what has come. A call that was not closed is left out: nobody
// knows what it would have asked for.
func (a *answer) reply() chat.Reply {
	r := chat.Reply{ID: a.id, Why: a.why, Stop: stopOf(a.stop)}
	for _, b := range a.blocks {
		switch b.kind {
		case "text":
			r.Parts = append(r.Parts, chat.Text{Text: b.text.String()})
		case "thinking", "redacted_thinking":
			var o opaque
			o.Own.Signature, o.Own.Data = b.signature, b.data
			raw, err := json.Marshal(o)
			if err != nil || !b.closed {
				raw = nil
			}
			r.Parts = append(r.Parts, chat.Reasoning{Text: b.text.String(), Opaque: raw})
		case "tool_use":
			if b.closed {
				r.Parts = append(r.Parts, chat.NewCall(b.id, b.name, b.text.String(), nil))
			}
		default: // of server tools, which are not asked for
			r.Parts = append(r.Parts, chat.Text{})
		}
	}
	return r
}

// broken tells what is wrong with a message that came to its end.
func (a *answer) broken() error {
	for i, b := range a.blocks {
		if !b.closed {
			return malformed("block %d was never closed", i)
		}
	}
	return nil
}

func malformed(format string, args ...any) error {
	return &chat.Error{Class: chat.Malformed, Text: "the answer cannot be read: " + fmt.Sprintf(format, args...)}
}

func stopOf(reason string) chat.Stop {
	switch reason {
	case "tool_use":
		return chat.Calls
	case "max_tokens":
		return chat.MaxOutput
	case "refusal":
		return chat.Refused
	case "model_context_window_exceeded":
		return chat.Full
	case "pause_turn":
		return chat.Paused
	}
	return chat.Done
}

func tooLong(text string) bool {
	return strings.Contains(text, "prompt is too long") || strings.Contains(text, "exceed context limit")
}
