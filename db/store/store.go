// Package store keeps sessions, runs, events, metrics and usage in SQLite or
// PostgreSQL.
//
// Guarantees: every writing method is one transaction, or part of one shared
// with others; what it appended is handed to the listeners after the commit, in
// commit order, and before the method returns. One goroutine does all writing.
// Seqs come from the session's row in the same transaction, under its lock, so
// several processes may write one session on PostgreSQL without a gap. A caller
// whose context ends stops waiting; its change is then made in whole or not at
// all. While the database is gone, Append waits and keeps its order; every other
// writing method fails with run.Unavailable.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/db/migrations"
	"github.com/weirhq/weir/runtime/run"
)

// Options say where the database is.
type Options struct {
	// Path is the data folder. SQLite keeps weir.db in it; a lock file in it keeps
	// a second server away. It may be empty with a URL.
	Path string
	// URL is a postgres:// URL; empty for SQLite.
	URL string
	// NoWait tells at once, by ErrInUse, that another process has the data folder,
	// which may just be ending.
	NoWait bool
	// Pricer says what records cost; without one only what agents report is priced.
	Pricer run.Pricer
	Logger *slog.Logger // nil discards
	// Outage, if set, is told why nothing can be written any more, and nil when it
	// can be again. It is called by the one writing goroutine, so it must not block.
	Outage func(cause error)
}

// Listener gets what was committed: the events of one or several sessions, each
// session's in seq order, and the runs whose row changed. It is called by the
// one writing goroutine, so it must not block and must not call a writing method.
type Listener interface {
	Committed(events []*run.Event, changed []run.ID)
}

// Store is an open database.
type Store struct {
	log     *slog.Logger
	outage  func(cause error)
	d       dialect
	read    *bun.DB
	write   *bun.DB
	lock    *os.File
	dbFile  string // SQLite only
	w       *writer
	pricer  run.Pricer
	stats   counters
	lisMu   sync.Mutex
	lis     atomic.Pointer[[]Listener]
	closing sync.Once
	closed  error
	// fault, when set, runs before each statement of a writing transaction and
	// can fail it: the seam for tests of crashes between statements.
	fault func(statement string) error
}

// Open locks the data folder, checks that it can be written and that the
// database is whole, migrates it and starts the writer. Its errors name what is
// wrong and what to do.
func Open(ctx context.Context, o Options) (*Store, error) {
	return open(ctx, o, nil)
}

func open(ctx context.Context, o Options, fault func(string) error) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Outage == nil {
		o.Outage = func(error) {}
	}
	s := &Store{log: o.Logger, outage: o.Outage, fault: fault, pricer: o.Pricer}
	if err := s.open(ctx, o); err != nil {
		return nil, errors.Join(err, s.release())
	}
	s.w = newWriter(s)
	if err := s.w.start(ctx); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, o Options) error {
	if o.Path != "" {
		patience := lockPatience
		if o.NoWait {
			patience = 0
		}
		lock, err := lockFolder(o.Path, patience)
		if err != nil {
			return err
		}
		s.lock = lock
	}
	var err error
	if o.URL == "" {
		err = s.openSQLite(ctx, o.Path)
	} else {
		err = s.openPostgres(ctx, o.URL)
	}
	if err != nil {
		return err
	}
	if err := s.verifySchema(ctx); err != nil {
		return err
	}
	return nil
}

// migrate runs the migrations on a pool of its own kind.
func (s *Store) migrate(ctx context.Context, db *bun.DB) error {
	version, err := migrations.Migrate(ctx, db.DB, s.d.name())
	if err != nil {
		return fmt.Errorf("preparing the database: %w", err)
	}
	s.log.DebugContext(ctx, "database ready", "dialect", s.d.name(), "schema", version)
	return nil
}

// Listen adds a listener for everything that is committed from now on.
func (s *Store) Listen(l Listener) {
	s.lisMu.Lock()
	defer s.lisMu.Unlock()
	var all []Listener
	if old := s.lis.Load(); old != nil {
		all = append(all, *old...)
	}
	all = append(all, l)
	s.lis.Store(&all)
}

func (s *Store) publish(events []*run.Event, changed []run.ID) {
	all := s.lis.Load()
	if all == nil || len(events)+len(changed) == 0 {
		return
	}
	for _, l := range *all {
		l.Committed(events, changed)
	}
}

// Dialect is "sqlite" or "postgres".
func (s *Store) Dialect() string { return s.d.name() }

// Ping tells whether the database answers and the last commit did not fail.
func (s *Store) Ping(ctx context.Context) error {
	if s.w.down.Load() {
		return run.Errorf(run.Unavailable, "the database cannot be written: %s; writing is retried until it can", s.w.lastFailure())
	}
	if s.dbFile != "" {
		if err := s.sameFile(); err != nil {
			return err
		}
	}
	var one int
	if err := s.read.NewRaw("SELECT 1").Scan(ctx, &one); err != nil {
		return s.readError("asking the database for a sign of life", err)
	}
	return nil
}

// Stats are counts since the store was opened.
type Stats struct {
	Events, Points, BadPoints int64
	Commits, Retries          int64
	LastCommit                time.Time
}

type counters struct {
	events, points, badPoints, commits, retries, lastCommit atomic.Int64
}

// Stats gives the counts so far.
func (s *Store) Stats() Stats {
	st := Stats{
		Events: s.stats.events.Load(), Points: s.stats.points.Load(), BadPoints: s.stats.badPoints.Load(),
		Commits: s.stats.commits.Load(), Retries: s.stats.retries.Load(),
	}
	if us := s.stats.lastCommit.Load(); us != 0 {
		st.LastCommit = time.UnixMicro(us).UTC()
	}
	return st
}

// Close writes what is waiting, stops the writer and releases the files. It
// waits at most 10 seconds for a database that is gone.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.w.close()
		s.closed = s.release()
	})
	return s.closed
}

func (s *Store) release() error {
	var errs []error
	if s.write != nil {
		errs = append(errs, s.write.Close())
	}
	if s.read != nil {
		errs = append(errs, s.read.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing the database: %w", err)
	}
	return nil
}
