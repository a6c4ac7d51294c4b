package engine

import "context"

// SweepSnapshots is one sweep of the snapshots, now.
func (e *Engine) SweepSnapshots(ctx context.Context) error { return e.sweepSnapshots(ctx) }

// SweepRollups is one sweep of the rollups, now.
func (e *Engine) SweepRollups(ctx context.Context) error { return e.sweepRollups(ctx) }

// CheckRollups marks what the daily check looks at.
func (e *Engine) CheckRollups(ctx context.Context) error { return e.checkRollups(ctx) }
