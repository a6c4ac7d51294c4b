package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/weirhq/weir/runtime/run"
)

// Buckets are kept for these levels; a bucket of level k spans 2^k steps. Finer
// ones are read from the points, coarser ones folded from level 20 at most.
var levels = [...]int{4, 8, 12, 16, 20}

// summary is a fold of points; merging is the same in any order.
type summary struct {
	n, nan, posInf, negInf int64
	minStep, maxStep       int64
	firstUS, lastUS        int64
	// Of the finite points.
	min, max            float64
	firstStep, firstOrd int64
	first               float64
	lastStep, lastOrd   int64
	last                float64
}

func (s *summary) finite() int64 { return s.n - s.nan - s.posInf - s.negInf }

func (s *summary) add(p *pointRow) {
	one := summary{n: 1, minStep: p.step, maxStep: p.step, firstUS: p.atUS, lastUS: p.atUS}
	switch p.special {
	case run.NaN:
		one.nan = 1
	case run.PositiveInfinity:
		one.posInf = 1
	case run.NegativeInfinity:
		one.negInf = 1
	case run.Finite:
		one.min, one.max, one.first, one.last = p.value, p.value, p.value, p.value
		one.firstStep, one.lastStep, one.firstOrd, one.lastOrd = p.step, p.step, p.ord, p.ord
	}
	s.merge(&one)
}

func (s *summary) merge(o *summary) {
	if o.n == 0 {
		return
	}
	if s.n == 0 {
		*s = *o
		return
	}
	mine, its := s.finite() > 0, o.finite() > 0
	s.n, s.nan, s.posInf, s.negInf = s.n+o.n, s.nan+o.nan, s.posInf+o.posInf, s.negInf+o.negInf
	s.minStep, s.maxStep = min(s.minStep, o.minStep), max(s.maxStep, o.maxStep)
	s.firstUS, s.lastUS = min(s.firstUS, o.firstUS), max(s.lastUS, o.lastUS)
	if !its {
		return
	}
	if !mine || o.min < s.min {
		s.min = o.min
	}
	if !mine || o.max > s.max {
		s.max = o.max
	}
	if !mine || before(o.firstStep, o.firstOrd, s.firstStep, s.firstOrd) {
		s.first, s.firstStep, s.firstOrd = o.first, o.firstStep, o.firstOrd
	}
	if !mine || before(s.lastStep, s.lastOrd, o.lastStep, o.lastOrd) {
		s.last, s.lastStep, s.lastOrd = o.last, o.lastStep, o.lastOrd
	}
}

func before(step, ord, step2, ord2 int64) bool {
	return step < step2 || step == step2 && ord < ord2
}

// foldState is what one session has beyond the buckets in the database.
type foldState struct {
	base, upTo int64 // it covers the events after base up to upTo
	// broken: another process appended in between, or a crash lost the memory. The
	// points are then read back from the log.
	broken bool
	points int
	series map[int64]*seriesFold // level 4
}

type seriesFold struct {
	buckets map[int64]*summary
	at      int64 // of current
	current *summary
}

// leftovers finds the sessions whose points a crash left unfolded, and the
// deleted ones that are not yet removed.
func (w *writer) leftovers(ctx context.Context) error {
	rows, err := w.s.read.QueryContext(ctx, "SELECT id, folded_seq, last_seq FROM sessions WHERE folded_seq < last_seq")
	if err == nil {
		err = eachRow(rows, func(rows *sql.Rows) error {
			var id run.SessionID
			f := &foldState{broken: true}
			if err := rows.Scan(&id, &f.base, &f.upTo); err != nil {
				return err
			}
			w.folds[id] = f
			return nil
		})
	}
	var n int
	if err == nil {
		err = w.s.read.NewRaw("SELECT count(*) FROM session_purges").Scan(ctx, &n)
	}
	if err != nil {
		return fmt.Errorf("reading what the last server left to do: %w", err)
	}
	w.purge = n > 0
	return nil
}

// noteFold keeps, after the commit, the account of which seqs the memory covers.
// It runs before the points of the same transaction are added, because it was
// registered later but resets nothing that they need.
func (w *writer) noteFold(t *tx, want reserve, got reserved) {
	first := got.last - int64(want.n) + 1
	t.after = append(t.after, func() {
		f := w.folds[want.session]
		if f == nil {
			if got.folded == got.last {
				return // nothing is unfolded
			}
			f = w.foldOf(want.session)
		}
		if f.upTo == 0 { // new
			f.base, f.upTo, f.broken = got.folded, first-1, got.folded != first-1
		}
		if f.upTo != first-1 {
			f.broken = true
		}
		f.upTo = got.last
		if !w.foldDue {
			w.foldDue = true
			w.foldTimer.Reset(foldEvery)
		}
		if f.points > foldPoints {
			w.foldTimer.Reset(0)
		}
	})
}

func (w *writer) foldOf(session run.SessionID) *foldState {
	f := w.folds[session]
	if f == nil {
		f = &foldState{series: map[int64]*seriesFold{}}
		w.folds[session] = f
	}
	return f
}

// foldPoint adds a committed point to the memory.
func (w *writer) foldPoint(session run.SessionID, _ int64, p pointRow) {
	f := w.foldOf(session)
	f.points++
	if f.broken {
		return
	}
	f.add(&p)
}

func (f *foldState) add(p *pointRow) {
	if f.series == nil {
		f.series = map[int64]*seriesFold{}
	}
	s := f.series[p.series]
	if s == nil {
		s = &seriesFold{buckets: map[int64]*summary{}}
		f.series[p.series] = s
	}
	at := p.step >> levels[0]
	if s.current == nil || s.at != at {
		s.at, s.current = at, s.buckets[at]
		if s.current == nil {
			s.current = &summary{}
			s.buckets[at] = s.current
		}
	}
	s.current.add(p)
}

