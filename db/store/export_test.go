package store

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"

	"github.com/weirhq/weir/runtime/run"
)

// Fault is a switch for the error before a statement.
type Fault struct {
	f atomic.Pointer[func(string) error]
}

// Set makes f decide before each statement; nil ends that.
func (x *Fault) Set(f func(statement string) error) {
	if f == nil {
		x.f.Store(nil)
		return
	}
	x.f.Store(&f)
}

func (x *Fault) fail(statement string) error {
	if f := x.f.Load(); f != nil {
		return (*f)(statement)
	}
	return nil
}

// OpenFaulty is Open with a switch for errors between statements.
func OpenFaulty(ctx context.Context, o Options, x *Fault) (*Store, error) {
	return open(ctx, o, x.fail)
}

// Exec runs a statement past the writer.
func (s *Store) Exec(ctx context.Context, query string) error {
	return s.w.do(ctx, &op{logic: func(t *tx) error {
		_, err := t.exec("test", query)
		return err
	}})
}

// Count gives the number that a query results in.
func (s *Store) Count(ctx context.Context, query string) (int64, error) {
	var n int64
	err := s.read.NewRaw(query).Scan(ctx, &n)
	return n, err
}

// Waiting is the number of ops in the queue.
func (s *Store) Waiting() int {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return len(s.w.queue)
}

// WriterExec runs a statement on the writer's connection. Only a fault may call
// it: that runs in the writer.
func (s *Store) WriterExec(query string) error {
	_, err := s.w.conn.ExecContext(context.Background(), query)
	return err
}

// WriterText gives the text that a query on the writer's connection results in.
func (s *Store) WriterText(query string) (string, error) {
	var out string
	err := s.w.do(context.Background(), &op{logic: func(t *tx) error {
		return t.query("test", query, func(rows *sql.Rows) error { return rows.Scan(&out) })
	}})
	return out, err
}

// WriterNumber is WriterText for a number.
func (s *Store) WriterNumber(query string) (int64, error) {
	var out int64
	err := s.w.do(context.Background(), &op{logic: func(t *tx) error {
		return t.query("test", query, func(rows *sql.Rows) error { return rows.Scan(&out) })
	}})
	return out, err
}

// IgnoreError runs two statements three times over and takes no notice of errors.
func (s *Store) IgnoreError(ctx context.Context, first, second string) error {
	return s.w.do(ctx, &op{logic: func(t *tx) error {
		_, _ = t.exec("test", first)
		_, _ = t.exec("test", second)
		return nil
	}})
}

// Summary is one bucket, for writing buckets by hand.
type Summary = summary

// AddPoint adds a finite point to a bucket.
func AddPoint(s *Summary, p run.Point, ord int64) {
	s.add(&pointRow{step: p.Step, ord: ord, atUS: p.At.UnixMicro(), value: p.Value})
}

// WriteBuckets writes buckets of level 4, and those above them, in one transaction.
func WriteBuckets(conn bun.Conn, dialectName string, finest map[[3]int64]*Summary) error {
	f := &foldState{series: map[int64]*seriesFold{}}
	for k, s := range finest {
		if f.series[k[0]] == nil {
			f.series[k[0]] = &seriesFold{buckets: map[int64]*summary{}}
		}
		f.series[k[0]].buckets[k[2]] = s
	}
	t := &tx{ctx: context.Background(), s: &Store{}, conn: conn, d: &pgDialect{}}
	if dialectName == sqliteName {
		d := &sqliteDialect{}
		if err := d.attach(t.ctx, t.conn); err != nil {
			return err
		}
		defer d.detach()
		t.d = d
	}
	if _, err := t.exec("begin", t.d.begin()); err != nil {
		return err
	}
	if err := t.d.upsertBuckets(t, f.rows()); err != nil {
		return err
	}
	_, err := t.exec("commit", "COMMIT")
	return err
}

// Bodies gives the JSON of a batch's events.
func (s *Store) Bodies(b run.Batch) ([][]byte, error) {
	p, err := s.prepare(b)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, e := range p.events {
		out = append(out, e.Body)
	}
	return out, nil
}

// Raw opens a database as the writer does, past the store.
func Raw(b testing.TB, o Options) (*bun.DB, bun.Conn) {
	b.Helper()
	var db *bun.DB
	if o.URL != "" {
		t, err := parsePGURL(o.URL)
		if err != nil {
			b.Fatal(err)
		}
		db = connectPG(t, 8*time.Second, 1)
	} else {
		raw, err := sql.Open("sqlite", "file:"+filepath.Join(o.Path, "weir.db")+sqliteWriter)
		if err != nil {
			b.Fatal(err)
		}
		db = bun.NewDB(raw, sqlitedialect.New())
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close(); _ = db.Close() })
	return db, conn
}

// StreamTotals gives where a cumulative source stands.
func (s *Store) StreamTotals(name string) (run.Tokens, error) {
	text, err := s.WriterText("SELECT totals FROM usage_streams WHERE stream = '" + streamID(name) + "'")
	if err != nil {
		return run.Tokens{}, err
	}
	c, err := countsOf(text)
	return c.Tokens, err
}
