package app

import (
	"context"
	"errors"

	"github.com/weirhq/weir/graph"
	"github.com/weirhq/weir/runtime/run"
)

// watchOnly lets clients watch and stop runs and start none.
type watchOnly struct {
	graph.Runs
	refusal error // for who asks for more
}

// Of a demo without a sandbox: plain processes are for the shipped examples
// alone, never for what a request brings.
var errExamplesOnly = errors.New("this demo found no working sandbox and runs its own examples only; " +
	"make the sandbox work (the start of the demo says how), or use weir serve --allow-unsandboxed on a machine where that is safe")

// Of weir run: it works in a folder of the user's own, for the command that was
// typed, and its sandbox may have the network that this API is on.
var errTypedOnly = errors.New("this is weir run, which runs the one command that was typed; use weir serve for more")

func (w watchOnly) refuse() error { return run.Errorf(run.Forbidden, "%w", w.refusal) }

// Start implements graph.Runs.
func (w watchOnly) Start(context.Context, run.StartRequest) (run.Run, error) {
	return run.Run{}, w.refuse()
}

// Message implements graph.Runs.
func (w watchOnly) Message(context.Context, run.MessageRequest) (run.Run, error) {
	return run.Run{}, w.refuse()
}

// keepAll also lets clients change nothing of what is kept.
type keepAll struct{ watchOnly }

// CreateSession implements graph.Runs.
func (k keepAll) CreateSession(context.Context, string) (run.Session, error) {
	return run.Session{}, k.refuse()
}

// Reprice implements graph.Runs.
func (k keepAll) Reprice(context.Context, run.Reprice) ([]run.RepriceLine, error) {
	return nil, k.refuse()
}

// DeleteSession implements graph.Runs.
func (k keepAll) DeleteSession(context.Context, run.SessionID) error { return k.refuse() }
