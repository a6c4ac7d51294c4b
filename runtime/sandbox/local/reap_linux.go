package local

import (
	"context"
	"fmt"

	"github.com/weirhq/weir/runtime/sandbox/local/proc"
)

// Reap implements sandbox.Backend.
func (b *Bubblewrap) Reap(ctx context.Context, replica string) ([]int, error) {
	killed, err := reap(ctx, replica)
	b.cgroups.Sweep(replica)
	return killed, err
}

func reap(ctx context.Context, replica string) ([]int, error) {
	if replica == "" {
		return nil, nil
	}
	killed, alive := proc.KillLabelled(ctx, goneWait, labelExecution+"=", labelReplica+"="+replica+"\x00")
	if len(alive) > 0 {
		return killed, fmt.Errorf("processes %v of an earlier server are still alive after a KILL", alive)
	}
	return killed, nil
}
