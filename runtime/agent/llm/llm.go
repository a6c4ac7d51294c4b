// Package llm is the driver of agents whose model Weir asks itself: it sends the
// conversation, shows the answer as it comes, books what it used, calls the tools
// and asks again, until the model has nothing more to do.
//
// The conversation is what the session's log says. A run that goes on after a
// restart, and a follow-up, know what a run knows that was never interrupted.
package llm

import (
	"context"
	"net/http"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/run"
)

// Target is where a model is asked.
type Target struct {
	API      string // one of package agent's
	BaseURL  string // "": the provider's own
	Key      string
	Provider string
	Client   *http.Client
}

// Options of the driver.
type Options struct {
	// Open makes the adapter of an API; nil for one that is not known.
	Open func(Target) chat.Model
	// Getenv gives the server's keys.
	Getenv func(string) string
	Retry  Retry
}

// Driver runs models in a loop with their tools.
type Driver struct {
	o      Options
	client *http.Client
}

// New makes the driver. Close it.
func New(o Options) *Driver {
	o.Retry = o.Retry.withDefaults()
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	return &Driver{o: o, client: chat.NewClient()}
}

// Close ends the connections that are kept for further requests.
func (d *Driver) Close() { d.client.CloseIdleConnections() }

// Name implements agent.Driver.
func (*Driver) Name() string { return agent.DriverLLM }

// ContinuesBehindUsage implements agent.Continuer: a request and what it said are
// in one commit.
func (*Driver) ContinuesBehindUsage() {}

// Check implements agent.Checker.
func (d *Driver) Check(def agent.Definition) error {
	_, err := d.open(def)
	return err
}

func (d *Driver) open(def agent.Definition) (chat.Model, error) {
	at := def.Endpoint()
	key := ""
	if at.KeyEnv != "" {
		if key = d.o.Getenv(at.KeyEnv); key == "" {
			return nil, run.Errorf(run.Invalid, "agent %q needs the key of its provider %s: start the server with %s set", def.Name, def.Provider, at.KeyEnv)
		}
	}
	model := d.o.Open(Target{API: at.API, BaseURL: at.BaseURL, Key: key, Provider: def.Provider, Client: d.client})
	if model == nil {
		return nil, run.Errorf(run.Invalid, "agent %q needs the API %s, which this server does not have", def.Name, at.API)
	}
	return model, nil
}

// Run implements agent.Driver. The result is the last text.
func (d *Driver) Run(ctx context.Context, t agent.Task, h agent.Host) (string, error) {
	c := t.Definition.LLM.WithDefaults()
	model, err := d.open(t.Definition)
	if err != nil {
		return "", err
	}
	l := &loop{
		task: t, host: h, model: model, config: c, retry: d.o.Retry,
		tools: toolbox(t, c, h), talk: talk{own: t.Run.ID},
	}
	if err := l.talk.load(ctx, h, t.Run); err != nil {
		return "", err
	}
	l.resumed, l.asked = l.talk.turns > 0, l.talk.turns
	return l.run(ctx)
}

// Retry says how often and when a request is repeated.
type Retry struct {
	Tries int           // of one request, the first included; 6
	Delay time.Duration // before the second try; doubled with each; 1 s
	Max   time.Duration // of a delay that we choose; 30 s
	Wait  time.Duration // that a provider may ask for; 5 min
}

func (r Retry) withDefaults() Retry {
	if r.Tries == 0 {
		r.Tries = 6
	}
	if r.Delay == 0 {
		r.Delay = time.Second
	}
	if r.Max == 0 {
		r.Max = 30 * time.Second
	}
	if r.Wait == 0 {
		r.Wait = 5 * time.Minute
	}
	return r
}
