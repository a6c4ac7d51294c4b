package pricebook

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// Sums that other programs are known to get wrong.
func TestKnownMistakes(t *testing.T) {
	t.Parallel()
	autumn := day(t, "2026-10-20")
	type call struct {
		model  string
		tokens run.Tokens
	}
	for name, c := range map[string]struct {
		calls []call
		want  string // of all
	}{
		"LongCacheWriteHasItsOwnRate": {[]call{{"claude-opus-4-8", run.Tokens{CacheWriteShort: 600_000, CacheWriteLong: 400_000}}}, "7.75"},
		"CacheWriteIsDearerThanInput": {[]call{{"claude-sonnet-4-5", run.Tokens{Input: 1000}}, {"claude-sonnet-4-5", run.Tokens{CacheWriteShort: 200_000}}}, "0.753"},
		"LongPromptRepricesTheWhole":  {[]call{{"gpt-5.6-sol", run.Tokens{Input: 270_000, CacheRead: 5000, CacheWriteShort: 3000, Output: 1000, Reasoning: 400}}}, "2.224"},
		"ThresholdIsPerRequest": {[]call{
			{"claude-haiku-5-5", run.Tokens{Input: 100_000, Output: 1}},
			{"claude-haiku-5-5", run.Tokens{Input: 100_001}},
		}, "0.0600010"},
		"CachedOnce":           {[]call{{"gpt-5.6-sol", run.Tokens{Input: 86, CacheRead: 17817, Output: 20}}}, "0.0078708"},
		"ReasoningIsOutput":    {[]call{{"gemini-2.5-pro", run.Tokens{Input: 7477, Output: 3999, Reasoning: 1939}}}, "0.04933625"},
		"ReasoningBeyondOther": {[]call{{"grok-4.20", run.Tokens{Input: 9992, CacheRead: 128, Output: 4308, Reasoning: 2809}}}, "0.0232856"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all int64
			for _, one := range c.calls {
				p, err := ship(t).Price(run.UsageRecord{Kind: run.ModelCall, Model: one.model, At: autumn, Tokens: one.tokens}, nil)
				if err != nil || p.NanoUSD == nil {
					t.Fatalf("%s: %v %v", one.model, p, err)
				}
				all += *p.NanoUSD
			}
			want, err := decimal(c.want, 9)
			if err != nil {
				t.Fatal(err)
			}
			if all != want {
				t.Errorf("got %s, want %s", text(all, 9), c.want)
			}
		})
	}
}

// A write of a million tokens at once is over the limit of 200,000.
func TestSonnetWritesInOneRequest(t *testing.T) {
	t.Parallel()
	flat := book(t, "models: [{provider: anthropic, model: claude-sonnet-4-5, rates: {input: 3, output: 15, cacheRead: 0.30, cacheWriteShort: 3.75, cacheWriteLong: 6}}]")
	u := run.UsageRecord{Model: "claude-sonnet-4-5", At: day(t, "2026-10-20"), Tokens: run.Tokens{Input: 1000, CacheWriteShort: 1_000_000}}
	if got := usd(t, flat, u); got != "3.753" {
		t.Errorf("flat: %s", got)
	}
	if got := usd(t, ship(t), u); got != "7.506" {
		t.Errorf("long: %s", got)
	}
}

// What is told of several requests at once says nothing of the length of each:
// the sum of their prompts makes none of them long.
func TestSumsAreNoLongPrompt(t *testing.T) {
	t.Parallel()
	u := run.UsageRecord{Model: "claude-haiku-5-5", At: day(t, "2026-10-20"), Tokens: run.Tokens{Input: 1_000_000, Output: 10_000}}
	if got := usd(t, ship(t), u); got != "0.525" {
		t.Errorf("one request: %s", got)
	}
	u.Summed = true
	if got := usd(t, ship(t), u); got != "0.105" {
		t.Errorf("several: %s", got)
	}
}

