package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

// budgetPrefix begins the key of every question about a budget: budget/<number>
// /<key of the budget>;<the request that the root run booked last>. From it a
// restarted server knows where the run stands.
const budgetPrefix = "budget/"

// moreSchema is the schema of an answer.
const moreSchema = `{"type":"object","properties":{` +
	`"extraUsd":{"type":["string","number"],"description":"USD to add to the budget"},` +
	`"extraTokens":{"type":"integer","description":"tokens to add to the budget"},` +
	`"stop":{"type":"boolean","description":"true: end the run"}},"additionalProperties":false}`

// more is an answer.
type more struct {
	ExtraUSD    run.NanoUSD `json:"extraUsd"`
	ExtraTokens int64       `json:"extraTokens"`
	Stop        bool        `json:"stop"`
}

func readMore(answer json.RawMessage) (more, error) {
	var m more
	if err := json.Unmarshal(answer, &m); err != nil {
		if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) { // it speaks of Go
			err = fmt.Errorf("%s is a %s", cmp.Or(wrong.Field, "the whole"), wrong.Value)
		}
		return m, fmt.Errorf("the answer %s cannot be read: %w", clip(string(answer), 100), err)
	}
	if !m.Stop && m.ExtraUSD <= 0 && m.ExtraTokens <= 0 {
		return m, fmt.Errorf("the answer %s adds nothing", clip(string(answer), 100))
	}
	return m, nil
}

// raise adds what an answer says to what the budget limits. A sum that fits into no
// number is the largest one: below 0 there would be no limit any more.
func (l *limit) raise(m more) {
	if l.budget.USD > 0 {
		l.budget.USD += min(m.ExtraUSD, math.MaxInt64-l.budget.USD)
	}
	if l.budget.Tokens > 0 && m.ExtraTokens > 0 {
		l.budget.Tokens += min(m.ExtraTokens, math.MaxInt64-l.budget.Tokens)
	}
}

// pauseLocked closes the gate and asks.
func (g *guard) pauseLocked(l *limit, spent run.Spent) {
	g.asked++
	g.gate = make(chan struct{})
	key := budgetPrefix + strconv.Itoa(g.asked) + "/" + l.key + ";" + g.last
	text := l.says(spent)
	g.wg.Go(func() { g.question(l, key, text) })
}

// question waits for an answer that can be read, acts on it and opens the gate.
func (g *guard) question(l *limit, key, text string) {
	ctx, cancel := context.WithCancelCause(l.of.ctx)
	defer cancel(errReleased)
	if l.daily() { // the next day has a budget of its own
		var late context.CancelFunc
		ctx, late = context.WithDeadlineCause(ctx, time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1), errReleased)
		defer late()
	}
	defer context.AfterFunc(g.ctx, func() { cancel(errReleased) })()
	for hint := ""; ; {
		answer, err := g.root.ask(ctx, key, hint+text+`. How much more may it use? {"extraUsd": "0.50"} or {"extraTokens": 10000} is added to the budget; {"stop": true} ends it.`, json.RawMessage(moreSchema))
		if err != nil {
			g.root.withdraw(key)
			g.open()
			return
		}
		m, err := readMore(answer)
		g.mu.Lock()
		if err == nil && m.Stop {
			g.end(l, text+", and the answer was to stop")
		} else if err == nil {
			l.raise(m)
		}
		if err == nil {
			g.mu.Unlock()
			g.open()
			return
		}
		g.asked++
		key = budgetPrefix + strconv.Itoa(g.asked) + "/" + l.key + ";" + g.last
		g.mu.Unlock()
		hint = err.Error() + ". "
	}
}

