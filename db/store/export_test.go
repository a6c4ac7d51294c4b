package store

import (
	"context"
	"database/sql"
	"sync/atomic"
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
