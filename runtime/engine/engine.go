package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// Agents finds agent definitions. An unknown name is a *run.Error.
type Agents interface {
	Lookup(name string) (agent.Definition, error)
}

// Options is what an engine works with. Zero values mean the stated defaults.
type Options struct {
	Store    Store
	Agents   Agents
	Drivers  map[string]agent.Driver
	Backends map[string]sandbox.Backend
	Policy   sandbox.Policy // its zero value means sandbox.DefaultPolicy
	DataDir  string         // holds workspaces/<session>
	Replica  string         // the owner of the runs it claims; stays the same over restarts

	// Places lets runs work in folders of the user's own. Not for a server: what it
	// is asked for names no path, and what a command line has left in its queue is
	// not its to run.
	Places bool

	Budgets Budgets
	Pricer  run.Pricer // prices what executions at work have used so far, for budgets; nil: nothing is known

	Concurrency int           // root runs at work at once; default 8
	MaxDepth    int           // levels of child runs below a root run; default 5
	Poll        time.Duration // how often other replicas' queue entries and aborts are looked for; default 1 s
	Drain       time.Duration // how long live runs may go on after the stop was asked; default none
	StopTimeout time.Duration // how long stopped runs may take for their last words; default 20 s. After a quarter of it, 5 s at most, no process has a grace any more

	SnapshotInterval time.Duration // how often the totals of live runs are kept; default 1 minute, negative: never
	SnapshotKeep     time.Duration // how long they are kept, but for the last one of a run; default 30 days, negative: for ever
	SampleTimeout    time.Duration // how long an agent may take to say what it has used; default 3 s
	RollupInterval   time.Duration // how often the sums of closed runs are brought up to date; default 1 minute, negative: never
	RollupCheck      time.Duration // how often those of the last 7 days are summed up anew; default 1 day, negative: never

	Tracer trace.Tracer // default: none
	Logger *slog.Logger // default: none
}

// stopGrace bounds the grace of processes when the server stops.
const stopGrace = 5 * time.Second

// Engine runs agents. Make one with New; it works while Run does.
type Engine struct {
	opts   Options
	store  Store
	log    *slog.Logger
	tracer trace.Tracer
	wake   chan struct{} // holds one token: look at the queue
	ready  chan struct{}

	discarded chan struct{} // holds one token: look at the trash

	// work is the parent of every run's context; it ends with errShutdown.
	// write outlives it, for last words; it ends when the stop takes too long.
	work, write context.Context
	// hurry is closed when the stop leaves a process no more grace.
	hurry   chan struct{}
	hurried sync.Once

	days days

	forgotten run.SnapshotMark // how far old snapshots were looked at; the sweep's own

	wg      sync.WaitGroup
	mu      sync.Mutex
	started bool
	closing bool // guards wg: no run is launched by request any more
	live    map[run.ID]*supervisor
	answers map[string]chan struct{} // by question id: closed when it is answered here
	alarms  []time.Time              // when queued runs may be claimed
}

// New checks the options and makes an engine.
func New(o Options) (*Engine, error) {
	switch {
	case o.Store == nil:
		return nil, errors.New("making an engine: no store given")
	case o.Agents == nil:
		return nil, errors.New("making an engine: no agents given")
	case o.DataDir == "":
		return nil, errors.New("making an engine: no data folder given")
	case o.Replica == "":
		return nil, errors.New("making an engine: no replica id given")
	}
	o.Concurrency = cmp.Or(o.Concurrency, 8)
	o.MaxDepth = cmp.Or(o.MaxDepth, 5)
	o.Poll = cmp.Or(o.Poll, time.Second)
	o.StopTimeout = cmp.Or(o.StopTimeout, 20*time.Second)
	o.SnapshotInterval = cmp.Or(o.SnapshotInterval, time.Minute)
	o.SnapshotKeep = cmp.Or(o.SnapshotKeep, 30*24*time.Hour)
	o.SampleTimeout = cmp.Or(o.SampleTimeout, 3*time.Second)
	o.RollupInterval = cmp.Or(o.RollupInterval, time.Minute)
	o.RollupCheck = cmp.Or(o.RollupCheck, 24*time.Hour)
	if o.Policy.Defaults.Backend == "" {
		o.Policy = sandbox.DefaultPolicy()
	}
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider().Tracer("weir")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Engine{
		opts:   o,
		store:  o.Store,
		log:    o.Logger.With("part", "engine"),
		tracer: o.Tracer,
		wake:   make(chan struct{}, 1),
		ready:  make(chan struct{}),

		discarded: make(chan struct{}, 1),
		hurry:     make(chan struct{}),
		live:      make(map[run.ID]*supervisor),
		answers:   make(map[string]chan struct{}),
	}, nil
}

// Ready is closed once what an earlier process left open has been dealt with.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Run recovers, then works off the queue until ctx ends, then stops: no new
// run starts, live ones may go on for Options.Drain, then they are cancelled.
// Queued runs stay queued, and runs that wait for an answer stay WAITING. It may be called once.
func (e *Engine) Run(ctx context.Context) error {
	work, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	write, stopWrite := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopWork(errShutdown)
	defer stopWrite(errShutdown)

	e.mu.Lock()
	if e.started {
		e.mu.Unlock()
		return errors.New("running the engine: it was started before")
	}
	e.started = true
	e.work, e.write = work, write
	e.mu.Unlock()

	if err := e.recover(ctx); err != nil {
		e.stop(stopWork, stopWrite)
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("recovering runs: %w", err)
	}
	close(e.ready)
	e.wg.Go(func() { e.schedule(ctx) })
	e.wg.Go(func() { e.emptyTrash(ctx) })
	e.sweeps(ctx)
	<-ctx.Done()
	e.stop(stopWork, stopWrite)
	return nil
}

// stop ends what Run started, layer by layer.
func (e *Engine) stop(stopWork, stopWrite context.CancelCauseFunc) {
	e.mu.Lock()
	e.closing = true
	live := len(e.live)
	e.mu.Unlock()
	if live > 0 {
		e.log.Info("Stopping: waiting for live runs, then cancelling them; a second signal ends the server at once and the next start closes them as LOST", "runs", live, "wait", e.opts.Drain)
	}
	idle := make(chan struct{})
	go func() { // waited for below
		defer close(idle)
		e.wg.Wait()
	}()
	if !e.drain(idle) {
		stopWork(errShutdown)
		limit := e.opts.StopTimeout
		grace := min(stopGrace, limit/4)
		select {
		case <-e.hurry: // nobody wants to wait long for a store that is not there
			limit, grace = min(limit, stopGrace), 0
		default:
		}
		if !within(idle, grace) {
			e.Hurry() // a run may have asked for more grace than there is time
		}
		if !within(idle, limit-grace) {
			e.log.Error("Runs did not stop in time; their rows are closed at the next start", "timeout", limit)
			stopWrite(errShutdown)
		}
	}
	<-idle
}

// Hurry ends every grace at once: what was asked to stop is killed, and what will
// be asked to is killed at the same moment. The stop of the engine takes 5 s at
// most after it.
func (e *Engine) Hurry() { e.hurried.Do(func() { close(e.hurry) }) }

// within tells whether done is closed before d has passed.
func within(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// nudge makes the scheduler look at the queue soon.
func (e *Engine) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// open is nil while new runs are taken in.
func (e *Engine) open() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return run.Errorf(run.Unavailable, "the server is shutting down and takes no new runs; try again when it is back")
	}
	return nil
}

// supervisor gives the live supervisor of a run; nil when this engine has none.
func (e *Engine) supervisor(id run.ID) *supervisor {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.live[id]
}
