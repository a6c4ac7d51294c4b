package meter_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/meter"
	"github.com/weirhq/weir/runtime/run"
)

// tokens is a set of buckets as the cases write it.
type tokens struct {
	Input           int64 `json:"input"`
	CacheRead       int64 `json:"cache_read"`
	CacheWriteShort int64 `json:"cache_write_short"`
	CacheWriteLong  int64 `json:"cache_write_long"`
	Output          int64 `json:"output"`
	Reasoning       int64 `json:"reasoning"`
}

// rates are USD per million tokens, by bucket; null: none.
type rates map[string]*string

type expected struct {
	Tokens     json.RawMessage  `json:"tokens"`
	Cost       string           `json:"cost_usd"`
	RunCost    string           `json:"run_cost_usd"`
	CostSource string           `json:"cost_source"`
	Complete   *bool            `json:"complete"`
	Requests   int              `json:"requests"`
	Turns      int              `json:"turns"`
	Events     int              `json:"events"`
	Skipped    int              `json:"skipped_lines"`
	Warnings   int              `json:"warnings"`
	Error      string           `json:"error"`
	LowerBound []string         `json:"lower_bound"`
	Rates      map[string]rates `json:"rates_usd_per_mtok"`
	ByModel    map[string]struct {
		Tokens tokens `json:"tokens"`
		Cost   string `json:"cost_usd"`
	} `json:"by_model"`
	TurnCost    []string        `json:"turn_cost_usd"`
	TurnDeltas  []tokens        `json:"turn_deltas"`
	ThreadTotal json.RawMessage `json:"thread_total"`
	Tiers       []string        `json:"tiers"`
	Tier        string          `json:"tier"`
}

const casesDir = "testdata/usage"

