package store

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

const (
	defaultMaxPoints = 1000
	limitMaxPoints   = 20_000
	// rawPoints bounds the points that a query below the first stored level reads.
	rawPoints = 200_000
	// maxCurves bounds one answer; a program may log as many names as it likes.
	maxCurves = 1000
	// maxBuckets bounds the buckets of all curves of one answer: many curves come
	// with fewer points each, which is within "at most maxPoints".
	maxBuckets = 200_000
)

// Metrics gives the curves of a run. The width of a curve's buckets is the
// smallest power of two with which the steps asked for, as far as the curve has
// any, fit into MaxPoints buckets; with width 1 every step comes exactly. A
// bucket always spans the same steps, so one at the edge of the range may hold
// points beyond it. All curves come from one snapshot and hold exactly the
// points of the events up to AsOfSeq.
func (s *Store) Metrics(ctx context.Context, id run.ID, q run.MetricQuery) ([]run.Series, error) {
	switch {
	case q.MaxPoints < 0:
		return nil, run.Errorf(run.Invalid, "maxPoints is %d; it must not be negative", q.MaxPoints)
	case q.MaxPoints > limitMaxPoints:
		return nil, run.Errorf(run.Invalid, "maxPoints is %d; the most is %d", q.MaxPoints, limitMaxPoints)
	case q.MaxPoints == 0:
		q.MaxPoints = defaultMaxPoints
	}
	// One snapshot for the mark, the buckets, the tail and the points.
	opts := &sql.TxOptions{ReadOnly: true}
	if s.d.name() == postgres {
		opts.Isolation = sql.LevelRepeatableRead
	}
	tx, err := s.read.BeginTx(ctx, opts)
	if err != nil {
		return nil, s.readError("reading metrics", err)
	}
	defer func() { _ = tx.Rollback() }()
	r := metricReader{s: s, tx: tx, run: id, q: q}
	out, err := r.read(ctx)
	if err != nil {
		return nil, s.readError("reading metrics", err)
	}
	return out, nil
}

type metricReader struct {
	s   *Store
	tx  bun.Tx
	run run.ID
	q   run.MetricQuery
}

// curve is a series on its way to its buckets.
type curve struct {
	id     int64
	key    run.SeriesKey
	tail   []pointRow // behind the mark: not yet in a bucket
	lo, hi int64      // the steps it has, within those asked for
}

func (r *metricReader) read(ctx context.Context) ([]run.Series, error) {
	var session run.SessionID
	if err := r.each(ctx, "SELECT session_id FROM runs WHERE id = ?", func(rows *sql.Rows) error { return rows.Scan(&session) }, string(r.run)); err != nil {
		return nil, err
	}
	if session == "" {
		return nil, noRun(r.run)
	}
	var sid, folded, last int64
	if err := r.each(ctx, "SELECT sid, folded_seq, last_seq FROM sessions WHERE id = ?", func(rows *sql.Rows) error { return rows.Scan(&sid, &folded, &last) }, string(session)); err != nil {
		return nil, err
	}
	if sid == 0 {
		return nil, nil // the session was deleted, its points with it
	}
	curves, err := r.curves(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case len(curves) == 0:
		return nil, nil
	case len(curves) > maxCurves:
		return nil, run.Errorf(run.Invalid, "more than %d curves of run %s are asked for; name fewer of them with names", maxCurves, r.run)
	}
	r.q.MaxPoints = min(r.q.MaxPoints, maxBuckets/len(curves))
	if err := r.tails(ctx, curves, sid, folded, last); err != nil {
		return nil, err
	}
	var out []run.Series
	for _, c := range slices.SortedFunc(maps.Values(curves), func(a, b *curve) int {
		return cmp.Or(cmp.Compare(a.key.Name, b.key.Name), cmp.Compare(a.key.RunTag, b.key.RunTag), cmp.Compare(a.key.Stage, b.key.Stage), cmp.Compare(a.key.Attempt, b.key.Attempt))
	}) {
		buckets, err := r.buckets(ctx, c)
		if err != nil {
			return nil, err
		}
		out = append(out, run.Series{Key: c.key, AsOfSeq: last, Buckets: buckets})
	}
	return out, nil
}

