package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"
)

// rollupServer answers with the rows of testdata/usage.json and keeps what it was
// asked.
func rollupServer(t *testing.T, answer string) (url string, asked *map[string]any) {
	t.Helper()
	asked = new(map[string]any)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Variables map[string]any }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		*asked = body.Variables
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func usageAnswer(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/usage.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// report runs the command and gives what it printed.
func report(t *testing.T, u UsageCommand, width int) (out, notes string, err error) {
	t.Helper()
	var b, n bytes.Buffer
	i := &IO{
		Out: &Screen{Writer: &b, Terminal: width > 0, Width: width}, Err: &Screen{Writer: &n},
		Getenv: func(string) string { return "" },
	}
	err = u.Run(t.Context(), i)
	return b.String(), n.String(), err
}

// The report at 80 columns, wide and in a pipe: numbers at their right edge, what
// is unknown as a hyphen, a sum that says what it leaves out.
func TestUsageTables(t *testing.T) {
	t.Parallel()
	for _, width := range []int{80, 200, 0} {
		url, _ := rollupServer(t, usageAnswer(t))
		out, notes, err := report(t, UsageCommand{Connection: Connection{Server: url}, By: []string{"day", "agent", "model"}, Since: "2026-11-01", Until: "2026-11-30"}, width)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out) {
			if w := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); width > 0 && w > width {
				t.Errorf("%d columns of %d: %s", w, width, line)
			}
		}
		golden(t, fmt.Sprintf("usage-%d.golden", width), []byte(out+notes))
	}
}

func TestUsageCSV(t *testing.T) {
	t.Parallel()
	url, _ := rollupServer(t, usageAnswer(t))
	out, _, err := report(t, UsageCommand{Connection: Connection{Server: url}, By: []string{"day", "agent", "model"}, Since: "2026-11-01", Until: "2026-11-30", CSV: true}, 0)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "usage.csv", []byte(out))
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 6 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// A name is no formula for the program that opens the report.
func TestUsageCSVHasNoFormulas(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		`=HYPERLINK("http://evil.example")`: `'=HYPERLINK("http://evil.example")`,
		"+1":                                "'+1", "-1": "'-1", "@sum": "'@sum", "\t=1": "'\t=1", "\r=1": "'=1",
		"claude-sonnet-5": "claude-sonnet-5", "a=b": "a=b", "": "",
	} {
		row, err := json.Marshal(map[string]any{"model": name, "team": name, "runs": -1, "usage": map[string]any{"costNanoUsd": nil}})
		if err != nil {
			t.Fatal(err)
		}
		url, _ := rollupServer(t, `{"data": {"usageRollups": [`+string(row)+`]}}`)
		out, _, err := report(t, UsageCommand{Connection: Connection{Server: url}, By: []string{"model", "team"}, Since: "30d", CSV: true}, 0)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil || len(rows) != 2 {
			t.Fatalf("%q: %d rows, %v", name, len(rows), err)
		}
		if got := rows[1]; got[0] != want || got[1] != want || got[2] != "-1" {
			t.Errorf("%q became %q", name, got[:3])
		}
	}
}

