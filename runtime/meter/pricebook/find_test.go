package pricebook

import (
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

func TestFind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ provider, model, at, want string }{
		{"", "claude-sonnet-5", "2026-11-20", "anthropic/claude-sonnet-5"},
		{"", "claude-sonnet-5-5", "2026-11-20", "anthropic/claude-sonnet-5-5"},
		{"", "claude-sonnet-5-6", "2026-11-20", ""}, // a point release has a price of its own
		{"", "claude-sonnet", "2026-11-20", ""},
		{"", "claude-sonnet-5-5-fast", "2026-11-20", ""},
		{"", "gpt-5", "2026-11-20", "openai/gpt-5"},
		{"", "gpt-5-mini", "2026-11-20", "openai/gpt-5-mini"},
		{"", "gpt-5-max", "2026-11-20", ""},
		{"", "GPT-5", "2026-11-20", ""},
		{"", "", "2026-11-20", ""},
		{"", "*", "2026-11-20", ""},

		{"", "claude-sonnet-4-5-20250929", "2026-11-20", "anthropic/claude-sonnet-4-5"},
		{"", "claude-sonnet-4-5@20250929", "2026-11-20", "anthropic/claude-sonnet-4-5"},
		{"", "gpt-5-2025-08-07", "2026-11-20", "openai/gpt-5"},
		{"", "gpt-5-mini-2025-08-07", "2026-11-20", "openai/gpt-5-mini"},
		{"", "gpt-5-2025-13-07", "2026-11-20", ""},
		{"", "gpt-5-20250832", "2026-11-20", ""},
		{"", "gpt-5-2025-08-07-preview", "2026-11-20", ""},
		{"", "claude-opus-4-20250514", "2026-11-20", "anthropic/claude-opus-4-0"},
		{"", "claude-opus-4", "2026-11-20", ""},

		{"", "anthropic/claude-opus-5", "2026-11-20", "anthropic/claude-opus-5"},
		{"", "anthropic/claude-opus-5-20260801", "2026-11-20", "anthropic/claude-opus-5"},
		{"", "x-ai/grok-4.7", "2026-11-20", "xai/grok-4.7"},
		{"", "models/gemini-2.5-pro", "2026-11-20", "google/gemini-2.5-pro"},
		{"", "gemini/gemini-2.5-pro", "2026-11-20", "google/gemini-2.5-pro"},
		{"", "openai/claude-opus-5", "2026-11-20", ""},
		{"", "reseller/claude-opus-5", "2026-11-20", ""},
		{"", "us.anthropic.claude-opus-5-v1:0", "2026-11-20", ""}, // no such price is known
		{"", "claude-opus-4-6[1m]", "2026-11-20", "anthropic/claude-opus-4-6"},
		{"", "sonnet[1m]", "2026-11-20", "anthropic/claude-sonnet-5-5"},

		{"anthropic", "claude-opus-5", "2026-11-20", "anthropic/claude-opus-5"},
		{"gemini", "gemini-2.5-pro", "2026-11-20", "google/gemini-2.5-pro"},
		{"openai", "claude-opus-5", "2026-11-20", ""},
		{"bedrock", "claude-opus-5", "2026-11-20", ""},
		{"openrouter", "anthropic/claude-opus-5", "2026-11-20", ""},
		{"openai", "openai/gpt-5", "2026-11-20", "openai/gpt-5"},

		{"", "opus", "2026-09-21", ""}, // which one it was is not known
		{"", "opus", "2026-09-22", "anthropic/claude-opus-5-5"},
		{"", "sonnet", "2026-09-27", "anthropic/claude-sonnet-5"},
		{"", "sonnet", "2026-09-28", "anthropic/claude-sonnet-5-5"},
		{"anthropic", "haiku", "2026-09-30", "anthropic/claude-haiku-4-5"},
		{"anthropic", "haiku", "2026-10-01", "anthropic/claude-haiku-5-5"},
		{"openai", "haiku", "2026-10-01", ""},
		{"", "sonnet-20251001", "2026-11-20", ""},

		{"ollama", "llama4:70b", "2026-11-20", "ollama/*"},
		{"", "ollama/llama4:70b", "2026-11-20", "ollama/*"},
		{"", "local/my-model", "2026-11-20", "local/*"},
		{"vllm", "glm-5.2", "2026-11-20", "vllm/*"},
		{"vllm", "", "2026-11-20", "vllm/*"},
		{"lmstudio", "x", "2026-11-20", "lmstudio/*"},
		{"llamacpp", "x", "2026-11-20", "llamacpp/*"},
		{"", "locally/x", "2026-11-20", ""},

		{"", "claude-mythos-5-2", "2026-11-20", ""}, // exists, without a known price
		{"", "claude-opus-5-5", "2026-09-21", ""},   // before its first price
	} {
		got := ""
		if r := ship(t).Find(run.UsageRecord{Kind: run.ModelCall, Provider: c.provider, Model: c.model, At: day(t, c.at)}); r != nil {
			got = r.Key()
		}
		if got != c.want {
			t.Errorf("%q %q on %s: %q, want %q", c.provider, c.model, c.at, got, c.want)
		}
	}
}

