package agent_test

import (
	"fmt"
	"strings"
	"testing"
)

// Every key that takes a whole number refuses what another reader could take for
// something else, with its line, its value and how it is written.
func TestWholeNumbers(t *testing.T) {
	t.Parallel()
	const head = "name: x\ndriver: "
	for key, text := range map[string]string{ // %s is in line 5
		"tokens":          head + "script\nbudget:\n  run:\n    tokens: %s\n",
		"memoryMiB":       head + "script\nsandbox:\n  cpus: 1.5\n  memoryMiB: %s\n",
		"pids":            head + "script\nsandbox:\n  cpus: 1.5\n  pids: %s\n",
		"diskMiB":         head + "script\nsandbox:\n  cpus: 1.5\n  diskMiB: %s\n",
		"maxOutputBytes":  head + "script\nsandbox:\n  cpus: 1.5\n  maxOutputBytes: %s\n",
		"port":            head + "service\nservice:\n  usagePath: /1.5\n  port: %s\n",
		"maxCrashes":      head + "service\nservice:\n  usagePath: /1.5\n  maxCrashes: %s\n",
		"input":           head + "replay\nturns:\n  - thought: \"1.5\"\n  - usage: {input: %s}\n",
		"cacheRead":       head + "replay\nturns:\n  - thought: \"1.5\"\n  - usage: {cacheRead: %s}\n",
		"cacheWriteShort": head + "replay\nturns:\n  - thought: \"1.5\"\n  - usage: {cacheWriteShort: %s}\n",
		"cacheWriteLong":  head + "replay\nturns:\n  - thought: \"1.5\"\n  - usage: {cacheWriteLong: %s}\n",
		"output":          head + "replay\nturns:\n  - thought: \"1.5\"\n  - usage: {output: %s}\n",
		"reasoning":       head + "replay\nturns:\n  - thought: \"1.5\"\n  - usage: {reasoning: %s}\n",
	} {
		for value, want := range map[string]string{
			"1.5": `"1.5" is not a whole number in decimal digits`, "1.0": `"1.0" is not`, "1e3": `"1e3" is not`, `"5"`: `"\"5\"" is not`,
			"0x10": `"0x10" is not`, "017": `"017" is not`, "1_000": `"1_000" is not`, "+5": `"+5" is not`, "soon": `"soon" is not`, ".inf": `".inf" is not`,
			"[1]": `"[1]" is not`, "99999999999999999999": "99999999999999999999 is out of range",
		} {
			s := load(t, map[string]string{"x.yaml": strings.Replace(text, "%s", value, 1)})
			if got := fmt.Sprint(s.Problems()); !strings.Contains(got, "x.yaml:5: "+key+": "+want) {
				t.Errorf("%s: %s: got %s", key, value, got)
			}
		}
	}
}

func TestNumbersOfBudgets(t *testing.T) {
	t.Parallel()
	for budget, want := range map[string]string{
		"tokens: -1":          "x.yaml:5: budget day: tokens is -1; it is above 0",
		"tokens: 0":           "x.yaml:5: budget day: tokens: a budget of 0 would end every run at once",
		"{usd: 5, tokens: 0}": "x.yaml:4: budget day: tokens: a budget of 0",
		"usd: 0":              "x.yaml:5: usd: a budget of 0 would end every run at once; leave it out for no limit",
		"usd: 0.0":            "x.yaml:5: usd: a budget of 0",
		"usd: -1":             "x.yaml:5: usd: -1 USD must be above 0",
		"usd: 1e3":            `x.yaml:5: usd: "1e3" is not a decimal number of USD`,
		"usd: 0x10":           `x.yaml:5: usd: "0x10" is not a decimal number of USD`,
		"usd: much":           `x.yaml:5: usd: "much" is not a decimal number of USD`,
		"usd: 0.0000000001":   "x.yaml:5: usd: 0.0000000001 USD must be",
		"action: ABORT":       "x.yaml:5: budget day: a budget needs usd or tokens",
		"tokens: 5":           "",
		"tokens: &n 5":        "",
		"&b {tokens: 1.5}":    `x.yaml:4: tokens: "1.5" is not a whole number`,
		"{<<: {tokens: 1.5}}": `x.yaml:4: tokens: "1.5" is not a whole number`,
		"tokens: *self":       "x.yaml:5",
		"usd: \"0.5\"":        "",
		"usd: 0.5 # a day":    "",
		"usd: '0.5'":          "",
		"{usd: 1, tokens: }":  "",
	} {
		text := "name: x\ndriver: script\nbudget:\n  day:\n    " + budget + "\n"
		if strings.Contains(budget, "{") {
			text = "name: x\ndriver: script\nbudget:\n  day: " + budget + "\n"
		}
		s := load(t, map[string]string{"x.yaml": text})
		var got []string
		for _, p := range s.Problems() {
			got = append(got, p.String())
		}
		if all := strings.Join(got, "\n"); want == "" && all != "" || !strings.Contains(all, want) {
			t.Errorf("%s: got %q, want %q", budget, all, want)
		}
	}
}

// A number that is written elsewhere is judged where it is used.
func TestNumbersOfAnchors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"role: &n 1e3\nbudget:\n  day: {tokens: *n}\n":                              `x.yaml:5: tokens: "1e3" is not a whole number`,
		"role: &n 5\nbudget:\n  day: {tokens: *n}\n":                                "[]",
		"budget:\n  run: &m {tokens: 0x10}\n  day:\n    <<: *m\n    action: WARN\n": `x.yaml:4: tokens: "0x10" is not a whole number`,
		"budget:\n  run: &m {tokens: 10}\n  day:\n    <<: *m\n    action: WARN\n":   "[]",
		"role: &a *b\nteam: &b *a\nbudget:\n  day: {tokens: *a}\n":                  "x.yaml",
		"turns: &t\n  - *t\n": "x.yaml",
		"turns: &t\n  - usage: {input: 1.5}\nservice: {maxCrashes: *t}\nport: 1.5\n": `x.yaml:4: input: "1.5" is not`,
	} {
		s := load(t, map[string]string{"x.yaml": "name: x\ndriver: script\n" + text})
		if got := fmt.Sprint(s.Problems()); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