const limits = `
models:
  - {provider: p, model: over, rates: {input: 1, output: 1}, long: [{above: 100, rates: {input: 3, output: 3}}, {above: 200, rates: {input: 5, output: 5}}]}
  - {provider: p, model: from, rates: {input: 1, output: 1}, long: [{above: 100, inclusive: true, rates: {input: 3, output: 3}}]}
`

func TestLimitOfLongPrompts(t *testing.T) {
	t.Parallel()
	b := book(t, limits)
	for _, c := range []struct {
		model  string
		tokens run.Tokens
		want   string
	}{
		{"over", run.Tokens{Input: 100}, "0.0001"},
		{"over", run.Tokens{Input: 101}, "0.000303"},
		{"over", run.Tokens{Input: 98, CacheRead: 1, CacheWriteShort: 1, CacheWriteLong: 1}, "0.000303"},
		{"over", run.Tokens{Input: 100, Output: 900}, "0.001"},
		{"over", run.Tokens{Input: 200}, "0.0006"},
		{"over", run.Tokens{Input: 201, Output: 1}, "0.00101"},
		{"from", run.Tokens{Input: 99}, "0.000099"},
		{"from", run.Tokens{Input: 100}, "0.0003"},
	} {
		if got := usd(t, b, run.UsageRecord{Model: c.model, Tokens: c.tokens}); got != c.want {
			t.Errorf("%s %+v: %s, want %s", c.model, c.tokens, got, c.want)
		}
	}
}

// OpenAI's older models are long at exactly 272,000, the newer ones above it.
func TestExactlyAtTheShippedLimits(t *testing.T) {
	t.Parallel()
	at := day(t, "2026-11-20")
	for model, want := range map[string]string{
		"gpt-5.4": "1.36", "gpt-6-astra": "5.44", "gpt-6-sol": "0.544", "gpt-6-luna": "0.0272", "gpt-6.2-sol": "0.544",
	} {
		if got := usd(t, ship(t), run.UsageRecord{Model: model, At: at, Tokens: run.Tokens{Input: 272_000}}); got != want {
			t.Errorf("%s: %s, want %s", model, got, want)
		}
	}
	for tokens, want := range map[int64]string{199_999: "0.399998", 200_000: "0.8"} {
		if got := usd(t, ship(t), run.UsageRecord{Model: "grok-4.7", At: at, Tokens: run.Tokens{Input: tokens}}); got != want {
			t.Errorf("grok-4.7 with %d: %s, want %s", tokens, got, want)
		}
	}
}

func TestRatesThatAreNotNamed(t *testing.T) {
	t.Parallel()
	b := book(t, `
models:
  - {provider: p, model: none, rates: {input: 2, output: 8}}
  - {provider: p, model: short, rates: {input: 2, output: 8, cacheRead: 0.2, cacheWriteShort: 2.5}}
  - {provider: p, model: thinks, rates: {input: 2, output: 8, reasoning: 9}}
`)
	const m = 1_000_000
	for _, c := range []struct {
		model  string
		tokens run.Tokens
		want   string
	}{
		{"none", run.Tokens{CacheRead: m}, "2"},
		{"none", run.Tokens{CacheWriteShort: m}, "2"},
		{"none", run.Tokens{CacheWriteLong: m}, "2"},
		{"short", run.Tokens{CacheRead: m, CacheWriteShort: m}, "2.7"},
		{"short", run.Tokens{Input: m, CacheWriteLong: 1}, "null"},
		{"thinks", run.Tokens{Output: m, Reasoning: m / 2}, "8.5"},
		{"thinks", run.Tokens{Output: m, Reasoning: 9 * m}, "9"},
	} {
		if got := usd(t, b, run.UsageRecord{Model: c.model, Tokens: c.tokens}); got != c.want {
			t.Errorf("%s %+v: %s, want %s", c.model, c.tokens, got, c.want)
		}
	}
}

