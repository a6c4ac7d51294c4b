package store

import (
	"context"
	"reflect"

	"github.com/weirhq/weir/runtime/run"
)

func typeOf(model any) reflect.Type { return reflect.TypeOf(model).Elem() }

// applyUsage merges records into those that are stored and sums each run up
// again. The session's lock keeps other writers away in between.
func (w *writer) applyUsage(t *tx, records []run.UsageRecord, f *facts) error {
	if len(records) == 0 {
		return nil
	}
	done := map[run.ID]bool{}
	var runs []run.ID
	for i := range records {
		row := rowOfUsage(records[i])
		var old []usageRow
		if err := t.models("reading a usage record", t.conn.NewSelect().Model(&old).Where("run_id = ?", row.Run).Where("request_key = ?", row.Key)); err != nil {
			return err
		}
		if len(old) > 0 {
			merged, changed := mergeUsage(old[0], *row)
			if !changed {
				continue
			}
			row = &merged
		}
		if err := t.upsert("storing a usage record", row, "run_id, request_key"); err != nil {
			return err
		}
		if id := records[i].Run; !done[id] {
			done[id] = true
			runs = append(runs, id)
		}
	}
	for _, id := range runs {
		if err := t.sumUsage(id); err != nil {
			return err
		}
		t.touch(id)
		if f.runs[id].ended {
			if err := t.markRollup(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// mergeUsage gives the record of two reports of one request: a better source
// replaces a worse one, equal ones merge by field-wise maximum, in any order.
func mergeUsage(old, add usageRow) (usageRow, bool) {
	switch {
	case add.Rank < old.Rank:
		return old, false
	case add.Rank > old.Rank:
		if old.AtUS != 0 && (add.AtUS == 0 || old.AtUS < add.AtUS) {
			add.AtUS = old.AtUS // the time of the request is the first one seen
		}
		return add, true
	}
	m := add
	m.Input, m.CacheRead = max(old.Input, add.Input), max(old.CacheRead, add.CacheRead)
	m.CacheWriteShort, m.CacheWriteLong = max(old.CacheWriteShort, add.CacheWriteShort), max(old.CacheWriteLong, add.CacheWriteLong)
	m.Output, m.Reasoning = max(old.Output, add.Output), max(old.Reasoning, add.Reasoning)
	m.ComputeUS = max(old.ComputeUS, add.ComputeUS)
	m.IsError = old.IsError || add.IsError
	if old.AtUS != 0 && (m.AtUS == 0 || old.AtUS < m.AtUS) {
		m.AtUS = old.AtUS
	}
	if old.CostNanoUSD != nil && (m.CostNanoUSD == nil || *old.CostNanoUSD > *m.CostNanoUSD) {
		m.CostNanoUSD, m.CostSource = old.CostNanoUSD, old.CostSource
	}
	if p := run.Provenance(m.Provenance); p == "" || run.Provenance(old.Provenance) != "" && run.Provenance(old.Provenance).Worse(p) == p {
		m.Provenance = old.Provenance // the better of the two
	}
	if m.Model == "" {
		m.Model = old.Model
	}
	if m.Provider == "" {
		m.Provider = old.Provider
	}
	if m.Raw == "" {
		m.Raw = old.Raw
	}
	same := m
	same.BaseModel = old.BaseModel
	return m, !reflect.DeepEqual(same, old)
}

// provenanceRank and its inverse carry the worst provenance through max().
const (
	worstProvenance = "CASE max(CASE provenance WHEN 'UNKNOWN' THEN 4 WHEN 'ESTIMATED' THEN 3 WHEN 'PARTIAL' THEN 2 WHEN 'MEASURED' THEN 1 ELSE 0 END)" +
		" WHEN 4 THEN 'UNKNOWN' WHEN 3 THEN 'ESTIMATED' WHEN 2 THEN 'PARTIAL' WHEN 1 THEN 'MEASURED' ELSE '' END"
	// Sources that differ are COMPUTED.
	commonSource = "CASE WHEN min(nullif(cost_source, '')) IS NULL THEN '' WHEN min(nullif(cost_source, '')) = max(cost_source) THEN max(cost_source) ELSE 'COMPUTED' END"
	// The casts make an overflow an error on PostgreSQL, where a sum is a numeric.
	recordSums = "CAST(coalesce(sum(input_tokens), 0) AS BIGINT), CAST(coalesce(sum(cache_read_tokens), 0) AS BIGINT)," +
		" CAST(coalesce(sum(cache_write_short_tokens), 0) AS BIGINT), CAST(coalesce(sum(cache_write_long_tokens), 0) AS BIGINT)," +
		" CAST(coalesce(sum(output_tokens), 0) AS BIGINT), CAST(coalesce(sum(reasoning_tokens), 0) AS BIGINT), CAST(coalesce(sum(compute_us), 0) AS BIGINT)," +
		" CAST(sum(cost_nano_usd) AS BIGINT), " + commonSource + ", " + worstProvenance + ", count(*), count(*) - count(cost_nano_usd)"
	sumColumns = "input_tokens, cache_read_tokens, cache_write_short_tokens, cache_write_long_tokens, output_tokens, reasoning_tokens," +
		" compute_us, cost_nano_usd, cost_source, provenance, records, unpriced"
)

// sumUsage makes a run's totals the sum of its records.
func (t *tx) sumUsage(id run.ID) error {
	_, err := t.exec("summing up a run", "UPDATE runs SET ("+sumColumns+") = (SELECT "+recordSums+" FROM usage_records WHERE run_id = ?) WHERE id = ?", string(id), string(id))
	return err
}

// UsageRecords gives a run's usage records in the order of their keys.
func (s *Store) UsageRecords(ctx context.Context, id run.ID) ([]run.UsageRecord, error) {
	var rows []usageRow
	if err := s.read.NewSelect().Model(&rows).Where("run_id = ?", string(id)).Order("request_key").Limit(maxRows).Scan(ctx); err != nil {
		return nil, s.readError("reading usage records", err)
	}
	out := make([]run.UsageRecord, len(rows))
	for i := range rows {
		out[i] = rows[i].record()
	}
	return out, nil
}