// rows gives the buckets of all levels, sorted by key so that two processes
// write them in the same order.
func (f *foldState) rows() []bucketRow {
	var out []bucketRow
	for _, id := range slices.Sorted(maps.Keys(f.series)) {
		at := f.series[id].buckets
		for i, level := range levels {
			if i > 0 {
				shift := level - levels[i-1]
				up := make(map[int64]*summary, len(at)>>shift+1)
				for b, s := range at {
					if up[b>>shift] == nil {
						up[b>>shift] = &summary{}
					}
					up[b>>shift].merge(s)
				}
				at = up
			}
			for _, b := range slices.Sorted(maps.Keys(at)) {
				out = append(out, bucketRow{series: id, level: level, bucket: b, summary: *at[b]})
			}
		}
	}
	return out
}

// foldNow writes the buckets of all sessions; true means that more of a log is
// to be read. What fails is tried again later.
func (w *writer) foldNow() (more bool) {
	w.foldDue = false
	for _, session := range slices.Sorted(maps.Keys(w.folds)) {
		f := w.folds[session]
		done, err := w.fold(session, f)
		switch {
		case err == nil && done:
			delete(w.folds, session)
		case err != nil:
			// Reads stay right meanwhile: they take what is unfolded from the log.
			w.s.log.Warn("metric buckets could not be written; trying again", "session", session, "error", err)
			f.broken, f.series = true, nil
			w.foldDue = true
		default:
			w.foldDue, more = true, true
		}
	}
	if w.foldDue {
		w.foldTimer.Reset(foldEvery)
	}
	return more
}

// fold writes the buckets of one session and moves its mark, in one transaction.
func (w *writer) fold(session run.SessionID, f *foldState) (done bool, err error) {
	_, err = w.transact(func(t *tx) error {
		done = true
		var sid, folded, last int64
		if err := t.query("locking a session", "SELECT sid, folded_seq, last_seq FROM sessions WHERE id = ?"+t.d.forUpdate(), func(rows *sql.Rows) error {
			return rows.Scan(&sid, &folded, &last)
		}, string(session)); err != nil {
			return err
		}
		if sid == 0 || folded == last {
			return nil // deleted, or folded by another process
		}
		from, upTo := f, last
		if f.broken || f.base != folded || f.upTo != last {
			from = &foldState{}
			if upTo, err = w.readFold(t, from, sid, folded, last); err != nil {
				return err
			}
			done = upTo == last
		}
		if err := t.d.upsertBuckets(t, from.rows()); err != nil {
			return err
		}
		_, err := t.exec("moving the mark of folded points", "UPDATE sessions SET folded_seq = ? WHERE id = ?", upTo, string(session))
		return err
	})
	return done, err
}

// foldChunk bounds the events of one transaction that folds from the log.
const foldChunk = 20_000

// readFold folds points from the log, at most one chunk of events, and gives
// the seq up to which it came.
func (w *writer) readFold(t *tx, f *foldState, sid, folded, last int64) (int64, error) {
	last = min(last, folded+foldChunk)
	type body struct {
		seq  int64
		run  run.ID
		text []byte
	}
	var bodies []body
	if err := t.query("reading metric events", "SELECT seq, run_id, body FROM events WHERE sid = ? AND seq > ? AND seq <= ? AND kind = ? ORDER BY seq", func(rows *sql.Rows) error {
		var b body
		if err := rows.Scan(&b.seq, &b.run, &b.text); err != nil {
			return err
		}
		bodies = append(bodies, b)
		return nil
	}, sid, folded, last, run.TypeMetricsLogged.Code()); err != nil {
		return 0, err
	}
	ids := map[run.ID]map[run.SeriesKey]int64{}
	for _, b := range bodies {
		known := ids[b.run]
		if known == nil {
			known = map[run.SeriesKey]int64{}
			ids[b.run] = known
			if err := t.query("reading metric series", "SELECT id, stage, tag, name FROM series WHERE run_id = ?", func(rows *sql.Rows) error {
				var id int64
				key := run.SeriesKey{Run: b.run}
				if err := rows.Scan(&id, &key.Stage, &key.RunTag, &key.Name); err != nil {
					return err
				}
				known[key] = id
				return nil
			}, string(b.run)); err != nil {
				return 0, err
			}
		}
		err := eachLogged(b.run, b.seq, b.text, func(key run.SeriesKey, p pointRow) {
			if id, ok := known[key]; ok { // else it was dropped as a bad point
				p.series = id
				f.add(&p)
			}
		})
		if err != nil {
			return 0, err
		}
	}
	return last, nil
}

// eachLogged calls f for each point that a stored metric event put into
// metric_points.
func eachLogged(id run.ID, seq int64, body []byte, f func(run.SeriesKey, pointRow)) error {
	var m run.MetricsLogged
	if err := json.Unmarshal(body, &m); err != nil {
		return fmt.Errorf("decoding metric event %d: %w", seq, err)
	}
	for i := range m.Points {
		if p, fault := flatten(id, m.Points[i]); fault == "" {
			f(p.key, pointRow{step: p.step, ord: seq<<ordBits | int64(i), atUS: p.atUS, special: p.spec, value: p.value})
		}
	}
	return nil
}

// Fold writes the metric buckets that are still in memory. It happens by itself
// about once a second.
func (s *Store) Fold(ctx context.Context) error {
	return s.w.do(ctx, &op{logic: func(t *tx) error {
		t.after = append(t.after, func() {
			for s.w.foldNow() { // one chunk of the log at a time
			}
		})
		return nil
	}})
}
