package store

import (
	"strings"
	"testing"
)

// TestUsageQuestionsUseTheStreamsIndex: each record of a stream asks for the
// others. Without the index that reads all of the run's records each time, and one
// run with many calls holds up every other run of the server.
func TestUsageQuestionsUseTheStreamsIndex(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Options{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, q := range []struct {
		sql  string
		args []any
	}{
		{bestRank, []any{"r", "s", "k"}},
		{replaceThem, []any{"r", "s", 1}},
		{"SELECT * FROM usage_records WHERE " + worseThan, []any{"r", "s", 1}},
	} {
		plan := queryPlan(t, s, q.sql, q.args...)
		if got := strings.Join(plan, "; "); !strings.Contains(got, "INDEX usage_records_stream") || strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("%s\nis answered by: %s", q.sql, got)
		}
	}
}

// queryPlan says how SQLite answers a query.
func queryPlan(t *testing.T, s *Store, query string, args ...any) (plan []string) {
	t.Helper()
	rows, err := s.read.DB.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }() // read to its end
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, detail)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan
}
