package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// Execute implements agent.Host.
func (h *host) Execute(ctx context.Context, x agent.Exec) (sandbox.Result, agent.Output, error) {
	h.inside.Add(1)
	defer h.inside.Done()
	if err := h.gone(ctx); err != nil {
		return sandbox.Result{}, agent.Output{}, err
	}
	spec, err := h.spec(x)
	if err != nil {
		return sandbox.Result{}, agent.Output{}, err
	}
	ctx, release := h.both(ctx)
	defer release()
	if err := h.s.guard.pass(ctx); err != nil {
		return sandbox.Result{}, agent.Output{}, err
	}
	k := newSink(h, x.CallID, spec)
	defer h.s.working(k)()
	k.raw.begin()
	res, err := sandbox.Run(ctx, h.s.plan.backend, spec, k, sandbox.Options{
		Tracer: h.s.e.tracer, OnStart: k.started, Hurry: h.s.e.hurry, Curves: h.s.curves,
		BeforeStop: func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, agent.StoppingPatience)
			defer cancel() // a full queue does not hold up the stop either
			h.s.settle(ctx, x.Stopping, agent.StoppingPatience)
		},
	})
	if k.open {
		h.s.settle(h.s.e.write, x.Final, agent.FinalPatience)
	}
	if !res.SignalledAt.IsZero() && context.Cause(h.s.ctx) != nil {
		h.s.proof.add(res)
	}
	if len(res.Survivors) > 0 {
		h.s.e.log.Error("Processes outlived their sandbox", "run", spec.Run, "execution", spec.Execution, "pids", res.Survivors)
	}
	if err != nil {
		committed, err := k.broken(ctx, spec, res, err)
		k.raw.close(committed)
		return sandbox.Result{}, k.output(), err
	}
	err = k.finished(&res)
	k.raw.close(err == nil)
	if err == nil && context.Cause(ctx) == nil {
		_ = h.s.guard.pass(ctx) // why it stopped the run is the run's cause
	}
	return res, k.output(), err
}

// working makes an execution's account known until the function it gives is called.
func (s *supervisor) working(k *sink) (ended func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.executing[k.exec.ID] = k
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.executing, k.exec.ID)
	}
}

// Losses gives the accounts so far of the executions of a run that work in this
// process. Who reads them before the rows sees each execution at work or ended.
func (e *Engine) Losses(id run.ID) map[run.ExecutionID]run.Loss {
	s := e.supervisor(id)
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[run.ExecutionID]run.Loss, len(s.executing))
	for id, k := range s.executing {
		out[id] = k.live()
	}
	return out
}

// spec decides one execution from the run's plan and the driver's wish.
func (h *host) spec(x agent.Exec) (sandbox.Spec, error) {
	if (x.Code == "") == (len(x.Command) == 0) {
		return sandbox.Spec{}, run.Errorf(run.Invalid, "an execution needs code or a command, and not both")
	}
	choice := h.s.plan.choice
	if x.Timeout > 0 { // within the operator's ceiling, as any other wish
		p, err := h.s.e.planFor(run.SandboxRequest{TimeoutSeconds: x.Timeout.Seconds()}, h.s.run.Input.Sandbox, h.s.def.Sandbox)
		if err != nil {
			return sandbox.Spec{}, err
		}
		choice = p.choice
	}
	spec := sandbox.Spec{
		Execution: cmp.Or(x.ID, run.NewExecutionID()), Run: h.s.run.ID, Replica: h.s.e.opts.Replica, Workspace: h.s.place.path, Place: h.s.run.Input.Place,
		Code: x.Code, Command: x.Command, Env: mergeEnv(configEnv(h.s.run.Input.Config), h.s.def.Env, h.s.run.Input.Env, x.Env),
	}
	choice.Apply(&spec)
	if !x.NoStage {
		spec.Stage = h.s.run.Stage
	}
	return spec, nil
}

const (
	// configName is the variable that a program finds the run's config in, as JSON.
	configName = "WEIR_CONFIG"
	// maxConfigEnv is the longest config that goes there: the system takes 128 KiB
	// as one string of an environment.
	maxConfigEnv = 100 << 10
)

// configEnv hands the config to the program.
func configEnv(config json.RawMessage) []run.EnvVar {
	if len(config) == 0 || len(config) > maxConfigEnv || string(config) == "null" {
		return nil
	}
	return []run.EnvVar{{Name: configName, Value: string(config)}}
}

