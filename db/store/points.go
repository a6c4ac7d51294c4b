package store

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/weirhq/weir/runtime/run"
)

// maxSeriesCached bounds the memory of the series ids; it is emptied when full.
const maxSeriesCached = 50_000

// maxBisect bounds the tries that the search for bad points may take.
const maxBisect = 100

// errUndo ends a transaction that was only a test.
var errUndo = errors.New("undo")

// applyPoints inserts the metric points of the group's events.
func (w *writer) applyPoints(t *tx, ops []*op, sessions map[run.SessionID]reserved, f *facts) error {
	n := 0
	for _, o := range ops {
		n += len(o.batch.points)
	}
	if n == 0 {
		return nil
	}
	for id, r := range f.runs {
		w.attempts[id] = r.attempt
	}
	fresh := map[run.SeriesKey]int64{} // cached only once they are committed
	rows := make([]pointRow, 0, n)
	for _, o := range ops {
		b := o.batch
		var lastKey run.SeriesKey
		var lastID int64
		var err error
		for i := range b.points {
			p := &b.points[i]
			if i == 0 || p.key != lastKey {
				lastKey = p.key
				if lastID, err = w.seriesID(t, p.key, fresh); err != nil {
					return &pointsError{err}
				}
			}
			rows = append(rows, pointRow{
				series: lastID, step: p.step, ord: b.events[p.event].Seq<<ordBits | int64(p.place),
				atUS: p.atUS, special: p.spec, value: p.value,
			})
		}
	}
	if err := t.d.insertPoints(t, rows); err != nil {
		return &pointsError{err}
	}
	t.after = append(t.after, func() {
		if len(w.seriesIDs)+len(fresh) > maxSeriesCached {
			clear(w.seriesIDs)
			clear(w.attempts)
		}
		for key, id := range fresh {
			w.seriesIDs[key] = id
		}
		w.s.stats.points.Add(int64(len(rows)))
		i := 0
		for _, o := range ops {
			for range o.batch.points {
				w.foldPoint(o.batch.Session, sessions[o.batch.Session].sid, rows[i])
				i++
			}
		}
	})
	return nil
}

// seriesID gives the id of a curve and makes it when it is new. The key's
// attempt comes from the run.
func (w *writer) seriesID(t *tx, key run.SeriesKey, fresh map[run.SeriesKey]int64) (int64, error) {
	if id, ok := w.seriesIDs[key]; ok {
		return id, nil
	}
	if id, ok := fresh[key]; ok {
		return id, nil
	}
	attempt, ok := w.attempts[key.Run]
	if !ok {
		return 0, run.Errorf(run.NotFound, "metric points name the run %q, which does not exist", key.Run)
	}
	var id int64
	err := t.query("finding a metric series", "INSERT INTO series (run_id, attempt, stage, tag, name) VALUES (?, ?, ?, ?, ?)"+
		" ON CONFLICT (run_id, attempt, stage, tag, name) DO UPDATE SET name = excluded.name RETURNING id",
		func(rows *sql.Rows) error { return rows.Scan(&id) },
		string(key.Run), attempt, key.Stage, key.RunTag, key.Name)
	if err != nil {
		return 0, err
	}
	if id == 0 {
		return 0, fmt.Errorf("no id for the metric series %q", key.Name)
	}
	fresh[key] = id
	return id, nil
}

// dropBadPoints finds the points of a batch that the database refuses, by trying
// halves in transactions that are undone, takes them out and says so in the
// log. It gives false when it found none.
func (w *writer) dropBadPoints(b *prepared, why error) bool {
	tries := maxBisect
	bad := make([]bool, len(b.points))
	n := 0
	var search func(from, to int) bool
	search = func(from, to int) bool {
		if tries--; tries >= 0 && w.accepts(b.points[from:to]) {
			return true
		}
		if to-from == 1 || tries < 0 {
			for i := from; i < to; i++ {
				bad[i] = true
			}
			n += to - from
			return false
		}
		mid := (from + to) / 2
		left := search(from, mid)
		return search(mid, to) && left
	}
	search(0, len(b.points))
	if n == 0 {
		return false
	}
	lost := map[int]int{} // per event
	kept := b.points[:0]
	for i := range b.points {
		if bad[i] {
			lost[b.points[i].event]++
		} else {
			kept = append(kept, b.points[i])
		}
	}
	b.points = kept
	for i := len(b.events) - 1; i >= 0; i-- { // backwards: a warning moves what follows
		if lost[i] > 0 {
			if err := b.lost(w.s, i, lost[i], why.Error()); err != nil {
				return false
			}
		}
	}
	return true
}

// accepts tells whether the database takes these points.
func (w *writer) accepts(points []flatPoint) bool {
	_, err := w.transact(func(t *tx) error {
		fresh := map[run.SeriesKey]int64{}
		rows := make([]pointRow, 0, len(points))
		for i := range points {
			p := &points[i]
			id, err := w.seriesID(t, p.key, fresh)
			if err != nil {
				return err
			}
			// A seq that no event has keeps the test from meeting stored points.
			rows = append(rows, pointRow{series: id, step: p.step, ord: -(int64(p.event)<<ordBits | int64(p.place)) - 1, atUS: p.atUS, special: p.spec, value: p.value})
		}
		if err := t.d.insertPoints(t, rows); err != nil {
			return err
		}
		return errUndo
	})
	return errors.Is(err, errUndo)
}
