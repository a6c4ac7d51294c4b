package store

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

// sweepKeys is how many keys one transaction of a sweep recomputes: nothing else
// is written meanwhile. SQLite takes as long for many as for one after the
// other; PostgreSQL takes half the time when it can join whole tables.
func sweepKeys(d dialect) int {
	if d.name() == postgres {
		return 1000
	}
	return 250
}

// sweepLock is the PostgreSQL advisory lock that lets one replica sweep at a time.
const sweepLock = 0x77656973 // "weis"

// rollupKey is what one recomputation covers.
type rollupKey struct {
	day         int64
	agent, team string
}

// SweepRollups brings the rollups of everything that was marked up to date and
// gives the number of (day, agent, team) it recomputed. Sweeping again changes
// nothing; a replica that finds another one at it leaves it the work. A key that
// cannot be summed up stays marked, with its old sums, and stops no other.
func (s *Store) SweepRollups(ctx context.Context) (int, error) {
	total, limit := 0, sweepKeys(s.d)
	skip := map[rollupKey]bool{}
	for {
		var keys []rollupKey
		err := s.w.do(ctx, &op{logic: func(t *tx) (err error) {
			keys, err = t.sweep(limit, skip)
			return err
		}})
		if err != nil && ctx.Err() != nil {
			return total, err // the writer may still be at it: keys are its
		}
		switch class := classify(err); {
		case err == nil && len(keys) < limit:
			return total + len(keys), nil
		case err == nil:
			total += len(keys)
			limit = min(2*limit, sweepKeys(s.d))
		case len(keys) == 0 || (class != classData && class != classOther && sqlState(err) != statementTimeout):
			return total, err
		case len(keys) > 1:
			limit = len(keys) / 2
		default:
			skip[keys[0]] = true
			s.log.Error("A day's usage cannot be summed up; its report stays as it is", "day", time.Unix(keys[0].day*86400, 0).UTC().Format(time.DateOnly), "agent", keys[0].agent, "team", keys[0].team, "error", err)
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

// sweep recomputes the next keys that are marked, but for those to skip.
func (t *tx) sweep(limit int, skip map[rollupKey]bool) ([]rollupKey, error) {
	if t.d.name() == postgres {
		free := false
		if err := t.query("taking the sweep", "SELECT pg_try_advisory_xact_lock(?)", func(rows *sql.Rows) error { return rows.Scan(&free) }, sweepLock); err != nil || !free {
			return nil, err
		}
		// Else it sorts on disk. One replica sweeps at a time, by one statement.
		if _, err := t.exec("making room for sums", "SET LOCAL work_mem = '64MB'"); err != nil {
			return nil, err
		}
	}
	var keys []rollupKey
	if err := t.query("looking for rollup marks", "SELECT DISTINCT day, agent, team FROM rollup_dirty ORDER BY day, agent, team LIMIT ?", func(rows *sql.Rows) error {
		var k rollupKey
		err := rows.Scan(&k.day, &k.agent, &k.team)
		if !skip[k] && len(keys) < limit {
			keys = append(keys, k)
		}
		return err
	}, limit+len(skip)); err != nil || len(keys) == 0 {
		return nil, err
	}
	var list strings.Builder
	args := make([]any, 0, 3*len(keys))
	for i, k := range keys {
		if i > 0 {
			list.WriteString(", ")
		}
		list.WriteString("(?, ?, ?)")
		args = append(args, k.day, k.agent, k.team)
	}
	wanted := "WITH wanted (day, agent, team) AS (VALUES " + list.String() + ") "
	// The marks go first: one that is set while this runs stays for the next sweep,
	// and what follows sees every change whose mark was taken.
	if _, err := t.exec("taking rollup marks", wanted+"DELETE FROM rollup_dirty WHERE (day, agent, team) IN (SELECT day, agent, team FROM wanted)", args...); err != nil {
		return keys, err
	}
	// A key that lost its last run must not keep its old sums.
	if _, err := t.exec("emptying rollups", wanted+"DELETE FROM usage_rollups WHERE (day, agent, team) IN (SELECT day, agent, team FROM wanted)", args...); err != nil {
		return keys, err
	}
	_, err := t.exec("summing up rollups", wanted+rollupSum(t.d), args...)
	return keys, err
}

// rollupSum adds up the records of closed runs, each under its own model,
// provider and backend, and counts each run once, under its own. PostgreSQL
// takes a join with the wanted keys for one that gives a few rows, and then reads
// run by run; of the keys that IN names it expects as many as there are.
func rollupSum(d dialect) string {
	runs, wanted := "wanted w JOIN runs r ON r.day = w.day AND r.agent = w.agent AND r.team = w.team", ""
	if d.name() == postgres {
		runs, wanted = "runs r", " WHERE (r.day, r.agent, r.team) IN (SELECT day, agent, team FROM wanted)"
	}
	return `, parts AS (
 SELECT r.day, r.agent, r.team, u.model, u.provider, u.backend, 0 AS runs, u.input_tokens, u.cache_read_tokens, u.cache_write_short_tokens,
  u.cache_write_long_tokens, u.output_tokens, u.reasoning_tokens, u.compute_us, u.cost_nano_usd, u.cost_source, u.provenance, 1 AS records
 FROM ` + runs + ` JOIN usage_records u ON u.run_id = r.id AND NOT u.superseded` + wanted + `
 UNION ALL
 SELECT r.day, r.agent, r.team, r.model, r.provider, '', 1, 0, 0, 0, 0, 0, 0, 0, NULL, '', '', 0
 FROM ` + runs + wanted + `)
INSERT INTO usage_rollups (day, agent, team, model, provider, backend, runs, ` + sumColumns + `)
SELECT day, agent, team, model, provider, backend, CAST(sum(runs) AS BIGINT), CAST(sum(input_tokens) AS BIGINT), CAST(sum(cache_read_tokens) AS BIGINT),
 CAST(sum(cache_write_short_tokens) AS BIGINT), CAST(sum(cache_write_long_tokens) AS BIGINT), CAST(sum(output_tokens) AS BIGINT),
 CAST(sum(reasoning_tokens) AS BIGINT), CAST(sum(compute_us) AS BIGINT), ` + knownMoney("sum(records)") + `, ` + commonSource + `, ` + worstProvenance + `,
 CAST(sum(records) AS BIGINT), CAST(sum(records) - count(cost_nano_usd) AS BIGINT)
FROM parts GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6`
}

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
