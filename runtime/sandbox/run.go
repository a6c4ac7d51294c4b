package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/weirhq/weir/runtime/run"
)

const (
	// drainFor bounds how long a grandchild may keep a pipe open after the
	// command has ended; then it is killed.
	drainFor = 1500 * time.Millisecond
	// killWait bounds how long a killed tree may take to disappear.
	killWait = 5 * time.Second
	// sinkPatience bounds how long a sink may still block once the run is
	// cancelled and the process is gone.
	sinkPatience = 30 * time.Second
)

// Options are what Run needs besides the command.
type Options struct {
	// Tracer makes the span of the execution; nil makes none.
	Tracer trace.Tracer
	// OnStart is called once, after the command has started and before the first
	// chunk. An error from it ends the execution as a broken stream does.
	OnStart func(ctx context.Context, s Started) error
	// BeforeStop is called once when the command is to be stopped with a grace,
	// before its first signal, which waits for it. Its context ends when the command
	// has ended by itself meanwhile or can wait no longer; then it returns soon. One
	// that is killed at once, for its disk or a broken output, is not announced.
	BeforeStop func(ctx context.Context)
	// Hurry, once closed, ends the grace of a command that was asked to stop, and
	// leaves none to one that is asked later. Nil never does.
	Hurry <-chan struct{}
	// Curves bounds the curves of the run that the execution belongs to; nil
	// bounds those of the execution.
	Curves *Curves
}

// reason is why the server ended an execution. It is set once, before any
// signal is sent, and decides the exit class.
type reason = int32

const (
	noReason reason = iota
	timedOut
	cancelled
	outputLimit
	diskLimit
	broken
)

// Run starts spec on b, gives everything it prints to sink and returns when
// the process is gone and its output has been delivered.
//
// Cancelling ctx stops the command (TERM, then KILL after the grace); that is
// a result of class CANCELLED with the context's cause in it, and the output up
// to the end is still delivered: the sink's context is not cancelled with ctx.
// An error means that the command could not be started, or that its output
// broke off: a read failed, or the sink or OnStart returned an error. Its
// result then has the class INFRASTRUCTURE and what was counted up to there.
func Run(ctx context.Context, b Backend, spec Spec, sink Sink, o Options) (Result, error) {
	ctx, finish := traced(ctx, o.Tracer, b.Name(), spec)
	res, err := execute(ctx, b, spec, sink, o)
	res.Limits = spec.Limits
	finish(res, err)
	return res, err
}

func execute(ctx context.Context, b Backend, spec Spec, sink Sink, o Options) (Result, error) {
	if err := spec.Validate(); err != nil {
		return Result{Class: run.ClassInfrastructure}, err
	}
	started := time.Now()
	proc, err := b.Start(ctx, spec)
	if err != nil {
		return unstarted(ctx, err)
	}
	x := &execution{spec: spec, proc: proc, started: started, curves: cmp.Or(o.Curves, NewCurves()), limit: make(chan struct{}, 1), full: make(chan struct{}, 1), failed: make(chan error, 3)}
	return x.supervise(ctx, sink, o)
}

// unstarted is the result of a start that failed.
func unstarted(ctx context.Context, err error) (Result, error) {
	res := Result{Class: run.ClassInfrastructure}
	var left *LeftBehindError
	if errors.As(err, &left) {
		res.SignalledAt, res.Survivors = time.Now(), left.PIDs
	}
	if ctx.Err() != nil {
		res.Class, res.Cause = run.ClassCancelled, context.Cause(ctx)
		err = context.Cause(ctx)
	}
	return res, fmt.Errorf("starting the sandbox: %w", err)
}

