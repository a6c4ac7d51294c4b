package app

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/server/cli"
)

// prices runs weir prices.
func prices(t *testing.T, env map[string]string, args ...string) (out string, code int, message string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	err := Run(t.Context(), append([]string{"prices"}, args...), func(k string) string { return env[k] }, &stdout, &stderr)
	code, err = cli.Exit(err)
	if err != nil {
		message = err.Error()
	}
	return stdout.String(), code, message
}

func priceFileOf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const ownPrices = "models:\n  - {provider: acme, model: m, aliases: [mine], rates: {input: 1.50, output: 2}, note: own}\ncompute:\n  - {backend: modal, usdPerHour: 3.95}\n"

func TestPricesCheck(t *testing.T) {
	t.Parallel()
	good := priceFileOf(t, ownPrices)
	broken := priceFileOf(t, "models:\n  - provider: acme\n    model: m\n    rate: {}\n    rates: {input: -1, output: x}\n")
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
		code int
		want []string
	}{
		"Shipped":  {nil, []string{"check"}, 0, []string{"prices.yaml: 9", "the newest source is of 2026-"}},
		"Good":     {nil, []string{"check", good}, 0, []string{good + ": 2 rows without a fault", "prices.yaml and " + good}},
		"Variable": {map[string]string{"WEIR_PRICES": good}, []string{"check"}, 0, []string{good + ": 2 rows"}},
		"Faults":   {nil, []string{"check", broken}, 1, []string{broken + `:4:5: a model has no field "rate"`, broken + ":5:20: input", broken + ":5:32: output"}},
		"NoFile":   {nil, []string{"check", "/none/x.yaml"}, 1, []string{"/none/x.yaml: no such file"}},
		"JSON":     {nil, []string{"check", "--json", broken}, 1, []string{`"ok": false`, `"line": 4`, `"column": 32`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, code, _ := prices(t, c.env, c.args...)
			if code != c.code {
				t.Errorf("the exit code is %d, want %d", code, c.code)
			}
			for _, w := range c.want {
				if !strings.Contains(out, w) {
					t.Errorf("%q is missing in\n%s", w, out)
				}
			}
		})
	}
}

func TestPricesListAndShow(t *testing.T) {
	t.Parallel()
	env := map[string]string{"WEIR_PRICES": priceFileOf(t, ownPrices)}
	for name, c := range map[string]struct {
		args []string
		code int
		want []string
		not  string
	}{
		"List":     {[]string{"list"}, 0, []string{"acme/m", "1.5", "openai/gpt-5 ", "compute/modal", "3.95/hour", "ollama/*", "costs nothing"}, "claude-opus-5-5@"},
		"ByAlias":  {[]string{"list", "--model", "mine"}, 0, []string{"acme/m"}, "openai"},
		"AtADay":   {[]string{"list", "--model", "gemini-3.8-flash", "--at", "2027-01-01"}, 0, []string{"1.5 ", "7.5"}, "0.75"},
		"BadDay":   {[]string{"list", "--at", "soon"}, 2, []string{`--at "soon" is not a day such as`}, ""},
		"Show":     {[]string{"show", "mine"}, 0, []string{"acme/m#", "input 1.5, output 2", "note", "own"}, ""},
		"AllTimes": {[]string{"show", "gemini-3.8-flash"}, 0, []string{"before 2027-01-01", "from 2027-01-01"}, ""},
		"Near":     {[]string{"show", "claude-opuss-5"}, 1, []string{`no price of a model "claude-opuss-5" is known`, "claude-opus-5"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, code, message := prices(t, env, c.args...)
			all := out + message
			if code != c.code {
				t.Errorf("the exit code is %d, want %d: %s", code, c.code, message)
			}
			for _, w := range c.want {
				if !strings.Contains(all, w) {
					t.Errorf("%q is missing in\n%s", w, all)
				}
			}
			if c.not != "" && strings.Contains(all, c.not) {
				t.Errorf("%q is in\n%s", c.not, all)
			}
		})
	}
	out, _, _ := prices(t, env, "list", "--model", "acme/m")
	if got := strings.Join(strings.Fields(out), " "); !strings.Contains(got, "acme/m 1.5 2 ") {
		t.Errorf("input and output stand as %s", got)
	}
	out, _, _ = prices(t, env, "list", "--json", "--model", "acme/m")
	var models []struct {
		ID      string   `json:"id"`
		Aliases []string `json:"aliases"`
		Rates   struct{ Input string }
	}
	if err := json.Unmarshal([]byte(out), &models); err != nil || len(models) != 1 || models[0].Rates.Input != "1.5" || models[0].ID != "acme/m" {
		t.Errorf("as JSON: %v %s", err, out)
	}
}

