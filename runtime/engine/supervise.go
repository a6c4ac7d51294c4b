package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// supervisor takes one live run from its claim to its last event.
type supervisor struct {
	e      *Engine
	run    run.Run // as claimed; finish brings it up to date
	def    agent.Definition
	plan   plan
	parked atomic.Bool // waits for an answer, and takes no room from others
	parent *supervisor // nil for a root run
	depth  int         // 0 for a root run
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the row is closed and nothing of the run works any more
	emit   *emitter
	proof  proof
	place  *workspace
	asked  askState
	curves *sandbox.Curves // of all its executions

	sampler sampler
	guard   *guard // of the whole tree

	mu        sync.Mutex
	executing map[run.ExecutionID]*sink
}

// newSupervisor derives the run's context from ctx: what ends the parent run
// or the engine ends the run, with the same cause.
func newSupervisor(ctx context.Context, e *Engine, r run.Run, parent *supervisor) *supervisor {
	s := &supervisor{
		e: e, run: r, parent: parent, done: make(chan struct{}),
		curves: sandbox.NewCurves(), executing: make(map[run.ExecutionID]*sink),
	}
	if parent != nil {
		s.depth = parent.depth + 1
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.emit = newEmitter(e.write, e.store, r, e.log, s.cancel)
	s.emit.note = e.days.note
	if parent != nil {
		s.guard = parent.guard
	} else {
		s.guard = newGuard(s)
	}
	s.asked.waiting = r.State.Status == run.Waiting
	s.parked.Store(s.asked.waiting)
	return s
}

// supervise runs the driver and closes the row. resumeKey names the question
// that the run was waiting for when the server restarted.
func (s *supervisor) supervise(resumeKey string) {
	defer s.e.release(s)
	s.e.wg.Go(s.emit.loop)
	s.checkIntent()
	text, err := s.work(resumeKey)
	if s.guard.drop(s); s.parent == nil {
		s.guard.stop()
	}
	s.finish(s.translate(text, err))
}

// checkIntent finds an abort that was asked between the claim and the moment
// when the run became known here.
func (s *supervisor) checkIntent() {
	r, err := s.e.store.Run(s.e.write, s.run.ID)
	if err != nil {
		s.e.log.Warn("Looking for an early abort failed", "run", s.run.ID, "error", err)
		return
	}
	if r.Abort != nil {
		s.cancel(stopOf(r.Abort))
	}
}

// work does what comes before the end: workspace, first state, driver, and
// after a success the artifacts and the hooks.
func (s *supervisor) work(resumeKey string) (string, error) {
	if err := json.Unmarshal(s.run.Definition, &s.def); err != nil {
		return "", fmt.Errorf("decoding the definition of agent %s: %w", s.run.Agent, err)
	}
	driver, ok := s.e.opts.Drivers[s.run.Driver]
	if !ok {
		return "", fmt.Errorf("this server has no driver %q, which agent %s needs", s.run.Driver, s.run.Agent)
	}
	var err error
	if s.plan, err = s.e.planFor(s.run.Input.Sandbox, s.def.Sandbox); err != nil {
		return "", err
	}
	if context.Cause(s.ctx) != nil {
		return "", context.Cause(s.ctx)
	}
	if s.place, err = s.e.openWorkspace(s.run, s.def.Files); err != nil {
		return "", err
	}
	resumed := resumeKey != ""
	if err := s.place.remember(s.ctx, resumed); err != nil {
		s.warn("The workspace could not be read, so changed files may be missing from the artifacts: " + err.Error())
	}
	if !resumed {
		if err := s.announce(); err != nil {
			return "", err
		}
	}
	ctx, cancel := s.deadline()
	defer cancel()
	s.guard.add(s)
	if resumed {
		if resumeKey, err = s.guard.restore(ctx, resumeKey); err != nil {
			return "", err
		}
	}
	if err := s.guard.pass(ctx); err != nil {
		return "", err
	}
	h := &host{s: s}
	text, err := s.drive(ctx, driver, h, resumeKey)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, agent.ErrTimeout) {
		err = cause
	}
	if err != nil {
		cancel() // for what a driver that panicked has left at work
		h.inside.Wait()
		return "", err
	}
	s.afterSuccess(ctx, h)
	return text, nil
}

