package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

// sqliteDialect writes with prepared statements on the one writing connection.
type sqliteDialect struct {
	file               os.FileInfo // of the database when it was opened
	event              *sql.Stmt
	point              *sql.Stmt
	bucket             *sql.Stmt
	reserve1, reserveP *sql.Stmt
}

func (*sqliteDialect) name() string           { return sqliteName }
func (*sqliteDialect) begin() string          { return "BEGIN IMMEDIATE" }
func (*sqliteDialect) forUpdate() string      { return "" }
func (*sqliteDialect) forShare() string       { return "" }
func (*sqliteDialect) beforeCommit(*tx) error { return nil }

func (d *sqliteDialect) attach(ctx context.Context, conn bun.Conn) error {
	const marks = "(?, ?, ?, ?, ?, ?, ?, ?)"
	for _, p := range []struct {
		to    **sql.Stmt
		query string
	}{
		{&d.event, "INSERT INTO events (" + eventColumns + ") VALUES " + marks},
		{&d.point, "INSERT INTO metric_points (" + pointColumns + ") VALUES (?, ?, ?, ?, ?, ?)"},
		{&d.bucket, "INSERT INTO metric_buckets AS b (" + bucketColumns + ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)" + bucketMerge},
		{&d.reserve1, "UPDATE sessions SET last_seq = last_seq + ?, " + keepFolded + " WHERE id = ? RETURNING sid, last_seq, folded_seq"},
		{&d.reserveP, "UPDATE sessions SET last_seq = last_seq + ? WHERE id = ? RETURNING sid, last_seq, folded_seq"},
	} {
		stmt, err := conn.Conn.PrepareContext(ctx, p.query) //nolint:sqlclosecheck // detach closes it
		if err != nil {
			return fmt.Errorf("preparing %q: %w", p.query, err)
		}
		*p.to = stmt
	}
	return nil
}

func (d *sqliteDialect) detach() {
	for _, stmt := range []*sql.Stmt{d.event, d.point, d.bucket, d.reserve1, d.reserveP} {
		if stmt != nil {
			_ = stmt.Close()
		}
	}
}

func (d *sqliteDialect) reserve(t *tx, wants []reserve) (map[run.SessionID]reserved, error) {
	out := make(map[run.SessionID]reserved, len(wants))
	for _, want := range wants {
		err := t.step("taking seqs", func() error {
			var row *sql.Row
			if want.points {
				row = d.reserveP.QueryRowContext(t.ctx, want.n, string(want.session))
			} else {
				row = d.reserve1.QueryRowContext(t.ctx, want.n, want.n, string(want.session))
			}
			var r reserved
			err := row.Scan(&r.sid, &r.last, &r.folded)
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			out[want.session] = r
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (d *sqliteDialect) insertEvents(t *tx, rows []eventRow) error {
	for i := range rows {
		r := &rows[i]
		err := t.step("inserting an event", func() error {
			_, err := d.event.ExecContext(t.ctx, r.sid, r.seq, r.atUS, r.kind, string(r.e.Run), r.e.Agent, r.e.Stage, string(r.e.Body))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *sqliteDialect) insertPoints(t *tx, rows []pointRow) error {
	for i := range rows {
		r := &rows[i]
		err := t.step("inserting a metric point", func() error {
			var value any
			if r.special == run.Finite {
				value = r.value
			}
			_, err := d.point.ExecContext(t.ctx, r.series, r.step, r.ord, r.atUS, int64(r.special), value)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *sqliteDialect) upsertBuckets(t *tx, rows []bucketRow) error {
	for i := range rows {
		r := &rows[i]
		err := t.step("folding a bucket", func() error {
			ok := r.finite() > 0
			_, err := d.bucket.ExecContext(t.ctx, r.series, r.level, r.bucket, r.n, r.nan, r.posInf, r.negInf, r.minStep, r.maxStep, r.firstUS, r.lastUS,
				null(r.min, ok), null(r.max, ok), r.firstStep, r.firstOrd, null(r.first, ok), r.lastStep, r.lastOrd, null(r.last, ok))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
