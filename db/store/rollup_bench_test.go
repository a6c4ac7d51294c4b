package store_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
)

// rollupLimit is the most that a sweep of everything may take, as a multiple of
// the same sums made by one statement by hand.
const rollupLimit = 1.2

// BenchmarkRollup measures the sweep over 10,000, 100,000 and 1,000,000 closed
// runs in 980 keys (day, agent, team): of everything, beside the bare SQL on the
// same database in turns, and of one changed run, which must not read the rest.
// WEIR_ROLLUP_RUNS sets other sizes.
func BenchmarkRollup(b *testing.B) {
	sizes := "10000,100000,1000000"
	if text := os.Getenv("WEIR_ROLLUP_RUNS"); text != "" {
		sizes = text
	}
	for _, dialect := range []string{"sqlite", "postgres"} {
		for text := range strings.SplitSeq(sizes, ",") {
			n, err := strconv.Atoi(text)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/%d", dialect, n), func(b *testing.B) {
				for b.Loop() {
					benchRollup(b, dialect, n)
				}
			})
		}
	}
}

func benchRollup(b *testing.B, dialect string, n int) {
	o := store.Options{Path: b.TempDir()}
	if dialect == "postgres" {
		o = store.Options{URL: pgtest.Start(b).Database(b)}
	}
	s := openStore(b, o, &store.Fault{})
	_, conn := store.Raw(b, o)
	fillRuns(b, conn, n)
	statement(b, conn, "CREATE TABLE by_hand AS SELECT * FROM usage_rollups WHERE 1 = 0")
	statement(b, conn, "CREATE UNIQUE INDEX by_hand_key ON by_hand (day, agent, team, model, provider, backend)")
	statement(b, conn, "ANALYZE")
	ctx := context.Background()
	mineCPU, handCPU := clocks(b, s, conn, dialect)
	sweep := func() (wall, cpu float64) {
		if err := s.MarkRollups(ctx, time.Unix(0, 0)); err != nil {
			b.Fatal(err)
		}
		return timed(mineCPU, func() {
			if keys, err := s.SweepRollups(ctx); err != nil || keys != 980 {
				b.Fatalf("%d keys were swept, %v", keys, err)
			}
		})
	}
	hand := func() (wall, cpu float64) {
		return timed(handCPU, func() {
			statement(b, conn, "BEGIN")
			statement(b, conn, "DELETE FROM by_hand")
			statement(b, conn, handSum)
			statement(b, conn, "COMMIT")
		})
	}
	var mine, hands, ratios, walls, one []float64
	for i := range 4 { // the first round warms up
		mw, m := sweep()
		hw, h := hand()
		if i > 0 {
			mine, hands, ratios, walls = append(mine, m), append(hands, h), append(ratios, m/h), append(walls, mw/hw)
		}
	}
	for _, table := range []string{"by_hand", "usage_rollups"} {
		if got := number(b, conn, "SELECT sum(runs) * 1000 + sum(records) % 1000 FROM "+table); got != int64(n)*1000+int64(n)%1000 {
			b.Fatalf("%s sums up to %d", table, got)
		}
	}
	if diff := number(b, conn, "SELECT count(*) FROM (SELECT * FROM by_hand EXCEPT SELECT * FROM usage_rollups) AS d"); diff != 0 {
		b.Fatalf("%d sums are not those by hand", diff)
	}
	for i := range 9 {
		statement(b, conn, fmt.Sprintf("INSERT INTO rollup_dirty (day, agent, team) SELECT day, agent, team FROM runs WHERE id = 'run_%d'", 1+i*(n/10)))
		wall, _ := timed(mineCPU, func() {
			if keys, err := s.SweepRollups(ctx); err != nil || keys != 1 {
				b.Fatalf("%d keys were swept, %v", keys, err)
			}
		})
		one = append(one, wall)
	}
	b.Logf("%s, %d closed runs: everything %.0f ms of CPU, by hand %.0f ms (ratio %.2f, limit %.2f; of the wall's time %.2f); one changed run %.1f ms", dialect, n, median(mine), median(hands), median(ratios), rollupLimit, median(walls), median(one))
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(median(one), "ms-one-run")
	b.ReportMetric(median(mine), "cpu-ms-all")
	if r := median(ratios); n >= 100_000 && r > rollupLimit {
		b.Errorf("%s: sweeping %d runs takes %.2f of what it takes by hand, want at most %.2f", dialect, n, r, rollupLimit)
	}
	// One of 980 keys: by far less than a twentieth even beside what each transaction costs.
	if n >= 100_000 && median(one) > median(mine)/20 {
		b.Errorf("%s: one changed run of %d takes %.1f ms, all of them %.1f", dialect, n, median(one), median(mine))
	}
}

