//go:build !linux

package local

import (
	"context"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

const noBubblewrap = "bubblewrap exists on Linux only: use the docker or modal backend"

// Bubblewrap is not available on this system.
type Bubblewrap struct{}

// NewBubblewrap makes a backend that says so.
func NewBubblewrap(Options) *Bubblewrap { return &Bubblewrap{} }

// Name implements sandbox.Backend.
func (*Bubblewrap) Name() string { return "local" }

// Probe implements sandbox.Backend.
func (b *Bubblewrap) Probe(context.Context) sandbox.Status {
	return sandbox.Status{Backend: b.Name(), Reason: noBubblewrap}
}

// Start implements sandbox.Backend.
func (*Bubblewrap) Start(context.Context, sandbox.Spec) (sandbox.Process, error) {
	return nil, run.Errorf(run.Unavailable, noBubblewrap)
}

// Reap implements sandbox.Backend.
func (*Bubblewrap) Reap(context.Context, string) ([]int, error) { return nil, nil }

// Close has nothing to end.
func (*Bubblewrap) Close() error { return nil }
