package engine_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// scriptedBackend runs no process: a function plays it. It stands in where a
// real one could not be made to fail (S6, S7), and where none matters.
type scriptedBackend struct {
	// refuse, if set, makes the creation fail.
	refuse func(sandbox.Spec) error
	// play writes the output and gives the exit code; nil prints nothing and exits 0.
	play func(p *scriptedProcess) int

	mu     sync.Mutex
	specs  []sandbox.Spec
	reaped []string
}

func (b *scriptedBackend) Name() string { return "local" }

func (b *scriptedBackend) Probe(context.Context) sandbox.Status {
	return sandbox.Status{Backend: "local", Available: true}
}

func (b *scriptedBackend) Reap(_ context.Context, replica string) ([]int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reaped = append(b.reaped, replica)
	return nil, nil
}

// started gives what was asked of the backend so far.
func (b *scriptedBackend) started() []sandbox.Spec {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]sandbox.Spec(nil), b.specs...)
}

func (b *scriptedBackend) Start(_ context.Context, spec sandbox.Spec) (sandbox.Process, error) {
	b.mu.Lock()
	b.specs = append(b.specs, spec)
	b.mu.Unlock()
	if b.refuse != nil {
		if err := b.refuse(spec); err != nil {
			return nil, err
		}
	}
	p := &scriptedProcess{spec: spec, term: make(chan struct{}), kill: make(chan struct{}), exited: make(chan struct{})}
	p.outR, p.out = io.Pipe()
	p.errR, p.err = io.Pipe()
	p.played.Go(func() {
		defer close(p.exited)
		if b.play != nil {
			p.code = b.play(p)
		}
		_ = p.out.Close()
		_ = p.err.Close()
	})
	return p, nil
}

type scriptedProcess struct {
	spec       sandbox.Spec
	out, err   *io.PipeWriter
	outR, errR *io.PipeReader
	once, last sync.Once
	term, kill chan struct{}
	exited     chan struct{}
	played     sync.WaitGroup
	code       int
}

func (p *scriptedProcess) Started() sandbox.Started {
	return sandbox.Started{Backend: "local", Command: append([]string{}, p.spec.Command...)}
}
func (p *scriptedProcess) Stdout() io.Reader       { return p.outR }
func (p *scriptedProcess) Stderr() io.Reader       { return p.errR }
func (p *scriptedProcess) Exited() <-chan struct{} { return p.exited }

func (p *scriptedProcess) Stop() error {
	p.once.Do(func() { close(p.term) })
	return nil
}

func (p *scriptedProcess) Kill() error {
	p.last.Do(func() {
		close(p.kill)
		_ = p.outR.CloseWithError(errors.New("killed"))
		_ = p.errR.CloseWithError(errors.New("killed"))
	})
	return nil
}

func (p *scriptedProcess) Wait() (sandbox.Exit, error) {
	p.played.Wait()
	now := time.Now()
	return sandbox.Exit{Code: &p.code, ProcessGoneAt: now, SandboxGoneAt: now}, nil
}

// metricsRefused is a store whose metric tables are broken: it takes no batch
// that holds points.
type metricsRefused struct{ *store.Store }

func (m metricsRefused) Append(ctx context.Context, b run.Batch) ([]*run.Event, error) {
	for _, d := range b.Drafts {
		if d.Payload.Type() == run.TypeMetricsLogged {
			return nil, errors.New("no such table: metric_points")
		}
	}
	return m.Store.Append(ctx, b)
}
