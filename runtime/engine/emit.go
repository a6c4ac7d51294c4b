package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

const (
	// Bounds of what waits for the store, per run. A batch is never larger.
	maxQueued      = 1 << 20 // bytes
	maxBatchDrafts = 512
	maxRefused     = 20 // records of a run that are told from the good ones beside them, and warnings
	// A piece's event overhead in the queue, roughly.
	draftCost = 256
)

// entry is what one call wants to commit; it is never split.
type entry struct {
	drafts     []run.Draft
	usage      []run.UsageRecord
	executions []run.Execution
	questions  []run.Question
	artifacts  []run.Artifact
	update     *run.Update

	size int
	done chan<- error // told the outcome, if not nil; buffered
	// lost is told what was taken out because the store refused it (S9).
	lost func(lines int, cause error)
	// lines counts the metric lines in drafts.
	lines int
}

func (x entry) empty() bool {
	return len(x.drafts)+len(x.usage)+len(x.executions)+len(x.questions)+len(x.artifacts) == 0 && x.update == nil
}

// appender is the part of the store that an emitter needs.
type appender interface {
	Append(ctx context.Context, b run.Batch) ([]*run.Event, error)
}

// emitter writes a run's events: one commit at a time, in the order of the
// calls; what arrives during a commit is the next batch. Calls wait while more
// than maxQueued bytes are ahead of them, keep for a while only.
type emitter struct {
	ctx    context.Context // of the writes; outlives the run's own
	store  appender
	run    run.Run
	log    *slog.Logger
	cancel context.CancelCauseFunc // stops the run when it was fenced

	mu     sync.Mutex
	queue  []entry
	size   int // bytes queued or being written
	held   map[string]*held
	room   chan struct{} // closed and replaced when size gets smaller
	closed bool
	failed error // fenced: nothing is taken any more
	// note is told of each usage record that was committed.
	note func(*run.UsageRecorded)
	// doubted are the models whose stated cost was found to differ: one Warning each.
	doubted map[string]bool
	// refused counts the usage records that the store refused; loop's own.
	refused int

	wake chan struct{} // holds one token: look at the queue
	done chan struct{} // closed when loop has returned
}

