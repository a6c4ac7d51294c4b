//go:build !linux

package local

import (
	"context"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// noBubblewrap is why there is no sandbox, and what to do.
func noBubblewrap() *sandbox.Problem {
	return &sandbox.Problem{
		What:    "there is no sandbox on this system (bubblewrap exists on Linux only)",
		Meaning: "weir serve starts, and runs fail",
		Remedy:  elsewhere,
	}
}

// Bubblewrap is not available on this system.
type Bubblewrap struct{}

// NewBubblewrap makes a backend that says so.
func NewBubblewrap(Options) *Bubblewrap { return &Bubblewrap{} }

// Name implements sandbox.Backend.
func (*Bubblewrap) Name() string { return "local" }

// Probe implements sandbox.Backend.
func (b *Bubblewrap) Probe(context.Context) sandbox.Status {
	p := noBubblewrap()
	return sandbox.Status{Backend: b.Name(), Reason: p.Error(), Problem: p}
}

// Start implements sandbox.Backend.
func (*Bubblewrap) Start(context.Context, sandbox.Spec) (sandbox.Process, error) {
	return nil, run.Errorf(run.Unavailable, "%w", noBubblewrap())
}

// Reap implements sandbox.Backend.
func (*Bubblewrap) Reap(context.Context, string) ([]int, error) { return nil, nil }

// Close has nothing to end.
func (*Bubblewrap) Close() error { return nil }

// ClosedAbove has nothing to find without sandboxes.
func ClosedAbove(string) *sandbox.Problem { return nil }
