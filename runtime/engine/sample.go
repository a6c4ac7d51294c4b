package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// sampler is what a snapshot asks before it takes a run's totals.
type sampler struct {
	mu      sync.Mutex
	f       func(ctx context.Context) error
	cut     context.CancelCauseFunc // ends the call under way
	calling sync.Mutex              // held during a call
}

// errStillAsked: the call before has not come back.
var errStillAsked = errors.New("it was asked before and has not answered yet")

// Sample implements agent.Host.
func (h *host) Sample(f func(ctx context.Context) error) (stop func()) {
	s := &h.s.sampler
	s.mu.Lock()
	s.f = f
	s.mu.Unlock()
	return s.stop
}

// stop lets no call begin any more and waits for the one under way, which has no
// more time.
func (s *sampler) stop() {
	s.mu.Lock()
	s.f = nil
	if s.cut != nil {
		s.cut(errReleased)
	}
	s.mu.Unlock()
	s.calling.Lock()
	defer s.calling.Unlock()
}

// present tells whether there is somebody to ask.
func (s *sampler) present() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.f != nil
}

// call asks, if there is somebody to ask.
func (s *sampler) call(ctx context.Context) (err error) {
	if !s.calling.TryLock() {
		return errStillAsked
	}
	defer s.calling.Unlock()
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(errReleased)
	s.mu.Lock()
	f := s.f
	s.cut = cut
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("asking for the usage panicked: %v", p)
		}
	}()
	return f(context.WithValue(ctx, sampling{}, true))
}
