package store

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

// tally is what the records of a run that count add up to: numbers alone, so that
// a record comes and goes by addition, however many others there are. What a run
// says in words, and whether its cost is known, follows from the counts.
type tally struct {
	run.Tokens
	ComputeUS, CostNanoUSD, Records, Unpriced int64

	Reported, Computed                    int64 // by the source of the cost
	Unknown, Estimated, Partial, Measured int64 // by provenance
}

// tallyColumns are the columns of runs that hold the fields of a tally.
const tallyColumns = "input_tokens, cache_read_tokens, cache_write_short_tokens, cache_write_long_tokens, output_tokens, reasoning_tokens, compute_us," +
	" cost_nano_usd, records, unpriced, reported_records, computed_records, unknown_records, estimated_records, partial_records, measured_records"

func (y *tally) fields() []*int64 {
	return []*int64{
		&y.Input, &y.CacheRead, &y.CacheWriteShort, &y.CacheWriteLong, &y.Output, &y.Reasoning, &y.ComputeUS,
		&y.CostNanoUSD, &y.Records, &y.Unpriced, &y.Reported, &y.Computed, &y.Unknown, &y.Estimated, &y.Partial, &y.Measured,
	}
}

// count adds a record n times: 1 or -1. One that is superseded counts for nothing.
func (y *tally) count(r *usageRow, n int64) error {
	if r.Superseded {
		return nil
	}
	one := tally{Tokens: r.tokens(), ComputeUS: r.ComputeUS, Records: 1}
	if r.CostNanoUSD == nil {
		one.Unpriced = 1
	} else {
		one.CostNanoUSD = *r.CostNanoUSD
	}
	switch run.CostSource(r.CostSource) {
	case run.AgentReported:
		one.Reported = 1
	case run.Computed:
		one.Computed = 1
	}
	switch run.Provenance(r.Provenance) {
	case run.UnknownProvenance:
		one.Unknown = 1
	case run.Estimated:
		one.Estimated = 1
	case run.Partial:
		one.Partial = 1
	case run.Measured:
		one.Measured = 1
	}
	return y.add(&one, n)
}

// add adds another tally n times, 1 or -1, and refuses what fits into no number.
func (y *tally) add(z *tally, n int64) error {
	more := z.fields()
	for i, p := range y.fields() {
		sum := *p + n**more[i]
		if (sum > *p) != (n**more[i] > 0) && *more[i] != 0 {
			return fmt.Errorf("integer overflow: %d and %d", *p, n**more[i])
		}
		*p = sum
	}
	return nil
}

// cost is unknown when nothing is priced, and when the sum is 0 while something is
// unpriced, which says nothing. It is what run.Usage.Add does.
func (y *tally) cost() *int64 {
	if y.Records == y.Unpriced || (y.CostNanoUSD == 0 && y.Unpriced > 0) {
		return nil
	}
	return &y.CostNanoUSD
}

// source is the one that all priced records have; COMPUTED when they differ.
func (y *tally) source() run.CostSource {
	switch {
	case y.Computed > 0:
		return run.Computed
	case y.Reported > 0:
		return run.AgentReported
	}
	return ""
}

// provenance is the worst one.
func (y *tally) provenance() run.Provenance {
	switch {
	case y.Unknown > 0:
		return run.UnknownProvenance
	case y.Estimated > 0:
		return run.Estimated
	case y.Partial > 0:
		return run.Partial
	case y.Measured > 0:
		return run.Measured
	}
	return ""
}

// tallies are the changes of a transaction to the totals of runs.
type tallies map[run.ID]*tally

// replace counts a record in place of what was stored under its key: nil for nothing.
func (y tallies) replace(old, now *usageRow) error {
	id := run.ID(now.Run)
	if y[id] == nil {
		y[id] = &tally{}
	}
	err := y[id].count(now, 1)
	if err == nil && old != nil {
		err = y[id].count(old, -1)
	}
	return err
}

const (
	readTallies = "SELECT id, " + tallyColumns + " FROM runs WHERE id IN (?)"
	setTally    = "UPDATE runs SET cost_source = ?, provenance = ?, (" + tallyColumns + ") = (?) WHERE id = ?"
)

// sumUp moves the totals of runs by the changes of their records. The session's
// lock, or the run's, keeps other writers away since the records were read.
func (t *tx) sumUp(changes tallies) error {
	if len(changes) == 0 {
		return nil
	}
	ids := slices.Sorted(maps.Keys(changes))
	stored := make(tallies, len(ids))
	err := t.query("reading the totals of runs", readTallies, func(rows *sql.Rows) error {
		var id run.ID
		var y tally
		var cost sql.NullInt64
		to := []any{&id}
		for _, p := range y.fields() {
			if p == &y.CostNanoUSD {
				to = append(to, &cost)
			} else {
				to = append(to, p)
			}
		}
		err := rows.Scan(to...)
		y.CostNanoUSD, stored[id] = cost.Int64, &y // it is NULL only for a sum of 0
		return err
	}, bun.List(ids))
	if err != nil {
		return err
	}
	for _, id := range ids {
		y := stored[id]
		if y == nil {
			return fmt.Errorf("summing up run %s: it is not there", id)
		}
		if err := y.add(changes[id], 1); err != nil {
			return fmt.Errorf("summing up run %s: %w", id, err)
		}
		values := make([]any, 0, strings.Count(tallyColumns, ",")+1)
		for _, p := range y.fields() {
			if p == &y.CostNanoUSD {
				values = append(values, y.cost())
			} else {
				values = append(values, *p)
			}
		}
		if _, err := t.exec("summing up run "+string(id), setTally, string(y.source()), string(y.provenance()), bun.List(values), string(id)); err != nil {
			return err
		}
	}
	return nil
}