// expectations reads a case: what is expected of all its files under "", or of
// each file under its name.
func expectations(t *testing.T, name string) map[string]expected {
	t.Helper()
	var file struct {
		Expected json.RawMessage `json:"expected"`
	}
	b, err := os.ReadFile(filepath.Join(casesDir, name, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all expected
	var each map[string]json.RawMessage
	for _, step := range []error{json.Unmarshal(b, &file), json.Unmarshal(file.Expected, &all), json.Unmarshal(file.Expected, &each)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	out := map[string]expected{"": all}
	for key, raw := range each {
		if _, err := os.Stat(filepath.Join(casesDir, name, key)); err == nil {
			var e expected
			if err := json.Unmarshal(raw, &e); err != nil {
				t.Fatal(err)
			}
			e.Rates = all.Rates
			out[key] = e
		}
	}
	return out
}

// book is what books the records of a source: it merges them by key, takes the
// differences of running totals, and lets the best source of a stream count.
type book struct {
	records map[string]run.UsageRecord
	order   []string
	last    map[string]run.UsageRecord // of a stream
	counted map[string]bool            // cumulative records that were made differences
}

func newBook() *book {
	return &book{records: map[string]run.UsageRecord{}, last: map[string]run.UsageRecord{}, counted: map[string]bool{}}
}

func (b *book) add(records []run.UsageRecord) error {
	for _, u := range records {
		if u.Cumulative {
			if b.counted[u.RequestKey] {
				continue
			}
			b.counted[u.RequestKey] = true
			last, total := b.last[u.Stream], u
			if u.Tokens.Max(last.Tokens) == u.Tokens {
				u.Tokens = minus(u.Tokens, last.Tokens)
				if u.CostNanoUSD != nil && last.CostNanoUSD != nil {
					rise := *u.CostNanoUSD - *last.CostNanoUSD
					u.CostNanoUSD = &rise
				}
			}
			b.last[u.Stream] = total
		}
		old, known := b.records[u.RequestKey]
		switch {
		case !known:
			b.order = append(b.order, u.RequestKey)
		case u.Rank < old.Rank:
			continue
		case u.Rank == old.Rank:
			u.Tokens = u.Tokens.Max(old.Tokens)
			if u.Provenance.Worse(old.Provenance) == u.Provenance {
				u.Provenance = old.Provenance
			}
		}
		b.records[u.RequestKey] = u
	}
	return nil
}

func minus(a, b run.Tokens) run.Tokens {
	return run.Tokens{
		Input: a.Input - b.Input, CacheRead: a.CacheRead - b.CacheRead, CacheWriteShort: a.CacheWriteShort - b.CacheWriteShort,
		CacheWriteLong: a.CacheWriteLong - b.CacheWriteLong, Output: a.Output - b.Output, Reasoning: a.Reasoning - b.Reasoning,
	}
}

// all gives the records that count.
func (b *book) all() []run.UsageRecord {
	best := map[string]run.SourceRank{}
	for _, u := range b.records {
		best[u.Stream] = max(best[u.Stream], u.Rank)
	}
	var out []run.UsageRecord
	for _, key := range b.order {
		if u := b.records[key]; u.Stream == "" || u.Rank == best[u.Stream] {
			out = append(out, u)
		}
	}
	return out
}

func (b *book) sum() (t run.Tokens, p run.Provenance) {
	for _, u := range b.all() {
		t, p = t.Add(u.Tokens), p.Worse(u.Provenance)
	}
	return t, p
}

// price gives the exact cost of a record by the rates of a case.
func price(t *testing.T, all map[string]rates, u run.UsageRecord) *big.Rat {
	t.Helper()
	if u.CostNanoUSD != nil {
		return big.NewRat(*u.CostNanoUSD, 1e9)
	}
	row := all[u.Model]
	for name, long := range all {
		if m, limit, ok := strings.Cut(name, "@>"); ok && m == u.Model && u.Tokens.Prompt() > int64(thousands(limit))*1000 {
			row = long
		}
	}
	if row == nil {
		t.Fatalf("no rates for the model %q of %s", u.Model, u.RequestKey)
	}
	sum := new(big.Rat)
	for bucket, n := range map[string]int64{
		"input": u.Tokens.Input, "cache_read": u.Tokens.CacheRead, "cache_write_short": u.Tokens.CacheWriteShort,
		"cache_write_long": u.Tokens.CacheWriteLong, "output": u.Tokens.Output,
	} {
		if n == 0 {
			continue
		}
		if row[bucket] == nil {
			t.Fatalf("%s has %d tokens of %s, which has no rate", u.RequestKey, n, bucket)
		}
		rate, ok := new(big.Rat).SetString(*row[bucket])
		if !ok {
			t.Fatalf("the rate %q", *row[bucket])
		}
		sum.Add(sum, rate.Mul(rate, big.NewRat(n, 1e6)))
	}
	return sum
}

// thousands reads a limit such as 272k.
func thousands(s string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(s, "k"))
	if err != nil {
		panic(err)
	}
	return n
}

func domain(x tokens) run.Tokens {
	return run.Tokens{
		Input: x.Input, CacheRead: x.CacheRead, CacheWriteShort: x.CacheWriteShort,
		CacheWriteLong: x.CacheWriteLong, Output: x.Output, Reasoning: x.Reasoning,
	}
}

// part is what one reader reads of a case.
type part struct {
	name   string // of the expectation
	source meter.Source
	files  []string
}

// usageCases says how each case is read.
func usageCases() map[string][]part {
	one := func(f meter.Format, files ...string) []part {
		if files == nil {
			files = []string{"input.jsonl"}
		}
		return []part{{source: meter.Source{Format: f}, files: files}}
	}
	each := func(f meter.Format, files ...string) (parts []part) {
		for _, file := range files {
			parts = append(parts, part{name: file, source: meter.Source{Format: f}, files: []string{file}})
		}
		return parts
	}
	return map[string][]part{
		"01-claude-transcript-growing-output":    one(meter.ClaudeTranscript),
		"03-claude-partials-then-result":         one(meter.ClaudeStream),
		"04-claude-transcript-empty-requestid":   one(meter.ClaudeTranscript),
		"06-claude-sidechain-replay":             one(meter.ClaudeTranscript, "main.jsonl", "subagents/agent-aside.jsonl"),
		"07-claude-subagent-files":               one(meter.ClaudeTranscript, "s-0001.jsonl", "s-0001/subagents/agent-a1.jsonl"),
		"08-claude-subagent-never-final":         one(meter.ClaudeTranscript, "subagents/agent-b.jsonl"),
		"09-claude-result-cumulative":            one(meter.ClaudeStream),
		"11-claude-result-field-paths":           one(meter.ClaudeStream),
		"12-claude-no-result-event":              one(meter.ClaudeStream),
		"13-claude-hang-after-result":            one(meter.ClaudeStream),
		"15-jsonl-line-over-1mib":                one(meter.ClaudeStream),
		"16-anthropic-1h-cache-write-rate":       one(meter.AnthropicUsage, "input.json"),
		"18-anthropic-write-multiplier-0.25":     one(meter.AnthropicUsage, "input.json"),
		"19-openai-cached-inside-prompt":         one(meter.ChatUsage, "input.json"),
		"20-openai-long-context-tier":            one(meter.ResponsesUsage, "input.json"),
		"21-anthropic-sse-cumulative-delta":      one(meter.AnthropicSSE, "input.sse"),
		"23-anthropic-compaction-iterations":     one(meter.AnthropicUsage, "input.json"),
		"24-anthropic-advisor-iterations":        one(meter.ClaudeTranscript),
		"25-gemini-thoughts-outside-candidates":  one(meter.GeminiUsage, "input.json"),
		"27-gemini-cli-stats-hide-thoughts":      one(meter.GeminiCLI),
		"28-xai-reasoning-outside-completion":    each(meter.CompatibleUsage, "input.json", "input-inclusive.json"),
		"29-codex-turn-completed-cumulative":     one(meter.CodexExec, "turn1.jsonl", "turn2-resume.jsonl"),
		"30-codex-rollout-reemitted-token-count": one(meter.CodexRollout),
		"32-codex-reconnect-error-not-fatal":     each(meter.CodexExec, "input.jsonl", "fatal.jsonl"),
		"34-non-json-lines-on-stdout":            one(meter.CodexExec),
		"35-opencode-step-finish-sum":            one(meter.OpenCode),
		"37-openai-stream-usage-last-chunk":      each(meter.ChatSSE, "complete.sse", "aborted.sse"),
		"39-same-completion-booked-twice":        one(meter.UsageEvents),
		"41-haiku-5.5-threshold-per-request":     one(meter.AnthropicUsage),
		"43-usage-status-then-transcript":        nil, // TestStatusThenTranscript
	}
}

// read reads files with one reader.
func read(t *testing.T, b *book, source meter.Source, files ...string) meter.Report {
	t.Helper()
	r, err := meter.NewReader(source)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := r.Read(t.Context(), f, b.add); err != nil {
			t.Fatal(err)
		}
	}
	records, report := r.Close()
	if err := b.add(records); err != nil {
		t.Fatal(err)
	}
	return report
}

func TestCases(t *testing.T) {
	t.Parallel()
	folders, err := os.ReadDir(casesDir)
	if err != nil {
		t.Fatal(err)
	}
	all := usageCases()
	if len(folders) != len(all) {
		t.Errorf("%d folders, %d cases", len(folders), len(all))
	}
	for _, folder := range folders {
		parts, known := all[folder.Name()]
		if !known {
			t.Errorf("nothing reads %s", folder.Name())
		}
		want := expectations(t, folder.Name())
		for _, p := range parts {
			t.Run(folder.Name()+"/"+p.name, func(t *testing.T) {
				t.Parallel()
				var files []string
				for _, f := range p.files {
					files = append(files, filepath.Join(casesDir, folder.Name(), f))
				}
				b := newBook()
				report := read(t, b, p.source, files...)
				checkCase(t, want[p.name], b, report)
				t.Logf("%+v", report)
			})
		}
	}
}

func checkCase(t *testing.T, want expected, b *book, report meter.Report) {
	t.Helper()
	sum, provenance := b.sum()
	records := b.all()
	var buckets tokens
	raw := want.Tokens
	if want.ThreadTotal != nil {
		var total struct{ Tokens json.RawMessage }
		if err := json.Unmarshal(want.ThreadTotal, &total); err != nil {
			t.Fatal(err)
		}
		raw = total.Tokens
	}
	if len(raw) > 0 && raw[0] == '{' {
		if err := json.Unmarshal(raw, &buckets); err != nil {
			t.Fatal(err)
		}
		if sum != domain(buckets) {
			t.Errorf("tokens\n%+v, want\n%+v", sum, domain(buckets))
		}
	}
	if complete := provenance == run.Measured; want.Complete != nil && complete != *want.Complete || want.Complete == nil && !complete {
		t.Errorf("provenance %s; %v", provenance, report.Incomplete)
	}
	if len(want.LowerBound) > 0 && (!slices.Equal(want.LowerBound, []string{"output"}) || provenance == run.Measured || len(report.Incomplete) == 0) {
		t.Errorf("lower bound of %v, but %s and %v", want.LowerBound, provenance, report.Incomplete)
	}
	if want.Requests > 0 && len(records) != want.Requests {
		t.Errorf("%d requests, want %d: %+v", len(records), want.Requests, records)
	}
	if want.Turns > 0 && report.Turns != want.Turns {
		t.Errorf("%d turns, want %d", report.Turns, want.Turns)
	}
	if want.Events > 0 && report.Events != want.Events || report.Skipped != want.Skipped || report.Warnings != want.Warnings {
		if want.Error == "" {
			t.Errorf("%d events, %d skipped, %d warnings, want %d, %d, %d", report.Events, report.Skipped, report.Warnings, want.Events, want.Skipped, want.Warnings)
		}
	}
	if report.Failed != want.Error {
		t.Errorf("failed with %q, want %q", report.Failed, want.Error)
	}
	for i, d := range want.TurnDeltas {
		if i >= len(records) || records[i].Tokens != domain(d) {
			t.Errorf("turn %d is not %+v: %+v", i+1, d, records)
		}
	}
	checkMoney(t, want, records)
}

func checkMoney(t *testing.T, want expected, records []run.UsageRecord) {
	t.Helper()
	cost := want.Cost
	if cost == "" {
		cost = want.RunCost
	}
	if cost == "" {
		return
	}
	sum := new(big.Rat)
	byModel := map[string]*big.Rat{}
	perModel := map[string]run.Tokens{}
	for _, u := range records {
		c := price(t, want.Rates, u)
		sum.Add(sum, c)
		if byModel[u.Model] == nil {
			byModel[u.Model] = new(big.Rat)
		}
		byModel[u.Model].Add(byModel[u.Model], c)
		perModel[u.Model] = perModel[u.Model].Add(u.Tokens)
		if reported := want.CostSource == "agent_reported"; reported && (u.CostSource != run.AgentReported) {
			t.Errorf("the cost of %s is from %q", u.RequestKey, u.CostSource)
		}
	}
	equal := func(what string, got *big.Rat, want string) {
		w, ok := new(big.Rat).SetString(want)
		if !ok || got == nil || got.Cmp(w) != 0 {
			t.Errorf("%s costs %v, want %s", what, got, want)
		}
	}
	equal("all", sum, cost)
	for m, w := range want.ByModel {
		equal(m, byModel[m], w.Cost)
		if perModel[m] != domain(w.Tokens) {
			t.Errorf("%s: %+v, want %+v", m, perModel[m], w.Tokens)
		}
	}
	for i, w := range want.TurnCost {
		equal(fmt.Sprintf("turn %d", i+1), price(t, want.Rates, records[i]), w)
	}
	tiers := want.Tiers
	if want.Tier != "" {
		tiers = []string{want.Tier}
	}
	for i, tier := range tiers {
		limit, long := thousands(strings.TrimLeft(tier, "<=>")), strings.HasPrefix(tier, ">")
		if got := records[i].Tokens.Prompt() > int64(limit)*1000; got != long {
			t.Errorf("request %d has a prompt of %d, want %s", i+1, records[i].Tokens.Prompt(), tier)
		}
	}
}

// An answer that broke off is neither exact nor nothing.
func TestAbortedAnswerIsEstimated(t *testing.T) {
	t.Parallel()
	b := newBook()
	report := read(t, b, meter.Source{Format: meter.ChatSSE, Prompt: "Say hello to them."}, filepath.Join(casesDir, "37-openai-stream-usage-last-chunk/aborted.sse"))
	records := b.all()
	if len(records) != 1 || records[0].Tokens != (run.Tokens{Input: 5, Output: 2}) || records[0].Provenance != run.Estimated ||
		records[0].Model != "gpt-4o" || records[0].Rank != run.FromEstimate || report.Ended {
		t.Errorf("got %+v, %+v", records, report)
	}
}

// Polls of one start of a service merge; its transcript takes their place.
func TestStatusThenTranscript(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(casesDir, "43-usage-status-then-transcript")
	b := newBook()
	after := func(what string, want run.Tokens) {
		t.Helper()
		if sum, p := b.sum(); sum != want || p != run.Measured {
			t.Errorf("%s: %+v %s, want %+v", what, sum, p, want)
		}
	}
	status := meter.Source{Format: meter.UsageStatus, Stream: "start-1", Model: "claude-opus-5-5"}
	polled := run.Tokens{Input: 120, CacheRead: 5000, CacheWriteShort: 800, Output: 300}
	read(t, b, status, filepath.Join(dir, "usage-status-1.json"))
	after("the first poll", polled)
	read(t, b, status, filepath.Join(dir, "usage-status-2.json"))
	after("the second poll", polled)
	read(t, b, meter.Source{Format: meter.ClaudeTranscript, Stream: "start-1"}, filepath.Join(dir, "transcript.jsonl"))
	after("the transcript", run.Tokens{Input: 140, CacheRead: 8900, CacheWriteShort: 800, Output: 390})
}