const own = `
providers:
  anthropic:
    prefixes: [us.anthropic.]
    suffixes: ["-v1:0"]
  bedrock: {}
models:
  - {provider: anthropic, model: claude-opus-5, rates: {input: 1, output: 2}}
  - {provider: bedrock, model: claude-opus-5-5, rates: {input: 4.4, output: 22}}
  - {provider: acme, model: m-1, aliases: [sonnet, m], rates: {input: 3, output: 3}}
  - {provider: other, model: m-1, rates: {input: 3, output: 3}, to: 2026-11-30}
  - {provider: other, model: m-1, rates: {input: 4, output: 4}, from: 2026-12-01}
  - {provider: ollama, model: big, rates: {input: 9, output: 9}}
`

// The operator's rows take the place of the shipped ones of the same model.
func TestTheOperatorsFile(t *testing.T) {
	t.Parallel()
	b, err := Read("own.yaml", []byte(own))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ provider, model, at, want string }{
		{"", "claude-opus-5", "2026-11-20", "1"},
		{"", "us.anthropic.claude-opus-5-v1:0", "2026-11-20", "1"},
		{"", "us.anthropic.claude-opus-5-20260801-v1:0", "2026-11-20", "1"},
		{"", "claude-opus-4-8", "2026-11-20", "5"},    // shipped
		{"", "claude-opus-5-5", "2026-11-20", "null"}, // two sellers, two prices
		{"bedrock", "claude-opus-5-5", "2026-11-20", "4.4"},
		{"anthropic", "claude-opus-5-5", "2026-11-20", "4"},
		{"", "anthropic/claude-opus-5-5", "2026-11-20", "4"},
		{"", "m-1", "2026-11-30", "3"}, // two sellers, one price
		{"", "m-1", "2026-12-01", "null"},
		{"", "m", "2026-12-01", "3"},
		{"", "sonnet", "2026-11-20", "3"}, // the operator's alias wins
		{"", "opus", "2026-11-20", "4"},
		{"ollama", "big", "2026-11-20", "9"}, // dearer than the other models of it
		{"ollama", "small", "2026-11-20", "0"},
	} {
		u := run.UsageRecord{Provider: c.provider, Model: c.model, At: day(t, c.at), Tokens: run.Tokens{Input: 1_000_000}}
		if got := usd(t, b, u); got != c.want {
			t.Errorf("%q %q on %s: %s, want %s", c.provider, c.model, c.at, got, c.want)
		}
	}
}

func TestIDsTellContentsApart(t *testing.T) {
	t.Parallel()
	row := func(text string) *Row { return book(t, text).Rows()[0] }
	a := row("models: [{provider: p, model: m, from: 2026-09-22, rates: {input: 1, output: 2}, note: one}]")
	same := row("models: [{provider: p, model: m, note: two, from: 2026-09-22, rates: {output: 2.0, input: 1.00}}]")
	other := row("models: [{provider: p, model: m, from: 2026-09-22, rates: {input: 1, output: 2.1}}]")
	if a.ID() != same.ID() || a.ID() == other.ID() {
		t.Errorf("ids: %s, %s, %s", a.ID(), same.ID(), other.ID())
	}
	contains(t, a.ID(), "p/m@2026-09-22#")
	ids := map[string]bool{}
	for _, r := range ship(t).Rows() {
		if ids[r.ID()] {
			t.Errorf("%s is there twice", r.ID())
		}
		ids[r.ID()] = true
	}
}

// What stands under a provider holds for its rows that do not say otherwise.
func TestProvidersFillIn(t *testing.T) {
	t.Parallel()
	b := book(t, `
providers:
  p: {source: a list, date: 2026-11, tools: {search: 1, look: 2}, tiers: {batch: {factor: 0.5}, fast: {factor: 2}}}
models:
  - {provider: p, model: plain, rates: {input: 1, output: 1}}
  - {provider: p, model: own, rates: {input: 1, output: 1}, source: a letter, date: 2026-12, tools: {search: 5}, tiers: {batch: {factor: 0.25}}}
`)
	for _, c := range []struct{ model, source, date, batch, fast, search, look string }{
		{"plain", "a list", "2026-11", "0.5", "2", "1", "2"},
		{"own", "a letter", "2026-12", "0.25", "2", "5", "2"},
	} {
		r := b.Of(c.model, day(t, "2026-11-20"))[0]
		if r.Source != c.source || r.SourceDate != c.date {
			t.Errorf("%s is from %q of %q", c.model, r.Source, r.SourceDate)
		}
		for _, p := range []struct {
			tier, tool, want string
		}{{"batch", "", c.batch}, {"fast", "", c.fast}, {"", "search", c.search}, {"", "look", c.look}} {
			u := run.UsageRecord{Model: c.model, Tier: p.tier}
			if p.tool == "" {
				u.Tokens.Input = 1_000_000
			} else {
				u.ToolCalls = map[string]int64{p.tool: 1}
			}
			if got := usd(t, b, u); got != p.want {
				t.Errorf("%s %s%s: %s, want %s", c.model, p.tier, p.tool, got, p.want)
			}
		}
	}
}
