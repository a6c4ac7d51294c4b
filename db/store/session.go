package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

// CreateSession inserts an empty session.
func (s *Store) CreateSession(ctx context.Context, n run.Session) error {
	return s.w.do(ctx, &op{logic: func(t *tx) error {
		known, err := t.exists("looking for a session", "SELECT 1 FROM sessions WHERE id = ?", string(n.ID))
		if err != nil {
			return err
		}
		if known {
			return run.Errorf(run.Conflict, "there is already a session %q", n.ID)
		}
		return t.insertSession(n)
	}})
}

func (t *tx) insertSession(n run.Session) error {
	if n.ID == "" {
		return run.Errorf(run.Invalid, "a session needs an id")
	}
	created := micros(n.CreatedAt)
	if created == 0 {
		created = t.now
	}
	title := clean(n.Title)
	_, err := t.exec("inserting a session", "INSERT INTO sessions (id, title, title_fold, state, created_us) VALUES (?, ?, ?, ?, ?)",
		string(n.ID), title, strings.ToLower(title), clean(n.State), created)
	return err
}

// exists tells whether a query gives a row.
func (t *tx) exists(name, query string, args ...any) (bool, error) {
	found := false
	err := t.query(name, query, func(*sql.Rows) error { found = true; return nil }, args...)
	return found, err
}

// lockSession makes the transaction the only one that changes the session or
// anything in it. Every transaction takes its sessions first, in the order of
// their ids, and only then the rows in them.
func (t *tx) lockSession(id run.SessionID) (sid int64, err error) {
	err = t.query("locking a session", "SELECT sid FROM sessions WHERE id = ?"+t.d.forUpdate(), func(rows *sql.Rows) error { return rows.Scan(&sid) }, string(id))
	if err == nil && sid == 0 {
		err = noSession(id)
	}
	return sid, err
}

// runs reads runs in the order of their creation.
func (t *tx) runs(name string, where string, args ...any) ([]run.Run, error) {
	var rows []runRow
	if err := t.models(name, t.conn.NewSelect().Model(&rows).Where(where, args...).Order("created_us", "id")); err != nil {
		return nil, err
	}
	return toRuns(rows)
}

