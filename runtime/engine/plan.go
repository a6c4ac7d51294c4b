package engine

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// plan is where and within which limits a run's commands are executed.
type plan struct {
	backend sandbox.Backend
	choice  sandbox.Choice
}

// planFor decides a sandbox: a field of the first layer that sets it counts.
func (e *Engine) planFor(layers ...run.SandboxRequest) (plan, error) {
	c, err := e.opts.Policy.Resolve(layers...)
	if err != nil {
		return plan{}, err
	}
	b, ok := e.opts.Backends[c.Backend]
	if !ok {
		names := slices.Sorted(maps.Keys(e.opts.Backends))
		if len(names) == 0 {
			names = []string{"none"}
		}
		return plan{}, run.Errorf(run.Unavailable, "this server has no sandbox backend %q; it has: %s", c.Backend, strings.Join(names, ", "))
	}
	return plan{backend: b, choice: c}, nil
}
