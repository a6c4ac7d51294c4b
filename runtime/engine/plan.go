package engine

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// Policy decides a sandbox within the operator's ceilings.
type Policy interface {
	// Decide merges a request over an agent's profile over the defaults. The spec
	// has limits, network, image and GPU; errors are *run.Error.
	Decide(request, profile run.SandboxRequest) (backend string, spec sandbox.Spec, err error)
}

// plan is where and within which limits a run's commands are executed.
type plan struct {
	backend sandbox.Backend
	spec    sandbox.Spec // without command, workspace and environment
}

func (e *Engine) planFor(request, profile run.SandboxRequest) (plan, error) {
	name, spec, err := e.opts.Policy.Decide(request, profile)
	if err != nil {
		return plan{}, err
	}
	b, ok := e.opts.Backends[name]
	if !ok {
		names := slices.Sorted(maps.Keys(e.opts.Backends))
		return plan{}, run.Errorf(run.Invalid, "this server has no sandbox backend %q; it has %s", name, listed(names))
	}
	return plan{backend: b, spec: spec}, nil
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
