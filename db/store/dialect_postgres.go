package store

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/weirhq/weir/runtime/run"
)

// copyFrom is the number of points from which COPY beats an INSERT.
const copyFrom = 32

// pgDialect writes with statements that carry their values as literals: after a
// timeout the driver's prepared statements answer with another query's rows, so
// nothing here is prepared. Literals rely on standard_conforming_strings, which
// the driver insists on.
type pgDialect struct {
	target pgTarget
	buf    []byte
}

func (*pgDialect) name() string                           { return postgres }
func (*pgDialect) begin() string                          { return "BEGIN" }
func (*pgDialect) forUpdate() string                      { return " FOR UPDATE" }
func (*pgDialect) forShare() string                       { return " FOR SHARE" }
func (*pgDialect) attach(context.Context, bun.Conn) error { return nil }
func (*pgDialect) detach()                                {}

func (*pgDialect) beforeCommit(t *tx) error {
	if t.xid != "" {
		return nil
	}
	return t.query("asking for the transaction's id", "SELECT pg_current_xact_id()::text", func(rows *sql.Rows) error { return rows.Scan(&t.xid) })
}

// reserve locks the sessions in the order of their ids, so that two processes
// that write the same ones do not deadlock.
func (d *pgDialect) reserve(t *tx, wants []reserve) (map[run.SessionID]reserved, error) {
	out := make(map[run.SessionID]reserved, len(wants))
	scan := func(rows *sql.Rows) error {
		var id run.SessionID
		var r reserved
		if err := rows.Scan(&id, &r.sid, &r.last, &r.folded, &t.xid); err != nil {
			return err
		}
		out[id] = r
		return nil
	}
	const returning = " RETURNING s.id, s.sid, s.last_seq, s.folded_seq, pg_current_xact_id()::text"
	if len(wants) == 1 {
		w := wants[0]
		if w.points {
			return out, t.query("taking seqs", "UPDATE sessions AS s SET last_seq = last_seq + ? WHERE id = ?"+returning, scan, w.n, string(w.session))
		}
		return out, t.query("taking seqs", "UPDATE sessions AS s SET last_seq = last_seq + ?, "+keepFolded+" WHERE id = ?"+returning, scan, w.n, w.n, string(w.session))
	}
	ids := make([]string, len(wants))
	values := make([]string, len(wants))
	for i, w := range wants {
		ids[i] = string(w.session)
		values[i] = fmt.Sprintf("(%s, %d, %t)", quote(string(w.session)), w.n, !w.points)
	}
	if err := t.query("locking sessions", "SELECT sid FROM sessions WHERE id IN (?) ORDER BY id FOR UPDATE", func(rows *sql.Rows) error {
		var sid int64
		return rows.Scan(&sid)
	}, bun.List(ids)); err != nil {
		return nil, err
	}
	return out, t.query("taking seqs", "UPDATE sessions AS s SET last_seq = s.last_seq + v.n,"+
		" folded_seq = CASE WHEN v.move AND s.folded_seq = s.last_seq THEN s.last_seq + v.n ELSE s.folded_seq END"+
		" FROM (VALUES "+strings.Join(values, ", ")+") AS v (id, n, move) WHERE s.id = v.id"+returning, scan)
}

// quote gives a string literal. A NUL cannot be in it: it would end the message.
func quote(s string) string { return string(appendQuoted(nil, s)) }

func appendQuoted(b []byte, s string) []byte {
	b = append(b, '\'')
	for {
		i := strings.IndexByte(s, '\'')
		if i < 0 {
			break
		}
		b = append(b, s[:i+1]...)
		b = append(b, '\'')
		s = s[i+1:]
	}
	b = append(b, s...)
	return append(b, '\'')
}

// sendRaw runs a statement that was written out in full.
func (d *pgDialect) sendRaw(t *tx, name string, want int, query []byte) error {
	return t.step(name, func() error {
		// Without arguments neither bun nor the driver looks for placeholders.
		res, err := t.conn.Conn.ExecContext(t.ctx, string(query))
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n != int64(want) {
			return fmt.Errorf("%d of %d rows were written: %w", n, want, err)
		}
		return nil
	})
}

func (d *pgDialect) insertEvents(t *tx, rows []eventRow) error {
	if len(rows) == 0 {
		return nil
	}
	b := append(d.buf[:0], "INSERT INTO events ("+eventColumns+") VALUES "...)
	for i := range rows {
		r := &rows[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '(')
		for _, n := range []int64{r.sid, r.seq, r.atUS, int64(r.kind)} {
			b = append(strconv.AppendInt(b, n, 10), ',')
		}
		b = append(appendQuoted(b, string(r.e.Run)), ',')
		b = append(appendQuoted(b, r.e.Agent), ',')
		b = append(appendQuoted(b, r.e.Stage), ',')
		b = append(appendQuotedBytes(b, r.e.Body), ')')
	}
	d.keep(b)
	return d.sendRaw(t, "inserting events", len(rows), b)
}

