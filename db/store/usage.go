package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/weirhq/weir/runtime/run"
)

// bookUsage merges the records of a batch into those that are stored and prices
// them; the log gets one event per record that was written or changed. The
// session's lock keeps other writers away in between. The totals of the runs are
// moved afterwards, once for all batches.
func (w *writer) bookUsage(t *tx, b *prepared, f *facts, sums tallies) error {
	b.booked = nil // an earlier try may have failed at its commit
	for i := range b.Usage {
		changed, err := w.bookRecord(t, &b.Usage[i], f, sums)
		if err != nil {
			return err
		}
		for _, row := range changed {
			p, err := row.recorded()
			if err != nil {
				return err
			}
			r := f.runs[run.ID(row.Run)]
			e, err := newEvent(b.Session, run.Draft{At: timeOf(t.now), Run: run.ID(row.Run), Agent: r.agent, Stage: r.stage, Payload: p})
			if err != nil {
				return err
			}
			b.booked = append(b.booked, e)
		}
	}
	return nil
}

// settle moves the totals of the runs whose records changed.
func (t *tx) settle(sums tallies, ended func(run.ID) bool) error {
	if err := t.sumUp(sums); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		t.touch(id)
		if ended(id) {
			if err := t.markRollup(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// bookRecord books one report and gives the rows that it wrote or changed.
func (w *writer) bookRecord(t *tx, u *run.UsageRecord, f *facts, sums tallies) ([]*usageRow, error) {
	if err := checkUsage(u); err != nil {
		return nil, err
	}
	row := rowOfUsage(*u)
	old, err := t.usageRow(row.Run, row.Key)
	if err != nil {
		return nil, err
	}
	if old != nil {
		if row.Rank < old.Rank {
			return nil, nil
		}
		if row.Stream == "" {
			row.Stream = old.Stream
		}
	}
	best, err := t.bestRank(row)
	if err != nil {
		return nil, err
	}
	if u.Cumulative && !row.unknown() {
		if news, err := t.difference(row, old, f.streams, best); err != nil || !news {
			return nil, err
		}
	}
	if old != nil {
		merged, err := mergeUsage(*old, *row)
		if err != nil {
			return nil, err
		}
		row = &merged
	}
	if err := row.checkSum(); err != nil {
		return nil, err
	}
	row.Superseded = row.Rank < best
	if old != nil && old.same(row) {
		return nil, nil
	}
	if err := w.price(t, row); err != nil {
		return nil, err
	}
	if err := t.upsert("storing a usage record", row, "run_id, request_key"); err != nil {
		return nil, err
	}
	if err := sums.replace(old, row); err != nil {
		return nil, fmt.Errorf("summing up run %s: %w", row.Run, err)
	}
	changed, err := t.supersede(row, best, sums)
	return append([]*usageRow{row}, changed...), err
}

// A run may have 100,000 calls in one stream, and each of them asks for the others:
// the questions must be answered by the index usage_records_stream, which is of
// stream <> ” and ends with the rank.
const (
	ofStream    = "run_id = ? AND stream = ? AND stream <> ''"
	bestRank    = "SELECT source_rank FROM usage_records WHERE " + ofStream + " AND request_key <> ? ORDER BY source_rank DESC LIMIT 1"
	worseThan   = ofStream + " AND source_rank < ? AND NOT superseded"
	replaceThem = "UPDATE usage_records SET superseded = TRUE WHERE " + worseThan
)

// bestRank gives the best source of the other records of a row's stream in its
// run; -1 when there is none.
func (t *tx) bestRank(row *usageRow) (int64, error) {
	best := int64(-1)
	if row.Stream == "" {
		return best, nil
	}
	err := t.query("looking for better sources", bestRank, func(rows *sql.Rows) error {
		return rows.Scan(&best)
	}, row.Run, row.Stream, row.Key)
	return best, err
}

// supersede makes the records of worse sources count no more and gives them.
func (t *tx) supersede(row *usageRow, best int64, sums tallies) ([]*usageRow, error) {
	if row.Stream == "" || best < 0 || best >= row.Rank {
		return nil, nil
	}
	var rows []*usageRow
	if err := t.models("looking for worse sources", t.conn.NewSelect().Model(&rows).Where(worseThan, row.Run, row.Stream, row.Rank).
		Order("request_key")); err != nil || len(rows) == 0 {
		return nil, err
	}
	for _, r := range rows {
		before := *r
		r.Superseded = true
		if err := sums.replace(&before, r); err != nil {
			return nil, fmt.Errorf("summing up run %s: %w", row.Run, err)
		}
	}
	_, err := t.exec("replacing worse sources", replaceThem, row.Run, row.Stream, row.Rank)
	return rows, err
}

// provenanceRank and its inverse carry the worst provenance through max().
var (
	worstProvenance = "CASE max(CASE provenance WHEN 'UNKNOWN' THEN 4 WHEN 'ESTIMATED' THEN 3 WHEN 'PARTIAL' THEN 2 WHEN 'MEASURED' THEN 1 ELSE 0 END)" +
		" WHEN 4 THEN 'UNKNOWN' WHEN 3 THEN 'ESTIMATED' WHEN 2 THEN 'PARTIAL' WHEN 1 THEN 'MEASURED' ELSE '' END"
	// Sources that differ are COMPUTED.
	commonSource = "CASE WHEN min(nullif(cost_source, '')) IS NULL THEN '' WHEN min(nullif(cost_source, '')) = max(cost_source) THEN max(cost_source) ELSE 'COMPUTED' END"
	sumColumns   = "input_tokens, cache_read_tokens, cache_write_short_tokens, cache_write_long_tokens, output_tokens, reasoning_tokens," +
		" compute_us, cost_nano_usd, cost_source, provenance, records, unpriced"
)

// knownMoney sums money up: NULL when nothing is priced, and when the sum is 0
// while something is unpriced, which says nothing. It is what run.Usage.Add does.
func knownMoney(records string) string {
	return "CASE WHEN sum(cost_nano_usd) = 0 AND " + records + " > count(cost_nano_usd) THEN NULL ELSE CAST(sum(cost_nano_usd) AS BIGINT) END"
}

// UsageRecords gives a run's usage records in the order of their keys.
func (s *Store) UsageRecords(ctx context.Context, id run.ID) ([]run.UsageRecord, error) {
	var rows []usageRow
	if err := s.read.NewSelect().Model(&rows).Where("run_id = ?", string(id)).Order("request_key").Limit(maxRows).Scan(ctx); err != nil {
		return nil, s.readError("reading usage records", err)
	}
	out := make([]run.UsageRecord, len(rows))
	for i := range rows {
		var err error
		if out[i], err = rows[i].record(); err != nil {
			return nil, err
		}
	}
	return out, nil
}
