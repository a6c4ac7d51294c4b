package service

import (
	"context"
	"os"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

// At gives a driver with another clock.
func (d Driver) At(now func() time.Time) Driver {
	d.now = now
	return d
}

// Read reads a whole transcript once.
func (f Files) Read(ctx context.Context, root *os.Root, t agent.Transcript, since time.Time) ([]run.UsageRecord, error) {
	g, err := f.Open(t, since)
	if err != nil {
		return nil, err
	}
	return g.Read(ctx, root, true)
}
