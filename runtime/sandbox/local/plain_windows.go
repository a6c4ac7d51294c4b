package local

import (
	"context"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

const (
	elsewhere = "run weir serve on Linux, for example in WSL 2"
	noPlain   = "plain processes cannot be ended for certain on Windows: " + elsewhere
)

// Plain is not available on this system.
type Plain struct{}

// NewPlain makes a backend that says so.
func NewPlain(Options) *Plain { return &Plain{} }

// Name implements sandbox.Backend.
func (*Plain) Name() string { return "local" }

// Probe implements sandbox.Backend.
func (b *Plain) Probe(context.Context) sandbox.Status {
	return sandbox.Status{Backend: b.Name(), Reason: noPlain, Isolation: Unsandboxed}
}

// Start implements sandbox.Backend.
func (*Plain) Start(context.Context, sandbox.Spec) (sandbox.Process, error) {
	return nil, run.Errorf(run.Unavailable, noPlain)
}

// Reap implements sandbox.Backend.
func (*Plain) Reap(context.Context, string) ([]int, error) { return nil, nil }

// Close has nothing to end.
func (*Plain) Close() error { return nil }