// announce says that the root run is at work.
func (s *supervisor) announce() error {
	if s.parent != nil || s.run.Parent != "" {
		return nil
	}
	state := s.run.StateLabel() + "_running"
	return s.emit.commit(s.ctx, entry{
		drafts: []run.Draft{s.draft(&run.StateChanged{State: state, Status: run.Running})},
		update: &run.Update{Run: s.run.ID, From: []run.Status{run.Running}, SessionTo: &state},
	})
}

// deadline gives the driver's context. The run's time counts from its start, so
// a resumed run has no more than what was left.
func (s *supervisor) deadline() (context.Context, context.CancelFunc) {
	seconds := s.run.Input.TimeoutSeconds
	if seconds == 0 {
		seconds = s.def.Timeout
	}
	if seconds == 0 {
		ctx, cancel := context.WithCancelCause(s.ctx)
		return ctx, func() { cancel(errReleased) }
	}
	from := s.run.StartedAt
	if from.IsZero() {
		from = time.Now()
	}
	end := from.Add(time.Duration(seconds * float64(time.Second)))
	return context.WithDeadlineCause(s.ctx, end, &deadlinePassed{seconds})
}

// drive calls the driver; its panic is an error of this run alone.
func (s *supervisor) drive(ctx context.Context, d agent.Driver, h *host, resumeKey string) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.e.log.Error("A driver panicked", "run", s.run.ID, "driver", d.Name(), "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("the driver %s panicked: %v", d.Name(), p)
		}
	}()
	return d.Run(ctx, agent.Task{
		Run: s.run, Definition: s.def, Workspace: s.place.path, ResumeKey: resumeKey,
	}, h)
}

// outcome is what a run came to, once and for all ways to end.
type outcome struct {
	trigger run.Trigger
	silent  bool
	fenced  bool
	text    string // the result, or what went wrong, or why it was aborted
}

// translate turns the end of the work into an outcome. The cause of a
// cancelled context wins over the error that it surfaced as, but not over a
// deadline that had passed before: what ended the run first is what is told.
func (s *supervisor) translate(text string, err error) outcome {
	cause := context.Cause(s.ctx)
	var passed *deadlinePassed
	switch {
	case errors.As(err, &passed), errors.Is(err, agent.ErrTimeout):
		if !errors.Is(cause, errFenced) {
			cause = err
		}
	case cause == nil:
		cause = err
	case errors.Is(cause, context.DeadlineExceeded):
		cause = fmt.Errorf("the parent run waited no longer: %w", agent.ErrTimeout)
	case errors.Is(cause, context.Canceled):
		cause = &stopped{trigger: run.Abort, reason: "the parent run waited no longer"}
	}
	var stop *stopped
	var late *deadlinePassed
	switch {
	case cause == nil:
		return outcome{trigger: run.Complete, text: text}
	case errors.Is(cause, errFenced), errors.Is(cause, run.ErrFenced):
		return outcome{fenced: true}
	case errors.As(cause, &stop):
		return outcome{trigger: stop.trigger, silent: stop.silent, text: stop.reason}
	case errors.Is(cause, errShutdown):
		return outcome{trigger: run.ShutDown, text: errShutdown.Error()}
	case errors.As(cause, &late):
		return outcome{trigger: run.Expire, text: late.Error()}
	case errors.Is(cause, agent.ErrTimeout):
		return outcome{trigger: run.Expire, text: cause.Error()}
	case errors.Is(cause, agent.ErrCrashed):
		return outcome{trigger: run.Crash, text: cause.Error()}
	default:
		return outcome{trigger: run.Fail, text: cause.Error()}
	}
}

func (s *supervisor) draft(p run.Payload) run.Draft { return run.DraftOf(s.run, time.Now(), p) }

// warn appends a Warning; it never changes the outcome.
func (s *supervisor) warn(text string) { s.warnWithin(s.e.write, text) }

// warnWithin does so without waiting longer than ctx for a full queue.
func (s *supervisor) warnWithin(ctx context.Context, text string) {
	s.e.log.Warn(text, "run", s.run.ID)
	if err := s.emit.keep(ctx, entry{drafts: []run.Draft{s.draft(&run.Warning{Text: clean(text, maxText)})}}); err != nil {
		s.e.log.Warn("Writing a warning failed", "run", s.run.ID, "error", err)
	}
}
