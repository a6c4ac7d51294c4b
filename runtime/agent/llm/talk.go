package llm

import (
	"context"
	"encoding/json"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/run"
)

// talk is the conversation. Messages of the two sides alternate, and each call
// has its result in the message behind it, as providers want it.
type talk struct {
	messages []chat.Message
	open     []chat.Call // of the last message, without a result
	own      run.ID
	turns    int // answers of this run
	ours     int // where this run begins in messages
	paused   bool
	ids      map[string]bool // of the calls, which name questions and results
}

// told are the events that a conversation is made of.
var told = []run.EventType{
	run.TypeRunStarted, run.TypeAgentMessage, run.TypeAgentThought, run.TypeToolCallStarted, run.TypeToolCallFinished,
}

// lost is the result of a call that nobody answered.
const lost = "The run ended before this call did; whether it was done is not known."

// load reads what was said in the session, with what this run itself has said
// before a restart. What child runs say is between them and their parents.
func (t *talk) load(ctx context.Context, h agent.Host, r run.Run) error {
	roots := map[run.ID]bool{r.ID: true}
	began := false
	err := h.Log(ctx, told, func(e *run.Event) error {
		payload, err := e.Payload()
		if err != nil {
			return err
		}
		if s, ok := payload.(*run.RunStarted); ok {
			switch {
			case e.Run == r.ID:
				began = true
				t.begin(r.Input.Prompt)
			case r.Parent == "" && s.Parent == "":
				roots[e.Run] = true
				t.user(s.Prompt)
			}
			return nil
		}
		if roots[e.Run] {
			t.event(e.Run == r.ID, payload)
		}
		return nil
	})
	if err == nil && !began {
		t.begin(r.Input.Prompt)
	}
	return err
}

// begin opens the part of this run.
func (t *talk) begin(prompt string) {
	t.user(prompt)
	t.ours = len(t.messages)
}

func (t *talk) event(own bool, payload run.Payload) {
	switch p := payload.(type) {
	case *run.AgentMessage:
		if !p.Partial && p.Text != "" {
			t.assistant(own, chat.Text{Text: p.Text})
		}
	case *run.AgentThought:
		t.assistant(own, chat.Reasoning{Text: p.Text, Opaque: p.Opaque})
	case *run.ToolCallStarted:
		c := chat.NewCall(p.CallID, p.Name, string(p.Arguments), p.Opaque)
		var broken string
		if c.Broken != "" && json.Unmarshal(p.Arguments, &broken) == nil { // see loop.show
			c.Broken = broken
		}
		t.assistant(own, c)
	case *run.ToolCallFinished:
		t.result(chat.Result{ID: p.CallID, Name: p.Name, Text: p.Text, IsError: p.IsError})
	}
}

// user adds what the user says.
func (t *talk) user(text string) {
	t.settle()
	if text != "" {
		t.add(chat.User, chat.Text{Text: text})
	}
}

// settle gives calls without a result one.
func (t *talk) settle() {
	for len(t.open) > 0 {
		t.result(chat.Result{ID: t.open[0].ID, Name: t.open[0].Name, Text: lost, IsError: true})
	}
}

// assistant adds a part of an answer.
func (t *talk) assistant(own bool, p chat.Part) {
	if last := len(t.messages) - 1; last < 0 || t.messages[last].Role != chat.Assistant {
		t.settle()
		if own {
			t.turns++
		}
	}
	t.add(chat.Assistant, p)
	if c, ok := p.(chat.Call); ok {
		t.open = append(t.open, c)
		if t.ids == nil {
			t.ids = map[string]bool{}
		}
		t.ids[c.ID] = true
	}
}

// name gives each call of an answer an id that no other call has: not every server
// sees to that, and who approved one call has not approved the next.
func (t *talk) name(parts []chat.Part) {
	here := map[string]bool{}
	for i, p := range parts {
		c, ok := p.(chat.Call)
		if !ok {
			continue
		}
		if c.ID == "" || t.ids[c.ID] || here[c.ID] {
			c.ID = run.NewKey("call")
			parts[i] = c
		}
		here[c.ID] = true
	}
}

// result adds what a call came to; one that nobody waits for is dropped.
func (t *talk) result(r chat.Result) {
	for i, c := range t.open {
		if c.ID == r.ID {
			t.open = append(t.open[:i:i], t.open[i+1:]...)
			t.add(chat.User, r)
			return
		}
	}
}

func (t *talk) add(role chat.Role, p chat.Part) {
	if len(t.messages) == 0 && role == chat.Assistant { // retention has cut the log
		t.add(chat.User, chat.Text{Text: "(The beginning of this conversation is not kept any more.)"})
	}
	if last := len(t.messages) - 1; last >= 0 && t.messages[last].Role == role {
		t.messages[last].Parts = append(t.messages[last].Parts, p)
		return
	}
	t.messages = append(t.messages, chat.Message{Role: role, Parts: []chat.Part{p}})
}

// pause keeps the run from ending with an answer that goes on.
func (t *talk) pause() { t.paused = true }

// said gives the last text of this run, and whether nothing is left to do.
func (t *talk) said() (text string, over bool) {
	for i := len(t.messages) - 1; i >= t.ours; i-- {
		if t.messages[i].Role != chat.Assistant {
			continue
		}
		for _, p := range t.messages[i].Parts {
			if p, ok := p.(chat.Text); ok {
				text = p.Text // the last one of the message
			}
		}
		if text != "" {
			break
		}
	}
	last := len(t.messages) - 1
	over = last >= t.ours && t.messages[last].Role == chat.Assistant && len(t.open) == 0 && !t.paused
	t.paused = false
	return text, over
}
