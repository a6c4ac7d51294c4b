package store

import (
	"encoding/json"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

type usageRow struct {
	bun.BaseModel `bun:"table:usage_records,alias:u"`

	Run             string `bun:"run_id,pk"`
	Key             string `bun:"request_key,pk"`
	Kind            string `bun:"kind"`
	AtUS            int64  `bun:"at_us"`
	Rank            int64  `bun:"source_rank"` // 0: nothing could be learnt
	Provenance      string `bun:"provenance"`
	Provider        string `bun:"provider"`
	Model           string `bun:"model"`
	Tier            string `bun:"tier"`
	Input           int64  `bun:"input_tokens"`
	CacheRead       int64  `bun:"cache_read_tokens"`
	CacheWriteShort int64  `bun:"cache_write_short_tokens"`
	CacheWriteLong  int64  `bun:"cache_write_long_tokens"`
	Output          int64  `bun:"output_tokens"`
	Reasoning       int64  `bun:"reasoning_tokens"`
	ToolCalls       string `bun:"tool_calls"`
	Backend         string `bun:"backend"`
	GPU             string `bun:"gpu"`
	ComputeUS       int64  `bun:"compute_us"`
	IsError         bool   `bun:"is_error"`
	Stream          string `bun:"stream"`
	StreamTotals    string `bun:"stream_totals"`
	Superseded      bool   `bun:"superseded"`
	Summed          bool   `bun:"summed"`
	CostNanoUSD     *int64 `bun:"cost_nano_usd"`
	CostSource      string `bun:"cost_source"`
	ComputedNanoUSD *int64 `bun:"computed_nano_usd"`
	PriceID         string `bun:"price_id"`
	Raw             string `bun:"raw"`
}

// rowOfUsage gives the row of a report. A cost that comes with it is the
// agent's own word: only the store computes one.
func rowOfUsage(u run.UsageRecord) *usageRow {
	t := u.Tokens
	row := &usageRow{
		Run: string(u.Run), Key: clean(u.RequestKey), Kind: string(u.Kind), AtUS: micros(u.At), Rank: int64(u.Rank), Provenance: string(u.Provenance),
		Provider: clean(u.Provider), Model: clean(u.Model), Tier: clean(u.Tier), Input: t.Input, CacheRead: t.CacheRead, CacheWriteShort: t.CacheWriteShort,
		CacheWriteLong: t.CacheWriteLong, Output: t.Output, Reasoning: t.Reasoning, ToolCalls: callsJSON(u.ToolCalls),
		Backend: clean(u.Backend), GPU: clean(u.GPU), ComputeUS: u.ComputeMicros, IsError: u.IsError, Stream: clean(u.Stream), Summed: u.Summed,
		CostNanoUSD: u.CostNanoUSD, Raw: clean(string(u.Raw)),
	}
	if row.CostNanoUSD != nil {
		row.CostSource = string(run.AgentReported)
	}
	if row.unknown() { // it takes the place of nothing
		row.Rank = 0
		row.count(counts{})
	}
	return row
}

// unknown tells whether nothing could be learnt of a model call.
func (r *usageRow) unknown() bool {
	return r.Kind != string(run.ComputeUsage) && r.Provenance == string(run.UnknownProvenance)
}

// callsJSON has the names in their order, so that equal counts are equal texts.
func callsJSON(calls map[string]int64) string {
	kept := make(map[string]int64, len(calls))
	for name, n := range calls {
		if n != 0 {
			kept[clean(name)] = n
		}
	}
	if len(kept) == 0 {
		return ""
	}
	b, _ := json.Marshal(kept) // strings and integers always encode
	return string(b)
}

func callsOf(text string) (map[string]int64, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no calls
	}
	var calls map[string]int64
	if err := json.Unmarshal([]byte(text), &calls); err != nil {
		return nil, fmt.Errorf("decoding the tool calls %.100q: %w", text, err)
	}
	return calls, nil
}

func (r *usageRow) tokens() run.Tokens {
	return run.Tokens{Input: r.Input, CacheRead: r.CacheRead, CacheWriteShort: r.CacheWriteShort, CacheWriteLong: r.CacheWriteLong, Output: r.Output, Reasoning: r.Reasoning}
}

