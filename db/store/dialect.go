package store

import (
	"context"
	"database/sql"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

const (
	sqliteName = "sqlite"
	postgres   = "postgres"
)

// dialect is what differs between the two databases. Its methods are called by
// the writer only.
type dialect interface {
	name() string
	begin() string
	// forUpdate and forShare end a SELECT that locks its rows.
	forUpdate() string
	forShare() string
	attach(ctx context.Context, conn bun.Conn) error
	detach()
	// beforeCommit makes sure that the outcome of the commit can be asked for.
	beforeCommit(t *tx) error
	// reserve gives each session n new seqs, in the order of their ids, and leaves
	// out those that do not exist.
	reserve(t *tx, wants []reserve) (map[run.SessionID]reserved, error)
	insertEvents(t *tx, rows []eventRow) error
	insertPoints(t *tx, rows []pointRow) error
	upsertBuckets(t *tx, rows []bucketRow) error
}

// reserve asks for n seqs of a session.
type reserve struct {
	session run.SessionID
	n       int
	points  bool // metric points come with them
}

// reserved is a session after its seqs were taken; its row is locked until the
// transaction ends.
type reserved struct {
	sid    int64
	last   int64 // the highest seq taken
	folded int64 // buckets hold the points up to here
}

type eventRow struct {
	sid, seq, atUS int64
	kind           int
	e              *run.Event
}

type pointRow struct {
	series, step, ord, atUS int64
	special                 run.Special
	value                   float64
}

// bucketRow is a row of metric_buckets.
type bucketRow struct {
	series int64
	level  int
	bucket int64
	summary
}

// keepFolded is the SET clause that moves the mark of the folded points along
// while there are no unfolded ones, so that a log without metrics is never read
// again for them.
const keepFolded = "folded_seq = CASE WHEN folded_seq = last_seq THEN last_seq + ? ELSE folded_seq END"

const (
	eventColumns  = "sid, seq, at_us, kind, run_id, agent, stage, body"
	pointColumns  = "series, step, ord, at_us, special, value"
	bucketColumns = "series, level, bucket, n, nan, pos_inf, neg_inf, min_step, max_step, first_us, last_us, mn, mx, first_step, first_ord, first_v, last_step, last_ord, last_v"
)

// bucketMerge adds a bucket to the stored one, so that the order of merging does
// not matter: first and last are by (step, ord).
const bucketMerge = ` ON CONFLICT (series, level, bucket) DO UPDATE SET
 n = b.n + excluded.n, nan = b.nan + excluded.nan, pos_inf = b.pos_inf + excluded.pos_inf, neg_inf = b.neg_inf + excluded.neg_inf,
 min_step = CASE WHEN excluded.min_step < b.min_step THEN excluded.min_step ELSE b.min_step END,
 max_step = CASE WHEN excluded.max_step > b.max_step THEN excluded.max_step ELSE b.max_step END,
 first_us = CASE WHEN excluded.first_us < b.first_us THEN excluded.first_us ELSE b.first_us END,
 last_us = CASE WHEN excluded.last_us > b.last_us THEN excluded.last_us ELSE b.last_us END,
 mn = CASE WHEN b.mn IS NULL OR excluded.mn < b.mn THEN excluded.mn ELSE b.mn END,
 mx = CASE WHEN b.mx IS NULL OR excluded.mx > b.mx THEN excluded.mx ELSE b.mx END,
 first_v = CASE WHEN b.first_v IS NULL OR (excluded.first_v IS NOT NULL AND (excluded.first_step, excluded.first_ord) < (b.first_step, b.first_ord)) THEN excluded.first_v ELSE b.first_v END,
 first_step = CASE WHEN b.first_v IS NULL OR (excluded.first_v IS NOT NULL AND (excluded.first_step, excluded.first_ord) < (b.first_step, b.first_ord)) THEN excluded.first_step ELSE b.first_step END,
 first_ord = CASE WHEN b.first_v IS NULL OR (excluded.first_v IS NOT NULL AND (excluded.first_step, excluded.first_ord) < (b.first_step, b.first_ord)) THEN excluded.first_ord ELSE b.first_ord END,
 last_v = CASE WHEN b.last_v IS NULL OR (excluded.last_v IS NOT NULL AND (excluded.last_step, excluded.last_ord) > (b.last_step, b.last_ord)) THEN excluded.last_v ELSE b.last_v END,
 last_step = CASE WHEN b.last_v IS NULL OR (excluded.last_v IS NOT NULL AND (excluded.last_step, excluded.last_ord) > (b.last_step, b.last_ord)) THEN excluded.last_step ELSE b.last_step END,
 last_ord = CASE WHEN b.last_v IS NULL OR (excluded.last_v IS NOT NULL AND (excluded.last_step, excluded.last_ord) > (b.last_step, b.last_ord)) THEN excluded.last_ord ELSE b.last_ord END`

// null gives v, or SQL's NULL when there is no finite value.
func null(v float64, ok bool) sql.NullFloat64 { return sql.NullFloat64{Float64: v, Valid: ok} }