// fillRuns inserts n closed runs with one record each.
func fillRuns(b *testing.B, conn bun.Conn, n int) {
	b.Helper()
	const piece = 10_000
	for from := 0; from < n; from += piece {
		to := min(from+piece, n) - 1
		series := fmt.Sprintf("WITH RECURSIVE n (i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d)", from, to)
		statement(b, conn, "INSERT INTO runs (id, session_id, parent_id, agent, team, stage, driver, provider, model, status, reason, attempt, restart_of, created_us, started_us, ended_us, error, result, input, definition, owner, token) "+
			series+" SELECT 'run_' || i, 'ses_' || i, '', 'agent' || (i % 20), 'team' || (i / 20 % 7), '', 'llm', 'p', 'model' || (i % 3), 'DONE', 'COMPLETED', 1, '', 1, 1, (20000 + (i / 140) % 7) * CAST(86400000000 AS BIGINT) + i, '', '', '{}', '', '', 1 FROM n")
		statement(b, conn, "INSERT INTO usage_records (run_id, request_key, kind, at_us, source_rank, provenance, provider, model, input_tokens, cache_read_tokens, cache_write_short_tokens, cache_write_long_tokens, output_tokens, reasoning_tokens, backend, gpu, compute_us, is_error, cost_nano_usd, cost_source, raw) "+
			series+" SELECT 'run_' || i, 'req_' || i, 'model', i, 4, 'MEASURED', 'p', 'model' || (i % 3), i % 1000, 7, 1, 0, i % 77, 0, '', '', 0, FALSE, i, 'COMPUTED', '' FROM n")
	}
}

// handSum gives the same sums of everything: what the sweep adds is to find what
// is marked, and to replace it.
const handSum = `INSERT INTO by_hand (day, agent, team, model, provider, backend, runs, input_tokens, cache_read_tokens, cache_write_short_tokens, cache_write_long_tokens, output_tokens, reasoning_tokens,
 compute_us, cost_nano_usd, cost_source, provenance, records, unpriced)
SELECT day, agent, team, model, provider, backend, sum(runs), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_short_tokens), sum(cache_write_long_tokens), sum(output_tokens), sum(reasoning_tokens),
 sum(compute_us), CASE WHEN sum(cost_nano_usd) = 0 AND sum(records) > count(cost_nano_usd) THEN NULL ELSE sum(cost_nano_usd) END,
 CASE WHEN min(nullif(cost_source, '')) IS NULL THEN '' WHEN min(nullif(cost_source, '')) = max(cost_source) THEN max(cost_source) ELSE 'COMPUTED' END,
 CASE max(CASE provenance WHEN 'UNKNOWN' THEN 4 WHEN 'ESTIMATED' THEN 3 WHEN 'PARTIAL' THEN 2 WHEN 'MEASURED' THEN 1 ELSE 0 END)
  WHEN 4 THEN 'UNKNOWN' WHEN 3 THEN 'ESTIMATED' WHEN 2 THEN 'PARTIAL' WHEN 1 THEN 'MEASURED' ELSE '' END, sum(records), sum(records) - count(cost_nano_usd)
FROM (
 SELECT r.day, r.agent, r.team, u.model, u.provider, u.backend, 0 AS runs, u.input_tokens, u.cache_read_tokens, u.cache_write_short_tokens, u.cache_write_long_tokens, u.output_tokens, u.reasoning_tokens,
  u.compute_us, u.cost_nano_usd, u.cost_source, u.provenance, 1 AS records
 FROM runs r JOIN usage_records u ON u.run_id = r.id WHERE r.day IS NOT NULL AND NOT u.superseded
 UNION ALL
 SELECT day, agent, team, model, provider, '', 1, 0, 0, 0, 0, 0, 0, 0, NULL, '', '', 0 FROM runs WHERE day IS NOT NULL
) AS parts GROUP BY 1, 2, 3, 4, 5, 6`

func statement(b *testing.B, conn bun.Conn, query string) {
	b.Helper()
	if _, err := conn.ExecContext(context.Background(), query); err != nil {
		b.Fatalf("%.100s: %v", query, err)
	}
}

func number(b *testing.B, conn bun.Conn, query string) (n int64) {
	b.Helper()
	if err := conn.QueryRowContext(context.Background(), query).Scan(&n); err != nil {
		b.Fatalf("%.100s: %v", query, err)
	}
	return n
}

// timed gives the milliseconds that f takes, by the wall's clock and of CPU.
func timed(cpu func() float64, f func()) (wall, used float64) {
	start, before := time.Now(), cpu()
	f()
	return float64(time.Since(start).Microseconds()) / 1000, cpu() - before
}

// clocks read the CPU time of what works for the store and for the connection by
// hand: this process, or the server's processes. Other load on the machine
// changes it little.
func clocks(b *testing.B, s *store.Store, conn bun.Conn, dialect string) (mine, hand func() float64) {
	b.Helper()
	if dialect == "sqlite" {
		self := func() float64 {
			var u syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
				b.Fatal(err)
			}
			return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
		}
		return self, self
	}
	writer, err := s.WriterNumber("SELECT pg_backend_pid()")
	if err != nil {
		b.Fatal(err)
	}
	of := func(pid int64) func() float64 {
		return func() float64 {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil {
				b.Fatal(err)
			}
			f := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
			var ticks float64
			for _, field := range f[11:13] {
				n, err := strconv.ParseFloat(field, 64)
				if err != nil {
					b.Fatal(err)
				}
				ticks += n
			}
			return ticks * 10 // a hundred a second
		}
	}
	return of(writer), of(number(b, conn, "SELECT pg_backend_pid()"))
}
