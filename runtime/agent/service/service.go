// Package service is the driver of long-lived agents: a process in the run's
// sandbox that works by itself, answers on a socket in the workspace or on a port
// of this machine, and is asked there what it has used.
//
// Guarantees:
//   - What a service answers is never trusted: one exchange takes 3 s and 64 KiB at
//     most, follows no redirect, and goes to the service alone; an answer that is
//     not four counts is no answer. Nothing it answers ends the run.
//   - Its usage is read a last time before its first signal, or after it ended by
//     itself. The transcript is opened when the endpoint gives nothing, and
//     replaces what was polled; it never adds to it.
//   - An exit with 0 is success. Any other end by itself is agent.ErrCrashed.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

var errOver = errors.New("the service has ended")

// knock is how often a service that starts is looked at.
const knock = 100 * time.Millisecond

// Driver runs services.
type Driver struct {
	transcripts Transcripts
	now         func() time.Time
}

// New makes the driver.
func New(transcripts Transcripts) Driver { return Driver{transcripts, time.Now} }

// Name implements agent.Driver.
func (Driver) Name() string { return agent.DriverService }

// Run implements agent.Driver.
func (d Driver) Run(ctx context.Context, t agent.Task, h agent.Host) (string, error) {
	def := t.Definition
	c := def.Service.WithDefaults()
	if network := cmp.Or(t.Run.Input.Sandbox.Network, def.Sandbox.Network); c.Port != 0 && network != sandbox.NetworkHost {
		return "", run.Errorf(run.Invalid, "the port %d of agent %s can only be reached with sandbox.network HOST, not with %q; set that, or let the service listen on a socket", c.Port, def.Name, cmp.Or(network, sandbox.NetworkNone))
	}
	if len(def.Command) == 0 && def.Code == "" {
		return "", errors.New("there is nothing to run: the agent needs command or code")
	}
	root, err := os.OpenRoot(t.Workspace)
	if err != nil {
		return "", fmt.Errorf("opening the workspace: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing is written through it
	e := &endpoint{root: root, socket: c.Socket, port: c.Port, patience: patience}
	if err := e.clear(); err != nil {
		return "", err
	}
	x := agent.Exec{
		ID: run.NewExecutionID(), Code: def.Code, Command: def.Command,
		Env: environment(c, t.Run.Input.Prompt),
	}
	work, stop := context.WithCancelCause(ctx)
	defer stop(errOver)
	a := newAccount(work, x.ID, t.Run, e, c, root, d)
	defer a.close()
	x.Stopping, x.Final = a.stopping, a.final
	var watching sync.WaitGroup
	watching.Go(func() { watch(work, stop, h, a, c) })
	res, out, err := h.Execute(work, x)
	stop(errOver)
	watching.Wait()
	if err != nil {
		return "", err
	}
	return outcome(ctx, work, res, out)
}

// environment tells the service where to listen and what it was asked.
func environment(c agent.Service, prompt string) []run.EnvVar {
	env := []run.EnvVar{{Name: "WEIR_SOCKET", Value: c.Socket}}
	if c.Port != 0 {
		env = []run.EnvVar{{Name: "WEIR_PORT", Value: strconv.Itoa(c.Port)}}
	}
	if prompt != "" {
		env = append(env, run.EnvVar{Name: "WEIR_PROMPT", Value: prompt})
	}
	return env
}

// clear removes the socket of an earlier service, over which a new one would stumble.
func (e *endpoint) clear() error {
	if e.socket == "" {
		return nil
	}
	info, err := e.root.Lstat(e.socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("looking for the socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil // what it is comes out when the service listens there
	}
	if err := e.root.Remove(e.socket); err != nil {
		return fmt.Errorf("removing the socket of an earlier service: %w", err)
	}
	return nil
}

// watch waits until the service is ready, then looks at its usage from time to
// time. A service that is not ready in time is stopped.
func watch(ctx context.Context, stop context.CancelCauseFunc, h agent.Host, a *account, c agent.Service) {
	began := time.Now()
	if err := awaitReady(ctx, a.end, c); err != nil {
		stop(err)
		return
	}
	text := fmt.Sprintf("The service is ready after %s.", time.Since(began).Round(10*time.Millisecond))
	if err := h.Emit(ctx, &run.AgentMessage{MessageID: run.NewKey("msg"), Text: text}); err != nil {
		return // it is being stopped
	}
	look := func(ctx context.Context) error { return a.look(ctx, h) }
	defer h.Sample(look)()
	poll := time.NewTicker(time.Duration(c.PollSeconds * float64(time.Second)))
	defer poll.Stop()
	for {
		_ = look(ctx) // it has warned, or is being stopped
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
	}
}

// awaitReady knocks until the service opens.
func awaitReady(ctx context.Context, e *endpoint, c agent.Service) error {
	late := time.NewTimer(time.Duration(c.StartSeconds * float64(time.Second)))
	defer late.Stop()
	again := time.NewTicker(knock)
	defer again.Stop()
	for {
		err := e.ready(ctx, c.HealthPath)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late.C:
			return fmt.Errorf("the service was not ready after service.startSeconds, %g s: %w; raise that, or let it listen on %s", c.StartSeconds, err, e)
		}
	}
}