// mergeEnv gives the variables of all lists; a later one replaces an earlier one.
func mergeEnv(lists ...[]run.EnvVar) []run.EnvVar {
	var env []run.EnvVar
	at := make(map[string]int)
	for _, list := range lists {
		for _, v := range list {
			if i, ok := at[v.Name]; ok {
				env[i] = v
				continue
			}
			at[v.Name] = len(env)
			env = append(env, v)
		}
	}
	return env
}

// started opens the execution in the log, before its first output.
func (k *sink) started(ctx context.Context, st sandbox.Started) error {
	k.exec.Backend, k.exec.Isolation, k.exec.Command = st.Backend, st.Isolation, st.Command
	k.exec.StartedAt = time.Now()
	k.open = true
	k.running.Store(&run.UsageRecord{Run: k.exec.Run, Kind: run.ComputeUsage, At: k.exec.StartedAt, Backend: k.exec.Backend, GPU: k.exec.GPU})
	return k.h.s.emit.commit(ctx, k.opening())
}

func (k *sink) opening() entry {
	return entry{
		executions: []run.Execution{k.exec},
		drafts: []run.Draft{k.h.s.draft(&run.ExecutionStarted{
			ExecutionID: k.exec.ID, Backend: k.exec.Backend, Isolation: k.exec.Isolation, Command: k.exec.Command, CallID: k.callID,
		})},
	}
}

// finished closes an execution that gave a result, and books its compute time.
func (k *sink) finished(res *sandbox.Result) error {
	s := k.h.s
	loss, problems := k.account(res.Loss)
	k.running.Store(nil) // before the record is there
	res.Loss = loss
	problems = append(res.Warnings, problems...)
	now := time.Now()
	k.exec.EndedAt, k.exec.Class, k.exec.ExitCode, k.exec.Signal = now, res.Class, res.ExitCode, res.Signal
	k.exec.Elapsed, k.exec.IsError, k.exec.Loss = res.Elapsed, res.IsError(), loss
	u := run.UsageRecord{
		Run: s.run.ID, RequestKey: string(k.exec.ID), Kind: run.ComputeUsage, At: now,
		Rank: run.FromResult, Provenance: run.Measured,
		Backend: k.exec.Backend, GPU: k.exec.GPU, ComputeMicros: res.Elapsed.Microseconds(), IsError: res.IsError(),
	}
	x := k.ending(problems)
	x.usage = []run.UsageRecord{u}
	return s.emit.commit(s.e.write, x)
}

// broken closes an execution that gave none: it was never created (S6), or its
// output broke off (S7). Nothing is booked. It tells whether the end is committed.
func (k *sink) broken(ctx context.Context, spec sandbox.Spec, res sandbox.Result, cause error) (committed bool, _ error) {
	s := k.h.s
	now := time.Now()
	var opening entry
	if !k.open {
		if c := context.Cause(ctx); c != nil {
			return true, c // stopped before anything was created
		}
		k.exec.Backend, k.exec.StartedAt, k.exec.Command = s.plan.backend.Name(), now, shown(spec)
		opening = k.opening()
	}
	loss, problems := k.account(res.Loss)
	k.exec.EndedAt, k.exec.Class, k.exec.IsError, k.exec.Loss = now, run.ClassInfrastructure, true, loss
	k.exec.Elapsed, k.exec.ErrMessage = now.Sub(k.exec.StartedAt), clean(cause.Error(), maxText)
	x := k.ending(append(res.Warnings, problems...))
	x.drafts = append(opening.drafts, x.drafts...)
	err := s.emit.commit(s.e.write, x)
	if err != nil && !errors.Is(err, errReleased) {
		cause = errors.Join(cause, err)
	}
	return err == nil, fmt.Errorf("running a command in the sandbox: %w", cause)
}

func (k *sink) ending(problems []string) entry {
	s := k.h.s
	x := entry{executions: []run.Execution{k.exec}}
	for _, p := range problems {
		x.drafts = append(x.drafts, s.draft(&run.Warning{Text: p}))
	}
	x.drafts = append(x.drafts, s.draft(&run.ExecutionFinished{
		ExecutionID: k.exec.ID, ExitClass: k.exec.Class, ExitCode: k.exec.ExitCode, Signal: k.exec.Signal,
		Seconds: k.exec.Elapsed.Seconds(), IsError: k.exec.IsError, Loss: k.exec.Loss,
	}))
	return x
}

// shown is the command as users see it when the backend could not say.
func shown(spec sandbox.Spec) []string {
	if spec.Code != "" {
		return []string{"python3", "-"}
	}
	return spec.Command
}
