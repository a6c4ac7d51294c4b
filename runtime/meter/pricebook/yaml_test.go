package pricebook

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// faultsOf reads a file that must be wrong.
func faultsOf(t *testing.T, name, text string) []string {
	t.Helper()
	_, err := Read(name, []byte(text))
	var all Faults
	if !errors.As(err, &all) {
		t.Fatalf("no faults, but %v", err)
	}
	var lines []string
	for _, f := range all {
		lines = append(lines, f.String())
	}
	return lines
}

func TestEveryFaultIsNamed(t *testing.T) {
	t.Parallel()
	const rates = "rates: {input: 1, output: 2}"
	for name, c := range map[string]struct {
		text string
		want []string // of each fault, in order
	}{
		"UnknownSection": {"modells: []\n", []string{`p.yaml:1:1: a price file has no field "modells"; its fields are compute, models, providers`}},
		"UnknownField": {
			"models:\n  - provider: p\n    model: m\n    price: 3\n    rates: {input: 1, output: 2, cached: 3}\n",
			[]string{`p.yaml:4:5: a model has no field "price"; its fields are aliases, date, from`, `p.yaml:5:34: rates has no field "cached"; its fields are cacheRead`},
		},
		"Negative":     {"models: [{provider: p, model: m, rates: {input: -1, output: 2}}]", []string{`p.yaml:1:49: input "-1": a price is not negative`}},
		"NoNumber":     {"models: [{provider: p, model: m, rates: {input: $1, output: 1e3}}]", []string{`input "$1": it is not a decimal number such as 0.075`, `output "1e3"`}},
		"TooFine":      {"models: [{provider: p, model: m, rates: {input: 0.0000001, output: 2}}]", []string{"more than 6 decimal places"}},
		"TooLarge":     {"models: [{provider: p, model: m, rates: {input: 10000000000, output: 2}}]", []string{"too large to be a price"}},
		"BadDate":      {"models: [{provider: p, model: m, from: 22.9.2026, to: soon, " + rates + "}]", []string{`from "22.9.2026" is not a day such as 2026-09-22`, `to "soon"`}},
		"BadSource":    {"models: [{provider: p, model: m, date: 2026, " + rates + "}]", []string{`date "2026" is not a day such as 2026-09-22, nor a month`}},
		"EndFirst":     {"models: [{provider: p, model: m, from: 2026-09-22, to: 2026-09-21, " + rates + "}]", []string{"its end is before that"}},
		"NoRates":      {"models: [{provider: p, model: m}]", []string{"p/m has no rates; give input and output in USD per million tokens"}},
		"NoOutput":     {"models: [{provider: p, model: m, rates: {input: 1}}]", []string{"rates need input and output"}},
		"NoName":       {"models: [{model: m, " + rates + "}, {provider: p, " + rates + "}, {}]", []string{"needs provider and model", "needs provider and model", "needs provider and model"}},
		"LocalRates":   {"models: [{provider: p, model: m, local: true, " + rates + "}]", []string{"p/m is local, which means that it costs nothing, and has rates"}},
		"Star":         {"models: [{provider: p, model: '*', " + rates + "}]", []string{"set local: true under providers"}},
		"ZeroLength":   {"", []string{"p.yaml: the file is empty"}},
		"OnlyComment":  {"# nothing\n", []string{"p.yaml: the file is empty"}},
		"Text":         {"hello", []string{`p.yaml:1:1: a price file has names with values, as in name: value, not "hello"`}},
		"NoList":       {"models: {a: 1}", []string{"models is a list; begin each item with -, not a mapping"}},
		"NoMapping":    {"models: [a, [b]]", []string{`a model has names with values, as in name: value, not "a"`, "not a list"}},
		"TwoDocuments": {"models: []\n---\nmodels: []\n", []string{"more than one YAML document"}},
		"Syntax":       {"models: [{provider: p\n", []string{"p.yaml:1:"}},
		"Deep":         {strings.Repeat("[", 1_000_000), []string{"p.yaml: the file is nested too deeply"}},
		"DeepList":     {strings.Repeat("- ", 1_000_000), []string{"p.yaml: the file is nested too deeply"}},
		"Huge":         {strings.Repeat("#", 4<<20+1), []string{"p.yaml: the file is larger than 4 MiB"}},
		"Twice":        {"models: []\nmodels: []\n", []string{"p.yaml:2:1: "}},
		"Anchor":       {"models:\n  - &a {provider: p, model: m, " + rates + "}\n  - *a\n", []string{"anchors, aliases and << are not read here", "anchors, aliases and <<"}},
		"Overlap": {
			"models:\n  - {provider: p, model: m, to: 2026-09-22, " + rates + "}\n  - {provider: p, model: m, from: 2026-09-22, " + rates + "}\n",
			[]string{"p.yaml:3:6: p/m has a price for the same time in line 2; end one with to"},
		},
		"OverlapOpen":    {"models:\n  - {provider: p, model: m, from: 2026-09-22, " + rates + "}\n  - {provider: p, model: m, " + rates + "}\n", []string{"p.yaml:2:6: p/m has a price for the same time in line 3"}},
		"OverlapCompute": {"compute:\n  - {backend: b, usdPerHour: 1}\n  - {backend: b, usdPerHour: 2}\n", []string{"p.yaml:3:6: compute/b has a price for the same time in line 2"}},
		"AliasTwice": {
			"models:\n  - {provider: p, model: m, aliases: [a], " + rates + "}\n  - {provider: p, model: n, aliases: [{name: a, from: 2026-09-22}], " + rates + "}\n",
			[]string{`p.yaml:3:40: the alias "a" means p/m at the same time (line 2); give both from and to`},
		},
		"AliasIsModel":   {"models:\n  - {provider: p, model: m, aliases: [n], " + rates + "}\n  - {provider: p, model: n, " + rates + "}\n", []string{`the alias "n" is the id of a model, too`}},
		"AliasNoName":    {"models: [{provider: p, model: m, aliases: [{from: 2026-09-22}], " + rates + "}]", []string{"an alias of p/m has no name"}},
		"LongDown":       {"models: [{provider: p, model: m, " + rates + ", long: [{above: 5, " + rates + "}, {above: 5, " + rates + "}]}]", []string{"the steps of long go up, but 5 follows 5"}},
		"LongNoRates":    {"models: [{provider: p, model: m, " + rates + ", long: [{above: 5}]}]", []string{"a step of long needs above", "must name the same rates"}},
		"LongLacksRate":  {"models: [{provider: p, model: m, rates: {input: 1, output: 2, cacheRead: 1}, long: [{above: 5, " + rates + "}]}]", []string{"rates, long and windows must name the same rates, but cacheRead is not in all of them"}},
		"LongNoNumber":   {"models: [{provider: p, model: m, " + rates + ", long: [{above: 200k, inclusive: 1, " + rates + "}]}]", []string{`above "200k" is not a number of tokens`, `inclusive is true or false, not "1"`}},
		"WindowAlways":   {"models: [{provider: p, model: m, " + rates + ", windows: [{" + rates + "}]}]", []string{"a window needs hours or weekdays"}},
		"WindowHours":    {"models: [{provider: p, model: m, " + rates + ", windows: [{hours: ['22:00-02:00', '1-2', '24:00-25:00'], weekdays: [mo], " + rates + "}]}]", []string{"it ends before it begins; write two", "not a time of day", "not a time of day", `the weekday "mo" is not one of`}},
		"WindowsOverlap": {"models: [{provider: p, model: m, " + rates + ", windows: [{hours: ['01:00-04:00'], " + rates + "}, {hours: ['03:59-05:00'], weekdays: [mon], " + rates + "}]}]", []string{"overlaps the one before it"}},
		"WindowDay":      {"models: [{provider: p, model: m, " + rates + ", windows: [{weekdays: [mon], except: [today], " + rates + "}]}]", []string{`the day "today" of except is not a date`}},
		"TierBoth":       {"models: [{provider: p, model: m, " + rates + ", tiers: {batch: {factor: 0.5, " + rates + "}}}]", []string{`the tier "batch" has a factor and rates`}},
		"TierNone":       {"models: [{provider: p, model: m, " + rates + ", tiers: {batch: {}}}]", []string{`"batch" needs factor or rates`}},
		"TierStandard":   {"models: [{provider: p, model: m, " + rates + ", tiers: {standard: {factor: 1}}}]", []string{`the tier "standard" is the standard one`}},
		"FactorTooFine":  {"providers: {p: {tiers: {batch: {factor: 0.5}}}}\nmodels: [{provider: p, model: m, rates: {input: 0.000001, output: 1}}]", []string{"p.yaml:1:33: the factor cannot be used for p/m: 0.000001 times 0.5 is finer"}},
		"ComputeNone":    {"compute: [{backend: b}, {usdPerHour: 1}, {backend: b, usdPerHour: 1, usdPerSecond: 1}]", []string{"compute/b needs one of usdPerSecond, usdPerHour and local", "a compute row needs backend", "compute/b needs one of", "compute/b has a price for the same time"}},
		"ProviderTwice":  {"providers:\n  a: {names: [c]}\n  b: {names: [c]}\n", []string{`p.yaml:3:3: "c" stands for the providers a and b`}},
		"ToolPrice":      {"models: [{provider: p, model: m, " + rates + ", tools: {web_search: free}}]", []string{`web_search "free": it is not a decimal number`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := faultsOf(t, "p.yaml", c.text)
			for i, w := range c.want {
				at := slices.IndexFunc(got, func(g string) bool { return strings.Contains(g, w) })
				if at < 0 {
					t.Fatalf("fault %d: nothing says %q in\n%s", i, w, strings.Join(got, "\n"))
				}
				got = slices.Delete(got, at, at+1)
			}
			if len(got) > 0 {
				t.Errorf("too many faults:\n%s", strings.Join(got, "\n"))
			}
		})
	}
}