func TestTiersAndTools(t *testing.T) {
	t.Parallel()
	at := day(t, "2026-11-20")
	in := run.Tokens{Input: 1_000_000}
	for _, c := range []struct {
		model, tier string
		tools       map[string]int64
		want        string
	}{
		{"claude-opus-5-5", "", nil, "4"},
		{"claude-opus-5-5", "standard", nil, "4"},
		{"claude-opus-5-5", "batch", nil, "2"},
		{"claude-opus-5-5", "fast", nil, "8"},
		{"claude-opus-4-7", "fast", nil, "null"}, // has none
		{"claude-opus-5-5", "priority", nil, "null"},
		{"gpt-5", "flex", nil, "0.625"},
		{"gpt-5", "priority", nil, "2.5"},
		{"gemini-2.5-flash", "priority", nil, "0.54"},
		{"claude-opus-5-5", "", map[string]int64{"web_search": 3}, "4.03"},
		{"claude-opus-5-5", "batch", map[string]int64{"web_search": 3}, "2.03"}, // a call has no discount
		{"gpt-5", "", map[string]int64{"web_search": 1, "file_search": 2}, "1.265"},
		{"gemini-2.5-flash", "", map[string]int64{"grounding": 1000}, "14.3"},
		{"gpt-5", "", map[string]int64{"time_travel": 1}, "null"},
		{"gpt-5", "", map[string]int64{"time_travel": 0}, "1.25"},
	} {
		u := run.UsageRecord{Model: c.model, Tier: c.tier, ToolCalls: c.tools, At: at, Tokens: in}
		if got := usd(t, ship(t), u); got != c.want {
			t.Errorf("%s %s %v: %s, want %s", c.model, c.tier, c.tools, got, c.want)
		}
	}
	// A tier keeps the limit of long prompts.
	long := run.UsageRecord{Model: "gpt-6.2-sol", Tier: "batch", At: at, Tokens: run.Tokens{Input: 272_001}}
	if got := usd(t, ship(t), long); got != "0.544002" {
		t.Errorf("a long batch: %s", got)
	}
}

func TestPriceByTheTimeOfTheRequest(t *testing.T) {
	t.Parallel()
	b := ship(t)
	million := run.Tokens{Input: 1_000_000, CacheRead: 1_000_000}
	for _, c := range []struct{ model, at, want string }{
		{"deepseek-flash", "2026-11-30T00:59:59Z", "0.153"}, // a Monday
		{"deepseek-flash", "2026-11-30T01:00:00Z", "0.306"},
		{"deepseek-flash", "2026-11-30T03:59:59Z", "0.306"},
		{"deepseek-flash", "2026-11-30T04:00:00Z", "0.153"},
		{"deepseek-flash", "2026-11-30T09:30:00Z", "0.306"},
		{"deepseek-flash", "2026-11-30T12:30:00+03:00", "0.306"},
		{"deepseek-flash", "2026-11-29T02:00:00Z", "0.153"},   // a Sunday
		{"deepseek-flash", "2026-09-09T12:00:00Z", "null"},    // before its first price
		{"claude-sonnet-5-5", "2026-10-06T23:59:59Z", "2.2"},  // 2 + 0.2
		{"claude-sonnet-5-5", "2026-10-07T00:00:00Z", "2.1"},  // 2 + 0.1
		{"gemini-3.8-flash", "2026-12-31T23:59:59Z", "0.825"}, // half price
		{"gemini-3.8-flash", "2027-01-01T00:00:00Z", "1.65"},
		{"claude-sonnet-4-6", "2026-03-12T12:00:00Z", "6.6"}, // long, then flat
		{"claude-sonnet-4-6", "2026-03-13T12:00:00Z", "3.3"},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := usd(t, b, run.UsageRecord{Model: c.model, At: at, Tokens: million}); got != c.want {
			t.Errorf("%s at %s: %s, want %s", c.model, c.at, got, c.want)
		}
	}
	except := book(t, `
models:
  - provider: p
    model: m
    rates: {input: 1, output: 1}
    windows: [{hours: ["20:00-24:00"], except: [2026-10-01], rates: {input: 2, output: 2}}]
`)
	for at, want := range map[string]string{"2026-09-30T23:59:59Z": "2", "2026-10-01T23:00:00Z": "1", "2026-10-02T00:00:00Z": "1"} {
		when, _ := time.Parse(time.RFC3339, at)
		if got := usd(t, except, run.UsageRecord{Model: "m", At: when, Tokens: run.Tokens{Input: 1_000_000}}); got != want {
			t.Errorf("at %s: %s, want %s", at, got, want)
		}
	}
}

