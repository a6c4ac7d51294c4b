package engine

import (
	"context"
	"fmt"
	"sync"
)

// sampler is what a snapshot asks before it takes a run's totals.
type sampler struct {
	mu sync.Mutex // held during a call
	f  func(ctx context.Context) error
}

// Sample implements agent.Host.
func (h *host) Sample(f func(ctx context.Context) error) (stop func()) {
	h.s.sampler.set(f)
	return func() { h.s.sampler.set(nil) }
}

func (s *sampler) set(f func(ctx context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.f = f
}

// call asks, if there is somebody to ask.
func (s *sampler) call(ctx context.Context) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("asking for the usage panicked: %v", p)
		}
	}()
	return s.f(ctx)
}
