package app

import (
	"context"

	"github.com/weirhq/weir/graph"
	"github.com/weirhq/weir/runtime/run"
)

// watchOnly lets clients watch and stop runs and start none: plain processes
// are for the shipped examples alone, never for what a request brings.
type watchOnly struct{ graph.Runs }

func refuseStart() error {
	return run.Errorf(run.Forbidden, "this demo found no working sandbox and runs its own examples only; "+
		"make the sandbox work (the start of the demo says how), or use weir serve --allow-unsandboxed on a machine where that is safe")
}

// Start implements graph.Runs.
func (watchOnly) Start(context.Context, run.StartRequest) (run.Run, error) {
	return run.Run{}, refuseStart()
}

// Message implements graph.Runs.
func (watchOnly) Message(context.Context, run.MessageRequest) (run.Run, error) {
	return run.Run{}, refuseStart()
}
