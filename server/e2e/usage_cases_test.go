package e2e

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const usageCases = "../../runtime/meter/testdata/usage"

// buckets are counts as the cases write them.
type buckets struct {
	Input           int64 `json:"input"`
	CacheRead       int64 `json:"cache_read"`
	CacheWriteShort int64 `json:"cache_write_short"`
	CacheWriteLong  int64 `json:"cache_write_long"`
	Output          int64 `json:"output"`
	Reasoning       int64 `json:"reasoning"`
}

func (b *buckets) add(c buckets) {
	b.Input, b.CacheRead, b.CacheWriteShort = b.Input+c.Input, b.CacheRead+c.CacheRead, b.CacheWriteShort+c.CacheWriteShort
	b.CacheWriteLong, b.Output, b.Reasoning = b.CacheWriteLong+c.CacheWriteLong, b.Output+c.Output, b.Reasoning+c.Reasoning
}

// usageTurn is one turn of an agent that replays a case.
type usageTurn struct {
	Format   string   `json:"format"`
	Files    []string `json:"files"`
	Provider string   `json:"provider,omitempty"`
	Model    string   `json:"model,omitempty"`
	Stream   string   `json:"stream,omitempty"`
}

// usageCase is what one run replays and what its usage has to be.
type usageCase struct {
	folder, part string
	turns        []usageTurn
	// want says where the counts stand, when not under tokens.
	want string
	// reported: the agent states its cost. free: nothing has a price.
	reported, free bool
	provenance     string // "": by complete
}

func allUsageCases() []usageCase {
	one := func(folder, format string, files ...string) usageCase {
		if files == nil {
			files = []string{"input.jsonl"}
		}
		return usageCase{folder: folder, turns: []usageTurn{{Format: format, Files: files}}}
	}
	reported := func(c usageCase) usageCase { c.reported = true; return c }
	part := func(c usageCase, free bool, provenance string) usageCase {
		c.part, c.free, c.provenance = c.turns[0].Files[0], free, provenance
		return c
	}
	xai := func(file string) usageCase {
		c := part(one("28-xai-reasoning-outside-completion", "openai-compatible-usage", file), false, "")
		c.turns[0].Provider = "xai"
		return c
	}
	codex := usageCase{folder: "29-codex-turn-completed-cumulative", want: "thread_total", free: true, turns: []usageTurn{
		{Format: "codex-exec-json", Files: []string{"turn1.jsonl", "turn2-resume.jsonl"}},
	}}
	free := one("34-non-json-lines-on-stdout", "codex-exec-json")
	free.free = true
	return []usageCase{
		one("01-claude-transcript-growing-output", "claude-transcript"),
		reported(one("03-claude-partials-then-result", "claude-stream-json")),
		one("04-claude-transcript-empty-requestid", "claude-transcript"),
		one("06-claude-sidechain-replay", "claude-transcript", "main.jsonl", "subagents/agent-aside.jsonl"),
		one("07-claude-subagent-files", "claude-transcript", "s-0001.jsonl", "s-0001/subagents/agent-a1.jsonl"),
		one("08-claude-subagent-never-final", "claude-transcript", "subagents/agent-b.jsonl"),
		reported(one("09-claude-result-cumulative", "claude-stream-json")),
		reported(one("11-claude-result-field-paths", "claude-stream-json")),
		one("12-claude-no-result-event", "claude-stream-json"),
		reported(one("13-claude-hang-after-result", "claude-stream-json")),
		reported(one("15-jsonl-line-over-1mib", "claude-stream-json")),
		one("16-anthropic-1h-cache-write-rate", "anthropic-usage", "input.json"),
		one("18-anthropic-write-multiplier-0.25", "anthropic-usage", "input.json"),
		one("19-openai-cached-inside-prompt", "openai-chat-usage", "input.json"),
		one("20-openai-long-context-tier", "openai-responses-usage", "input.json"),
		one("21-anthropic-sse-cumulative-delta", "anthropic-sse", "input.sse"),
		one("23-anthropic-compaction-iterations", "anthropic-usage", "input.json"),
		one("24-anthropic-advisor-iterations", "claude-transcript"),
		one("25-gemini-thoughts-outside-candidates", "gemini-usageMetadata", "input.json"),
		one("27-gemini-cli-stats-hide-thoughts", "gemini-cli-stream-json"),
		xai("input.json"), xai("input-inclusive.json"),
		codex,
		one("30-codex-rollout-reemitted-token-count", "codex-rollout"),
		part(one("32-codex-reconnect-error-not-fatal", "codex-exec-json"), true, ""),
		part(one("32-codex-reconnect-error-not-fatal", "codex-exec-json", "fatal.jsonl"), true, "UNKNOWN"),
		free,
		reported(one("35-opencode-step-finish-sum", "opencode-run-json")),
		part(one("37-openai-stream-usage-last-chunk", "openai-chat-sse", "complete.sse"), false, ""),
		part(one("37-openai-stream-usage-last-chunk", "openai-chat-sse", "aborted.sse"), false, "ESTIMATED"),
		one("39-same-completion-booked-twice", "weir-usage-events"),
		one("41-haiku-5.5-threshold-per-request", "anthropic-usage"),
		{folder: "43-usage-status-then-transcript", want: "final (transcript)", turns: []usageTurn{
			{Format: "http-usage-status", Files: []string{"usage-status-1.json", "usage-status-2.json"}, Model: "claude-opus-5-5", Stream: "start-1"},
			{Format: "claude-transcript", Files: []string{"transcript.jsonl"}, Stream: "start-1"},
		}},
	}
}

