package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/uptrace/bun"
)

// verifySchema reads nothing from each table, which fails when one of them or a
// column is missing: a migration that only seemed to work shows here.
func (s *Store) verifySchema(ctx context.Context) error {
	queries := []*bun.SelectQuery{}
	for _, model := range []any{(*runRow)(nil), (*executionRow)(nil), (*artifactRow)(nil), (*questionRow)(nil), (*usageRow)(nil), (*snapshotRow)(nil)} {
		queries = append(queries, s.read.NewSelect().Model(model))
	}
	for table, columns := range map[string]string{
		"sessions":       "sid, id, last_seq, first_seq, folded_seq, title, title_fold, state, created_us",
		"session_purges": "sid, session_id",
		"session_texts":  "session_id, run_id, text_fold",
		"events":         eventColumns,
		"series":         "id, run_id, attempt, stage, tag, name",
		"metric_points":  pointColumns,
		"metric_buckets": bucketColumns,
		"runs":           tallyColumns,
		"usage_rollups":  "day, agent, team, model, provider, backend, runs, " + sumColumns,
		"rollup_dirty":   "id, day, agent, team",
		"prices":         "id, body, first_used_us",
		"usage_streams":  "stream, totals, updated_us",
		"usage_audit":    "id, at_us, who, filter, records, changed, old_nano_usd, new_nano_usd, done",
	} {
		queries = append(queries, s.read.NewSelect().TableExpr(table).ColumnExpr(columns))
	}
	for _, q := range queries {
		rows, err := q.Where("1 = 0").Rows(ctx)
		if err != nil {
			return fmt.Errorf("the database is not as this version of Weir expects it (%s): %w", q.GetTableName(), err)
		}
		if err := eachRow(rows, func(*sql.Rows) error { return nil }); err != nil {
			return fmt.Errorf("checking the schema: %w", err)
		}
	}
	return nil
}
