package engine

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

// dayBook is a store that knows when what was used, and keeps what is written.
type dayBook struct {
	Store

	mu     sync.Mutex
	used   map[time.Time]int64 // tokens, of the agent "spender"
	drafts []run.Draft
}

func (b *dayBook) book(tokens int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used[time.Now()] += tokens
}

func (b *dayBook) SpentByAgent(_ context.Context, from, to time.Time) (map[string]run.Spent, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sums := map[string]run.Spent{}
	for at, n := range b.used {
		if !at.Before(from) && at.Before(to) {
			sums["spender"] = sums["spender"].Add(run.Spent{Tokens: n})
		}
	}
	return sums, nil
}

func (b *dayBook) Append(_ context.Context, batch run.Batch) ([]*run.Event, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drafts = append(b.drafts, batch.Drafts...)
	return nil, nil
}

// told gives what was written of budgets.
func (b *dayBook) told(t *testing.T) []run.BudgetReached {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []run.BudgetReached
	for _, d := range b.drafts {
		p, ok := d.Payload.(*run.BudgetReached)
		if !ok {
			t.Fatalf("a %T was written", d.Payload)
		}
		out = append(out, *p)
	}
	return out
}

func (b *dayBook) Lookup(string) (agent.Definition, error) {
	return agent.Definition{}, errors.New("none")
}

// TestADayBudgetOverMidnight: what was used yesterday, and what answers have
// added then, does not count today.
func TestADayBudgetOverMidnight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := &dayBook{used: map[time.Time]int64{}}
		e, err := New(Options{
			Store: book, Agents: book, DataDir: "none", Replica: "rep",
			Budgets: Budgets{Day: &run.Budget{Tokens: 100, Action: run.BudgetWarn}, AgentDay: &run.Budget{Tokens: 5000, Action: run.BudgetWarn}},
		})
		if err != nil {
			t.Fatal(err)
		}
		e.write = t.Context()
		midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		time.Sleep(time.Until(midnight) - 10*time.Second - time.Second/2) // no tick at midnight

		s := newSupervisor(t.Context(), e, run.Run{ID: "run_1", Session: "ses_1", Agent: "spender"}, nil)
		e.live[s.run.ID] = s
		var wg sync.WaitGroup
		wg.Go(s.emit.loop)
		s.guard.add(s)
		defer func() {
			s.guard.stop()
			s.emit.close()
			s.cancel(errReleased)
			wg.Wait()
		}()
		capped := agent.Definition{Name: "spender", Budget: &agent.Budgets{Day: &run.Budget{Tokens: 100}}}

		book.book(150)
		time.Sleep(3 * time.Second) // the tick sees it
		first := midnight.Add(-time.Second).Format(time.DateOnly)
		if got := book.told(t); len(got) != 1 || got[0].Scope != run.BudgetDay || got[0].Day != first || got[0].UsedTokens != 150 {
			t.Errorf("before midnight it told %+v", got)
		}
		s.guard.mu.Lock()
		for _, l := range s.guard.limits {
			if l.scope == run.BudgetAgentDay {
				l.raise(more{ExtraTokens: 1000})
			}
		}
		s.guard.mu.Unlock()
		time.Sleep(time.Until(midnight) - time.Millisecond)
		if err := e.affords(t.Context(), capped, ""); run.CodeOf(err) != run.Forbidden || !strings.Contains(err.Error(), "150 of 100 tokens; the next one begins at "+midnight.Format(time.RFC3339)) {
			t.Errorf("a millisecond before midnight: %v", err)
		}
		if err := e.affords(t.Context(), agent.Definition{Name: "spender"}, ""); err != nil {
			t.Errorf("a budget that warns stands in the way: %v", err)
		}
		time.Sleep(time.Millisecond)
		if err := e.affords(t.Context(), capped, ""); err != nil {
			t.Errorf("at midnight: %v", err)
		}
		states, err := e.Budgets(t.Context())
		if err != nil || len(states) != 1 || states[0].Spent.Tokens != 0 || !states[0].Day.Equal(midnight) {
			t.Errorf("at midnight the budgets are %+v, %v", states, err)
		}
		time.Sleep(time.Hour)
		book.book(60)
		time.Sleep(3 * time.Second)
		if got := book.told(t); len(got) != 1 {
			t.Errorf("60 of 100 tokens were told as %+v", got)
		}
		s.guard.mu.Lock()
		for _, l := range s.guard.limits {
			if l.budget != l.given {
				t.Errorf("the budget of a new day is %+v, was set as %+v", l.budget, l.given)
			}
		}
		s.guard.mu.Unlock()
		book.book(50)
		time.Sleep(3 * time.Second)
		if got := book.told(t); len(got) != 2 || got[1].Day != midnight.Format(time.DateOnly) || got[1].UsedTokens != 110 {
			t.Errorf("on the next day it told %+v", got)
		}
	})
}