func (r *metricReader) each(ctx context.Context, query string, scan func(*sql.Rows) error, args ...any) error {
	rows, err := r.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	return eachRow(rows, scan)
}

// curves gives the run's series with the chosen names.
func (r *metricReader) curves(ctx context.Context) (map[run.SeriesKey]*curve, error) {
	query, args := "SELECT id, attempt, stage, tag, name FROM series WHERE run_id = ?", []any{string(r.run)}
	if r.q.Names != nil {
		if len(r.q.Names) == 0 {
			return nil, nil
		}
		query, args = query+" AND name IN (?)", append(args, bun.List(r.q.Names))
	}
	query, args = query+" ORDER BY id LIMIT ?", append(args, maxCurves+1)
	out := map[run.SeriesKey]*curve{}
	err := r.each(ctx, query, func(rows *sql.Rows) error {
		c := &curve{key: run.SeriesKey{Run: r.run}}
		if err := rows.Scan(&c.id, &c.key.Attempt, &c.key.Stage, &c.key.RunTag, &c.key.Name); err != nil {
			return err
		}
		key := c.key
		key.Attempt = 0 // a run has one attempt; the log's points do not name it
		out[key] = c
		return nil
	}, args...)
	return out, err
}

// tails reads the points behind the mark from the log: at most about a second's.
func (r *metricReader) tails(ctx context.Context, curves map[run.SeriesKey]*curve, sid, folded, last int64) error {
	for folded < last {
		upTo := min(last, folded+foldChunk)
		err := r.each(ctx, "SELECT seq, body FROM events WHERE sid = ? AND seq > ? AND seq <= ? AND kind = ? AND run_id = ? ORDER BY seq", func(rows *sql.Rows) error {
			var seq int64
			var body sql.RawBytes
			if err := rows.Scan(&seq, &body); err != nil {
				return err
			}
			return eachLogged(r.run, seq, body, func(key run.SeriesKey, p pointRow) {
				if c := curves[key]; c != nil {
					c.tail = append(c.tail, p)
				}
			})
		}, sid, folded, upTo, run.TypeMetricsLogged.Code(), string(r.run))
		if err != nil {
			return err
		}
		folded = upTo
	}
	return nil
}

// buckets folds one curve.
func (r *metricReader) buckets(ctx context.Context, c *curve) ([]run.Bucket, error) {
	ok, err := r.extent(ctx, c)
	if err != nil || !ok {
		return nil, err
	}
	level := levelFor(c.lo, c.hi, r.q.MaxPoints)
	sums := map[int64]*summary{}
	if level < levels[0] {
		few, err := r.points(ctx, c, level, sums)
		if err != nil {
			return nil, err
		}
		if few {
			return bucketsOf(sums, level), nil
		}
		// Far too many points for so few steps: the first stored level has them.
		level = levels[0]
		clear(sums)
	}
	stored := levels[0]
	for _, l := range levels {
		if l <= level {
			stored = l
		}
	}
	err = r.each(ctx, "SELECT "+bucketColumns+" FROM metric_buckets WHERE series = ? AND level = ? AND bucket BETWEEN ? AND ?", func(rows *sql.Rows) error {
		row, err := scanBucket(rows)
		if err == nil {
			at(sums, row.bucket>>(level-stored)).merge(&row.summary)
		}
		return err
	}, c.id, stored, c.lo>>level<<(level-stored), (c.hi>>level+1)<<(level-stored)-1)
	if err != nil {
		return nil, err
	}
	for i := range c.tail {
		p := &c.tail[i]
		if b := p.step >> level; b >= c.lo>>level && b <= c.hi>>level {
			at(sums, b).add(p)
		}
	}
	return bucketsOf(sums, level), nil
}

