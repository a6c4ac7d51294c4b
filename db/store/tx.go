package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

// tx is one writing transaction. Every statement goes through it, so that it
// remembers the first error: PostgreSQL answers the commit of a failed
// transaction with a rollback, which the driver reports as success.
//
// Statements run without the caller's context: a cancelled one would leave the
// server's work undecided. The server's statement timeout bounds them.
type tx struct {
	ctx  context.Context
	s    *Store
	conn bun.Conn
	d    dialect
	now  int64  // microseconds; one time for the whole transaction
	xid  string // PostgreSQL's id of the transaction, once known
	err  error

	events  []*run.Event
	changed []run.ID
	prices  map[string]*run.Price // used for the first time
	after   []func()              // run after the commit, before publishing
}

// step runs one statement.
func (t *tx) step(name string, f func() error) error {
	if t.err != nil {
		return t.err
	}
	if t.s.fault != nil {
		if err := t.s.fault(name); err != nil {
			t.err = err
			return err
		}
	}
	if err := f(); err != nil {
		t.err = fmt.Errorf("%s: %w", name, err)
	}
	return t.err
}

// exec runs a statement and gives the number of rows it changed.
func (t *tx) exec(name, query string, args ...any) (int64, error) {
	var n int64
	err := t.step(name, func() error {
		res, err := t.conn.ExecContext(t.ctx, query, args...)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	return n, err
}

// query runs a statement and calls scan for each row.
func (t *tx) query(name, query string, scan func(*sql.Rows) error, args ...any) error {
	return t.step(name, func() error {
		rows, err := t.conn.QueryContext(t.ctx, query, args...)
		if err != nil {
			return err
		}
		return eachRow(rows, scan)
	})
}

// models runs a select of bun into a slice; no row is an empty slice.
func (t *tx) models(name string, q *bun.SelectQuery) error {
	return t.step(name, func() error {
		if err := q.Scan(t.ctx); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		return nil
	})
}

// insert inserts one model.
func (t *tx) insert(name string, model any) error {
	return t.step(name, func() error {
		_, err := t.conn.NewInsert().Model(model).Exec(t.ctx)
		return err
	})
}

// touch marks a run as changed for the listeners.
func (t *tx) touch(id run.ID) {
	for _, c := range t.changed {
		if c == id {
			return
		}
	}
	t.changed = append(t.changed, id)
}

func eachRow(rows *sql.Rows, scan func(*sql.Rows) error) error {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// transact runs f in a transaction and commits it. On nil error everything is
// committed; otherwise nothing is. It does not publish.
func (w *writer) transact(f func(*tx) error) (*tx, error) {
	t, err := w.try(f)
	if err == nil || !classify(err).retry() { // the database answered
		w.healthy()
	}
	return t, err
}

func (w *writer) try(f func(*tx) error) (*tx, error) {
	if err := w.connect(); err != nil {
		return nil, fmt.Errorf("connecting to the database: %w", err)
	}
	t := &tx{ctx: w.ctx, s: w.s, conn: w.conn, d: w.s.d, now: time.Now().UnixMicro()}
	if _, err := t.exec("begin", t.d.begin()); err != nil {
		w.abandon(t)
		return nil, err
	}
	err := f(t)
	if err == nil {
		err = t.err
	}
	if err == nil {
		err = t.d.beforeCommit(t)
	}
	if err != nil {
		w.abandon(t)
		return nil, err
	}
	_, err = t.exec("commit", "COMMIT")
	if err == nil && t.xid != "" {
		err = t.step("answer to the commit", func() error { return nil })
	}
	if err != nil {
		w.abandon(t)
		committed, rerr := w.outcome(t.xid)
		if rerr != nil {
			return nil, rerr
		}
		if !committed {
			return nil, err
		}
	}
	w.s.stats.commits.Add(1)
	w.s.stats.lastCommit.Store(time.Now().UnixMicro())
	for _, g := range t.after {
		g()
	}
	return t, nil
}

// abandon rolls back; a connection that cannot even do that is thrown away.
func (w *writer) abandon(t *tx) {
	_, err := w.conn.ExecContext(w.ctx, "ROLLBACK")
	lost := err != nil || (t.err != nil && classify(t.err) == classGone)
	if lost && w.s.d.name() == postgres { // SQLite says that it has rolled back already
		w.disconnect()
	}
}

// connect holds the one connection that the writer works on.
func (w *writer) connect() error {
	if w.connected {
		return nil
	}
	conn, err := w.s.write.Conn(w.ctx)
	if err != nil {
		return err
	}
	if err := w.s.d.attach(w.ctx, conn); err != nil {
		_ = conn.Close()
		return err
	}
	w.conn, w.connected = conn, true
	return nil
}

// disconnect keeps the pool from handing the connection out again.
func (w *writer) disconnect() {
	if !w.connected {
		return
	}
	w.connected = false
	w.s.d.detach()
	_ = w.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = w.conn.Close()
}

// outcome finds out what became of a commit whose answer was lost, by asking
// PostgreSQL for the status of that very transaction. It returns only when it
// knows, or when the store is closed for good. On SQLite a failed commit has
// not happened: no other process could have made it.
func (w *writer) outcome(xid string) (bool, error) {
	if xid == "" {
		return false, nil
	}
	for attempt := 0; ; attempt++ {
		var status sql.NullString
		err := w.connect()
		if err == nil {
			err = w.conn.QueryRowContext(w.ctx, "SELECT pg_xact_status(CAST(? AS xid8))", xid).Scan(&status)
		}
		switch {
		case err != nil && sqlState(err) == "22023":
			// "in the future": the server went back to a state before the transaction.
			return false, nil
		case err != nil:
			w.disconnect()
		case status.String == "committed":
			return true, nil
		case status.String == "aborted":
			return false, nil
		}
		if err == nil {
			err = fmt.Errorf("the outcome of transaction %s is %q", xid, status.String)
		}
		if !w.pause(attempt, err) {
			return false, fmt.Errorf("%w: its outcome is not known: %w", errTxAborted, err)
		}
	}
}
