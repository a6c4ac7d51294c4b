package cli

import (
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// usageTable prints the report with a line of totals. The rows are disjoint, so
// they add up to it.
func (i *IO) usageTable(by []run.UsageDimension, rows []*rollup, from, to string) error {
	var head []string
	for _, d := range by {
		head = append(head, string(d))
	}
	head = append(head, "RUNS", "INPUT", "CACHED", "OUTPUT", "COMPUTE", "COST", "UNPRICED")
	table := [][]string{head}
	var sum run.Usage
	var runs Long
	for _, r := range rows {
		var line []string
		for _, d := range by {
			line = append(line, named(r.value(d)))
		}
		table = append(table, append(line, r.Usage.columns(int64(r.Runs))...))
		sum, runs = sum.Add(r.Usage.domain()), runs+r.Runs
	}
	if len(rows) == 0 {
		i.Notice("the report has no run that ended from " + from + " to " + to + "; one is in it within a minute of its end")
		return nil
	}
	if len(rows) > 1 && len(by) > 0 {
		line := []string{"total"}
		for range by[1:] {
			line = append(line, "")
		}
		table = append(table, append(line, usageOf(sum).columns(int64(runs))...))
	}
	n := len(by)
	l := layout{drop: []int{n + 4, n + 2, n}, right: n}
	for k := range by {
		if by[k] != run.ByDay {
			l.flexible = append(l.flexible, k)
		}
	}
	if err := i.Out.Table(table, l); err != nil {
		return err
	}
	if sum.Unpriced > 0 {
		i.Notice(count(int(sum.Unpriced), "record") + " without a known price: the cost is at least what is shown")
	}
	return nil
}

// dollars is an amount of 1e-9 USD with four decimals. What is not known is a
// hyphen, and what is too small for four decimals is not shown as nothing.
func dollars(nano *Long) string {
	if nano == nil {
		return "-"
	}
	const unit = 100_000 // 1e-4 USD
	n := int64(*nano)
	if n > 0 && n < unit/2 {
		return "<$0.0001"
	}
	n = n/unit + n%unit*2/unit // half is rounded up
	return fmt.Sprintf("$%d.%04d", n/10_000, n%10_000)
}

// named shows that there is no name.
func named(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// columns are the numbers of a row.
func (u Usage) columns(runs int64) []string {
	unpriced := ""
	if u.Unpriced > 0 {
		unpriced = strconv.Itoa(u.Unpriced)
	}
	compute := ""
	if u.ComputeSeconds > 0 {
		compute = seconds(time.Duration(u.ComputeSeconds * float64(time.Second)))
	}
	return []string{
		strconv.FormatInt(runs, 10), short(int64(u.Input)), short(int64(u.CacheRead + u.CacheWriteShort + u.CacheWriteLong)), short(int64(u.Output)),
		compute, dollars(u.CostNanoUsd), unpriced,
	}
}

// short is a number of tokens with three or four digits.
func short(n int64) string {
	switch f := float64(n); {
	case n < 10_000:
		return strconv.FormatInt(n, 10)
	case n < 10_000_000:
		return strconv.FormatFloat(f/1e3, 'f', 0, 64) + "k"
	case n < 10_000_000_000:
		return strconv.FormatFloat(f/1e6, 'f', 0, 64) + "M"
	default:
		return strconv.FormatFloat(f/1e9, 'f', 0, 64) + "G"
	}
}

// usageCSV prints the whole report for other programs: unknown money is empty.
func (i *IO) usageCSV(by []run.UsageDimension, rows []*rollup) error {
	w := csv.NewWriter(i.Out)
	var head []string
	for _, d := range by {
		head = append(head, strings.ToLower(string(d)))
	}
	head = append(head, "runs", "input", "cache_read", "cache_write_short", "cache_write_long", "output", "reasoning",
		"compute_seconds", "cost_nano_usd", "cost_source", "provenance", "unpriced")
	if err := w.Write(head); err != nil {
		return err
	}
	for _, r := range rows {
		var line []string
		for _, d := range by {
			line = append(line, inert(clean(r.value(d))))
		}
		u := r.Usage
		for _, n := range []Long{r.Runs, u.Input, u.CacheRead, u.CacheWriteShort, u.CacheWriteLong, u.Output, u.Reasoning} {
			line = append(line, strconv.FormatInt(int64(n), 10))
		}
		money := ""
		if u.CostNanoUsd != nil {
			money = strconv.FormatInt(int64(*u.CostNanoUsd), 10)
		}
		line = append(line, strconv.FormatFloat(u.ComputeSeconds, 'f', -1, 64), money, u.CostSource, u.Provenance, strconv.Itoa(u.Unpriced))
		if err := w.Write(line); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// inert keeps a spreadsheet from taking a name for a formula: agents, teams and
// models are named by whoever starts them, and who opens the report runs what
// stands in it. See https://owasp.org/www-community/attacks/CSV_Injection. A
// carriage return, which such programs skip, is gone by then.
func inert(name string) string {
	if name != "" && strings.ContainsRune("=+-@\t", rune(name[0])) {
		return "'" + name
	}
	return name
}

// domain is a usage that can be added up.
func (u Usage) domain() run.Usage {
	out := run.Usage{
		Tokens: run.Tokens{
			Input: int64(u.Input), CacheRead: int64(u.CacheRead), CacheWriteShort: int64(u.CacheWriteShort), CacheWriteLong: int64(u.CacheWriteLong),
			Output: int64(u.Output), Reasoning: int64(u.Reasoning),
		},
		ComputeMicros: int64(u.ComputeSeconds*1e6 + 0.5), Unpriced: int64(u.Unpriced),
	}
	if u.CostNanoUsd != nil {
		n := int64(*u.CostNanoUsd)
		out.CostNanoUSD = &n
	}
	return out
}

// usageOf is the way back.
func usageOf(u run.Usage) Usage {
	out := Usage{
		Input: Long(u.Input), CacheRead: Long(u.CacheRead), CacheWriteShort: Long(u.CacheWriteShort), CacheWriteLong: Long(u.CacheWriteLong),
		Output: Long(u.Output), Reasoning: Long(u.Reasoning), ComputeSeconds: float64(u.ComputeMicros) / 1e6, Unpriced: int(u.Unpriced),
	}
	if u.CostNanoUSD != nil {
		n := Long(*u.CostNanoUSD)
		out.CostNanoUsd = &n
	}
	return out
}
