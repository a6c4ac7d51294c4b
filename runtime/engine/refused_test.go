package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

// warned gives the texts of a session's warnings.
func (b *bench) warned(id run.SessionID) (texts []string) {
	b.t.Helper()
	for _, e := range b.events(id) {
		p, err := e.Payload()
		if err != nil {
			b.t.Fatal(err)
		}
		if w, ok := p.(*run.Warning); ok {
			texts = append(texts, w.Text)
		}
	}
	return texts
}

// TestRefusedUsageIsUnknown: a record that cannot be true ends no run and takes no
// other with it, and the bill says that something is missing.
func TestRefusedUsageIsUnknown(t *testing.T) {
	t.Parallel()
	call := func(key string, input int64) run.UsageRecord {
		return run.UsageRecord{RequestKey: key, Provider: "p", Model: "m", Stream: "s", Rank: run.FromTranscript, Tokens: run.Tokens{Input: input}}
	}
	records := []run.UsageRecord{
		call("a", 10), call("too dear", 2e12), call("too many", 1e14), call("b", 20),
		call(strings.Repeat("k", 2000), 5), call("c", 30),
	}
	for name, book := range map[string]work{
		"one by one": func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			var errs []error
			for _, u := range records {
				errs = append(errs, h.Usage(ctx, u))
			}
			return "", errors.Join(errs...)
		},
		"at the end": func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			_, _, err := h.Execute(ctx, agent.Exec{Command: []string{"true"}, Final: func(context.Context) agent.Settlement {
				return agent.Settlement{Usage: records}
			}})
			return "", err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := emptyBench(t)
			b.open(store.Options{Path: b.dir, Pricer: perToken{}})
			b.plays(func(*scriptedProcess) int { return 0 })
			b.agent("talk", book)
			r := b.ended(b.engine().start("talk").ID)
			wantState(t, r, run.Done, run.Completed)
			if u := r.Usage; u.Tokens.Input != 60 || u.CostNanoUSD == nil || *u.CostNanoUSD != 60_000 || u.Unpriced < 3 || u.Provenance != run.UnknownProvenance {
				t.Errorf("the usage is %+v", u)
			}
			if w := b.warned(r.Session); len(w) != 1 || !strings.Contains(w[0], `"too dear"`) || strings.Contains(w[0], "batch") {
				t.Errorf("the warnings are %q", w)
			}
		})
	}
}

// TestRefusedUsageLeavesWhatWasBooked: what a record said before stays.
func TestRefusedUsageLeavesWhatWasBooked(t *testing.T) {
	t.Parallel()
	b := emptyBench(t)
	b.open(store.Options{Path: b.dir, Pricer: perToken{}})
	b.agent("talk", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
		u := run.UsageRecord{RequestKey: "status", Provider: "p", Model: "m", Provenance: run.Partial, Tokens: run.Tokens{Input: 10}}
		first := h.Usage(ctx, u)
		u.Tokens.Input, u.Provenance = 1e14, run.Measured
		return "", errors.Join(first, h.Usage(ctx, u))
	})
	r := b.ended(b.engine().start("talk").ID)
	wantState(t, r, run.Done, run.Completed)
	if u := r.Usage; u.Tokens.Input != 10 || u.Unpriced != 0 || u.Provenance != run.Partial {
		t.Errorf("the usage is %+v", u)
	}
}

// TestRefusedUsageInLargeNumbers: what a hostile transcript costs is bounded.
func TestRefusedUsageInLargeNumbers(t *testing.T) {
	t.Parallel()
	b := emptyBench(t)
	b.open(store.Options{Path: b.dir, Pricer: perToken{}})
	b.plays(func(*scriptedProcess) int { return 0 })
	b.agent("talk", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
		var records []run.UsageRecord
		for i := range 600 {
			records = append(records, run.UsageRecord{RequestKey: fmt.Sprint(i), Model: "m", Tokens: run.Tokens{Input: 1e14}})
		}
		_, _, err := h.Execute(ctx, agent.Exec{Command: []string{"true"}, Final: func(context.Context) agent.Settlement {
			return agent.Settlement{Usage: records}
		}})
		return "", err
	})
	r := b.ended(b.engine().start("talk").ID)
	wantState(t, r, run.Done, run.Completed)
	if u := r.Usage; u.Tokens.Input != 0 || u.Unpriced < 600 || u.Provenance != run.UnknownProvenance {
		t.Errorf("the usage is %+v", u)
	}
	if w := b.warned(r.Session); len(w) != 1 {
		t.Errorf("%d warnings", len(w))
	}
}
