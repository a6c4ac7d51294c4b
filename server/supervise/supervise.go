// Package supervise runs long-lived services as layers.
//
// Guarantees:
//   - Services start in the given order, each when the one before is ready, and
//     stop in reverse, each waited for before the next is asked: what a service
//     stands on is there until it has ended.
//   - Run returns only when everything that it started has ended.
//   - A service that ends without having been asked to brings all of them down,
//     and its error, or that it had none, is part of what Run returns.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// Service is one layer.
type Service struct {
	Name string
	// Run works until ctx ends and returns when all that it started has ended.
	Run func(ctx context.Context) error
	// Ready is closed when the next layer may start; nil means at once.
	Ready <-chan struct{}
}

// errStopping is the cause of a service's end in good order.
var errStopping = errors.New("the server is stopping")

// running is a service that was started.
type running struct {
	Service
	stop  context.CancelCauseFunc
	ended chan struct{} // closed after err is set
	err   error
}

// Run starts the services, waits until ctx ends or one of them does, and stops
// them.
func Run(ctx context.Context, log *slog.Logger, services ...Service) error {
	var (
		started []*running
		failed  = make(chan *running, len(services)) // in the order of their ends
	)
	for _, s := range services {
		r := launch(ctx, s, failed)
		started = append(started, r)
		log.Debug("started", "service", s.Name)
		if !r.ready(ctx, failed) {
			break
		}
	}
	var first *running
	if len(started) == len(services) || ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case first = <-failed:
		}
	}
	var errs []error
	if first != nil && ctx.Err() == nil {
		err := first.err
		if err == nil {
			err = errors.New("it ended by itself")
		}
		errs = append(errs, fmt.Errorf("%s: %w", first.Name, err))
	}
	for i := len(started) - 1; i >= 0; i-- {
		r := started[i]
		r.stop(errStopping)
		<-r.ended
		log.Debug("stopped", "service", r.Name)
		if r.err != nil && (r != first || len(errs) == 0) {
			errs = append(errs, fmt.Errorf("stopping %s: %w", r.Name, r.err))
		}
	}
	return errors.Join(errs...)
}

func launch(ctx context.Context, s Service, failed chan<- *running) *running {
	// Its own context: the end of ctx must reach it only when its turn has come.
	own, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &running{Service: s, stop: stop, ended: make(chan struct{})}
	go func() {
		r.err = s.Run(own)
		close(r.ended)
		failed <- r // has room for every service
	}()
	return r
}

// ready waits until the next layer may start; false means that it may not.
func (r *running) ready(ctx context.Context, failed chan *running) bool {
	if r.Ready == nil {
		return ctx.Err() == nil
	}
	select {
	case <-r.Ready:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	case f := <-failed:
		failed <- f // for Run to find
		return false
	}
}
