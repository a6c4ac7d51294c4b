// Package agent says how an agent is defined and how a driver executes it.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// ErrTimeout is what a driver returns when a deadline of its own passed (R2).
// It may be wrapped with words for the user.
var ErrTimeout = errors.New("the agent ran out of time")

// ErrCrashed is what a driver returns when its agent ended by itself, badly. The
// engine starts another attempt, as the definition's Service says. It may be
// wrapped with words for the user.
var ErrCrashed = errors.New("the agent crashed")

// Driver executes runs of one kind of agent. Implementations hold no state of a
// run and are safe for concurrent use.
type Driver interface {
	Name() string
	// Run works until the task is done. It returns the run's result text, or an
	// error; after ctx is cancelled it returns soon, with any error: the engine
	// knows why it cancelled. It starts no goroutine that outlives it.
	Run(ctx context.Context, t Task, h Host) (string, error)
}

// Continuer is a driver that can continue a run behind a model call. When a run
// waited for an answer about its budget while the server restarted, ResumeKey is
// the RequestKey of the last usage that the run itself had booked, or "" when it
// had booked none: what came behind it is done again.
type Continuer interface {
	Driver
	ContinuesBehindUsage()
}

// Checker is a driver that may be unable to run an agent, whatever it is asked.
type Checker interface {
	Driver
	// Check tells why; it is asked when a run is started, before it exists.
	Check(d Definition) error
}

// Task is what a driver has to do.
type Task struct {
	Run        run.Run
	Definition Definition
	Workspace  string // absolute path
	// ResumeKey is set when the run was waiting for the answer to the question
	// with this key while the server restarted: continue there. See Continuer.
	ResumeKey string
}

// Host is what the engine does for a driver. Every method but Text returns after
// the commit of what it wrote, and all fail with the cause once the run is
// cancelled.
type Host interface {
	// Emit appends events in the run's name.
	Emit(ctx context.Context, payloads ...run.Payload) error
	// Text appends a piece of a message as MessageDelta, coalesced as the API
	// promises, so it returns before the commit; what follows by another method
	// comes after it. The AgentMessage is the driver's to emit.
	Text(ctx context.Context, messageID, text string) error
	// Usage books the usage of a model call, or of several in a few commits, also
	// once the run is cancelled. It returns when the run may go on: while a budget is
	// used up and a person is asked how much more, it waits, and so do Execute and
	// Delegate.
	Usage(ctx context.Context, records ...run.UsageRecord) error
	// Said books the usage of a model call as Usage does and, in the same commit,
	// appends what the call said.
	Said(ctx context.Context, records []run.UsageRecord, said ...run.Payload) error
	// Log gives the session's events of these types so far, in order.
	Log(ctx context.Context, types []run.EventType, each func(*run.Event) error) error
	// Execute runs a command in the run's sandbox: ExecutionStarted, output,
	// metrics, ExecutionFinished and the compute usage are written by it.
	Execute(ctx context.Context, e Exec) (sandbox.Result, Output, error)
	// Delegate runs a child run to its end and returns its result text. The
	// error of a child that did not end DONE says what it came to.
	Delegate(ctx context.Context, d Delegation) (run.Run, error)
	// Sample makes a snapshot of the run's usage call f first, so that what a
	// long-lived agent has used by now is booked before the totals are taken. One
	// call at a time; its error is logged and the snapshot made without it. stop
	// waits for a call under way; after it there is none.
	Sample(f func(ctx context.Context) error) (stop func())
	// Ask opens a question (or finds it again by its key) and waits for the answer.
	Ask(ctx context.Context, key, text string, schema json.RawMessage) (json.RawMessage, error)
}

// Exec is one command for Host.Execute: code or command.
type Exec struct {
	Code    string
	Command []string
	Env     []run.EnvVar
	Timeout time.Duration // 0: the run's sandbox timeout
	CallID  string        // the tool call it belongs to
	NoStage bool          // do not parse its lines (hooks)

	ID run.ExecutionID // what it will be called; "": the host decides

	// Stopping and Final settle what the execution has used, in records that fill
	// no more than those of Host.Usage. The host books them though the run may be
	// cancelled, shows the warnings, and never fails for them. Both are called at
	// most once, one after the other, and return soon when ctx ends.
	//
	// Stopping is called when the execution is to be stopped, before its first
	// signal, which waits for at most StoppingPatience.
	Stopping func(ctx context.Context) Settlement
	// Final is called after every end of an execution that had started, when its
	// processes are gone, for at most FinalPatience.
	Final func(ctx context.Context) Settlement
}

// What an execution's end may be held up for its usage.
const (
	StoppingPatience = 3 * time.Second
	FinalPatience    = 10 * time.Second
)

// Settlement is what was learnt about the usage of an execution at its end.
type Settlement struct {
	Usage    []run.UsageRecord
	Warnings []string
}

// Output is the beginning of what an execution printed, for tool results.
type Output struct {
	Stdout, Stderr string // at most OutputHead bytes each
}

// OutputHead bounds Output.
const OutputHead = 16 << 10

// Delegation asks for a child run.
type Delegation struct {
	Agent  string
	Prompt string
	Stage  *string
}