func appendQuotedBytes(b, s []byte) []byte {
	b = append(b, '\'')
	for {
		i := bytes.IndexByte(s, '\'')
		if i < 0 {
			break
		}
		b = append(b, s[:i+1]...)
		b = append(b, '\'')
		s = s[i+1:]
	}
	b = append(b, s...)
	return append(b, '\'')
}

// keep holds on to a buffer for the next statement, unless it grew beyond reason.
func (d *pgDialect) keep(b []byte) {
	if cap(b) <= 16<<20 {
		d.buf = b
	}
}

func (d *pgDialect) insertPoints(t *tx, rows []pointRow) error {
	if len(rows) == 0 {
		return nil
	}
	if len(rows) >= copyFrom {
		return d.copyPoints(t, rows)
	}
	b := append(d.buf[:0], "INSERT INTO metric_points ("+pointColumns+") VALUES "...)
	for i := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '(')
		b = appendPoint(b, &rows[i], ',', "'", "NULL")
		b = append(b, ')')
	}
	d.keep(b)
	return d.sendRaw(t, "inserting metric points", len(rows), b)
}

// appendPoint writes a row; a float is quoted in SQL, where a bare one would be
// a numeric and lose the sign of -0.
func appendPoint(b []byte, r *pointRow, sep byte, quote, null string) []byte {
	for _, n := range []int64{r.series, r.step, r.ord, r.atUS, int64(r.special)} {
		b = append(strconv.AppendInt(b, n, 10), sep)
	}
	if r.special != run.Finite {
		return append(b, null...)
	}
	b = append(b, quote...)
	b = strconv.AppendFloat(b, r.value, 'g', -1, 64)
	return append(b, quote...)
}

// copyPoints renders everything first and hands the driver a reader that never
// returns data together with its end: that data would be lost without an error.
// After any error the connection is thrown away, because it may still be in the
// middle of the COPY.
func (d *pgDialect) copyPoints(t *tx, rows []pointRow) error {
	b := d.buf[:0]
	for i := range rows {
		b = append(appendPoint(b, &rows[i], '\t', "", `\N`), '\n')
	}
	d.keep(b)
	return t.step("copying metric points", func() error {
		res, err := pgdriver.CopyFrom(t.ctx, t.conn, bytes.NewReader(b), "COPY metric_points ("+pointColumns+") FROM STDIN")
		if err != nil {
			if sqlState(err) == "" {
				_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
			}
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n != int64(len(rows)) {
			return fmt.Errorf("%d of %d rows were copied: %w", n, len(rows), err)
		}
		return nil
	})
}

func (d *pgDialect) upsertBuckets(t *tx, rows []bucketRow) error {
	const chunk = 1000
	for len(rows) > 0 {
		part := rows[:min(chunk, len(rows))]
		rows = rows[len(part):]
		b := append(d.buf[:0], "INSERT INTO metric_buckets AS b ("+bucketColumns+") VALUES "...)
		for i := range part {
			r := &part[i]
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, '(')
			for _, n := range []int64{r.series, int64(r.level), r.bucket, r.n, r.nan, r.posInf, r.negInf, r.minStep, r.maxStep, r.firstUS, r.lastUS} {
				b = append(strconv.AppendInt(b, n, 10), ',')
			}
			ok := r.finite() > 0
			b = append(appendNull(b, r.min, ok), ',')
			b = append(appendNull(b, r.max, ok), ',')
			b = append(strconv.AppendInt(b, r.firstStep, 10), ',')
			b = append(strconv.AppendInt(b, r.firstOrd, 10), ',')
			b = append(appendNull(b, r.first, ok), ',')
			b = append(strconv.AppendInt(b, r.lastStep, 10), ',')
			b = append(strconv.AppendInt(b, r.lastOrd, 10), ',')
			b = append(appendNull(b, r.last, ok), ')')
		}
		b = append(b, bucketMerge...)
		d.keep(b)
		if err := d.sendRaw(t, "folding buckets", len(part), b); err != nil {
			return err
		}
	}
	return nil
}

// appendNull writes a float with its type: a column of bare NULLs would be text.
func appendNull(b []byte, v float64, ok bool) []byte {
	if !ok {
		return append(b, "NULL::float8"...)
	}
	b = append(b, '\'')
	b = strconv.AppendFloat(b, v, 'g', -1, 64)
	return append(b, "'::float8"...)
}