// withdraw cancels a question of a run that goes on without the answer. What the
// run leaves open at its end is cancelled then, and at a stop of the server waits.
func (s *supervisor) withdraw(key string) {
	if context.Cause(s.ctx) != nil {
		return
	}
	q, known, err := s.question(s.e.write, key)
	if err == nil && known && q.State == run.QuestionOpen {
		q.State, q.AnsweredAt = run.QuestionCancelled, time.Now()
		err = s.emit.commit(s.e.write, entry{
			questions: []run.Question{q},
			drafts:    []run.Draft{s.draft(&run.QuestionAnswered{QuestionID: q.ID, Outcome: q.State})},
		})
	}
	if err != nil && !errors.Is(err, run.ErrState) { // answered at that moment
		s.e.log.Warn("Cancelling a question failed", "run", s.run.ID, "question", key, "error", err)
	}
}

// open lets the tree go on.
func (g *guard) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gate != nil {
		close(g.gate)
		g.gate = nil
	}
}

// budgetKey is a question's key taken apart.
type budgetKey struct {
	number int
	limit  string
	last   string // request
}

func readBudgetKey(key string) (budgetKey, bool) {
	rest, ok := strings.CutPrefix(key, budgetPrefix)
	number, rest, ok2 := strings.Cut(rest, "/")
	name, last, ok3 := strings.Cut(rest, ";")
	n, err := strconv.Atoi(number)
	return budgetKey{n, name, last}, ok && ok2 && ok3 && err == nil
}

// resumes tells whether a run can go on from a question that was open when the
// server stopped: from its own with every driver, from one about a budget with
// those that can continue behind a request.
func (e *Engine) resumes(r run.Run, key string) bool {
	if _, ok := readBudgetKey(key); !ok {
		return true
	}
	_, ok := e.opts.Drivers[r.Driver].(agent.Continuer)
	return ok
}

// restore takes up what an earlier process has told and been answered, and an
// open question about a budget. If that is what the run was waiting for, it waits
// for the answer. It gives the key that the driver continues with.
func (g *guard) restore(ctx context.Context, resumeKey string) (string, error) {
	r := g.root.run
	list, err := g.root.e.store.Questions(ctx, r.ID)
	if err != nil {
		return "", fmt.Errorf("loading the questions of run %s: %w", r.ID, err)
	}
	told, err := g.root.e.store.Events(ctx, run.EventQuery{Session: r.Session, First: maxTold, Filter: run.EventFilter{Run: r.ID, Types: []run.EventType{run.TypeBudgetReached}}})
	if err != nil {
		return "", fmt.Errorf("loading what was said about the budgets of run %s: %w", r.ID, err)
	}
	waits, waiting := readBudgetKey(resumeKey)
	var about *limit
	var asked run.Question // the one to take up
	g.mu.Lock()
	for _, l := range g.limits {
		l.begin(time.Now())
		for _, e := range told.Events {
			if p, err := e.Payload(); err == nil {
				if b, ok := p.(*run.BudgetReached); ok && b.Key == l.key && b.Day == l.day {
					l.told = true
				}
			}
		}
	}
	for _, q := range list {
		k, ok := readBudgetKey(q.Key)
		if !ok {
			continue
		}
		g.asked = max(g.asked, k.number)
		takeUp := q.Key == resumeKey || (!waiting && q.State == run.QuestionOpen)
		if takeUp { // when its budget is no more, the answer settles nothing else
			asked, about = q, &limit{of: g.root, key: k.limit}
		}
		for _, l := range g.limits {
			if l.key != k.limit {
				continue
			}
			switch {
			case takeUp:
				about = l
			case q.State == run.QuestionIsAnswered && (!l.daily() || dayOf(q.AskedAt) == l.day):
				if m, err := readMore(q.Answer); err == nil && !m.Stop {
					l.raise(m)
				}
			}
		}
	}
	if waiting {
		g.last = waits.last
	}
	if about != nil {
		g.gate = make(chan struct{})
		old := about.daily() && dayOf(asked.AskedAt) != about.day
		g.wg.Go(func() {
			if old { // of a day that is over
				g.root.withdraw(asked.Key)
			}
			g.question(about, asked.Key, asked.Text)
		})
	}
	g.mu.Unlock()
	if waiting {
		return waits.last, g.pass(ctx)
	}
	return resumeKey, nil
}

// maxTold is how many events about budgets are looked at.
const maxTold = 1000
