package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// UsageCommand reports what closed runs have used.
type UsageCommand struct {
	Connection `embed:""`

	By    []string `help:"One row for each of: day, agent, team, model, provider, backend." default:"day" placeholder:"WORD"`
	Since string   `help:"First day: a date such as 2026-11-30, or how far back: 30d, 2w, 36h. Days are in UTC." default:"30d" placeholder:"DAY"`
	Until string   `help:"Last day, likewise; empty: today." placeholder:"DAY"`

	Agent    *string `help:"Only this agent." placeholder:"NAME"`
	Team     *string `help:"Only this team." placeholder:"NAME"`
	Model    *string `help:"Only this model." placeholder:"NAME"`
	Provider *string `help:"Only this provider." placeholder:"NAME"`
	Backend  *string `help:"Only executions of this backend." placeholder:"NAME"`

	CSV bool `name:"csv" help:"Print comma-separated values, whole numbers in 1e-9 USD."`
}

// rollup is a row of the report.
type rollup struct {
	Raw json.RawMessage `json:"-"`

	Day, Agent, Team, Model, Provider, Backend *string
	Runs                                       Long
	Usage                                      Usage
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *rollup) UnmarshalJSON(b []byte) error {
	type fields rollup
	return keep(b, (*fields)(r), &r.Raw)
}

// value gives what the row says of a dimension.
func (r *rollup) value(d run.UsageDimension) string {
	for _, f := range []struct {
		of   run.UsageDimension
		text *string
	}{
		{run.ByDay, r.Day}, {run.ByAgent, r.Agent}, {run.ByTeam, r.Team}, {run.ByModel, r.Model}, {run.ByProvider, r.Provider}, {run.ByBackend, r.Backend},
	} {
		if f.of == d && f.text != nil {
			return *f.text
		}
	}
	return ""
}

// Run implements the command.
func (u *UsageCommand) Run(ctx context.Context, i *IO) error {
	if u.JSON && u.CSV {
		return usagef("--json and --csv are both set; set one of them")
	}
	by, err := u.dimensions()
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	from, err := dayBefore("--since", u.Since, now)
	if err != nil {
		return err
	}
	to := now.Format(time.DateOnly)
	if u.Until != "" {
		if to, err = dayBefore("--until", u.Until, now); err != nil {
			return err
		}
	}
	if from > to {
		return usagef("--since %s is %s and --until %s is %s; --since must not be later", u.Since, from, u.Until, to)
	}
	c, err := u.client(i)
	if err != nil {
		return err
	}
	defer c.Close()
	var out struct{ UsageRollups []*rollup }
	if err := c.Do(ctx, rollupsText, map[string]any{"from": from, "to": to, "by": by, "filter": u.filter()}, &out); err != nil {
		return err
	}
	switch rows := out.UsageRollups; {
	case u.JSON:
		raw := make([]json.RawMessage, len(rows))
		for n, r := range rows {
			raw[n] = r.Raw
		}
		return i.document(raw)
	case u.CSV:
		return i.usageCSV(by, rows)
	default:
		return i.usageTable(by, rows, from, to)
	}
}

// dimensions reads --by.
func (u *UsageCommand) dimensions() ([]run.UsageDimension, error) {
	var known []string
	for _, d := range run.UsageDimensions() {
		known = append(known, string(d))
	}
	names, err := words("--by", u.By, known)
	if err != nil {
		return nil, err
	}
	by := []run.UsageDimension{}
	for _, name := range names {
		if d := run.UsageDimension(name); !slices.Contains(by, d) {
			by = append(by, d)
		}
	}
	return by, nil
}

func (u *UsageCommand) filter() map[string]any {
	f := map[string]any{}
	for name, text := range map[string]*string{"agent": u.Agent, "team": u.Team, "model": u.Model, "provider": u.Provider, "backend": u.Backend} {
		if text != nil {
			f[name] = *text
		}
	}
	return f
}

// dayBefore reads a day, or how long before now it was.
func dayBefore(flag, text string, now time.Time) (string, error) {
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t.Format(time.DateOnly), nil
	}
	const longest = 100 * 365 * 24 * time.Hour
	units := map[string]time.Duration{"h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}
	if cut := len(text) - 1; cut > 0 {
		n, err := strconv.ParseUint(text[:cut], 10, 32)
		if unit, ok := units[text[cut:]]; ok && err == nil && n <= uint64(longest/unit) {
			return now.Add(-time.Duration(n) * unit).UTC().Format(time.DateOnly), nil
		}
	}
	return "", usagef("%s %q is neither a day such as 2026-11-30 nor a time back such as 30d, 2w or 36h", flag, clip(oneLine(text), 40))
}
