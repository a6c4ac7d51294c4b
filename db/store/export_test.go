package store

import (
	"context"
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