// A server prices what it books by its file and the shipped prices.
func TestServePrices(t *testing.T) {
	t.Parallel()
	agents := t.TempDir()
	definition := "name: caller\ndriver: replay\nturns:\n" +
		"  - usage: {model: mine, input: 1000000}\n  - usage: {model: gpt-5, output: 100000}\n  - tool: {command: [\"true\"]}\n"
	if err := os.WriteFile(filepath.Join(agents, "caller.yaml"), []byte(definition), 0o600); err != nil {
		t.Fatal(err)
	}
	file := priceFileOf(t, ownPrices)
	url := start(t, "serve", "--listen", "127.0.0.1:0", "--data", dataFolder(t), "--allow-unsandboxed", "--agents", agents, "--prices", file)
	var about struct {
		Models []struct {
			ID, PriceID string
			Aliases     []string
			Rates       struct{ Input string }
		}
		Server struct {
			Prices struct {
				Files  []string
				Models int
			}
		}
	}
	query(t, url, `{ models { id priceId aliases rates { input } } server { prices { files models newestSource problem } } }`, &about)
	if f := about.Server.Prices.Files; len(f) != 2 || f[1] != file || about.Server.Prices.Models < 80 {
		t.Errorf("the server prices by %+v", about.Server.Prices)
	}
	found := false
	for _, m := range about.Models {
		if m.ID == "acme/m" {
			found = m.Rates.Input == "1.5" && len(m.Aliases) == 1 && strings.HasPrefix(m.PriceID, "acme/m#")
		}
	}
	if !found {
		t.Errorf("acme/m is not as its file says: %+v", about.Models)
	}
	var started struct{ StartRun struct{ ID string } }
	query(t, url, `mutation { startRun(input: {agent: "caller", prompt: "go"}) { id } }`, &started)
	eventually(t, "the run is priced", func() bool {
		var got struct {
			Run struct {
				Status string
				Usage  struct {
					CostNanoUsd int64
					Unpriced    int
				}
			}
		}
		query(t, url, `{ run(id: "`+started.StartRun.ID+`") { status usage { costNanoUsd unpriced } } }`, &got)
		if got.Run.Status != "DONE" {
			return false
		}
		if u := got.Run.Usage; u.CostNanoUsd != 2_500_000_000 || u.Unpriced != 0 { // 1.50 + 1.00 + an execution on this machine
			t.Fatalf("it costs %+v", u)
		}
		return true
	})
}

// A price file with faults is refused before anything is touched.
func TestServeRefusesBrokenPrices(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	file := priceFileOf(t, "modells: []\n")
	var out bytes.Buffer
	err := Run(t.Context(), []string{"serve", "--listen", "127.0.0.1:0", "--data", data, "--allow-unsandboxed", "--prices", file}, none, &out, &out)
	if code, err := cli.Exit(err); code != cli.CodeUsage || !strings.Contains(err.Error(), file+`:1:1: a price file has no field "modells"`) {
		t.Errorf("code %d: %v", code, err)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("the data folder was made: %v", err)
	}
	var report bytes.Buffer
	err = Run(t.Context(), []string{"doctor", "--listen", "127.0.0.1:0", "--data", data, "--allow-unsandboxed", "--prices", file}, none, &report, &report)
	if code, _ := cli.Exit(err); code != cli.CodeFailed || !strings.Contains(report.String(), "weir prices check "+file) {
		t.Errorf("doctor: code %d\n%s", code, report.String())
	}
}
