package store

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/runtime/run"
)

// onLedgers runs a test on each kind of store, with many records: one per minute,
// 100 of each run.
func onLedgers(t *testing.T, records int, test func(t *testing.T, s *Store)) {
	t.Helper()
	t.Parallel()
	for _, kind := range []string{sqliteName, postgres} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			o := Options{Path: t.TempDir(), Pricer: oneRate{}}
			if kind == postgres {
				o = Options{URL: pgtest.Database(t), Pricer: oneRate{}}
			}
			s, err := Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			const step = 20_000 // the server ends a statement that takes long
			for from := 0; from < records; from += step {
				fillRecords(t, s, from, min(from+step, records))
			}
			if kind == postgres {
				pgtest.Exec(t, o.URL, "VACUUM ANALYZE")
			}
			test(t, s)
		})
	}
}

// fillRecords stores the records from to to, and a run for every 100 of them.
func fillRecords(t *testing.T, s *Store, from, to int) {
	t.Helper()
	numbers := fmt.Sprintf("WITH RECURSIVE numbers (i) AS (SELECT %d UNION ALL SELECT i + 1 FROM numbers WHERE i < %d) ", from, to-1)
	for _, q := range []string{
		"INSERT INTO runs (id, session_id, parent_id, agent, team, stage, driver, provider, model, status, reason, attempt, restart_of, created_us, started_us, error, result, input, definition, owner, token)" +
			" SELECT 'run_' || i, 'ses', 'p', 'a' || i % 700, '', '', 'script', '', '', 'DONE', 'COMPLETED', 1, '', 1, 1, '', '', '{}', '', '', 1 FROM numbers WHERE i % 100 = 0",
		"INSERT INTO usage_records (run_id, request_key, kind, at_us, source_rank, provenance, provider, model, input_tokens, cache_read_tokens, cache_write_short_tokens," +
			" cache_write_long_tokens, output_tokens, reasoning_tokens, backend, gpu, compute_us, is_error, cost_source, raw)" +
			" SELECT 'run_' || (i - i % 100), 'k' || i, 'model', CAST(i AS BIGINT) * 60000000, 4, 'MEASURED', 'p', 'm', 10, 0, 0, 0, 0, 0, '', '', 0, FALSE, '', '' FROM numbers",
	} {
		if err := s.Exec(t.Context(), numbersFirst(numbers, q)); err != nil {
			t.Fatal(err)
		}
	}
}

// numbersFirst puts a WITH clause where both databases take it.
func numbersFirst(with, insert string) string {
	at := strings.Index(insert, " SELECT ")
	return insert[:at+1] + with + insert[at+1:]
}

// oneRate prices each token at 3.
type oneRate struct{}

func (oneRate) Price(u run.UsageRecord, _ *run.Price) (run.Pricing, error) {
	nano := 3 * u.Tokens.Input
	return run.Pricing{Price: &run.Price{ID: "one", Body: []byte("{}")}, NanoUSD: &nano}, nil
}

// heard keeps the queries on usage records.
type heard struct{ queries []string }

func (*heard) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (h *heard) AfterQuery(_ context.Context, e *bun.QueryEvent) {
	if strings.Contains(e.Query, "usage_records") {
		h.queries = append(h.queries, e.Query)
	}
}

// TestRepriceReadsInBoundedSteps: a filter that matches 3 records of 200,000 makes
// no query look through more than its share of them.
func TestRepriceReadsInBoundedSteps(t *testing.T) {
	const records, share = 200_000, 5000
	onLedgers(t, records, func(t *testing.T, s *Store) {
		if err := s.Exec(t.Context(), "UPDATE usage_records SET provider = 'rare' WHERE request_key IN ('k0', 'k100004', 'k199999')"); err != nil {
			t.Fatal(err)
		}
		h := &heard{}
		s.read.AddQueryHook(h)
		lines, err := s.Reprice(t.Context(), run.Reprice{DryRun: true, Filter: run.RepriceFilter{Provider: "rare"}})
		if err != nil {
			t.Fatal(err)
		}
		n := int64(0)
		for _, l := range lines {
			n += l.Changed
		}
		if n != 3 {
			t.Errorf("%d records would change, want 3", n)
		}
		const stretches = records/share + 1 // the last one finds no end
		if got := len(h.queries); got != 2*stretches {
			t.Errorf("%d queries, want %d", got, 2*stretches)
		}
		for _, q := range []string{h.queries[0], h.queries[1], h.queries[stretches], h.queries[stretches+1]} {
			plan := explain(t, s, q)
			if !strings.Contains(plan, "usage_records_at") {
				t.Errorf("%s\nis answered by\n%s", q, plan)
			}
			if most := mostRows(plan); most > share+10 { // the sort reads on to the next moment
				t.Errorf("%s\nlooks through %d records:\n%s", q, most, plan)
			}
		}
	})
}

// TestDayIsReadFromTheIndex: adding up a day touches its records alone, and only
// the index of them.
func TestDayIsReadFromTheIndex(t *testing.T) {
	onLedgers(t, 60_000, func(t *testing.T, s *Store) {
		const dayMinutes = 1440
		var args []any
		for _, day := range []int64{10, 11} {
			args = append(args, day*dayUS)
		}
		plan := explain(t, s, s.read.NewRaw(daySums, args...).String())
		want := "SEARCH usage_records USING COVERING INDEX usage_records_at (at_us>? AND at_us<?)"
		if s.d.name() == postgres { // it may read the index alone, or take the places of the day's rows from it
			want = "usage_records_at"
		}
		if !strings.Contains(plan, want) || strings.Contains(plan, "Seq Scan on usage_records") || mostRows(plan) > dayMinutes {
			t.Errorf("a day is added up by\n%s", plan)
		}
		sums, err := s.SpentByAgent(t.Context(), timeOf(10*dayUS), timeOf(11*dayUS))
		if err != nil {
			t.Fatal(err)
		}
		tokens := int64(0)
		for _, spent := range sums {
			tokens += spent.Tokens
		}
		if tokens != 10*dayMinutes {
			t.Errorf("the day has %d tokens, want %d", tokens, 10*dayMinutes)
		}
	})
}

// explain says how the database answers a query; PostgreSQL with the rows that it
// read.
func explain(t *testing.T, s *Store, query string) string {
	t.Helper()
	if s.d.name() == sqliteName {
		return strings.Join(queryPlan(t, s, query), "\n")
	}
	var lines []string
	if err := s.read.NewRaw("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) ?", bun.Safe(query)).Scan(t.Context(), &lines); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

var planRows = regexp.MustCompile(`(?:actual rows=|Removed by \w+: )(\d+)`)

// mostRows is the most rows that one step of PostgreSQL's plan read or left out.
func mostRows(plan string) (most int) {
	for _, m := range planRows.FindAllStringSubmatch(plan, -1) {
		n, _ := strconv.Atoi(m[1])
		most = max(most, n)
	}
	return most
}
