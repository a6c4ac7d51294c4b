package pricebook

import (
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

const litellm = `{
  "sample_spec": {"input_cost_per_token": "a price", "litellm_provider": "one of ..."},
  "claude-opus-5-5": {"litellm_provider": "anthropic", "mode": "chat", "max_tokens": 64000,
    "input_cost_per_token": 4.0000000000000003e-06, "output_cost_per_token": 2e-05,
    "cache_read_input_token_cost": 2e-07, "cache_creation_input_token_cost": 5e-06, "cache_creation_input_token_cost_above_1hr": 8e-06,
    "input_cost_per_token_above_200k_tokens": 8e-06, "cache_creation_input_token_cost_above_1hr_above_200k_tokens": 1.6e-05,
    "provider_specific_entry": {"us": 1.1, "fast": 2},
    "search_context_cost_per_query": {"search_context_size_low": 0.01, "search_context_size_medium": 0.01, "search_context_size_high": 0.01},
    "supports_vision": true, "new_key": {"deep": [1]}},
  "gpt-9": {"litellm_provider": "openai", "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-05,
    "input_cost_per_token_priority": 2e-06, "output_cost_per_token_priority": 2e-05, "input_cost_per_token_flex": 5e-07,
    "input_cost_per_token_batches": 5e-07, "output_cost_per_token_batches": 5e-06, "output_cost_per_reasoning_token": 2e-05,
    "search_context_cost_per_query": {"search_context_size_low": 0.01, "search_context_size_high": 0.02}},
  "azure/gpt-9": {"litellm_provider": "azure", "input_cost_per_token": 3e-06, "output_cost_per_token": 1e-05},
  "gemini/gemini-9": {"litellm_provider": "gemini", "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-05,
    "input_cost_per_token_above_128k_tokens": 2e-06, "input_cost_per_token_above_512k_tokens": 4e-06},
  "xai/grok-9": {"litellm_provider": "xai", "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-05, "input_cost_per_token_above_200k_tokens": 2e-06},
  "qwen-9": {"litellm_provider": "dashscope", "tiered_pricing": [
    {"range": [0, 1000.0], "input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06},
    {"range": [1000.0, 9000.0], "input_cost_per_token": 3e-06, "output_cost_per_token": 4e-06}]},
  "deepseek/deepseek-9": {"litellm_provider": "deepseek", "input_cost_per_token": 2e-06, "output_cost_per_token": 2e-06,
    "off_peak_pricing": {"hours_utc": "16:30-00:30", "windows": [{"hours_utc": ["02:00-03:00"], "weekdays": [6, "Sunday"]}], "input_cost_per_token": 1e-06}},
  "deepseek-9": {"litellm_provider": "deepseek", "input_cost_per_token": 9e-06, "output_cost_per_token": 2e-06},
  "elsewhere": {"litellm_provider": "deepseek", "input_cost_per_token": 9e-06, "output_cost_per_token": 2e-06,
    "off_peak_pricing": {"hours_utc": "16:30-00:30", "weekday_timezone": "Asia/Shanghai"}},
  "free": {"litellm_provider": "openrouter", "input_cost_per_token": 0, "output_cost_per_token": 0.0},
  "dall-e-9": {"litellm_provider": "openai", "input_cost_per_pixel": 1e-08, "output_cost_per_token": null}
}`

func TestLiteLLM(t *testing.T) {
	t.Parallel()
	b, err := Read("model_prices_and_context_window.json", []byte(litellm))
	if err != nil {
		t.Fatal(err)
	}
	// By its content alone, too.
	if _, err := Read("prices.yaml", []byte(litellm)); err != nil {
		t.Errorf("under another name: %v", err)
	}
	const m = 1_000_000
	monday, sunday := "2026-11-30T02:30:00Z", "2026-11-29T02:30:00Z"
	for _, c := range []struct {
		provider, model, tier, at string
		tokens                    run.Tokens
		want                      string
	}{
		{"", "claude-opus-5-5", "", monday, run.Tokens{Input: 100_000}, "0.4"},
		{"", "claude-opus-5-5", "", monday, run.Tokens{Input: m, Output: m}, "28"}, // output as before
		{"", "claude-opus-5-5", "", monday, run.Tokens{CacheWriteLong: m}, "16"},
		{"", "claude-opus-5-5", "", monday, run.Tokens{CacheWriteShort: m}, "5"},
		{"", "claude-opus-5-5", "fast", monday, run.Tokens{Input: 100_000}, "0.8"},
		{"", "claude-opus-5-5", "us", monday, run.Tokens{Input: 100_000}, "null"},
		{"", "claude-opus-5-5", "", "2026-01-01T00:00:00Z", run.Tokens{Input: 100_000}, "0.4"}, // it has no dates
		{"", "opus", "", monday, run.Tokens{Input: 100_000}, "0.4"},                            // the shipped alias
		{"", "claude-opus-4-8", "", monday, run.Tokens{Input: m}, "5"},                         // shipped
		{"", "gpt-9", "", monday, run.Tokens{Output: m, Reasoning: m / 2}, "15"},
		{"", "gpt-9", "priority", monday, run.Tokens{Input: m, Output: m}, "22"},
		{"", "gpt-9", "flex", monday, run.Tokens{Input: m, Output: m}, "10.5"},
		{"", "gpt-9", "batch", monday, run.Tokens{Input: m, Output: m}, "5.5"},
		{"azure", "gpt-9", "", monday, run.Tokens{Input: m}, "3"},
		{"", "azure/gpt-9", "", monday, run.Tokens{Input: m}, "3"},
		{"google", "gemini-9", "", monday, run.Tokens{Input: 128_000}, "0.128"},
		{"google", "gemini-9", "", monday, run.Tokens{Input: 128_001}, "0.256002"},
		{"google", "gemini-9", "", monday, run.Tokens{Input: m}, "4"},
		{"", "grok-9", "", monday, run.Tokens{Input: 200_000}, "0.4"},
		{"", "qwen-9", "", monday, run.Tokens{Input: 1000, Output: 1}, "0.001002"},
		{"", "qwen-9", "", monday, run.Tokens{Input: 1001, Output: 1}, "0.003007"},
		{"", "deepseek-9", "", monday, run.Tokens{Input: m}, "2"},
		{"", "deepseek-9", "", sunday, run.Tokens{Input: m, Output: m}, "3"},
		{"", "deepseek-9", "", "2026-11-30T00:29:59Z", run.Tokens{Input: m}, "1"},
		{"", "deepseek-9", "", "2026-11-30T00:30:00Z", run.Tokens{Input: m}, "2"},
		{"", "deepseek-9", "", "2026-11-30T16:30:00Z", run.Tokens{Input: m}, "1"},
		{"", "elsewhere", "", monday, run.Tokens{Input: m}, "null"},
		{"", "free", "", monday, run.Tokens{Input: m}, "0"},
		{"", "dall-e-9", "", monday, run.Tokens{Input: m}, "null"},
		{"", "sample_spec", "", monday, run.Tokens{Input: m}, "null"},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		u := run.UsageRecord{Provider: c.provider, Model: c.model, Tier: c.tier, At: at, Tokens: c.tokens}
		if got := usd(t, b, u); got != c.want {
			t.Errorf("%s %s %s %+v at %s: %s, want %s", c.provider, c.model, c.tier, c.tokens, c.at, got, c.want)
		}
	}
	search := run.UsageRecord{Model: "claude-opus-5-5", ToolCalls: map[string]int64{"web_search": 1}}
	if got := usd(t, b, search); got != "0.01" {
		t.Errorf("a search costs %s", got)
	}
	if search.Model = "gpt-9"; usd(t, b, search) != "null" {
		t.Error("a search whose price depends on its size has a price")
	}
	if notes := b.Summary().Notes; len(notes) != 3 {
		t.Errorf("left out: %q", notes)
	}
}

func TestLiteLLMFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"Negative":  {"{\n \"m\": {\"litellm_provider\": \"p\",\n  \"input_cost_per_token\": -1e-6, \"output_cost_per_token\": 1}}", "x.json:3:27: input_cost_per_token -1e-6: a price is not negative"},
		"Text":      {`{"m": {"litellm_provider": "p", "input_cost_per_token": "cheap", "output_cost_per_token": 1}}`, `x.json:1:57: input_cost_per_token "cheap" is not a number`},
		"Exponent":  {`{"m": {"litellm_provider": "p", "input_cost_per_token": 1e-999999999, "output_cost_per_token": 1}}`, "is not a number"},
		"TooFine":   {`{"m": {"litellm_provider": "p", "input_cost_per_token": 1e-20, "output_cost_per_token": 1}}`, "finer than 1e-12 USD"},
		"TooLarge":  {`{"m": {"litellm_provider": "p", "input_cost_per_token": 1e9, "output_cost_per_token": 1}}`, "too large to be a price"},
		"Provider":  {`{"m": {"litellm_provider": 7, "input_cost_per_token": 1e-6, "output_cost_per_token": 1}}`, `litellm_provider of "m" is not a text`},
		"NoObject":  {`{"m": 7}`, `x.json:1:7: "m": it is not an object`},
		"NoPrices":  {`{"name": {"a": 1}}`, "no model in it has a price per token"},
		"Syntax":    {"{\"m\": {\"a\": 1,}}", "x.json:1:"},
		"Cut":       {`{"m": {"a": 1}, `, "x.json"},
		"NotAtAll":  {`hello`, "x.json:1:1: the file is not valid JSON"},
		"OtherKind": {`[1]`, "x.json: the file is not valid JSON: it is not an object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := faultsOf(t, "x.json", c.text)
			if len(got) != 1 {
				t.Errorf("%d faults: %q", len(got), got)
			}
			contains(t, got[0], c.want)
		})
	}
}