// execution is one started command under supervision.
type execution struct {
	spec    Spec
	proc    Process
	started time.Time
	reason  atomic.Int32
	budget  budget
	curves  *Curves
	limit   chan struct{} // the output limit was reached and stops the command
	full    chan struct{} // the disk limit was passed and kills the command
	failed  chan error    // a stream or its sink failed; room for all that can
	parting parting
	grace   <-chan time.Time
	cause   error
	signal  time.Time
	err     error // why the stream broke

	diskUse int64 // bytes, once over the limit; the watcher's until it has ended
	diskErr error // why it could not be measured
}

func (x *execution) supervise(ctx context.Context, sink Sink, o Options) (Result, error) {
	sinkCtx, closeSink := context.WithCancelCause(context.WithoutCancel(ctx))
	defer closeSink(nil)
	x.budget.left.Store(x.spec.Limits.MaxOutputBytes)
	x.budget.unlimited = x.spec.Limits.MaxOutputBytes <= 0

	streams := [2]*stream{
		{name: run.Stdout, src: x.proc.Stdout(), parse: x.spec.Stage != "", x: x, sink: sink},
		{name: run.Stderr, src: x.proc.Stderr(), x: x, sink: sink},
	}
	var readers sync.WaitGroup
	drained := make(chan struct{})
	announced := make(chan error, len(streams))
	readers.Go(func() {
		var err error
		if o.OnStart != nil {
			err = o.OnStart(sinkCtx, x.proc.Started())
		}
		if err != nil {
			x.failed <- fmt.Errorf("announcing the execution: %w", err)
		}
		for range streams {
			announced <- err
		}
	})
	for _, s := range streams {
		readers.Go(func() {
			if <-announced != nil {
				return
			}
			if err := s.pump(sinkCtx); err != nil {
				x.failed <- err
				closeSink(err) // the other stream may be waiting in the sink
			}
		})
	}
	var closer sync.WaitGroup
	closer.Go(func() { readers.Wait(); close(drained) })
	defer closer.Wait()

	stopWatch := x.watchDisk(ctx)
	x.parting.call = o.BeforeStop
	gone := x.untilExit(ctx, o.Hurry)
	x.parting.end()
	elapsed := time.Since(x.started)
	x.drain(ctx, drained, closeSink)
	exit, waitErr := x.proc.Wait()
	stopWatch() // later: a look at a process may last until that has ended
	x.lastDiskLook(ctx)

	res := Result{
		ExitCode: exit.Code, Signal: exit.Signal, Elapsed: elapsed, Cause: x.cause,
		SignalledAt: x.signal, ProcessGoneAt: exit.ProcessGoneAt, SandboxGoneAt: exit.SandboxGoneAt, Survivors: exit.Survivors,
	}
	for _, s := range streams {
		s.loss.LinesRead += s.lines.skipEnd() // of a stream that broke off in a line
		res.Loss = res.Loss.Add(s.loss)
	}
	res.Class = class(x.reason.Load(), exit)
	if exit.OOMKilled && res.Class != run.ClassOOM {
		res.Warnings = append(res.Warnings, "a process was killed for memory: it went over the execution's memory limit")
	}
	x.tellDisk(&res)
	if n := len(exit.Survivors); n > 0 {
		res.Warnings = append(res.Warnings, fmt.Sprintf("%d process(es) were still alive %s after the KILL", n, killWait))
	}
	if !gone && len(exit.Survivors) == 0 && waitErr == nil {
		waitErr = errors.New("the process did not end after the KILL")
	}
	err := x.err
	for len(x.failed) > 0 { // failures after the exit
		if e := <-x.failed; err == nil {
			err = e
		}
	}
	if err == nil && waitErr != nil {
		err = fmt.Errorf("waiting for the sandbox: %w", waitErr)
	}
	if err != nil {
		res.Class = run.ClassInfrastructure
		return res, err
	}
	return res, nil
}

