package cli

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// UsageCommand reports what closed runs have used.
type UsageCommand struct {
	Connection `embed:""`

	By    []string `help:"One row for each of: day, agent, team, model, provider, backend." default:"day" placeholder:"WORD"`
	Since string   `help:"First day: a date such as 2026-11-30, or a time back: 30d, 2w, 36h. Days are in UTC; 1d is today." default:"30d" placeholder:"DAY"`
	Until string   `help:"Last day: a date, or a time back that is left out, as in --since 14d --until 7d; empty: today." placeholder:"DAY"`

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
	from, err := firstDay(u.Since, now)
	if err != nil {
		return err
	}
	to := now.Format(time.DateOnly)
	if u.Until != "" {
		if to, err = lastDay(u.Until, now); err != nil {
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

// firstDay and lastDay read a day, or a time back, which stands for the UTC days
// of which it has a part, with today: 1d is today and 30d the 29 days before as
// well. Reports begin with these days, or end before them, so that two reports
// that meet share no day.
func firstDay(text string, now time.Time) (string, error) {
	day, back, err := readDay("--since", text, now)
	if err == nil && back == 0 {
		err = usagef("--since %s has no day; 1d is today", text)
	}
	return day, err
}

func lastDay(text string, now time.Time) (string, error) {
	day, back, err := readDay("--until", text, now)
	if err != nil || back < 0 {
		return day, err
	}
	return now.UTC().AddDate(0, 0, -back).Format(time.DateOnly), nil
}

// readDay also gives how many days a time back has; below 0 for a date.
func readDay(flag, text string, now time.Time) (day string, back int, err error) {
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t.Format(time.DateOnly), -1, nil
	}
	const day1, longest = 24 * time.Hour, 100 * 366
	units := map[string]time.Duration{"h": time.Hour, "d": day1, "w": 7 * day1}
	if cut := len(text) - 1; cut > 0 {
		n, err := run.ParseWhole(text[:cut], 32)
		if unit := units[text[cut:]]; unit > 0 && err == nil && n >= 0 && n <= int64(longest*day1/unit) {
			span := time.Duration(n) * unit
			if unit < day1 && n > 0 { // from the beginning of the day in which it begins
				span = now.Truncate(day1).Add(day1).Sub(now.Add(-span).Truncate(day1))
			}
			back := int(span / day1)
			return now.UTC().AddDate(0, 0, 1-back).Format(time.DateOnly), back, nil
		}
	}
	return "", 0, usagef("%s %q is neither a day such as 2026-11-30 nor a time back such as 30d, 2w or 36h", flag, clip(oneLine(text), 40))
}
