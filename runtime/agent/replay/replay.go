// Package replay is the driver of scripted agents: it plays the turns of a
// definition as if a model had said them. Text has its pace, tool calls really
// run in the sandbox, children are really started, usage is booked, questions
// wait for a person. The same definition and prompt give the same run.
package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

// Driver replays turns.
type Driver struct{}

// New makes the driver.
func New() Driver { return Driver{} }

// Name implements agent.Driver.
func (Driver) Name() string { return agent.DriverReplay }

// ContinuesBehindUsage implements agent.Continuer.
func (Driver) ContinuesBehindUsage() {}

// Run implements agent.Driver. The result is the last text that was said.
func (Driver) Run(ctx context.Context, t agent.Task, h agent.Host) (string, error) {
	p := player{task: t, host: h}
	from, err := p.start()
	if err != nil {
		return "", err
	}
	for i := from; i < len(t.Definition.Turns); i++ {
		if err := ctx.Err(); err != nil {
			return "", context.Cause(ctx)
		}
		if err := p.turn(ctx, i, t.Definition.Turns[i]); err != nil {
			return "", err
		}
	}
	return p.said, nil
}

// player is one run of a replayed agent.
type player struct {
	task   agent.Task
	host   agent.Host
	said   string // the last text
	answer string // to the last question
}

// key names the turn with the index i, the same in every replay.
func key(i int) string { return fmt.Sprintf("turn-%d", i+1) }

// start gives the index of the first turn to play.
func (p *player) start() (int, error) {
	if p.task.ResumeKey == "" {
		return 0, nil
	}
	for i, t := range p.task.Definition.Turns {
		if t.Ask != nil && key(i) == p.task.ResumeKey {
			return i, nil
		}
		if t.Usage != nil && key(i) == p.task.ResumeKey { // it is booked
			return i + 1, nil
		}
		if t.Text != nil { // what was said before the question stays the result so far
			p.said = p.fill(t.Text.Say)
		}
	}
	return 0, fmt.Errorf("the run cannot go on: its definition has no question %q any more", p.task.ResumeKey)
}

// fill puts the run's prompt and the last answer into a text.
func (p *player) fill(s string) string {
	return strings.NewReplacer("{{prompt}}", p.task.Run.Input.Prompt, "{{answer}}", p.answer).Replace(s)
}

func (p *player) turn(ctx context.Context, i int, t agent.Turn) error {
	switch {
	case t.Text != nil:
		return p.text(ctx, *t.Text)
	case t.Thought != "":
		return p.host.Emit(ctx, &run.AgentThought{Text: p.fill(t.Thought)})
	case t.Tool != nil:
		return p.tool(ctx, *t.Tool)
	case t.Delegate != nil:
		return p.delegate(ctx, *t.Delegate)
	case t.Ask != nil:
		return p.ask(ctx, i, *t.Ask)
	case t.Usage != nil:
		return p.usage(ctx, i, *t.Usage)
	case t.Delay > 0:
		return sleep(ctx, seconds(t.Delay))
	case t.Warning != "":
		return p.host.Emit(ctx, &run.Warning{Text: p.fill(t.Warning)})
	case t.Error != "":
		return errors.New(p.fill(t.Error))
	case t.Timeout != "":
		return fmt.Errorf("%w: %s", agent.ErrTimeout, p.fill(t.Timeout))
	}
	return nil
}

// tick is how often a paced text goes on.
const tick = 50 * time.Millisecond

// text says a text, in pieces as its pace wants, and then the whole of it.
func (p *player) text(ctx context.Context, t agent.TextTurn) error {
	id := run.NewKey("msg")
	whole := p.fill(t.Say)
	if t.Pace > 0 {
		due := 0.0 // characters that should be out by now
		for rest := whole; rest != ""; {
			due += t.Pace * tick.Seconds()
			n := 0
			for due >= 1 && n < len(rest) {
				_, size := utf8.DecodeRuneInString(rest[n:])
				n += size
				due--
			}
			if n > 0 {
				if err := p.host.Text(ctx, id, rest[:n]); err != nil {
					return err
				}
				rest = rest[n:]
			}
			if err := sleep(ctx, tick); err != nil {
				return err
			}
		}
	}
	p.said = whole
	return p.host.Emit(ctx, &run.AgentMessage{MessageID: id, Text: whole})
}

func (p *player) ask(ctx context.Context, i int, t agent.AskTurn) error {
	var schema json.RawMessage
	if t.Schema != nil {
		var err error
		if schema, err = json.Marshal(t.Schema); err != nil {
			return fmt.Errorf("encoding the schema of turn %d: %w", i+1, err)
		}
	}
	answer, err := p.host.Ask(ctx, key(i), p.fill(t.Text), schema)
	if err != nil {
		return err
	}
	if json.Unmarshal(answer, &p.answer) != nil { // not a JSON string: its JSON
		p.answer = string(answer)
	}
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// sleep waits, unless the run is stopped meanwhile.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
