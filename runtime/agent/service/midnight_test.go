//go:build linux

package service_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
)

// told is an answer of a service.
func told(t run.Tokens) string {
	return fmt.Sprintf(`200 {"tokens_input": %d, "tokens_output": %d, "tokens_cache_read": %d, "tokens_cache_write": %d}`, t.Input, t.Output, t.CacheRead, t.CacheWriteShort)
}

// overMidnight starts a service that uses someTokens yesterday and today what more
// says, and waits until both are booked.
func (b *bench) overMidnight(more run.Tokens) (*engine.Engine, run.Run) {
	b.t.Helper()
	b.behind.Store(int64(24 * time.Hour))
	e := b.engine()
	r := b.start(e, answers(some))
	b.until("yesterday's use is booked", func() bool { return b.get(r.ID).Usage.Tokens == someTokens })
	b.behind.Store(0)
	b.looked(r, strings.Count(b.file(r, "seen"), "asked\n")+2) // the poll under way may still be yesterday's
	b.put(r, "answer", told(someTokens.Add(more)))
	b.until("today's use is booked", func() bool { return b.get(r.ID).Usage.Tokens == someTokens.Add(more) })
	return e, r
}

// TestEachDayHasItsRecord: what the total rises by counts on the day of the poll, and
// the days together are the total.
func TestEachDayHasItsRecord(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		more := run.Tokens{Input: 1, Output: 20, CacheWriteShort: 3}
		e, r := b.overMidnight(more)
		b.put(r, "answer", zeros) // changes nothing
		b.looked(r, strings.Count(b.file(r, "seen"), "asked\n")+2)
		got := b.records(r)
		today := "status/" + b.get(r.ID).StartedAt.UTC().Format(time.DateOnly)
		if first, second := got["status"], got[today]; keys(got) != "status "+today || first.Tokens != someTokens || second.Tokens != more ||
			first.Provenance != run.Measured || second.Provenance != run.Partial || first.At.UTC().Day() == second.At.UTC().Day() || first.Stream != second.Stream {
			t.Errorf("the records are %+v", got)
		}
		more.Output++
		b.put(r, "answer", told(someTokens.Add(more)))
		r = b.abort(e, r)
		cost := someCost + 3000 + 21*15000 + 3*3750
		wantUsage(t, r, someTokens.Add(more), &cost, run.Measured)
		if got := b.records(r); len(got) != 2 || got[today].Tokens != more {
			t.Errorf("at the end the records are %+v", got)
		}
		s, err := b.store.SessionUsage(t.Context(), r.Session)
		if err != nil || s.Tokens != r.Usage.Tokens {
			t.Errorf("the session used %+v, %v", s, err)
		}
	})
}

// TestATranscriptReplacesAllDays: it tells of the same calls.
func TestATranscriptReplacesAllDays(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.def.Service.Transcript = &agent.Transcript{}
		e, r := b.overMidnight(run.Tokens{Input: 9})
		all := someTokens.Add(run.Tokens{Input: 10})
		b.put(r, "transcript", transcript(t, msg("m1", all)))
		b.put(r, "answer", zeros)
		r = b.abort(e, r)
		cost := someCost + 10*3000
		wantUsage(t, r, all, &cost, run.Measured)
		got := b.records(r)
		for key, u := range got {
			if u.Superseded != (key != "m1") {
				t.Errorf("%s is superseded: %t", key, u.Superseded)
			}
		}
		if len(got) != 3 {
			t.Errorf("the records are %+v", got)
		}
	})
}

// TestTheNextDaysBudgetIsHit by a service that has worked since the day before, and
// not by what it used then.
func TestTheNextDaysBudgetIsHit(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.def.Budget = &agent.Budgets{Day: &run.Budget{Tokens: someTokens.Count() + 50}}
		_, r := b.overMidnight(run.Tokens{Input: 100}) // in all more than the budget
		if got := b.get(r.ID); got.State.Status != run.Running {
			t.Fatalf("the run is %s: what it used yesterday counts today", got.State.Status)
		}
		b.put(r, "answer", told(someTokens.Add(run.Tokens{Input: someTokens.Count() + 50})))
		r = b.ended(r.ID)
		wantState(t, r, run.Cancelled, run.BudgetReason)
	})
}