func toRuns(rows []runRow) ([]run.Run, error) {
	out := make([]run.Run, len(rows))
	for i := range rows {
		var err error
		if out[i], err = rows[i].run(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// run reads one run after locking its session, which its id leads to.
func (t *tx) run(id run.ID) (run.Run, error) {
	var session run.SessionID
	if err := t.query("finding a run", "SELECT session_id FROM runs WHERE id = ?", func(rows *sql.Rows) error { return rows.Scan(&session) }, string(id)); err != nil {
		return run.Run{}, err
	}
	if session == "" {
		return run.Run{}, noRun(id)
	}
	if _, err := t.lockSession(session); err != nil && run.CodeOf(err) != run.NotFound {
		return run.Run{}, err // a run outlives its session
	}
	found, err := t.runs("reading a run", "id = ?", string(id))
	if err != nil {
		return run.Run{}, err
	}
	if len(found) == 0 {
		return run.Run{}, noRun(id)
	}
	return found[0], nil
}

// DeleteSession removes a session's events, points and content; it keeps its run
// rows and usage records, so that no bill changes. It is Busy while a run is
// open. What is large is removed piece by piece afterwards; no reader sees it.
func (s *Store) DeleteSession(ctx context.Context, id run.SessionID) error {
	return s.w.do(ctx, &op{logic: func(t *tx) error {
		sid, err := t.lockSession(id)
		if err != nil {
			return err
		}
		open, err := t.runs("looking for open runs", "session_id = ? AND status IN (?)", string(id), bun.List(openStatuses()))
		if err != nil {
			return err
		}
		if len(open) > 0 {
			return run.Errorf(run.Busy, "session %s has the open run %s; abort it first", id, open[0].ID)
		}
		all, err := t.runs("reading the runs of a session", "session_id = ?", string(id))
		if err != nil {
			return err
		}
		for _, r := range all {
			input, err := json.Marshal(run.Input{Agent: r.Input.Agent, Model: r.Input.Model})
			if err != nil {
				return err
			}
			if _, err := t.exec("emptying a run", "UPDATE runs SET input = ?, definition = '', error = '', result = '', abort_reason = '', idem_key = NULL WHERE id = ?", string(input), string(r.ID)); err != nil {
				return err
			}
			t.touch(r.ID)
		}
		for _, step := range []struct{ name, query string }{
			{"emptying usage records", "UPDATE usage_records SET raw = '', stream = '' WHERE run_id IN (SELECT id FROM runs WHERE session_id = ?)"},
			{"deleting executions", "DELETE FROM executions WHERE run_id IN (SELECT id FROM runs WHERE session_id = ?)"},
			{"deleting artifacts", "DELETE FROM artifacts WHERE session_id = ?"},
			{"deleting questions", "DELETE FROM questions WHERE session_id = ?"},
			{"deleting the searched text", "DELETE FROM session_texts WHERE session_id = ?"},
			{"deleting a session", "DELETE FROM sessions WHERE id = ?"},
		} {
			if _, err := t.exec(step.name, step.query, string(id)); err != nil {
				return err
			}
		}
		if _, err := t.exec("noting what is left to remove", "INSERT INTO session_purges (sid, session_id) VALUES (?, ?)", sid, string(id)); err != nil {
			return err
		}
		t.after = append(t.after, func() {
			delete(s.w.folds, id)
			s.w.purge = true
		})
		return nil
	}})
}

func openStatuses() []run.Status {
	var open []run.Status
	for _, st := range run.Statuses() {
		if !st.Final() {
			open = append(open, st)
		}
	}
	return open
}

// purgeChunk is the number of rows that one transaction removes: more would hold
// up the runs that go on.
const purgeChunk = 5000

// purgeSome removes a piece of a deleted session while nothing else is to be
// written.
func (w *writer) purgeSome() {
	_, err := w.transact(func(t *tx) error {
		var sid int64
		var session string
		if err := t.query("looking for what to remove", "SELECT sid, session_id FROM session_purges ORDER BY sid LIMIT 1"+skipLocked(t.d), func(rows *sql.Rows) error {
			return rows.Scan(&sid, &session)
		}); err != nil {
			return err
		}
		if sid == 0 {
			t.after = append(t.after, func() { w.purge = false })
			return nil
		}
		n, err := t.exec("removing events", "DELETE FROM events WHERE sid = ? AND seq IN (SELECT seq FROM events WHERE sid = ? ORDER BY seq LIMIT ?)", sid, sid, purgeChunk)
		if err != nil || n > 0 {
			return err
		}
		var series []int64
		if err := t.query("looking for series", "SELECT id FROM series WHERE run_id IN (SELECT id FROM runs WHERE session_id = ?) ORDER BY id LIMIT 1", func(rows *sql.Rows) error {
			var id int64
			err := rows.Scan(&id)
			series = append(series, id)
			return err
		}, session); err != nil {
			return err
		}
		if len(series) == 0 {
			_, err := t.exec("ending a removal", "DELETE FROM session_purges WHERE sid = ?", sid)
			return err
		}
		for _, id := range series {
			if n, err = t.exec("removing points", "DELETE FROM metric_points WHERE series = ? AND (step, ord) IN (SELECT step, ord FROM metric_points WHERE series = ? ORDER BY step, ord LIMIT ?)", id, id, purgeChunk); err != nil || n > 0 {
				return err
			}
			if _, err = t.exec("removing buckets", "DELETE FROM metric_buckets WHERE series = ?", id); err != nil {
				return err
			}
			if _, err = t.exec("removing a series", "DELETE FROM series WHERE id = ?", id); err != nil {
				return err
			}
		}
		t.after = append(t.after, func() { clear(w.seriesIDs) })
		return nil
	})
	if err != nil {
		w.s.log.Warn("a deleted session could not be removed; trying again later", "error", err)
		w.purge = false // until the next deletion or start
	}
}

func skipLocked(d dialect) string {
	if d.name() == postgres {
		return " FOR UPDATE SKIP LOCKED"
	}
	return ""
}