// --json prints the rows as the server sent them.
func TestUsageJSON(t *testing.T) {
	t.Parallel()
	url, _ := rollupServer(t, usageAnswer(t))
	out, _, err := report(t, UsageCommand{Connection: Connection{Server: url, JSON: true}, By: []string{"day"}, Since: "30d"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []json.RawMessage
	var want struct {
		Data struct{ UsageRollups []json.RawMessage }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(usageAnswer(t)), &want); err != nil {
		t.Fatal(err)
	}
	for n, row := range want.Data.UsageRollups {
		var a, b bytes.Buffer
		if json.Compact(&a, row) != nil || n >= len(got) || json.Compact(&b, got[n]) != nil || a.String() != b.String() {
			t.Errorf("row %d of %d is not what was sent: %s", n, len(got), row)
		}
	}
}

func TestUsageAsksForWhatWasTyped(t *testing.T) {
	t.Parallel()
	url, asked := rollupServer(t, `{"data":{"usageRollups":[]}}`)
	name, none := "x", ""
	out, notes, err := report(t, UsageCommand{
		Connection: Connection{Server: url}, By: []string{"Model", "day", "model"}, Since: "2026-11-01", Until: "2026-11-02", Agent: &name, Team: &none,
	}, 80)
	if err != nil || out != "" || !strings.Contains(notes, "the report has no run that ended from 2026-11-01 to 2026-11-02") {
		t.Errorf("printed %q and %q, %v", out, notes, err)
	}
	const want = "map[by:[MODEL DAY] filter:map[agent:x team:] from:2026-11-01 to:2026-11-02]"
	if got := fmt.Sprint(*asked); got != want {
		t.Errorf("asked for %s", got)
	}
}

func TestUsageRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		u    UsageCommand
		want string
	}{
		{UsageCommand{By: []string{"agnet"}, Since: "30d"}, "did you mean AGENT?"},
		{UsageCommand{By: []string{"hour of the day"}, Since: "30d"}, "is not one of DAY, AGENT"},
		{UsageCommand{By: []string{"day"}, Since: "yesterday"}, `--since "yesterday" is neither`},
		{UsageCommand{By: []string{"day"}, Since: "30"}, `--since "30" is neither`},
		{UsageCommand{By: []string{"day"}, Since: "d"}, `--since "d" is neither`},
		{UsageCommand{By: []string{"day"}, Since: "-3d"}, `--since "-3d" is neither`},
		{UsageCommand{By: []string{"day"}, Since: "4000000000d"}, "is neither"},
		{UsageCommand{By: []string{"day"}, Since: "0d"}, "--since 0d has no day; 1d is today"},
		{UsageCommand{By: []string{"day"}, Since: "010d"}, "is neither"},
		{UsageCommand{By: []string{"day"}, Since: "20000w"}, "is neither"}, // more than a Duration holds
		{UsageCommand{By: []string{"day"}, Since: "30d", Until: "2026-02-30"}, `--until "2026-02-30" is neither`},
		{UsageCommand{By: []string{"day"}, Since: "2026-11-30", Until: "2026-11-29"}, "--since must not be later"},
		{UsageCommand{By: []string{"day"}, Since: "30d", CSV: true, Connection: Connection{JSON: true}}, "--json and --csv"},
	} {
		_, _, err := report(t, c.u, 80)
		if code, _ := Exit(err); code != CodeUsage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v gave %v", c.u, err)
		}
	}
}

// A time back is so many days with today; a report begins with them or ends
// before them.
func TestTimesBack(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 0, 30, 0, 0, time.UTC)
	for text, want := range map[string]struct{ first, last string }{
		"2024-02-29": {"2024-02-29", "2024-02-29"},
		"0d":         {"", "2026-03-01"},
		"0h":         {"", "2026-03-01"},
		"1d":         {"2026-03-01", "2026-02-28"},
		"30d":        {"2026-01-31", "2026-01-30"},
		"2w":         {"2026-02-16", "2026-02-15"},
		"14d":        {"2026-02-16", "2026-02-15"},
		"365d":       {"2025-03-02", "2025-03-01"},
		"1h":         {"2026-02-28", "2026-02-27"}, // it was yesterday then
		"24h":        {"2026-02-28", "2026-02-27"},
		"36h":        {"2026-02-27", "2026-02-26"},
	} {
		first, err := firstDay(text, now)
		if first != want.first && want.first != "" || (err == nil) != (want.first != "") {
			t.Errorf("since %s is %s, %v; want %s", text, first, err, want.first)
		}
		if last, err := lastDay(text, now); err != nil || last != want.last {
			t.Errorf("until %s is %s, %v; want %s", text, last, err, want.last)
		}
	}
	if first, err := firstDay("1h", now.Add(10*time.Hour)); err != nil || first != "2026-03-01" {
		t.Errorf("an hour of today is %s, %v", first, err)
	}
	// The last day of the year, whatever the zone of the machine.
	east := time.FixedZone("east", 14*3600)
	if first, err := firstDay("1d", time.Date(2027, 1, 1, 5, 0, 0, 0, east)); err != nil || first != "2026-12-31" {
		t.Errorf("today is %s, %v", first, err)
	}
}

func TestDollars(t *testing.T) {
	t.Parallel()
	for nano, want := range map[Long]string{
		0: "$0.0000", 1: "<$0.0001", 49_999: "<$0.0001", 50_000: "$0.0001", 149_999: "$0.0001", 150_000: "$0.0002",
		1_000_000_000: "$1.0000", 999_999_999: "$1.0000", 12_345_678_900: "$12.3457", 9_223_372_036_854_775_807: "$9223372036.8548",
	} {
		if got := dollars(&nano); got != want {
			t.Errorf("%d is %s, want %s", nano, got, want)
		}
	}
	if got := dollars(nil); got != "-" {
		t.Errorf("unknown money is %s", got)
	}
}
