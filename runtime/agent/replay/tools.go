package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

const (
	defaultTool  = "execute_code"
	delegateTool = "delegate_task"
)

// call shows a tool call around its work. What the work comes to, also a
// failure, is what the agent gets to see; only the end of the run ends the turn.
func (p *player) call(
	ctx context.Context, name string, args any, work func(callID string) (text string, isError bool, err error),
) error {
	raw, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("encoding the arguments of %s: %w", name, err)
	}
	id := run.NewKey("call")
	if err := p.host.Emit(ctx, &run.ToolCallStarted{CallID: id, Name: name, Arguments: raw}); err != nil {
		return err
	}
	began := time.Now()
	text, isError, err := work(id)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		text, isError = err.Error(), true
	}
	return p.host.Emit(ctx, &run.ToolCallFinished{
		CallID: id, Name: name, Text: text, IsError: isError, Seconds: time.Since(began).Seconds(),
	})
}

func (p *player) tool(ctx context.Context, t agent.ToolTurn) error {
	name := t.Name
	if name == "" {
		name = defaultTool
	}
	args := struct {
		Code    string   `json:"code,omitempty"`
		Command []string `json:"command,omitempty"`
	}{t.Code, t.Command}
	return p.call(ctx, name, args, func(callID string) (string, bool, error) {
		res, out, err := p.host.Execute(ctx, agent.Exec{
			Code: t.Code, Command: t.Command, Timeout: seconds(t.Timeout), CallID: callID,
		})
		if err != nil {
			return "", true, err
		}
		return agent.ToolText(res, out), res.IsError(), nil
	})
}

func (p *player) delegate(ctx context.Context, t agent.DelegateTurn) error {
	prompt := p.fill(t.Prompt)
	args := struct {
		Agent  string `json:"agent"`
		Prompt string `json:"prompt"`
	}{t.Agent, prompt}
	return p.call(ctx, delegateTool, args, func(string) (string, bool, error) {
		child, err := p.host.Delegate(ctx, agent.Delegation{Agent: t.Agent, Prompt: prompt})
		return child.Result, false, err
	})
}
