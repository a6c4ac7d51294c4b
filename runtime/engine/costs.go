package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// Reprice prices usage records again and gives what changed, or would.
func (e *Engine) Reprice(ctx context.Context, r run.Reprice) ([]run.RepriceLine, error) {
	return e.store.Reprice(ctx, r)
}

// Costs of one record that lie closer together are not worth a word: 1e-6 USD.
const smallNanoUSD = 1000

// compareCosts warns, once per run and model, when what an agent says it cost and
// what the price book says differ by more than 1 %. The events are those that
// were just committed, of the reports; the warning is committed after them.
func (m *emitter) compareCosts(events []*run.Event, reports []run.UsageRecord) {
	for _, e := range events {
		if e.Type != run.TypeUsageRecorded {
			continue
		}
		p, err := e.Payload()
		if err != nil {
			m.log.Warn("A usage event cannot be read", "run", e.Run, "seq", e.Seq, "error", err)
			continue
		}
		u, ok := p.(*run.UsageRecorded)
		if ok && m.note != nil {
			m.note(u)
		}
		if !ok || u.Superseded || u.CostSource != run.AgentReported || u.CostNanoUSD == nil || u.ComputedNanoUSD == nil || !differ(*u.CostNanoUSD, *u.ComputedNanoUSD) {
			continue
		}
		m.mu.Lock()
		if !m.doubted[u.Model] {
			m.doubted[u.Model] = true
			text := fmt.Sprintf("the agent reports %s USD for a request to %s, the price %s gives %s USD: the reported cost is booked, the other one stands beside it; ",
				run.NanoUSD(*u.CostNanoUSD), named(u.Model), u.PriceID, run.NanoUSD(*u.ComputedNanoUSD))
			if *u.ComputedNanoUSD < *u.CostNanoUSD && unsplit(reports, u.RequestKey) {
				text += fmt.Sprintf("the agent does not tell how long its cache writes last, so the price takes all %d tokens of them as short-lived, which are cheaper. A newer version of the agent tells it; ", u.Tokens.CacheWriteShort)
			}
			text += "if the price is wrong, correct it in the price file"
			m.pushLocked(entry{drafts: []run.Draft{run.DraftOf(m.run, time.Now(), &run.Warning{Text: text})}})
		}
		m.mu.Unlock()
	}
}

// unsplit tells whether the report of a request leaves open how long its cache
// writes last.
func unsplit(reports []run.UsageRecord, key string) bool {
	return slices.ContainsFunc(reports, func(u run.UsageRecord) bool { return u.RequestKey == key && u.Unsplit })
}

func named(model string) string {
	if model == "" {
		return "a model without a name"
	}
	return model
}

// differ tells whether two costs are more than 1 % of the larger one apart.
func differ(a, b int64) bool {
	apart, most := a-b, max(a, b)
	if apart < 0 {
		apart = -apart
	}
	return apart > smallNanoUSD && apart > most/100
}
