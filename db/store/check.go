package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/weirhq/weir/db/migrations"
	"github.com/weirhq/weir/runtime/run"
)

// Health is what Check found.
type Health struct {
	Dialect string
	Version string // of the database server
	Where   string // file or server, without a password
	Fresh   bool   // SQLite: the file is not there yet
	// Skew is how far this machine's clock is ahead of the database server's.
	Skew time.Duration
}

// Check tells whether Open would succeed, and changes nothing: it makes no
// file and migrates nothing. Its errors are those of Open.
func Check(ctx context.Context, o Options) (Health, error) {
	if o.Path != "" {
		if err := checkLock(o.Path); err != nil {
			return Health{}, err
		}
	}
	if o.URL != "" {
		return checkPostgres(ctx, o.URL)
	}
	return checkSQLite(ctx, o.Path)
}

// checkLock finds another server on the same data folder.
func checkLock(dir string) error {
	name := filepath.Join(dir, "weir.lock")
	f, err := os.OpenFile(name, os.O_RDWR|syscall.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return folderError(dir, err)
	}
	defer func() { _ = f.Close() }() // frees the lock
	return lockError(dir, f, flock(f, lockPatience))
}

func checkSQLite(ctx context.Context, dir string) (Health, error) {
	s := &Store{d: &sqliteDialect{}, dbFile: filepath.Join(dir, "weir.db")}
	h := Health{Dialect: "sqlite", Where: s.dbFile}
	info, err := os.Stat(s.dbFile)
	if errors.Is(err, os.ErrNotExist) {
		h.Fresh = true
		return h, nil
	}
	if err != nil {
		return h, run.Errorf(run.Unavailable, "the database %s cannot be reached: %w; give this user the right to read and write it", s.dbFile, err)
	}
	if f, err := os.OpenFile(s.dbFile, os.O_RDWR, 0); err != nil {
		return h, run.Errorf(run.Unavailable, "the database %s cannot be written: %w; give this user write permission on the file and its folder", s.dbFile, err)
	} else if err := f.Close(); err != nil {
		return h, fmt.Errorf("looking at %s: %w", s.dbFile, err)
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: s.dbFile}).EscapedPath()+"?mode=rw&_pragma=busy_timeout(5000)&_pragma=query_only(1)")
	if err != nil {
		return h, fmt.Errorf("opening %s: %w", s.dbFile, err)
	}
	defer func() { _ = db.Close() }()
	if err := db.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&h.Version); err != nil {
		return h, s.sqliteOpenError(err)
	}
	result := "ok"
	if info.Size() <= quickCheckBytes {
		if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&result); err != nil {
			return h, s.sqliteOpenError(err)
		}
	}
	if result != "ok" {
		return h, s.damaged(result, nil)
	}
	return h, migrations.Known(ctx, db, "sqlite")
}

func checkPostgres(ctx context.Context, url string) (Health, error) {
	t, err := parsePGURL(url)
	if err != nil {
		return Health{}, err
	}
	h := Health{Dialect: "postgres", Where: t.name()}
	db := connectPG(t, 8*time.Second, 1)
	defer func() { _ = db.Close() }()
	var number int
	var now time.Time
	var may bool
	begin := time.Now()
	err = db.QueryRowContext(ctx, "SELECT current_setting('server_version'), current_setting('server_version_num')::int, clock_timestamp(), coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)").
		Scan(&h.Version, &number, &now, &may)
	if err != nil {
		return h, pgOpenError(t, err)
	}
	h.Version, _, _ = strings.Cut(h.Version, " ") // a packager's words follow
	h.Skew = begin.Add(time.Since(begin) / 2).Sub(now)
	if err := newEnough(t, number); err != nil {
		return h, err
	}
	if !may {
		return h, run.Errorf(run.Unavailable, "PostgreSQL %s cannot be used: the user %s may not create tables; grant it: psql -d %s -c 'GRANT CREATE ON SCHEMA public TO \"%s\"'", t.name(), t.user, t.database, t.user)
	}
	return h, migrations.Known(ctx, db.DB, "postgres")
}

func newEnough(t pgTarget, version int) error {
	if version < minPostgres {
		return run.Errorf(run.Unavailable, "the PostgreSQL server %s has version %d; Weir needs 13 or newer", t.addr, version/10000)
	}
	return nil
}
