package store

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

// sweepMarks is how many marks one transaction of a sweep works off.
const sweepMarks = 1000

// sweepLock is the PostgreSQL advisory lock that lets one replica sweep at a time.
const sweepLock = 0x77656973 // "weis"

// rollupKey is what one recomputation covers.
type rollupKey struct {
	day         int64
	agent, team string
}

// SweepRollups brings the rollups of everything that was marked up to date and
// gives the number of (day, agent, team) it recomputed. Sweeping again changes
// nothing; a replica that finds another one at it leaves it the work.
func (s *Store) SweepRollups(ctx context.Context) (int, error) {
	total := 0
	for {
		var keys, marks int
		err := s.w.do(ctx, &op{logic: func(t *tx) (err error) {
			keys, marks, err = t.sweep()
			return err
		}})
		if err != nil {
			return total, err
		}
		if total += keys; marks < sweepMarks {
			return total, nil
		}
	}
}

// MarkRollups makes the next sweep recompute everything from a day on: the check
// that is made once a day.
func (s *Store) MarkRollups(ctx context.Context, from time.Time) error {
	return s.w.do(ctx, &op{logic: func(t *tx) error {
		day := from.UTC().Unix() / 86400
		_, err := t.exec("marking rollups", "INSERT INTO rollup_dirty (day, agent, team)"+
			" SELECT day, agent, team FROM runs WHERE day >= ? UNION SELECT day, agent, team FROM usage_rollups WHERE day >= ?", day, day)
		return err
	}})
}

func (t *tx) sweep() (keys, marks int, err error) {
	if t.d.name() == postgres {
		free := false
		if err := t.query("taking the sweep", "SELECT pg_try_advisory_xact_lock(?)", func(rows *sql.Rows) error { return rows.Scan(&free) }, sweepLock); err != nil || !free {
			return 0, 0, err
		}
	}
	// The marks go first: one that is set while this runs stays for the next sweep,
	// and what follows sees every change whose mark was taken.
	seen := map[rollupKey]bool{}
	if err := t.query("taking rollup marks", "DELETE FROM rollup_dirty WHERE id IN (SELECT id FROM rollup_dirty ORDER BY id LIMIT ?) RETURNING day, agent, team", func(rows *sql.Rows) error {
		var k rollupKey
		marks++
		err := rows.Scan(&k.day, &k.agent, &k.team)
		seen[k] = true
		return err
	}, sweepMarks); err != nil || marks == 0 {
		return 0, marks, err
	}
	var list strings.Builder
	var args []any
	for k := range seen {
		if len(args) > 0 {
			list.WriteString(", ")
		}
		list.WriteString("(?, ?, ?)")
		args = append(args, k.day, k.agent, k.team)
	}
	wanted := "WITH wanted (day, agent, team) AS (VALUES " + list.String() + ") "
	// A key that lost its last run must not keep its old sums.
	if _, err := t.exec("emptying rollups", wanted+"DELETE FROM usage_rollups WHERE (day, agent, team) IN (SELECT day, agent, team FROM wanted)", args...); err != nil {
		return 0, marks, err
	}
	_, err = t.exec("summing up rollups", wanted+rollupSum, args...)
	return len(seen), marks, err
}

// rollupSum adds up the records of closed runs, each under its own model,
// provider and backend, and counts each run once, under its own.
var rollupSum = `, parts AS (
 SELECT r.day, r.agent, r.team, u.model, u.provider, u.backend, 0 AS runs, u.input_tokens, u.cache_read_tokens, u.cache_write_short_tokens,
  u.cache_write_long_tokens, u.output_tokens, u.reasoning_tokens, u.compute_us, u.cost_nano_usd, u.cost_source, u.provenance, 1 AS records
 FROM wanted w JOIN runs r ON r.day = w.day AND r.agent = w.agent AND r.team = w.team JOIN usage_records u ON u.run_id = r.id AND NOT u.superseded
 UNION ALL
 SELECT r.day, r.agent, r.team, r.model, r.provider, '', 1, 0, 0, 0, 0, 0, 0, 0, NULL, '', '', 0
 FROM wanted w JOIN runs r ON r.day = w.day AND r.agent = w.agent AND r.team = w.team)
INSERT INTO usage_rollups (day, agent, team, model, provider, backend, runs, ` + sumColumns + `)
SELECT day, agent, team, model, provider, backend, CAST(sum(runs) AS BIGINT), CAST(sum(input_tokens) AS BIGINT), CAST(sum(cache_read_tokens) AS BIGINT),
 CAST(sum(cache_write_short_tokens) AS BIGINT), CAST(sum(cache_write_long_tokens) AS BIGINT), CAST(sum(output_tokens) AS BIGINT),
 CAST(sum(reasoning_tokens) AS BIGINT), CAST(sum(compute_us) AS BIGINT), ` + knownMoney("sum(records)") + `, ` + commonSource + `, ` + worstProvenance + `,
 CAST(sum(records) AS BIGINT), CAST(sum(records) - count(cost_nano_usd) AS BIGINT)
FROM parts GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6`

type rollupRow struct {
	bun.BaseModel `bun:"table:usage_rollups,alias:o"`

	Day      int64  `bun:"day"`
	Agent    string `bun:"agent"`
	Team     string `bun:"team"`
	Model    string `bun:"model"`
	Provider string `bun:"provider"`
	Backend  string `bun:"backend"`
	Runs     int64  `bun:"runs"`
	usageSums
}

// Rollups gives the rollups of the days from from to to, both included, UTC.
func (s *Store) Rollups(ctx context.Context, from, to time.Time) ([]run.UsageRollup, error) {
	var rows []rollupRow
	if err := s.read.NewSelect().Model(&rows).Where("day BETWEEN ? AND ?", from.UTC().Unix()/86400, to.UTC().Unix()/86400).
		Order("day", "agent", "team", "model", "provider", "backend").Limit(maxRows).Scan(ctx); err != nil {
		return nil, s.readError("reading usage rollups", err)
	}
	out := make([]run.UsageRollup, len(rows))
	for i := range rows {
		out[i] = rows[i].rollup()
	}
	return out, nil
}

func (r *rollupRow) rollup() run.UsageRollup {
	return run.UsageRollup{
		Day: time.Unix(r.Day*86400, 0).UTC(), Agent: r.Agent, Team: r.Team, Model: r.Model, Provider: r.Provider, Backend: r.Backend,
		Runs: r.Runs, Usage: r.usage(),
	}
}