func newEmitter(ctx context.Context, store appender, r run.Run, log *slog.Logger, cancel context.CancelCauseFunc) *emitter {
	return &emitter{
		ctx: ctx, store: store, run: r, log: log, cancel: cancel,
		held: make(map[string]*held), room: make(chan struct{}), doubted: make(map[string]bool),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// post queues an entry behind everything that came before, held pieces
// included. It returns before the commit.
func (m *emitter) post(ctx context.Context, x entry) error {
	return m.put(ctx, x, func() { m.releaseLocked("") })
}

// commit queues an entry as post does and waits until it is committed. When ctx
// ends first the entry may still be committed.
func (m *emitter) commit(ctx context.Context, x entry) error {
	done := make(chan error, 1)
	x.done = done
	if err := m.post(ctx, x); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// keep queues an entry as post does, but waits for room only until ctx ends: then it
// is queued all the same. It is for what was used, of which a caller has one entry
// at a time: a bill has no gap because a store was slow.
func (m *emitter) keep(ctx context.Context, x entry) error {
	err := m.post(ctx, x)
	if err == nil || ctx.Err() == nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.failed != nil:
		return m.failed
	case m.closed:
		return errReleased
	}
	m.releaseLocked("")
	m.pushLocked(x)
	m.nudge()
	return nil
}

// put waits for room, calls before under the lock, and queues x.
func (m *emitter) put(ctx context.Context, x entry, before func()) error {
	m.mu.Lock()
	for {
		if m.failed != nil {
			defer m.mu.Unlock()
			return m.failed
		}
		if m.closed {
			defer m.mu.Unlock()
			return errReleased
		}
		if m.size < maxQueued {
			break
		}
		room := m.room
		m.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		m.mu.Lock()
	}
	before()
	m.pushLocked(x)
	m.mu.Unlock()
	m.nudge()
	return nil
}

func (m *emitter) pushLocked(x entry) {
	if x.empty() && x.done == nil {
		return
	}
	for _, d := range x.drafts {
		x.size += draftCost + weight(d.Payload)
	}
	for _, u := range x.usage {
		x.size += draftCost + len(u.Raw)
	}
	m.queue = append(m.queue, x)
	m.size += x.size
}

func (m *emitter) nudge() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// close lets everything go that is held or queued, waits for the commits and
// takes nothing more.
func (m *emitter) close() {
	m.mu.Lock()
	m.releaseLocked("")
	m.closed = true
	m.mu.Unlock()
	m.nudge()
	<-m.done
}

// loop commits until the emitter is closed and empty.
func (m *emitter) loop() {
	defer close(m.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		m.mu.Lock()
		now := time.Now()
		due := m.releaseDueLocked(now)
		batch := m.takeLocked()
		last := m.closed && len(batch) == 0
		m.mu.Unlock()
		switch {
		case last:
			return
		case len(batch) > 0:
			m.write(batch)
			m.written(batch)
			continue
		}
		timer.Reset(due)
		select {
		case <-m.wake:
		case <-timer.C:
		}
	}
}

// takeLocked takes the next batch off the queue.
func (m *emitter) takeLocked() []entry {
	n, drafts := 0, 0 // a usage record becomes an event, too
	for n < len(m.queue) && (n == 0 || drafts+len(m.queue[n].drafts)+len(m.queue[n].usage) <= maxBatchDrafts) {
		drafts += len(m.queue[n].drafts) + len(m.queue[n].usage)
		if m.queue[n].update != nil && n > 0 {
			break // a batch has one update
		}
		n++
		if m.queue[n-1].update != nil {
			break
		}
	}
	batch := m.queue[:n:n]
	if m.queue = m.queue[n:]; len(m.queue) == 0 {
		m.queue = nil
	}
	return batch
}

// written makes room for what comes next.
func (m *emitter) written(batch []entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range batch {
		m.size -= x.size
	}
	close(m.room)
	m.room = make(chan struct{})
}

// write commits the entries as one batch; if the store refuses them, one by
// one, so that a bad one takes no other with it.
func (m *emitter) write(entries []entry) {
	err := m.append(entries)
	if err != nil && len(entries) > 1 && !m.hopeless(err) {
		for i := range entries {
			m.write(entries[i : i+1])
		}
		return
	}
	if err != nil && len(entries) == 1 && entries[0].lines > 0 && !m.hopeless(err) {
		if kept := withoutMetrics(entries[0]); m.append([]entry{kept}) == nil {
			if kept.lost != nil {
				kept.lost(kept.lines, err)
			}
			err = nil
		}
	}
	if len(entries) == 1 && len(entries[0].usage) > 0 && run.CodeOf(err) == run.Invalid && !m.hopeless(err) {
		err = m.bookApart(entries[0])
	}
	if err != nil {
		m.log.Warn("Writing events failed", "run", m.run.ID, "error", err)
	}
	if err != nil && len(entries) == 1 && len(entries[0].usage) > 0 && entries[0].done == nil && !m.hopeless(err) {
		m.leftOut(err)
	}
	if errors.Is(err, run.ErrFenced) {
		m.mu.Lock()
		m.failed = errFenced
		err = errFenced
		m.mu.Unlock()
		m.cancel(errFenced)
	}
	for _, x := range entries {
		if x.done != nil {
			x.done <- err
		}
	}
}

// hopeless tells whether trying a part of the batch is of no use.
func (m *emitter) hopeless(err error) bool {
	return errors.Is(err, run.ErrFenced) || m.ctx.Err() != nil
}

// append commits the entries as one batch. While the store is not there it
// tries again: what was read from a process exists only here.
func (m *emitter) append(entries []entry) error {
	b := run.Batch{Session: m.run.Session, Fence: run.Fence{Run: m.run.ID, Token: m.run.Token}}
	for _, x := range entries {
		b.Drafts = append(b.Drafts, x.drafts...)
		b.Usage = append(b.Usage, x.usage...)
		b.Executions = append(b.Executions, x.executions...)
		b.Questions = append(b.Questions, x.questions...)
		b.Artifacts = append(b.Artifacts, x.artifacts...)
		if x.update != nil {
			b.Update = x.update
		}
	}
	if len(b.Drafts)+len(b.Usage)+len(b.Executions)+len(b.Questions)+len(b.Artifacts) == 0 && b.Update == nil {
		return nil // a barrier
	}
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		events, err := m.store.Append(m.ctx, b)
		if err == nil {
			m.compareCosts(events, b.Usage)
		}
		if err == nil || run.CodeOf(err) != run.Unavailable || m.ctx.Err() != nil {
			return err
		}
		m.log.Warn("The store is not there; trying again", "run", m.run.ID, "error", err)
		select {
		case <-m.ctx.Done():
		case <-time.After(wait):
		}
	}
}

// leftOut warns of usage that was refused and whose caller does not wait to hear of it.
func (m *emitter) leftOut(cause error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused++; m.refused > maxRefused {
		return
	}
	text := "Usage was left out: " + cause.Error()
	if m.refused == maxRefused {
		text += "; what else is left out stands in the server's log"
	}
	m.pushLocked(entry{drafts: []run.Draft{run.DraftOf(m.run, time.Now(), &run.Warning{Text: clean(text, maxText)})}})
}

// withoutMetrics gives x without the points that the store refused.
func withoutMetrics(x entry) entry {
	var kept []run.Draft
	for _, d := range x.drafts {
		if d.Payload.Type() != run.TypeMetricsLogged {
			kept = append(kept, d)
		}
	}
	x.drafts = kept
	return x
}

// weight guesses how many bytes a payload holds.
func weight(p run.Payload) int {
	switch p := p.(type) {
	case *run.OutputWritten:
		return len(p.Text)
	case *run.MessageDelta:
		return len(p.Text)
	case *run.AgentMessage:
		return len(p.Text)
	case *run.AgentThought:
		return len(p.Text)
	case *run.ToolCallStarted:
		return len(p.Arguments)
	case *run.ToolCallFinished:
		return len(p.Text)
	case *run.MetricsLogged:
		return 64 * len(p.Points)
	case *run.ChartConfigured:
		return len(p.Config)
	case *run.MediaLogged:
		return len(p.Data)
	default:
		return 0
	}
}