func TestAnErrorIsOneLine(t *testing.T) {
	t.Parallel()
	_, err := Read("p.yaml", []byte("a: 1\nb: 2\nc: 3\n"))
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v", err)
	}
	contains(t, err.Error(), "p.yaml:1:1: ", "(and 2 more: weir prices check p.yaml)")
}

// The same file, written in another style.
func TestStylesOfYAML(t *testing.T) {
	t.Parallel()
	block := book(t, "models:\n- provider: p\n  model: 'm'\n  from: 2026-09-22T16:00:00+02:00\n  rates:\n    input: 0.075\n    output: \"2.50\"\n  date: 2026-10\n")
	flow := book(t, `{"models": [{"provider": "p", "model": "m", "from": "2026-09-22T14:00:00Z", "rates": {"input": "0.075", "output": 2.5}, "date": "2026-10"}]}`)
	if a, b := block.Rows()[0].ID(), flow.Rows()[0].ID(); a != b {
		t.Errorf("%s and %s", a, b)
	}
	if _, err := Read("own.json", []byte(`{"models": [{"provider": "p", "model": "m", "rates": {"input": 1, "output": 2}}]}`)); err != nil {
		t.Errorf("the own format as JSON: %v", err)
	}
}

func TestDecimals(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"0": "0", "4": "4", "4.00": "4", "0.075": "0.075", "012.50": "12.5", "0.000001": "0.000001"} {
		n, err := decimal(in, 6)
		if err != nil || PerMillion(n) != want {
			t.Errorf("%s: %d %v", in, n, err)
		}
	}
	for _, in := range []string{"", ".5", "5.", "+1", "1,5", "0x1", "1_000", "NaN", "٣", " 1"} {
		if n, err := decimal(in, 6); err == nil {
			t.Errorf("%q is %d", in, n)
		}
	}
}

// Whatever the file holds, it is read or refused with faults that have a place.
func FuzzRead(f *testing.F) {
	f.Add(own, false)
	f.Add(limits, false)
	f.Add(litellm, true)
	f.Add("models: [{provider: p, model: m, aliases: [{name: a, from: 2026-09-22}], tiers: {a: {factor: 2}}}]", false)
	f.Add("a: &x [*x]\n<<: *x\n? !!t b\n: |\n  c\n", false)
	f.Add(`{"m": {"litellm_provider": "p", "input_cost_per_token": 1e-99999}}`, true)
	f.Fuzz(func(t *testing.T, text string, asJSON bool) {
		name := "f.yaml"
		if asJSON {
			name = "f.json"
		}
		b, err := Read(name, []byte(text))
		var all Faults
		switch {
		case err == nil:
			for _, r := range b.Rows() {
				if _, err := thaw(r.price); err != nil {
					t.Errorf("what was read cannot be read back: %v", err)
				}
			}
		case !errors.As(err, &all) || len(all) == 0:
			t.Errorf("refused without a fault: %v", err)
		}
	})
}
