package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"modernc.org/sqlite" // registers the pure Go driver "sqlite"

	"github.com/weirhq/weir/runtime/run"
)

// quickCheckBytes is the size up to which a database is checked at each start;
// the check reads the whole file, about 1 GB a second.
const quickCheckBytes = 2 << 30

// Settings of the two SQLite pools. FULL: a commit that returned survives a
// power cut. INCREMENTAL must be set before the first table.
const (
	sqliteWriter = "?_txlock=immediate&_defensive=1&_dqs=0&_auto_vacuum=INCREMENTAL&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)" +
		"&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&_pragma=cache_size(-65536)&_pragma=journal_size_limit(67108864)"
	sqliteReader = "?_pragma=busy_timeout(5000)&_pragma=query_only(1)&_pragma=cache_size(-16384)"
)

func (s *Store) openSQLite(ctx context.Context, dir string) error {
	if dir == "" {
		return run.Errorf(run.Invalid, "no data folder was given; name one with --data, or a PostgreSQL URL with --db")
	}
	d := &sqliteDialect{}
	s.d = d
	s.dbFile = filepath.Join(dir, "weir.db")
	open := func(settings string, conns int) (*bun.DB, error) {
		db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: s.dbFile}).EscapedPath()+settings)
		if err != nil {
			return nil, fmt.Errorf("opening %s: %w", s.dbFile, err)
		}
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns)
		return bun.NewDB(db, sqlitedialect.New()), nil
	}
	// SQLite would make it readable for all; its -wal and -shm take after it.
	f, err := os.OpenFile(s.dbFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return run.Errorf(run.Unavailable, "the database %s cannot be written: %w; give this user write permission on the file and its folder", s.dbFile, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("making %s: %w", s.dbFile, err)
	}
	if s.write, err = open(sqliteWriter, 1); err != nil {
		return err
	}
	if err := s.write.PingContext(ctx); err != nil {
		return s.sqliteOpenError(err)
	}
	if err := s.quickCheck(ctx); err != nil {
		return err
	}
	if d.file, err = os.Stat(s.dbFile); err != nil {
		return fmt.Errorf("looking at %s: %w", s.dbFile, err)
	}
	if err := s.migrate(ctx, s.write); err != nil {
		return s.sqliteOpenError(err)
	}
	if s.read, err = open(sqliteReader, max(2, runtime.NumCPU())); err != nil {
		return err
	}
	return nil
}

// quickCheck finds damaged pages, which a mere connection does not.
func (s *Store) quickCheck(ctx context.Context) error {
	info, err := os.Stat(s.dbFile)
	if err != nil {
		return fmt.Errorf("looking at %s: %w", s.dbFile, err)
	}
	if info.Size() > quickCheckBytes {
		s.log.InfoContext(ctx, "the database is too large to be checked at each start", "file", s.dbFile, "bytes", info.Size())
		return nil
	}
	var result string
	if err := s.write.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&result); err != nil {
		return s.sqliteOpenError(err)
	}
	if result != "ok" {
		return s.damaged(result, nil)
	}
	return nil
}

func (s *Store) damaged(what string, err error) error {
	e := run.Errorf(run.Unavailable, "the database %s is damaged (%s); restore it from a backup, or save what is left with: sqlite3 %s .recover", s.dbFile, what, s.dbFile)
	e.Err = err
	return e
}

func (s *Store) sqliteOpenError(err error) error {
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return err
	}
	switch se.Code() & 0xff {
	case sqliteNotADB:
		return run.Errorf(run.Unavailable, "the file %s is not a Weir database: %w; move it away, or choose another folder with --data", s.dbFile, err)
	case sqliteCorrupt:
		return s.damaged(strings.TrimSpace(se.Error()), err)
	case sqliteBusy, sqliteLocked:
		return run.Errorf(run.Unavailable, "the database %s is locked by another process: %w; close whatever has it open (fuser %s shows it)", s.dbFile, err, s.dbFile)
	case sqliteReadOnly, sqliteCantOpen, sqlitePerm:
		return run.Errorf(run.Unavailable, "the database %s cannot be written: %w; give this user write permission on the file and its folder", s.dbFile, err)
	case sqliteFull:
		return run.Errorf(run.Unavailable, "the disk of %s is full: %w; free some space", s.dbFile, err)
	}
	return fmt.Errorf("opening %s: %w", s.dbFile, err)
}

// sameFile finds a database that was deleted or replaced under the server,
// which SQLite itself does not notice.
func (s *Store) sameFile() error {
	now, err := os.Stat(s.dbFile)
	if err == nil && os.SameFile(now, s.d.(*sqliteDialect).file) {
		return nil
	}
	return run.Errorf(run.Unavailable, "the file %s was deleted or replaced while the server runs; stop the server and put it back", s.dbFile)
}
