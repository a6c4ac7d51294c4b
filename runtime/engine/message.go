package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/weirhq/weir/runtime/run"
)

// Message starts a follow-up run in a session.
func (e *Engine) Message(ctx context.Context, q run.MessageRequest) (run.Run, error) {
	if err := e.open(); err != nil {
		return run.Run{}, err
	}
	if err := checkID("ses", "session", string(q.Session)); err != nil {
		return run.Run{}, err
	}
	if err := checkText("text", q.Text, maxInput); err != nil {
		return run.Run{}, err
	}
	if strings.TrimSpace(q.Text) == "" {
		return run.Run{}, run.Errorf(run.Invalid, "the text %q is empty: say what the agent is to do", clip(q.Text, 40))
	}
	if q.Agent == "" {
		name, err := e.lastAgent(ctx, q.Session)
		if err != nil {
			return run.Run{}, err
		}
		q.Agent = name
	}
	return e.Start(ctx, run.StartRequest{
		Input:   run.Input{Agent: q.Agent, Prompt: q.Text},
		Session: q.Session, OnBusy: q.OnBusy, IdempotencyKey: q.IdempotencyKey,
	})
}

// lastAgent gives the agent of the session's newest root run.
func (e *Engine) lastAgent(ctx context.Context, id run.SessionID) (string, error) {
	if _, err := e.store.Session(ctx, id); err != nil {
		return "", fmt.Errorf("loading session %s: %w", id, err)
	}
	p, err := e.store.Runs(ctx, run.RunFilter{Session: id, RootOnly: true}, run.PageQuery{First: 1})
	if err != nil {
		return "", fmt.Errorf("loading the last run of session %s: %w", id, err)
	}
	if len(p.Nodes) == 0 {
		return "", run.Errorf(run.Invalid, "session %s has no run yet, so its agent is not known: name one", id)
	}
	return p.Nodes[0].Agent, nil
}
