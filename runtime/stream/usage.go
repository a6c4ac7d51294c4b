package stream

import (
	"context"
	"sync"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// usageEvery is the least time between two messages of a follower of the usage,
// and how old a shared sum may be.
const usageEvery = time.Second

// usageFeed tells the followers of the usage that some run changed, and shares
// one sum between them.
type usageFeed struct {
	reading chan struct{} // a slot: who sums up

	mu      sync.Mutex
	changes uint64        // counts commits that changed a run
	wake    chan struct{} // closed at the next one; nil while nobody waits
	latest  sum
}

// sum is what the active runs have used, as it was read.
type sum struct {
	run.UsageTotals
	changes uint64    // the count before it was read
	read    time.Time // zero: never
}

func newUsageFeed() usageFeed { return usageFeed{reading: make(chan struct{}, 1)} }

func (u *usageFeed) changed() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.changes++
	if u.wake != nil {
		close(u.wake)
		u.wake = nil
	}
}

// since gives nil when a run has changed after the count, else what is closed
// when one does.
func (u *usageFeed) since(changes uint64) <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.changes != changes {
		return nil
	}
	if u.wake == nil {
		u.wake = make(chan struct{})
	}
	return u.wake
}

// shared gives the sum that another follower has read if it is good enough, and
// the count of changes that a new one has to be kept with.
func (u *usageFeed) shared() (sum, bool, uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	good := !u.latest.read.IsZero() && time.Since(u.latest.read) < usageEvery
	return u.latest, good, u.changes
}

func (u *usageFeed) keep(s sum) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.latest = s
}

// FollowUsage hands what the active runs have used to send: at once, then each
// time it changed, the newest state only and at most once a second. It returns
// when ctx ends or send fails.
func (s *Stream) FollowUsage(ctx context.Context, send func(run.UsageTotals) error) error {
	var sent *run.UsageTotals
	for {
		now, err := s.sum(ctx)
		if err != nil {
			return err
		}
		if sent == nil || now.Runs != sent.Runs || !equal(now.Usage, sent.Usage) {
			if err := send(now.UsageTotals); err != nil {
				return err
			}
			sent = &now.UsageTotals
		}
		if err := pause(ctx, usageEvery); err != nil {
			return err
		}
		if s.opts.Poll > 0 {
			continue // another process may have changed a run
		}
		if change := s.usage.since(now.changes); change != nil {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-change:
			}
		}
	}
}

// sum gives a sum that is less than a second old. One follower reads it at a
// time.
func (s *Stream) sum(ctx context.Context) (sum, error) {
	select {
	case s.usage.reading <- struct{}{}:
		defer func() { <-s.usage.reading }()
	case <-ctx.Done():
		return sum{}, context.Cause(ctx)
	}
	known, good, changes := s.usage.shared()
	if good {
		return known, nil
	}
	began := time.Now()
	totals, err := read(ctx, s, s.source.ActiveUsage)
	if err != nil {
		return sum{}, err
	}
	fresh := sum{UsageTotals: totals, changes: changes, read: began}
	s.usage.keep(fresh)
	return fresh, nil
}

// equal compares by value what a pointer holds.
func equal(a, b run.Usage) bool {
	if (a.CostNanoUSD == nil) != (b.CostNanoUSD == nil) || (a.CostNanoUSD != nil && *a.CostNanoUSD != *b.CostNanoUSD) {
		return false
	}
	a.CostNanoUSD, b.CostNanoUSD = nil, nil
	return a == b
}
