package store

import (
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

// sumsOfSums adds up rows that are sums themselves: runs or rollups. Zero beside
// something without a price says nothing, so it is no cost.
var sumsOfSums = "CAST(coalesce(sum(input_tokens), 0) AS BIGINT) AS input_tokens, CAST(coalesce(sum(cache_read_tokens), 0) AS BIGINT) AS cache_read_tokens," +
	" CAST(coalesce(sum(cache_write_short_tokens), 0) AS BIGINT) AS cache_write_short_tokens, CAST(coalesce(sum(cache_write_long_tokens), 0) AS BIGINT) AS cache_write_long_tokens," +
	" CAST(coalesce(sum(output_tokens), 0) AS BIGINT) AS output_tokens, CAST(coalesce(sum(reasoning_tokens), 0) AS BIGINT) AS reasoning_tokens," +
	" CAST(coalesce(sum(compute_us), 0) AS BIGINT) AS compute_us," +
	" CASE WHEN sum(cost_nano_usd) = 0 AND sum(unpriced) > 0 THEN NULL ELSE CAST(sum(cost_nano_usd) AS BIGINT) END AS cost_nano_usd, " +
	commonSource + " AS cost_source, " + worstProvenance + " AS provenance," +
	" CAST(coalesce(sum(records), 0) AS BIGINT) AS records, CAST(coalesce(sum(unpriced), 0) AS BIGINT) AS unpriced"

// ActiveUsage sums up what all active runs have used so far, of every replica.
func (s *Store) ActiveUsage(ctx context.Context) (run.UsageTotals, error) {
	var row struct {
		Runs int64 `bun:"runs"`
		usageSums
	}
	at := time.Now().UTC().Truncate(time.Microsecond)
	if err := s.read.NewSelect().TableExpr("runs").ColumnExpr("count(*) AS runs").ColumnExpr(sumsOfSums).
		Where("status IN ('RUNNING', 'WAITING')").Scan(ctx, &row); err != nil {
		return run.UsageTotals{}, s.readError("summing up the active runs", err)
	}
	return run.UsageTotals{At: at, Runs: row.Runs, Usage: row.usage()}, nil
}

// SessionUsage sums up all runs of a session; that of a deleted one stays.
func (s *Store) SessionUsage(ctx context.Context, id run.SessionID) (run.Usage, error) {
	var row usageSums
	if err := s.read.NewSelect().TableExpr("runs").ColumnExpr(sumsOfSums).Where("session_id = ?", string(id)).Scan(ctx, &row); err != nil {
		return run.Usage{}, s.readError("summing up a session", err)
	}
	return row.usage(), nil
}

// rollupColumns are the columns of usage_rollups by dimension.
func rollupColumns() map[run.UsageDimension]string {
	return map[run.UsageDimension]string{
		run.ByDay: "day", run.ByAgent: "agent", run.ByTeam: "team", run.ByModel: "model", run.ByProvider: "provider", run.ByBackend: "backend",
	}
}

// GroupRollups adds up the rollups of a range of days. Of a row only what was
// grouped by is set. Without any dimension there is one row, also when it is
// the sum of nothing.
func (s *Store) GroupRollups(ctx context.Context, q run.RollupQuery) ([]run.UsageRollup, error) {
	var rows []rollupRow
	sel := s.read.NewSelect().TableExpr("usage_rollups").ColumnExpr("CAST(coalesce(sum(runs), 0) AS BIGINT) AS runs").ColumnExpr(sumsOfSums).
		Where("day BETWEEN ? AND ?", dayOf(q.From), dayOf(q.To)).Limit(maxRows + 1)
	columns := rollupColumns()
	for _, d := range run.UsageDimensions() {
		if !slices.Contains(q.GroupBy, d) {
			continue
		}
		sel = sel.Column(columns[d]).Group(columns[d]).Order(columns[d])
	}
	for d, want := range map[run.UsageDimension]*string{
		run.ByAgent: q.Filter.Agent, run.ByTeam: q.Filter.Team, run.ByModel: q.Filter.Model, run.ByProvider: q.Filter.Provider, run.ByBackend: q.Filter.Backend,
	} {
		if want != nil {
			sel = sel.Where("? = ?", bun.Ident(columns[d]), clean(*want))
		}
	}
	if err := sel.Scan(ctx, &rows); err != nil {
		return nil, s.readError("adding up usage rollups", err)
	}
	if len(rows) > maxRows {
		return nil, run.Errorf(run.Invalid, "the report has over %d rows; ask for fewer days, group by less, or filter", maxRows)
	}
	out := make([]run.UsageRollup, len(rows))
	for i := range rows {
		out[i] = rows[i].rollup()
		if !slices.Contains(q.GroupBy, run.ByDay) {
			out[i].Day = time.Time{}
		}
	}
	return out, nil
}

// dayOf is the number of a day since 1970, UTC.
func dayOf(t time.Time) int64 {
	day := t.UTC().Unix()
	if day < 0 {
		day -= 86399
	}
	return day / 86400
}

// RecordPage gives the first usage records of a run after a record, in the order
// of their requests, without their raw payloads.
func (s *Store) RecordPage(ctx context.Context, q run.RecordQuery) ([]run.UsageRecord, error) {
	if err := s.known(ctx, q.Run); err != nil {
		return nil, err
	}
	var rows []usageRow
	sel := s.read.NewSelect().Model(&rows).ExcludeColumn("raw").Where("run_id = ?", string(q.Run)).Order("at_us", "request_key").Limit(q.First)
	if q.After != "" {
		var from []int64
		if err := s.read.NewSelect().TableExpr("usage_records").Column("at_us").Where("run_id = ?", string(q.Run)).Where("request_key = ?", q.After).Scan(ctx, &from); err != nil {
			return nil, s.readError("looking for a usage record", err)
		}
		if len(from) == 0 {
			return nil, run.Errorf(run.Invalid, "run %s has no usage record with the key %.60q; give the key of the last record of the page before", q.Run, q.After)
		}
		sel = sel.Where("(at_us, request_key) > (?, ?)", from[0], q.After)
	}
	if err := sel.Scan(ctx); err != nil {
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
