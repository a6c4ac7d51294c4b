package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

type snapshotRow struct {
	bun.BaseModel `bun:"table:usage_snapshots,alias:n"`

	Run  string `bun:"run_id,pk"`
	AtUS int64  `bun:"at_us,pk"`
	usageSums
}

func (r *snapshotRow) snapshot() run.UsageSnapshot {
	return run.UsageSnapshot{Run: run.ID(r.Run), At: timeOf(r.AtUS), Usage: r.usage()}
}

// snapshotRows is how many snapshots one statement writes.
const snapshotRows = 100

// AddSnapshots stores the cumulative usage of runs at a moment; a second one of
// the same run and moment replaces the first.
func (s *Store) AddSnapshots(ctx context.Context, snapshots []run.UsageSnapshot) error {
	if len(snapshots) == 0 {
		return nil
	}
	// No statement may name a row twice: the last one of a run and moment counts.
	place := make(map[snapshotKey]int, len(snapshots))
	rows := make([]snapshotRow, 0, len(snapshots))
	for _, n := range snapshots {
		row := snapshotRow{Run: string(n.Run), AtUS: micros(n.At), usageSums: sumsOf(n.Usage)}
		key := snapshotKey{row.Run, row.AtUS}
		if i, ok := place[key]; ok {
			rows[i] = row
			continue
		}
		place[key] = len(rows)
		rows = append(rows, row)
	}
	return s.w.do(ctx, &op{size: int64(len(rows)) * 256, logic: func(t *tx) error {
		for part := range slices.Chunk(rows, snapshotRows) {
			if err := t.step("storing snapshots", func() error {
				_, err := t.conn.NewInsert().Model(&part).On("CONFLICT (run_id, at_us) DO UPDATE").Set(replaceSums).Exec(t.ctx)
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	}})
}

type snapshotKey struct {
	run  string
	atUS int64
}

// replaceSums is the SET clause that takes all sums of the new row, runSums
// selects those of a run r.
var replaceSums, runSums = func() (set, of string) {
	for c := range strings.FieldsFuncSeq(sumColumns, func(r rune) bool { return r == ',' || r == ' ' }) {
		set += ", " + c + " = excluded." + c
		of += ", r." + c
	}
	return set[2:], of[2:]
}()

// newerThanSnapshot chooses the runs r that have used something, and something
// else than their last snapshot n says.
const newerThanSnapshot = `(r.input_tokens + r.cache_read_tokens + r.cache_write_short_tokens + r.cache_write_long_tokens + r.output_tokens + r.compute_us > 0
 OR coalesce(r.cost_nano_usd, 0) <> 0)
 AND (n.run_id IS NULL OR r.cost_nano_usd IS DISTINCT FROM n.cost_nano_usd
 OR (r.input_tokens, r.cache_read_tokens, r.cache_write_short_tokens, r.cache_write_long_tokens, r.output_tokens, r.reasoning_tokens, r.compute_us, r.cost_source, r.provenance, r.records, r.unpriced)
 <> (n.input_tokens, n.cache_read_tokens, n.cache_write_short_tokens, n.cache_write_long_tokens, n.output_tokens, n.reasoning_tokens, n.compute_us, n.cost_source, n.provenance, n.records, n.unpriced))`

// DueSnapshots gives what the snapshots of a replica's live runs would hold at a
// moment: without the runs that have used nothing, and without those whose last
// snapshot says the same.
func (s *Store) DueSnapshots(ctx context.Context, owner string, at time.Time) ([]run.UsageSnapshot, error) {
	var rows []snapshotRow
	if err := s.read.NewSelect().TableExpr("runs AS r").ColumnExpr("r.id AS run_id").ColumnExpr(runSums).
		Join("LEFT JOIN usage_snapshots AS n ON n.run_id = r.id AND n.at_us = (SELECT max(l.at_us) FROM usage_snapshots AS l WHERE l.run_id = r.id)").
		Where("r.owner = ?", owner).Where("r.status IN ('RUNNING', 'WAITING')").Where(newerThanSnapshot).
		Order("r.id").Scan(ctx, &rows); err != nil {
		return nil, s.readError("reading the usage of live runs", err)
	}
	out := make([]run.UsageSnapshot, len(rows))
	for i := range rows {
		rows[i].AtUS = micros(at)
		out[i] = rows[i].snapshot()
	}
	return out, nil
}

// forgetRows is how many snapshots one step of ForgetSnapshots looks at.
const forgetRows = 500

// ForgetSnapshots removes the snapshots from before a moment, but for the last one of
// each run. It goes by the primary key, so that no other index is needed: what a run
// has kept is passed over at the first one that is young enough.
func (s *Store) ForgetSnapshots(ctx context.Context, before time.Time, from run.SnapshotMark) (run.SnapshotMark, error) {
	var done run.SnapshotMark
	q := s.read.NewSelect().TableExpr("usage_snapshots").Column("run_id", "at_us").Order("run_id", "at_us").Limit(forgetRows)
	if from.At.IsZero() {
		q = q.Where("run_id > ?", string(from.Run))
	} else {
		q = q.Where("(run_id, at_us) > (?, ?)", string(from.Run), micros(from.At))
	}
	var rows []struct {
		RunID string
		AtUS  int64 `bun:"at_us"`
	}
	if err := q.Scan(ctx, &rows); err != nil {
		return done, s.readError("looking for old snapshots", err)
	}
	limit := micros(before)
	var old []snapshotKey // the youngest one of each run that goes
	for i := range len(rows) - 1 {
		r := rows[i]
		if r.AtUS >= limit || rows[i+1].RunID != r.RunID {
			continue
		}
		if n := len(old); n > 0 && old[n-1].run == r.RunID {
			old[n-1].atUS = r.AtUS
			continue
		}
		old = append(old, snapshotKey{r.RunID, r.AtUS})
	}
	if len(old) > 0 {
		if err := s.w.do(ctx, &op{size: int64(len(old)) * 64, logic: func(t *tx) error {
			for _, k := range old {
				if _, err := t.exec("removing old snapshots", "DELETE FROM usage_snapshots WHERE run_id = ? AND at_us <= ?", k.run, k.atUS); err != nil {
					return err
				}
			}
			return nil
		}}); err != nil {
			return done, err
		}
	}
	if len(rows) < forgetRows {
		return done, nil
	}
	last := rows[forgetRows-1]
	if last.AtUS >= limit {
		return run.SnapshotMark{Run: run.ID(last.RunID)}, nil
	}
	// What comes behind the last one tells whether it goes.
	last = rows[forgetRows-2]
	return run.SnapshotMark{Run: run.ID(last.RunID), At: timeOf(last.AtUS)}, nil
}

// Snapshots gives the first snapshots of a run after a moment, oldest first.
func (s *Store) Snapshots(ctx context.Context, q run.SnapshotQuery) ([]run.UsageSnapshot, error) {
	if err := s.known(ctx, q.Run); err != nil {
		return nil, err
	}
	var rows []snapshotRow
	if err := s.read.NewSelect().Model(&rows).Where("run_id = ?", string(q.Run)).Where("at_us > ?", micros(q.After)).
		Order("at_us").Limit(q.First).Scan(ctx); err != nil {
		return nil, s.readError("reading usage snapshots", err)
	}
	out := make([]run.UsageSnapshot, len(rows))
	for i := range rows {
		out[i] = rows[i].snapshot()
	}
	return out, nil
}
