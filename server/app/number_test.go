package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/server/config"
)

// given parses a command line of serve.
func given(t *testing.T, env map[string]string, args ...string) (config.Serve, error) {
	t.Helper()
	line := new(commandLine)
	parser, err := newParser(line, func(k string) string { return env[k] }, new(text), new(text))
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(append([]string{"serve", "--data", t.TempDir()}, args...))
	return line.Serve.Serve, err
}

// Each budget has a flag, a variable and a line of the file, and arrives where
// it belongs.
func TestBudgetSettings(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"run-usd", "run-tokens", "session-usd", "session-tokens", "agent-day-usd", "agent-day-tokens", "day-usd", "day-tokens"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const value = "17"
			file := filepath.Join(t.TempDir(), "weir.yaml")
			if err := os.WriteFile(file, []byte("serve:\n  budget-"+name+": "+value+"\n  budget-action: warn\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			variable := "WEIR_BUDGET_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
			for way, c := range map[string]struct {
				env  map[string]string
				args []string
			}{
				"flag":     {nil, []string{"--budget-" + name, value, "--budget-action", "warn"}},
				"variable": {map[string]string{variable: value, "WEIR_BUDGET_ACTION": "warn"}, nil},
				"file":     {map[string]string{"WEIR_CONFIG_FILE": file}, nil},
			} {
				s, err := given(t, c.env, c.args...)
				if err == nil {
					err = s.Check(none)
				}
				if err != nil {
					t.Errorf("by %s: %v", way, err)
					continue
				}
				got := map[string]string{}
				for scope, b := range map[string]any{"run": s.Budget.Run, "session": s.Budget.Session, "agent-day": s.Budget.AgentDay, "day": s.Budget.Day} {
					if text := fmt.Sprintf("%+v", b); text != "<nil>" {
						got[scope] = text
					}
				}
				scope, kind := name[:strings.LastIndex(name, "-")], name[strings.LastIndex(name, "-")+1:]
				want := "&{USD:0 Tokens:17 Action:WARN}"
				if kind == "usd" {
					want = "&{USD:17 Tokens:0 Action:WARN}"
				}
				if len(got) != 1 || got[scope] != want {
					t.Errorf("by %s the budgets are %v, want %s %s", way, got, scope, want)
				}
			}
			for _, bad := range []string{"", "x", "0", "-1", "1e3", "0x10"} {
				s, err := given(t, nil, "--budget-"+name+"="+bad)
				if err == nil {
					err = s.Check(none)
				}
				if err == nil || !strings.Contains(err.Error(), "--budget-"+name) {
					t.Errorf("%q was taken (%v)", bad, err)
				}
			}
			if s, err := given(t, map[string]string{variable: ""}); err != nil || s.Check(none) != nil || s.Budget.Run != nil {
				t.Errorf("an empty variable: %v", err)
			}
		})
	}
}

// A number that is not one is refused by its flag, also from the file, and an
// empty value is not taken for none.
func TestNumbersOfFlags(t *testing.T) {
	t.Parallel()
	over, stop := context.WithCancelCause(t.Context())
	stop(nil) // what is taken ends at once
	env := map[string]string{"WEIR_DATA": t.TempDir(), "WEIR_LISTEN": "127.0.0.1:0"}
	for args, want := range map[string]string{
		"serve --concurrency=1.5":                             `--concurrency: "1.5" is not a whole number in decimal digits`,
		"serve --concurrency=1e1":                             `--concurrency: "1e1" is not`,
		"serve --concurrency=010":                             `--concurrency: "010" is not`,
		"serve --concurrency=0x10":                            `--concurrency: "0x10" is not`,
		"serve --concurrency=-1":                              "--concurrency -1 is not between",
		"serve --concurrency -1":                              "--concurrency -1 is not between",
		"serve --concurrency=":                                "--concurrency: the value is empty",
		"serve --budget-day-usd=":                             "--budget-day-usd: the value is empty; give a number, or leave the flag out",
		"serve --budget-day-tokens=":                          "--budget-day-tokens: the value is empty",
		"serve --budget-day-tokens=5000.5":                    `--budget-day-tokens: "5000.5" is not a whole number`,
		"serve --sandbox-max-pids=1.5":                        `--sandbox-max-pids: "1.5" is not`,
		"serve --sandbox-max-memory-mib=99999999999999999999": "99999999999999999999 is out of range",
		"serve --sandbox-max-seconds=":                        "--sandbox-max-seconds",
		"serve --stop-timeout=":                               "--stop-timeout",
		"run --budget-usd= true":                              "--budget-usd: the value is empty",
		"run --budget-usd=0 true":                             "--budget-usd: a budget of 0 would end every run at once",
		"run --budget-tokens= true":                           "--budget-tokens: the value is empty",
		"run --budget-tokens=0 true":                          "--budget-tokens: a budget of 0",
		"run --budget-tokens -5 true":                         "--budget-tokens -5 is not",
		"run --budget-tokens=1e6 true":                        `--budget-tokens: "1e6" is not a whole number`,
		"run --memory= true":                                  "--memory: the value is empty",
		"run --disk= true":                                    "--disk: the value is empty",
		"run --max-output= true":                              "--max-output: the value is empty",
		"run --timeout= true":                                 "--timeout: the value is empty",
		"run --cpus= true":                                    "--cpus: the value is empty",
		"run --pids= true":                                    "--pids: the value is empty",
		"run --pids=0x10 true":                                `--pids "0x10" is not`,
		"tail --after=1.5 run_x":                              `--after: "1.5" is not`,
		"runs --limit=2.0":                                    `--limit: "2.0" is not`,
	} {
		var out text
		if err := Run(over, strings.Split(args, " "), func(k string) string { return env[k] }, &out, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("weir %s: got %v, want %s", args, err, want)
		}
	}
	for lines, want := range map[string]string{
		"concurrency: 1.5":       `"1.5" is not a whole number`,
		"concurrency: 0o17":      `"0o17" is not a whole number`,
		"concurrency: 1_0":       `"1_0" is not a whole number`,
		"budget-day-tokens: 1e3": `"1e3" is not a whole number`,
		"budget-day-tokens: 0":   "--budget-day-tokens: a budget of 0",
		"budget-day-usd: ":       "--budget-day-usd: the value is empty",
		"budget-day-usd: 0":      "--budget-day-usd: a budget of 0",
	} {
		file := filepath.Join(t.TempDir(), "weir.yaml")
		if err := os.WriteFile(file, []byte("serve:\n  "+lines+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := given(t, map[string]string{"WEIR_CONFIG_FILE": file})
		if err == nil {
			err = s.Check(none)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", lines, err, want)
		}
	}
}
