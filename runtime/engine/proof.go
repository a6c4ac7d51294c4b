package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// proof collects what was seen of the processes that were stopped with a run.
type proof struct {
	mu                       sync.Mutex
	signalled, gone, sandbox time.Time
	survivors                []int
}

// add notes one stopped execution.
func (p *proof) add(r sandbox.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.merge(r.SignalledAt, r.ProcessGoneAt, r.SandboxGoneAt, r.Survivors)
}

// join takes over what was seen of a child run.
func (p *proof) join(q *proof) {
	q.mu.Lock()
	signalled, gone, sandbox, survivors := q.signalled, q.gone, q.sandbox, q.survivors
	q.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.merge(signalled, gone, sandbox, survivors)
}

// merge keeps the first signal and the last disappearance.
func (p *proof) merge(signalled, gone, sandbox time.Time, survivors []int) {
	if !signalled.IsZero() && (p.signalled.IsZero() || signalled.Before(p.signalled)) {
		p.signalled = signalled
	}
	if gone.After(p.gone) {
		p.gone = gone
	}
	if sandbox.After(p.sandbox) {
		p.sandbox = sandbox
	}
	p.survivors = append(p.survivors, survivors...)
}

// receipt gives the times, the survivors and the outcome of the abort.
func (p *proof) receipt() *run.Receipt {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &run.Receipt{
		SignalledAt: p.signalled, ProcessGoneAt: p.gone, SandboxGoneAt: p.sandbox,
		Survivors: slices.Clone(p.survivors), Outcome: run.AbortStopped,
	}
	if len(r.Survivors) > 0 {
		r.Outcome = run.AbortSurvivors
	}
	return r
}
