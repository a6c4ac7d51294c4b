package engine

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
)

// TestSampler: stop waits for the call under way and none comes after it; a panic
// is an error of that call.
func TestSampler(t *testing.T) {
	t.Parallel()
	h := &host{s: &supervisor{}}
	if err := h.s.sampler.call(t.Context()); err != nil {
		t.Errorf("nobody to ask: %v", err)
	}
	under, goOn := make(chan struct{}), make(chan struct{})
	var answered atomic.Bool
	stop := h.Sample(func(context.Context) error {
		close(under)
		<-goOn
		answered.Store(true)
		return errors.New("no answer")
	})
	called := make(chan error, 1)
	go func() { called <- h.s.sampler.call(t.Context()) }()
	<-under
	go close(goOn)
	if stop(); !answered.Load() {
		t.Error("stop did not wait for the call under way")
	}
	if err := <-called; err == nil || err.Error() != "no answer" {
		t.Errorf("got %v, want the call's own error", err)
	}
	if err := h.s.sampler.call(t.Context()); err != nil {
		t.Errorf("asked after stop: %v", err)
	}
	defer h.Sample(func(context.Context) error { panic("oh no") })()
	if err := h.s.sampler.call(t.Context()); err == nil || !strings.Contains(err.Error(), "oh no") {
		t.Errorf("got %v, want the panic as an error", err)
	}
}
