package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// use adds up what budgets count; each sum is read once per look.
type use struct {
	g       *guard
	now     time.Time
	runs    map[run.ID]run.Spent
	session *run.Spent
}

// of gives what a budget counts: the records, and what executions that run now
// have cost so far.
func (u *use) of(ctx context.Context, l *limit) (run.Spent, error) {
	e, s := l.of.e, l.of
	var spent run.Spent
	switch l.scope {
	case run.BudgetRun:
		known, ok := u.runs[s.run.ID]
		if !ok {
			sum, err := e.store.InclusiveUsage(ctx, s.run.ID)
			if err != nil {
				return spent, err
			}
			known = sum.Spent()
			u.runs[s.run.ID] = known
		}
		return known.Add(e.computing(u.now, s.above)), nil
	case run.BudgetSession:
		if u.session == nil {
			sum, err := e.store.SessionUsage(ctx, s.run.Session)
			if err != nil {
				return spent, err
			}
			known := sum.Spent()
			u.session = &known
		}
		return u.session.Add(e.computing(u.now, u.g.root.above)), nil
	case run.BudgetAgentDay:
		running := e.computing(u.now, func(x *supervisor) bool { return x.run.Agent == l.agent })
		spent, err := e.days.spent(ctx, e.store, u.now, l.agent, l.budget, running)
		return spent, err
	case run.BudgetDay:
		running := e.computing(u.now, func(*supervisor) bool { return true })
		return e.days.spent(ctx, e.store, u.now, "", l.budget, running)
	}
	return spent, fmt.Errorf("there is no budget scope %q", l.scope)
}

// above tells whether x is s or one of its descendants.
func (s *supervisor) above(x *supervisor) bool {
	for ; x != nil; x = x.parent {
		if x == s {
			return true
		}
	}
	return false
}

// busy tells whether a run or a descendant has an execution at work.
func (e *Engine) busy(s *supervisor) bool {
	for _, x := range e.chosen(s.above) {
		x.mu.Lock()
		n := len(x.executing)
		x.mu.Unlock()
		if n > 0 {
			return true
		}
	}
	return false
}

func (e *Engine) chosen(choose func(*supervisor) bool) []*supervisor {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*supervisor
	for _, s := range e.live {
		if choose(s) {
			list = append(list, s)
		}
	}
	return list
}

// computing gives what the executions at work in this process have cost by now.
// One that ends is counted here until its record is about to be written.
func (e *Engine) computing(now time.Time, choose func(*supervisor) bool) run.Spent {
	var sum run.Spent
	if e.opts.Pricer == nil {
		return sum
	}
	for _, s := range e.chosen(choose) {
		s.mu.Lock()
		for _, k := range s.executing {
			x := k.running.Load()
			if x == nil {
				continue
			}
			u := *x
			u.ComputeMicros, u.At = now.Sub(x.At).Microseconds(), now
			if p, err := e.opts.Pricer.Price(u, nil); err == nil && p.NanoUSD != nil {
				sum.USD += run.NanoUSD(*p.NanoUSD)
			}
		}
		s.mu.Unlock()
	}
	return sum
}

// daySums gives what the runs of each agent have used in [from, to).
type daySums interface {
	SpentByAgent(ctx context.Context, from, to time.Time) (map[string]run.Spent, error)
}

const (
	// dayAge is how old the sums of a day may be, so how late use on other replicas counts.
	dayAge = time.Second
	// dayShare bounds the time spent on adding a day up: 1 part in dayShare.
	dayShare = 20
)

// days keeps the sums of today's records. What is booked here counts at once:
// the sums are read again when it could make the difference, else when they are
// dayAge old.
type days struct {
	mu   sync.Mutex
	day  string
	sums map[string]run.Spent
	all  run.Spent
	read time.Time
	took time.Duration

	booked run.Spent // all that was committed here, changed records again and again
	known  run.Spent // booked when the sums were read
	begun  int       // readings, and which of them the sums are of
	taken  int
}

// spent gives what counts for a budget: of one agent, or of all with agent "".
func (d *days) spent(ctx context.Context, store daySums, now time.Time, agent string, b run.Budget, running run.Spent) (run.Spent, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.day == dayOf(now) && now.Sub(d.read) < max(dayAge, dayShare*d.took) {
		known := d.of(agent).Add(running)
		if b.Reached(known) || !b.Reached(known.Add(run.Spent{USD: d.booked.USD - d.known.USD, Tokens: d.booked.Tokens - d.known.Tokens})) {
			return known, nil
		}
	}
	if err := d.refresh(ctx, store, now); err != nil {
		return run.Spent{}, err
	}
	return d.of(agent).Add(running), nil
}

func (d *days) of(agent string) run.Spent {
	if agent == "" {
		return d.all
	}
	return d.sums[agent]
}

func (d *days) refresh(ctx context.Context, store daySums, now time.Time) error {
	before := d.booked
	d.begun++
	turn := d.begun
	d.mu.Unlock() // who books must not wait
	from := now.UTC().Truncate(24 * time.Hour)
	began := time.Now()
	sums, err := store.SpentByAgent(ctx, from, from.Add(24*time.Hour))
	took := time.Since(began)
	d.mu.Lock()
	if err != nil || turn < d.taken {
		return err
	}
	d.taken, d.known = turn, before
	d.day, d.sums, d.read, d.took, d.all = dayOf(now), sums, now, took, run.Spent{}
	for _, s := range sums {
		d.all = d.all.Add(s)
	}
	return nil
}

// note counts what was committed here.
func (d *days) note(u *run.UsageRecorded) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.booked.Tokens += u.Tokens.Count()
	if u.CostNanoUSD != nil {
		d.booked.USD += run.NanoUSD(*u.CostNanoUSD)
	}
}

// Budgets gives today's budgets and what was used of them. Those of agents that
// have used nothing today are not among them.
func (e *Engine) Budgets(ctx context.Context) ([]run.BudgetState, error) {
	now := time.Now()
	from := now.UTC().Truncate(24 * time.Hour)
	sums, err := e.store.SpentByAgent(ctx, from, from.Add(24*time.Hour))
	if err != nil {
		return nil, fmt.Errorf("adding up the day: %w", err)
	}
	return e.budgetsOf(from, sums), nil
}
