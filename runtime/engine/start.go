package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

// Start takes a run in and returns it at once; the scheduler starts it on the
// engine's own context.
func (e *Engine) Start(ctx context.Context, q run.StartRequest) (run.Run, error) {
	if err := e.open(); err != nil {
		return run.Run{}, err
	}
	if q.Session != "" {
		if err := checkID("ses", "session", string(q.Session)); err != nil {
			return run.Run{}, err
		}
	}
	if err := checkTitle(q); err != nil {
		return run.Run{}, err
	}
	if err := checkKey(q.IdempotencyKey); err != nil {
		return run.Run{}, err
	}
	switch q.OnBusy {
	case run.Reject, run.QueueBehind, run.ReplaceCurrent:
	case "":
		q.OnBusy = run.Reject
	default:
		return run.Run{}, run.Errorf(run.Invalid, "onBusy is %q; it must be REJECT, QUEUE or REPLACE", clip(clean(string(q.OnBusy), maxInput), 60))
	}
	r, err := e.compose(q.Input)
	if err != nil {
		return run.Run{}, err
	}
	n := NewRun{OnBusy: q.OnBusy, IdempotencyKey: q.IdempotencyKey}
	if q.IdempotencyKey != "" {
		if n.PayloadHash, err = payloadHash(q); err != nil {
			return run.Run{}, err
		}
	}
	r.Session = q.Session
	if r.Session == "" {
		r.Session = run.NewSessionID()
		n.NewSession = &run.Session{ID: r.Session, Title: cmp.Or(strings.TrimSpace(q.Title), titleFor(q.Input)), CreatedAt: r.CreatedAt}
	}
	n.Run = r
	if q.IdempotencyKey == "" { // an earlier run may be what is asked for: this one is stopped before it uses anything
		def, err := e.lookup(r.Agent)
		if err != nil {
			return run.Run{}, err
		}
		if err := e.affords(ctx, def, q.Session); err != nil {
			return run.Run{}, err
		}
	}
	a, err := e.store.Accept(ctx, n)
	if err != nil {
		return run.Run{}, fmt.Errorf("accepting a run: %w", err)
	}
	if !a.Repeated {
		e.cancelRuns(a.Stopping)
		e.nudge()
	}
	return a.Run, nil
}

// compose checks an input and makes the queued run that it asks for.
func (e *Engine) compose(in run.Input) (run.Run, error) {
	if err := checkText("agent", in.Agent, maxName); err != nil {
		return run.Run{}, err
	}
	def, err := e.lookup(in.Agent)
	if err != nil {
		return run.Run{}, err
	}
	driver, ok := e.opts.Drivers[def.Driver]
	if !ok {
		return run.Run{}, run.Errorf(run.Invalid, "agent %q needs the driver %q, which this server does not have", def.Name, def.Driver)
	}
	if c, ok := driver.(agent.Checker); ok {
		if err := c.Check(def); err != nil {
			return run.Run{}, err
		}
	}
	if err := checkInput(in, def); err != nil {
		return run.Run{}, err
	}
	if in.Place != nil && !e.opts.Places {
		return run.Run{}, errPlace(in.Place.Folder)
	}
	if _, err := e.planFor(in.Sandbox, def.Sandbox); err != nil {
		return run.Run{}, err
	}
	definition, err := json.Marshal(def)
	if err != nil {
		return run.Run{}, fmt.Errorf("encoding the definition of agent %s: %w", def.Name, err)
	}
	r := run.Run{
		ID: run.NewID(), Agent: def.Name, Team: def.Team, Stage: stageFor(in, def), Driver: def.Driver,
		Provider: def.Provider, Model: def.Model, State: run.State{Status: run.Queued}, Attempt: 1,
		CreatedAt: time.Now(), Input: in, Definition: definition,
	}
	if in.Model != "" {
		r.Model = in.Model
	}
	return r, nil
}

func errPlace(folder string) error {
	return run.Errorf(run.Forbidden, "only weir run works in a folder of its user's, as %s is; repeat it there with weir run --again", folder)
}

func (e *Engine) lookup(name string) (agent.Definition, error) {
	if name == "" {
		return agent.Definition{}, run.Errorf(run.Invalid, "no agent is named: give the name of a defined one")
	}
	def, err := e.opts.Agents.Lookup(name)
	if err != nil {
		if u := new(run.Error); errors.As(err, &u) {
			return agent.Definition{}, err
		}
		return agent.Definition{}, run.Errorf(run.NotFound, "there is no agent %q: %w", name, err)
	}
	return def, nil
}

// stageFor decides the stage: the request's, the definition's, the agent's name.
func stageFor(in run.Input, def agent.Definition) string {
	switch {
	case in.Stage != nil:
		return *in.Stage
	case def.Stage != nil:
		return *def.Stage
	}
	return def.Name
}

// payloadHash is equal for requests that ask for the same thing: the order of
// keys and the white space in labels and config do not count.
func payloadHash(q run.StartRequest) (string, error) {
	in := q.Input
	var err error
	if in.Labels, err = canonical(in.Labels); err != nil {
		return "", err
	}
	if in.Config, err = canonical(in.Config); err != nil {
		return "", err
	}
	b, err := json.Marshal(struct {
		Input   run.Input
		Session run.SessionID
		OnBusy  run.OnBusy
		Title   string `json:",omitempty"` // keys of before there were titles stay good
	}{in, q.Session, q.OnBusy, q.Title})
	if err != nil {
		return "", fmt.Errorf("hashing a request: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

func canonical(raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("hashing a request: %w", err)
	}
	if v == nil {
		return nil, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("hashing a request: %w", err)
	}
	return b, nil
}
