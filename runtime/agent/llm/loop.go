package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/run"
)

// loop is one run.
type loop struct {
	task    agent.Task
	host    agent.Host
	model   chat.Model
	config  agent.LLM
	retry   Retry
	tools   box
	talk    talk
	resumed bool
	asked   int // requests of this run that had an answer
	repeats repeats
}

// run asks and calls by turns until the model is done.
func (l *loop) run(ctx context.Context) (string, error) {
	for {
		if err := ctx.Err(); err != nil {
			return "", context.Cause(ctx)
		}
		if len(l.talk.open) > 0 {
			if err := l.calls(ctx); err != nil {
				return "", err
			}
			l.resumed = false
			continue
		}
		if text, over := l.talk.said(); over {
			return text, nil
		}
		if l.asked >= l.config.MaxTurns {
			return "", fmt.Errorf("the agent did not come to an end in %d turns; raise llm.maxTurns, or ask for less at once", l.config.MaxTurns)
		}
		if err := l.turn(ctx); err != nil {
			return "", err
		}
	}
}

// turn asks the model, and shows and keeps what it says.
func (l *loop) turn(ctx context.Context) error {
	reply, err := l.ask(ctx)
	if err != nil {
		return err
	}
	l.asked++
	kept := 0
	for _, p := range reply.Parts {
		if said(p) {
			l.talk.assistant(true, p)
			kept++
		}
	}
	switch reply.Stop {
	case chat.Done, chat.Calls:
	case chat.Refused:
		why := ""
		if reply.Why != "" {
			why = ": " + reply.Why
		}
		return fmt.Errorf("the model %s refused to answer%s", l.task.Run.Model, why)
	case chat.Full:
		return l.full()
	case chat.MaxOutput:
		if kept == 0 {
			return fmt.Errorf("the answer of the model %s was cut before it said anything whole; raise llm.maxOutputTokens, or ask for less at once", l.task.Run.Model)
		}
		const text = "The answer was cut at the largest number of tokens for one answer; llm.maxOutputTokens sets it."
		if err := l.host.Emit(ctx, &run.Warning{Text: text}); err != nil {
			return err
		}
	case chat.Paused:
		l.talk.pause()
	}
	if kept == 0 && reply.Stop != chat.Paused {
		return fmt.Errorf("the model %s answered nothing (%s)", l.task.Run.Model, reply.Stop)
	}
	return nil
}

func (l *loop) full() error {
	return fmt.Errorf("the conversation does not fit the context of the model %s any more: go on in a new session, or with a model that holds more", l.task.Run.Model)
}

// said tells whether a part is worth keeping.
func said(p chat.Part) bool {
	switch p := p.(type) {
	case chat.Text:
		return p.Text != ""
	case chat.Reasoning:
		return p.Text != "" || p.Opaque != nil
	}
	return true
}

// ask asks until there is a whole reply. Each try is booked with what it said.
func (l *loop) ask(ctx context.Context) (chat.Reply, error) {
	q := chat.Request{
		Model: l.task.Run.Model, Instructions: l.config.Instructions, Messages: l.talk.messages, Tools: l.tools.specs,
		MaxOutput: l.config.MaxOutputTokens, Reasoning: chat.Level(l.config.Reasoning), CacheKey: string(l.task.Run.Session),
	}
	for try := 1; ; try++ {
		ids := messageIDs{}
		reply, err := l.model.Stream(ctx, q, func(part int, piece string) error {
			return l.host.Text(ctx, ids.of(part), piece)
		})
		l.talk.name(reply.Parts)
		if e := l.keep(ctx, reply, ids, err != nil); e != nil && err == nil {
			return reply, e
		}
		if err == nil {
			return reply, nil
		}
		if ctx.Err() != nil {
			return reply, context.Cause(ctx)
		}
		if err := l.again(ctx, try, err); err != nil {
			return reply, err
		}
	}
}

// keep books the usage of a try and, in the same commit, what was said. It is
// done though the run may be stopped: what was used costs all the same.
func (l *loop) keep(ctx context.Context, reply chat.Reply, ids messageIDs, partial bool) error {
	var with []run.Payload
	for i, p := range reply.Parts {
		if partial {
			if t, ok := p.(chat.Text); ok && t.Text != "" && ids[i] != "" {
				with = append(with, &run.AgentMessage{MessageID: ids[i], Text: t.Text, Partial: true})
			}
			continue
		}
		if said(p) {
			with = append(with, show(p, ids.of(i)))
		}
	}
	if len(reply.Incomplete) > 0 {
		with = append(with, &run.Warning{Text: "The usage of a request is incomplete: " + strings.Join(reply.Incomplete, "; ") + "."})
	}
	for i := range reply.Usage {
		if reply.Usage[i].Provider == "" {
			reply.Usage[i].Provider = l.task.Run.Provider
		}
	}
	return l.host.Said(ctx, reply.Usage, with...)
}

// show is the event of a part.
func show(p chat.Part, message string) run.Payload {
	switch p := p.(type) {
	case chat.Reasoning:
		return &run.AgentThought{Text: p.Text, Opaque: p.Opaque}
	case chat.Call:
		args := p.Arguments
		if p.Broken != "" {
			args, _ = json.Marshal(p.Broken) // a string always can be
		}
		return &run.ToolCallStarted{CallID: p.ID, Name: p.Name, Arguments: args, Opaque: p.Opaque}
	case chat.Text:
		return &run.AgentMessage{MessageID: message, Text: p.Text}
	}
	return &run.Warning{Text: fmt.Sprintf("A part of the answer cannot be shown: %T.", p)}
}

// messageIDs names the messages of a try: each text is one.
type messageIDs map[int]string

func (m messageIDs) of(part int) string {
	if m[part] == "" {
		m[part] = run.NewKey("msg")
	}
	return m[part]
}
