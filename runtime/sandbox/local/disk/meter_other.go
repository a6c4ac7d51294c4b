//go:build !linux

package disk

import (
	"context"

	"github.com/weirhq/weir/runtime/sandbox"
)

// Meters measures no workspace on this system: the limit holds for each file.
type Meters struct{}

// Meter is of no use on this system.
type Meter struct{}

// Meter looks at nothing.
func (*Meters) Meter(context.Context, sandbox.Spec) (*Meter, error) { return &Meter{}, nil }

// Release has nothing to end.
func (*Meter) Release() {}