// caseRates are USD per million tokens: the price file of the server has them.
type caseRates map[string]map[string]*string

// expectation reads what a case expects.
func (c usageCase) expectation(t *testing.T) (e struct {
	Tokens   json.RawMessage `json:"tokens"`
	Cost     string          `json:"cost_usd"`
	RunCost  string          `json:"run_cost_usd"`
	Complete *bool           `json:"complete"`
}, rates caseRates, counts *buckets,
) {
	t.Helper()
	var file struct{ Expected json.RawMessage }
	data, err := os.ReadFile(filepath.Join(usageCases, c.folder, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	decode := func(raw []byte, v any) {
		t.Helper()
		if err := json.Unmarshal(raw, v); err != nil {
			t.Fatal(err)
		}
	}
	decode(data, &file)
	var fields map[string]json.RawMessage
	decode(file.Expected, &fields)
	if fields["rates_usd_per_mtok"] != nil {
		decode(fields["rates_usd_per_mtok"], &rates)
	}
	raw := file.Expected
	if c.part != "" {
		raw = fields[c.part]
	}
	decode(raw, &e)
	counts = new(buckets)
	switch {
	case c.want == "thread_total":
		decode(fields[c.want], &e)
		decode(e.Tokens, counts)
	case c.want != "":
		decode(fields[c.want], counts)
	case len(e.Tokens) > 0 && e.Tokens[0] == '{':
		decode(e.Tokens, counts)
	case fields["by_model"] != nil:
		var models map[string]struct{ Tokens buckets }
		decode(fields["by_model"], &models)
		for _, m := range models {
			counts.add(m.Tokens)
		}
	default:
		counts = nil // not said, or in words
	}
	return e, rates, counts
}

// agent writes the definition of the agent that replays the case.
func (c usageCase) agent(t *testing.T, dir, name string) {
	t.Helper()
	files := map[string]string{}
	var turns []map[string]usageTurn
	for _, turn := range c.turns {
		for _, f := range turn.Files {
			b, err := os.ReadFile(filepath.Join(usageCases, c.folder, f))
			if err != nil {
				t.Fatal(err)
			}
			files[f] = string(b)
		}
		turns = append(turns, map[string]usageTurn{"usage": turn})
	}
	b, err := json.Marshal(map[string]any{"name": name, "driver": "replay", "files": files, "turns": turns})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".yaml"), b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// priceFile writes the rates of all cases; two cases may not differ in one.
func priceFile(t *testing.T, path string, all caseRates) {
	t.Helper()
	names := map[string]string{"input": "input", "output": "output", "cache_read": "cacheRead", "cache_write_short": "cacheWriteShort", "cache_write_long": "cacheWriteLong"}
	rates := func(m string) map[string]json.Number {
		out := map[string]json.Number{}
		for bucket, rate := range all[m] {
			if rate != nil {
				out[names[bucket]] = json.Number(*rate)
			}
		}
		return out
	}
	var models []map[string]any
	for m := range all {
		if strings.Contains(m, "@") {
			continue
		}
		row := map[string]any{"model": m, "rates": rates(m)}
		for prefix, provider := range map[string]string{"claude": "anthropic", "gpt": "openai", "gemini": "google", "grok": "xai"} {
			if strings.HasPrefix(m, prefix) {
				row["provider"] = provider
			}
		}
		for long := range all {
			if of, limit, ok := strings.Cut(long, "@>"); ok && of == m {
				row["long"] = []map[string]any{{"above": json.Number(strings.TrimSuffix(limit, "k") + "000"), "rates": rates(long)}}
			}
		}
		models = append(models, row)
	}
	b, err := json.Marshal(map[string]any{"models": models})
	if err == nil {
		err = os.WriteFile(path, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestUsageCases: every case is replayed by an agent on a whole server, and the
// run's usage has the case's counts, its cost to the last nano-USD, and says how
// far it can be trusted.
func TestUsageCases(t *testing.T) {
	t.Parallel()
	cases := allUsageCases()
	folders, err := os.ReadDir(usageCases)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if !slices.ContainsFunc(cases, func(c usageCase) bool { return c.folder == f.Name() }) {
			t.Errorf("no agent replays %s", f.Name())
		}
	}
	onBothStores(t, func(t *testing.T, url string) {
		t.Parallel()
		dir := agentsFolder(t)
		all := caseRates{}
		for i, c := range cases {
			c.agent(t, dir, fmt.Sprintf("case-%d", i))
			_, rates, _ := c.expectation(t)
			for m, r := range rates {
				if known := all[m]; known != nil && fmt.Sprint(values(known)) != fmt.Sprint(values(r)) {
					t.Fatalf("%s has other rates for %s", c.folder, m)
				}
				all[m] = r
			}
		}
		prices := filepath.Join(dir, "prices.json")
		priceFile(t, prices, all)
		s := newServer(t, url, "--agents", dir, "--prices", prices)
		s.start()
		ids := make([]string, len(cases))
		for i := range cases {
			ids[i] = s.startRun(map[string]any{"agent": fmt.Sprintf("case-%d", i), "prompt": "Say hello."}).ID
		}
		for i, c := range cases {
			t.Run(c.folder+"/"+c.part, func(t *testing.T) {
				s.waitStatus(ids[i], 2*time.Minute, "DONE")
				c.check(t, s, ids[i], all)
			})
		}
	})
}

func values(m map[string]*string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		if v != nil {
			out[k] = *v
		}
	}
	return out
}

// check compares what a run is booked with.
func (c usageCase) check(t *testing.T, s *server, id string, all caseRates) {
	t.Helper()
	var out struct {
		Run struct {
			Usage struct {
				Input, CacheRead, CacheWriteShort, CacheWriteLong, Output, Reasoning int64
				CostNanoUsd                                                          *int64
				CostSource                                                           *string
				Provenance                                                           string
				Unpriced                                                             int
			}
		}
	}
	s.must(`query($id: ID!) { run(id: $id) { usage { input cacheRead cacheWriteShort cacheWriteLong output reasoning
		costNanoUsd costSource provenance unpriced } } }`, map[string]any{"id": id}, &out)
	u := out.Run.Usage
	got := buckets{u.Input, u.CacheRead, u.CacheWriteShort, u.CacheWriteLong, u.Output, u.Reasoning}
	want, _, counts := c.expectation(t)
	switch {
	case counts != nil:
		if got != *counts {
			t.Errorf("tokens\n%+v, want\n%+v", got, *counts)
		}
	case got == buckets{}:
		t.Error("nothing was booked")
	}
	provenance := c.provenance
	if provenance == "" {
		provenance = "MEASURED"
	}
	if incomplete := want.Complete != nil && !*want.Complete; incomplete && c.provenance == "" {
		if u.Provenance != "PARTIAL" && u.Provenance != "ESTIMATED" {
			t.Errorf("an incomplete source is %s", u.Provenance)
		}
	} else if u.Provenance != provenance {
		t.Errorf("provenance %s, want %s", u.Provenance, provenance)
	}
	if c.free {
		if u.CostNanoUsd != nil || u.Unpriced == 0 {
			t.Errorf("no model is named, but the cost is %v and %d are unpriced", u.CostNanoUsd, u.Unpriced)
		}
		return
	}
	source := "COMPUTED"
	if c.reported {
		source = "AGENT_REPORTED"
	}
	if u.CostSource == nil || *u.CostSource != source || u.Unpriced != 0 || u.CostNanoUsd == nil {
		t.Fatalf("the cost %v is from %v with %d unpriced, want %s", u.CostNanoUsd, u.CostSource, u.Unpriced, source)
	}
	usd := want.Cost
	if usd == "" {
		usd = want.RunCost
	}
	cost, ok := new(big.Rat).SetString(usd)
	if !ok { // the case names none: what its counts cost at the rates of its model
		m := "claude-opus-5-5"
		if strings.HasPrefix(c.folder, "37-") {
			m = "gpt-4o"
		}
		cost = costOf(t, all[m], got)
	}
	if cost.Mul(cost, big.NewRat(1e9, 1)); cost.Cmp(new(big.Rat).SetInt64(*u.CostNanoUsd)) != 0 {
		t.Errorf("the cost is %d nano-USD, want %s", *u.CostNanoUsd, cost.RatString())
	}
}

// costOf is plain arithmetic.
func costOf(t *testing.T, rates map[string]*string, b buckets) *big.Rat {
	t.Helper()
	sum := new(big.Rat)
	for bucket, n := range map[string]int64{
		"input": b.Input, "cache_read": b.CacheRead, "cache_write_short": b.CacheWriteShort, "cache_write_long": b.CacheWriteLong, "output": b.Output,
	} {
		if n == 0 {
			continue
		}
		rate, ok := new(big.Rat).SetString(*rates[bucket])
		if !ok {
			t.Fatalf("the rate %q", *rates[bucket])
		}
		sum.Add(sum, rate.Mul(rate, big.NewRat(n, 1e6)))
	}
	return sum
}