func TestCompute(t *testing.T) {
	t.Parallel()
	own, err := Read("own.yaml", []byte(`
compute:
  - {backend: modal, gpu: H100, usdPerHour: 3.95}
  - {backend: modal, usdPerSecond: 0.0000131}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		backend, gpu string
		micros       int64
		want         string
	}{
		{"local", "", 90_000_000, "0"},
		{"local", "RTX 4090", 90_000_000, "0"},
		{"docker", "", 1, "0"},
		{"modal", "", 10_000_000, "0.000131"},
		{"modal", "H100", 3_600_000_000, "3.95"},
		{"modal", "H100", 1, "0.000000001"}, // 1.097 nano-USD
		{"modal", "A100", 1, "null"},
		{"elsewhere", "", 1, "null"},
	} {
		u := run.UsageRecord{Kind: run.ComputeUsage, Backend: c.backend, GPU: c.gpu, ComputeMicros: c.micros}
		if got := usd(t, own, u); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.backend, c.gpu, got, c.want)
		}
	}
	if got := usd(t, ship(t), run.UsageRecord{Kind: run.ComputeUsage, Backend: "modal", ComputeMicros: 1}); got != "null" {
		t.Errorf("modal ships with the price %s", got)
	}
}

func TestWhatIsNotPriced(t *testing.T) {
	t.Parallel()
	u := run.UsageRecord{Run: "run_1", RequestKey: "msg_1", Kind: run.ModelCall, Model: "gpt-5", At: day(t, "2026-11-20"), Provenance: run.UnknownProvenance}
	if got := usd(t, ship(t), u); got != "null" {
		t.Errorf("without any knowledge: %s", got)
	}
	u.Provenance = run.Partial
	if got := usd(t, ship(t), u); got != "0" {
		t.Errorf("no tokens: %s", got)
	}
	u.Tokens.Input = -1
	_, err := ship(t).Price(u, nil)
	if err == nil {
		t.Fatal("a negative count is priced")
	}
	contains(t, err.Error(), "msg_1", "run_1", "-1")
}

func TestOverflowNamesTheRecord(t *testing.T) {
	t.Parallel()
	u := run.UsageRecord{Run: "run_1", RequestKey: "msg_1", Kind: run.ModelCall, Model: "gpt-5.4", At: day(t, "2026-11-20")}
	u.Tokens = run.Tokens{Input: math.MaxInt64, CacheRead: math.MaxInt64, CacheWriteShort: math.MaxInt64, Output: math.MaxInt64}
	p, err := ship(t).Price(u, nil)
	if err == nil {
		t.Fatalf("priced as %+v", p)
	}
	contains(t, err.Error(), "msg_1", "run_1", "openai/gpt-5.4")
	// The largest amount that fits.
	b := book(t, "models: [{provider: p, model: m, rates: {input: 1000000000, output: 1}}]")
	most := run.UsageRecord{Model: "m", Tokens: run.Tokens{Input: 9_223_372}}
	if got := usd(t, b, most); got != "9223372000" {
		t.Errorf("the most is %s", got)
	}
	most.Tokens.Input++
	most.Kind = run.ModelCall
	if p, err := b.Price(most, nil); err == nil {
		t.Errorf("more than the most is %d", *p.NanoUSD)
	}
}

func TestAPinnedRowStays(t *testing.T) {
	t.Parallel()
	old := book(t, "models: [{provider: p, model: m, rates: {input: 1, output: 2}}]")
	u := run.UsageRecord{Kind: run.ModelCall, Model: "m", Tokens: run.Tokens{Input: 1_000_000}}
	first, err := old.Price(u, nil)
	if err != nil {
		t.Fatal(err)
	}
	u.Tokens.Output = 1_000_000
	for name, later := range map[string]*Book{
		"Dearer": book(t, "models: [{provider: p, model: m, rates: {input: 10, output: 20}}]"),
		"Gone":   book(t, "compute: [{backend: x, local: true}]"),
	} {
		p, err := later.Price(u, first.Price)
		if err != nil || *p.NanoUSD != 3_000_000_000 || p.Price.ID != first.Price.ID {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	for name, body := range map[string]string{
		"NoJSON":       `{`,
		"OtherVersion": `{"version":2,"provider":"p","model":"m","rates":{"input":1,"output":1}}`,
		"NoRates":      `{"version":1,"provider":"p","model":"m","rates":{"input":1}}`,
		"Negative":     `{"version":1,"provider":"p","model":"m","rates":{"input":1,"output":-1}}`,
		"NoSubject":    `{"version":1}`,
		"OtherKind":    `{"version":1,"backend":"local","local":true,"rates":{}}`,
	} {
		if p, err := old.Price(u, &run.Price{ID: "p/m#0", Body: []byte(body)}); err == nil {
			t.Errorf("%s: priced as %+v", name, p)
		} else {
			contains(t, err.Error(), "p/m#0")
		}
	}
}

// Any record costs the exact sum, rounded once, and never less with more tokens.
func TestCostIsTheExactSum(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	b := ship(t)
	var rows []*Row
	for _, r := range b.Rows() {
		if !r.isCompute() && !r.Local {
			rows = append(rows, r)
		}
	}
	count := func() int64 { return rng.Int64N(1 << rng.IntN(40)) }
	for range 5_000 {
		r := rows[rng.IntN(len(rows))]
		u := run.UsageRecord{Kind: run.ModelCall, At: time.Unix(1_790_000_000+rng.Int64N(20_000_000), 0)}
		u.Tokens = run.Tokens{Input: count(), CacheRead: count(), CacheWriteShort: count(), Output: count()}
		got, known, err := r.cost(&u)
		if err != nil || !known {
			t.Fatalf("%s %+v: %v %v", r.ID(), u.Tokens, known, err)
		}
		if want := exact(r, &u); got != want {
			t.Fatalf("%s %+v: %d, want %d", r.ID(), u.Tokens, got, want)
		}
		more := u
		more.Tokens = u.Tokens.Add(run.Tokens{Input: count(), Output: count()})
		if dearer, _, err := r.cost(&more); err != nil || dearer < got {
			t.Fatalf("%s: %+v costs %d, %+v only %d, %v", r.ID(), u.Tokens, got, more.Tokens, dearer, err)
		}
	}
}

// exact is the sum in fractions of any size.
func exact(r *Row, u *run.UsageRecord) int64 {
	rates := r.Set.at(u.At, promptOf(u))
	total := new(big.Rat)
	add := func(n int64, rate *int64) {
		if rate == nil {
			rate = rates.Input
		}
		total.Add(total, new(big.Rat).Mul(big.NewRat(n, 1), big.NewRat(*rate, 1000)))
	}
	add(u.Tokens.Input, rates.Input)
	add(u.Tokens.CacheRead, rates.CacheRead)
	add(u.Tokens.CacheWriteShort, rates.CacheWriteShort)
	add(u.Tokens.Output, rates.Output)
	total.Add(total, big.NewRat(1, 2))
	return new(big.Int).Div(total.Num(), total.Denom()).Int64()
}

func TestRoundingIsHalfAwayFromZero(t *testing.T) {
	t.Parallel()
	b := book(t, "models: [{provider: p, model: m, rates: {input: 0.000001, output: 1}}]") // 1 pico-USD per token
	for tokens, want := range map[int64]string{499: "0", 500: "0.000000001", 1499: "0.000000001", 1500: "0.000000002"} {
		if got := usd(t, b, run.UsageRecord{Model: "m", Tokens: run.Tokens{Input: tokens}}); got != want {
			t.Errorf("%d pico-USD: %s, want %s", tokens, got, want)
		}
	}
}