// untilExit waits for the command's end and brings it about where it must. It
// tells whether the command ended.
func (x *execution) untilExit(ctx context.Context, hurry <-chan struct{}) bool {
	var deadline, given <-chan time.Time
	if x.spec.Limits.Timeout > 0 {
		t := time.NewTimer(x.spec.Limits.Timeout)
		defer t.Stop()
		deadline = t.C
	}
	done := ctx.Done()
	for {
		select {
		case <-x.proc.Exited():
			return true
		default:
		}
		select {
		case <-x.proc.Exited():
			return true
		case <-deadline:
			deadline = nil
			x.stop(ctx, timedOut)
		case <-done:
			done = nil
			if x.stop(ctx, cancelled) {
				x.cause = context.Cause(ctx)
			}
		case <-x.limit:
			x.parting.begin(ctx)
		case <-x.parting.over:
			x.parting.over = nil
			x.terminate()
		case <-x.full:
			// No grace: it would go on writing.
			x.grace = nil
			given = x.kill()
		case err := <-x.failed:
			// Nobody can see what it prints any more: no grace.
			if x.err == nil {
				x.err = err
			}
			x.reason.CompareAndSwap(noReason, broken)
			given = x.kill()
		case <-x.grace:
			x.grace = nil
			given = x.kill()
		case <-hurry:
			hurry = nil
			x.spec.Limits.Grace = 0
			x.parting.hurry()
			if x.grace != nil {
				x.grace = nil
				given = x.kill()
			}
		case <-given:
			return false
		}
	}
}

// stop ends the command for why, unless it is being ended already.
func (x *execution) stop(ctx context.Context, why reason) bool {
	if !x.reason.CompareAndSwap(noReason, why) {
		return false
	}
	x.parting.begin(ctx)
	return true
}

// terminate sends TERM and starts the grace.
func (x *execution) terminate() {
	if !x.signal.IsZero() {
		return
	}
	x.signal = time.Now()
	if err := x.proc.Stop(); err != nil || x.spec.Limits.Grace <= 0 {
		now := make(chan time.Time, 1)
		now <- x.signal
		x.grace = now
		return
	}
	x.grace = time.After(x.spec.Limits.Grace)
}

// kill ends the tree and gives the moment to stop waiting for it.
func (x *execution) kill() <-chan time.Time {
	if x.signal.IsZero() {
		x.signal = time.Now()
	}
	_ = x.proc.Kill() // what it could not kill shows up as a survivor
	return time.After(killWait)
}

// drain waits for the end of both outputs. A grandchild that keeps a pipe
// open is killed after drainFor; a pipe that even then stays open is left.
func (x *execution) drain(ctx context.Context, drained <-chan struct{}, closeSink context.CancelCauseFunc) {
	hold := time.NewTimer(drainFor)
	defer hold.Stop()
	select {
	case <-drained:
		return
	case <-hold.C:
	}
	_ = x.proc.Kill()
	cutShort(x.proc.Stdout())
	cutShort(x.proc.Stderr())
	select {
	case <-drained:
		return
	case <-ctx.Done():
	}
	patience := time.NewTimer(sinkPatience)
	defer patience.Stop()
	select {
	case <-drained:
		return
	case <-patience.C:
	}
	closeSink(errors.New("the output could not be stored in time"))
	<-drained
}

// class tells how an execution ended, from what the server did and from what
// the kernel counted.
func class(why reason, e Exit) run.ExitClass {
	switch why {
	case timedOut:
		return run.ClassTimeout
	case cancelled:
		return run.ClassCancelled
	case outputLimit:
		return run.ClassOutputLimit
	case diskLimit:
		return run.ClassDiskLimit
	case broken:
		return run.ClassInfrastructure
	}
	killed := e.Signal == "SIGKILL" || (e.Code != nil && *e.Code == 137)
	switch {
	case e.OOMKilled && killed:
		return run.ClassOOM
	case e.Signal != "":
		return run.ClassSignal
	case e.Code == nil:
		return run.ClassInfrastructure
	case *e.Code == 0:
		return run.ClassOK
	}
	return run.ClassError
}