func at(sums map[int64]*summary, b int64) *summary {
	s := sums[b]
	if s == nil {
		s = &summary{}
		sums[b] = s
	}
	return s
}

// extent finds the first and last step of the curve within those asked for.
func (r *metricReader) extent(ctx context.Context, c *curve) (bool, error) {
	var lo, hi sql.NullInt64
	if err := r.each(ctx, "SELECT min(min_step), max(max_step) FROM metric_buckets WHERE series = ? AND level = ?", func(rows *sql.Rows) error {
		return rows.Scan(&lo, &hi)
	}, c.id, levels[len(levels)-1]); err != nil {
		return false, err
	}
	found := lo.Valid
	c.lo, c.hi = lo.Int64, hi.Int64
	for _, p := range c.tail {
		if !found {
			c.lo, c.hi, found = p.step, p.step, true
		}
		c.lo, c.hi = min(c.lo, p.step), max(c.hi, p.step)
	}
	if r.q.FromStep != nil {
		c.lo = max(c.lo, *r.q.FromStep)
	}
	if r.q.ToStep != nil {
		c.hi = min(c.hi, *r.q.ToStep)
	}
	return found && c.lo <= c.hi, nil
}

// levelFor gives the smallest level at which lo to hi lie in at most n buckets.
// Steps below and from 0 on are never in one bucket.
func levelFor(lo, hi int64, n int) int {
	if lo < 0 && hi >= 0 {
		n = max(n, 2)
	}
	level := 0
	for level < 63 && uint64(hi>>level)-uint64(lo>>level) >= uint64(n) {
		level++
	}
	return level
}

// points folds the stored points themselves, and gives false when there are too
// many. The tail is among them.
func (r *metricReader) points(ctx context.Context, c *curve, level int, sums map[int64]*summary) (bool, error) {
	lo, hi := c.lo>>level<<level, c.hi>>level<<level+1<<level-1
	n := 0
	err := r.each(ctx, "SELECT step, ord, at_us, special, value FROM metric_points WHERE series = ? AND step BETWEEN ? AND ? LIMIT ?", func(rows *sql.Rows) error {
		var p pointRow
		var v sql.NullFloat64
		if err := rows.Scan(&p.step, &p.ord, &p.atUS, &p.special, &v); err != nil {
			return err
		}
		p.value = v.Float64
		n++
		at(sums, p.step>>level).add(&p)
		return nil
	}, c.id, lo, hi, rawPoints+1)
	return n <= rawPoints, err
}

func scanBucket(rows *sql.Rows) (bucketRow, error) {
	var b bucketRow
	var mn, mx, first, last sql.NullFloat64
	err := rows.Scan(&b.series, &b.level, &b.bucket, &b.n, &b.nan, &b.posInf, &b.negInf, &b.minStep, &b.maxStep, &b.firstUS, &b.lastUS,
		&mn, &mx, &b.firstStep, &b.firstOrd, &first, &b.lastStep, &b.lastOrd, &last)
	b.min, b.max, b.first, b.last = mn.Float64, mx.Float64, first.Float64, last.Float64
	return b, err
}

func bucketsOf(sums map[int64]*summary, level int) []run.Bucket {
	out := make([]run.Bucket, 0, len(sums))
	for _, b := range slices.Sorted(maps.Keys(sums)) {
		s := sums[b]
		from := b << level
		out = append(out, run.Bucket{
			FromStep: from, ToStep: from + (1<<level - 1), Count: s.n, NaN: s.nan, PositiveInfinity: s.posInf, NegativeInfinity: s.negInf,
			Min: s.min, Max: s.max, First: s.first, Last: s.last, FirstAt: timeOf(s.firstUS), LastAt: timeOf(s.lastUS),
		})
	}
	return out
}
