package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// RepriceCommand prices usage records again.
type RepriceCommand struct {
	Connection `embed:""`

	DryRun   bool   `help:"Show what would change, and change nothing." xor:"what" required:""`
	Apply    bool   `help:"Change it: run totals follow at once, reports with the next sweep." xor:"what" required:""`
	From     string `help:"Only requests from this UTC day on, such as 2026-11-30." placeholder:"DAY"`
	To       string `help:"Only requests up to the end of this UTC day." placeholder:"DAY"`
	Model    string `help:"Only records of this model." placeholder:"NAME"`
	Provider string `help:"Only records of this provider." placeholder:"NAME"`
	Unpriced bool   `help:"Only records that have no price yet."`
}

// repricing is what the server says that changed, or would.
type repricing struct {
	Applied bool
	Lines   []struct {
		Day                                        time.Time
		Model                                      string
		Records, Changed, OldUnpriced, NewUnpriced Long
		OldNanoUsd, NewNanoUsd                     *Long
	}
}

// Run implements the command.
func (r *RepriceCommand) Run(ctx context.Context, i *IO) error {
	input := map[string]any{"apply": r.Apply, "onlyUnpriced": r.Unpriced}
	from, err := day("--from", r.From)
	if err != nil {
		return err
	}
	to, err := day("--to", r.To)
	if err != nil {
		return err
	}
	if !from.IsZero() {
		input["from"] = from
	}
	if !to.IsZero() {
		input["to"] = to.AddDate(0, 0, 1)
	}
	for name, text := range map[string]string{"model": r.Model, "provider": r.Provider, "by": i.Getenv("USER")} {
		if text != "" {
			input[name] = text
		}
	}
	c, err := r.client(i)
	if err != nil {
		return err
	}
	defer c.Close()
	var raw struct{ RepriceUsage json.RawMessage }
	if err := c.Do(ctx, repriceText, map[string]any{"input": input}, &raw); err != nil {
		return err
	}
	if r.JSON {
		return i.document(raw.RepriceUsage)
	}
	var done repricing
	if err := json.Unmarshal(raw.RepriceUsage, &done); err != nil {
		return fmt.Errorf("reading what the server answered: %w", err)
	}
	return i.repriced(done)
}

// day reads a UTC day; "" is none.
func day(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return t, usagef("%s %q is not a day such as 2026-11-30", flag, text)
	}
	return t, nil
}

// repriced prints a table of what changed and, in words, what came of it.
func (i *IO) repriced(done repricing) error {
	rows := [][]string{{"DAY", "MODEL", "RECORDS", "CHANGED", "OLD USD", "NEW USD", "UNPRICED"}}
	var records, changed Long
	for _, l := range done.Lines {
		unpriced := fmt.Sprint(int64(l.OldUnpriced))
		if l.OldUnpriced != l.NewUnpriced {
			unpriced += " -> " + fmt.Sprint(int64(l.NewUnpriced))
		}
		rows = append(rows, []string{l.Day.Format(time.DateOnly), l.Model, fmt.Sprint(int64(l.Records)), fmt.Sprint(int64(l.Changed)), exact(l.OldNanoUsd), exact(l.NewNanoUsd), unpriced})
		records, changed = records+l.Records, changed+l.Changed
	}
	if err := i.table(rows, false, "", "", layout{drop: []int{2, 6}, flexible: []int{1}}); err != nil || len(done.Lines) == 0 {
		return err
	}
	if done.Applied {
		i.Notice(fmt.Sprintf("%d of %d records have another price now", int64(changed), int64(records)))
		return nil
	}
	i.Notice(fmt.Sprintf("nothing was changed; %d of %d records would get another price: weir usage reprice --apply", int64(changed), int64(records)))
	return nil
}

// exact shows all nine places of an amount; "unknown" when there is none.
func exact(nano *Long) string {
	if nano == nil {
		return "unknown"
	}
	s := fmt.Sprintf("%010d", int64(*nano))
	return strings.Join([]string{s[:len(s)-9], s[len(s)-9:]}, ".")
}
