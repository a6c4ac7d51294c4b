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

// perToken prices every model at 1,000 nano-USD for each input token.
type perToken struct{}

func (perToken) Price(u run.UsageRecord, _ *run.Price) (run.Pricing, error) {
	if u.Kind != run.ModelCall {
		return run.Pricing{}, nil
	}
	nano := 1000 * u.Tokens.Input
	return run.Pricing{Price: &run.Price{ID: "flat", Body: []byte("{}")}, NanoUSD: &nano}, nil
}

// TestCostsThatDifferAreWarnedOf: once per run and model, only beyond 1 % and a
// millionth of a dollar, and before the end of the run.
func TestCostsThatDifferAreWarnedOf(t *testing.T) {
	t.Parallel()
	b := emptyBench(t)
	b.open(store.Options{Path: b.dir, Pricer: perToken{}})
	b.agent("talk", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
		var errs []error
		for i, c := range []struct {
			model        string
			tokens, cost int64
			unsplit      bool
		}{
			{"right", 1000, 1_010_000, true},
			{"close", 1000, 990_001, false},
			{"tiny", 1, 2000, false},
			{"high", 1000, 1_020_000, false},
			{"high", 1000, 2_000_000, false},
			{"low", 1000, 500_000, true},
			{"cached", 1000, 1_200_000, true},
			{"silent", 1000, -1, true},
		} {
			u := run.UsageRecord{RequestKey: fmt.Sprint(i), Provider: "p", Model: c.model, Tokens: run.Tokens{Input: c.tokens, CacheWriteShort: 70}, Unsplit: c.unsplit}
			if c.cost >= 0 {
				u.CostNanoUSD = &c.cost
			}
			errs = append(errs, h.Usage(ctx, u))
		}
		return "", errors.Join(errs...)
	})
	r := b.ended(b.engine().start("talk").ID)
	wantState(t, r, run.Done, run.Completed)
	var warnings []string
	events := b.events(r.Session)
	recorded := 0
	for _, e := range events {
		p, err := e.Payload()
		if err != nil {
			t.Fatal(err)
		}
		switch p := p.(type) {
		case *run.Warning:
			warnings = append(warnings, p.Text)
		case *run.UsageRecorded:
			recorded++
		}
	}
	if recorded != 8 || events[len(events)-1].Type != run.TypeRunEnded {
		t.Errorf("%d records are in the log, and it ends with %s", recorded, events[len(events)-1].Type)
	}
	const why = "takes all 70 tokens of them as short-lived"
	for i, w := range warnings {
		if strings.Contains(w, why) != (i == 2) {
			t.Errorf("warned: %q", w)
		}
	}
	if len(warnings) != 3 || !strings.Contains(warnings[0], "reports 0.00102 USD for a request to high, the price flat gives 0.001 USD") || !strings.Contains(warnings[1], "0.0005 USD for a request to low") {
		t.Errorf("the warnings are %q", warnings)
	}
	if u := r.Usage; u.CostSource != run.Computed || u.Unpriced != 0 || *u.CostNanoUSD != 1_010_000+990_001+2000+1_020_000+2_000_000+500_000+1_200_000+1_000_000 {
		t.Errorf("the usage is %+v with %d", u, *u.CostNanoUSD)
	}
}