func (r *usageRow) record() (run.UsageRecord, error) {
	calls, err := callsOf(r.ToolCalls)
	u := run.UsageRecord{
		Run: run.ID(r.Run), RequestKey: r.Key, Kind: run.UsageKind(r.Kind), At: timeOf(r.AtUS), Rank: run.SourceRank(r.Rank),
		Provenance: run.Provenance(r.Provenance), Provider: r.Provider, Model: r.Model, Tier: r.Tier, Tokens: r.tokens(), ToolCalls: calls,
		Backend: r.Backend, GPU: r.GPU, ComputeMicros: r.ComputeUS, IsError: r.IsError,
		Stream: r.Stream, Cumulative: r.StreamTotals != "", Superseded: r.Superseded, Summed: r.Summed,
		CostNanoUSD: r.CostNanoUSD, CostSource: run.CostSource(r.CostSource), ComputedNanoUSD: r.ComputedNanoUSD, PriceID: r.PriceID,
	}
	if r.Raw != "" {
		u.Raw = []byte(r.Raw)
	}
	return u, err
}

// recorded is what the log says of the record.
func (r *usageRow) recorded() (*run.UsageRecorded, error) {
	u, err := r.record()
	return &run.UsageRecorded{
		RequestKey: u.RequestKey, Kind: u.Kind, Provider: u.Provider, Model: u.Model, Tier: u.Tier, Stream: u.Stream, Backend: u.Backend, GPU: u.GPU,
		Tokens: u.Tokens, ToolCalls: u.ToolCalls, ComputeMicros: u.ComputeMicros, IsError: u.IsError,
		CostNanoUSD: u.CostNanoUSD, CostSource: u.CostSource, ComputedNanoUSD: u.ComputedNanoUSD, PriceID: u.PriceID,
		Provenance: u.Provenance, Superseded: u.Superseded,
	}, err
}

// reported is the cost that the agent stated; nil for none.
func (r *usageRow) reported() *int64 {
	if r.CostSource == string(run.AgentReported) {
		return r.CostNanoUSD
	}
	return nil
}

const (
	maxCount   = 10_000_000_000_000     // tokens or calls of one record
	maxCompute = 1_000_000_000_000_000  // microseconds of one record: 31 years
	maxNanoUSD = int64(1_000_000) * 1e9 // of one record
	maxLabel   = 256                    // bytes of a model, provider, tier, backend or GPU: rollups have several in one index row
	maxNames   = 1000                   // bytes of a key or of a stream's name: an index row of PostgreSQL holds about 2,700
)

// checkUsage refuses what nobody can have used: sums of such figures would
// not fit into any number, and one hostile record would spoil a day's totals.
func checkUsage(u *run.UsageRecord) error {
	refuse := func(format string, args ...any) error {
		return run.Errorf(run.Invalid, "the usage record %.100q of run %s was not booked: %s", u.RequestKey, u.Run, fmt.Sprintf(format, args...))
	}
	t := u.Tokens
	if low := min(t.Input, t.CacheRead, t.CacheWriteShort, t.CacheWriteLong, t.Output, t.Reasoning, u.ComputeMicros); low < 0 {
		return refuse("a count is %d", low)
	}
	if high := max(t.Input, t.CacheRead, t.CacheWriteShort, t.CacheWriteLong, t.Output, t.Reasoning); high > maxCount {
		return refuse("it has %d tokens; a record has at most %d", high, int64(maxCount))
	}
	if u.ComputeMicros > maxCompute {
		return refuse("it has %d microseconds; a record has at most %d", u.ComputeMicros, int64(maxCompute))
	}
	for name, n := range u.ToolCalls {
		if n < 0 || n > maxCount {
			return refuse("it has %d calls of %.100q; a record has 0 to %d", n, name, int64(maxCount))
		}
	}
	if c := u.CostNanoUSD; c != nil && (*c < 0 || *c > maxNanoUSD) {
		return refuse("its cost is %d nano-USD; a record costs 0 to %d", *c, maxNanoUSD)
	}
	if len(u.RequestKey) > maxNames || len(u.Stream) > maxNames {
		return refuse("its key has %d bytes and its stream %d; each has at most %d", len(u.RequestKey), len(u.Stream), maxNames)
	}
	for _, l := range []struct{ name, text string }{{"model", u.Model}, {"provider", u.Provider}, {"tier", u.Tier}, {"backend", u.Backend}, {"gpu", u.GPU}} {
		if n := len(clean(l.text)); n > maxLabel {
			return refuse("its %s %.40q... has %d bytes; it has at most %d", l.name, l.text, n, maxLabel)
		}
	}
	if u.Cumulative && u.Stream == "" {
		return refuse("running totals need a stream")
	}
	if u.Cumulative && u.Kind == run.ComputeUsage {
		return refuse("compute is not told by running totals")
	}
	return nil
}

// checkSum refuses a record that its reports together have made larger than one
// can be.
func (r *usageRow) checkSum() error {
	u, err := r.record()
	if err != nil {
		return err
	}
	return checkUsage(&u)
}
