// Package migrations holds the database schema as numbered SQL files, one
// folder per dialect. A file that was released is never changed: a new one
// follows it, so that every older database can be brought up to date.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
)

//go:embed sqlite/*.sql postgres/*.sql
var files embed.FS

// lockKey is the PostgreSQL advisory lock that all replicas of Weir share.
const lockKey = 0x77656972 // "weir"

// Migrate brings the database up to the newest version and gives that version.
// The dialect is "sqlite" or "postgres". Several processes may call it at once
// on PostgreSQL; on SQLite the caller holds the data folder. Each file runs in
// a transaction of its own: what failed left nothing behind.
func Migrate(ctx context.Context, db *sql.DB, dialect string) (int64, error) {
	return migrate(ctx, db, dialect, files)
}

func migrate(ctx context.Context, db *sql.DB, dialect string, files fs.FS) (int64, error) {
	p, err := provider(db, dialect, files)
	if err != nil {
		return 0, err
	}
	// A newer database is left alone, whatever else is pending.
	if err := knownTo(ctx, p, db); err != nil {
		return 0, err
	}
	if _, err := p.Up(ctx); err != nil {
		return 0, fmt.Errorf("migrating the database: %w", err)
	}
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the schema version: %w", err)
	}
	return have, known(have, want)
}

// Known tells whether this program can use the database, and changes nothing. A
// database that was never migrated is known.
func Known(ctx context.Context, db *sql.DB, dialect string) error {
	p, err := provider(db, dialect, files)
	if err != nil {
		return err
	}
	return knownTo(ctx, p, db)
}

func knownTo(ctx context.Context, p *goose.Provider, db *sql.DB) error {
	var have, want int64
	for _, s := range p.ListSources() {
		want = max(want, s.Version)
	}
	if err := db.QueryRowContext(ctx, "SELECT COALESCE(MAX(version_id), 0) FROM schema_versions").Scan(&have); err != nil {
		return nil //nolint:nilerr // there is no such table yet: what else is wrong shows elsewhere
	}
	return known(have, want)
}

func known(have, want int64) error {
	if have > want {
		return fmt.Errorf("the database has schema version %d, this program knows up to %d: it was written by a newer version of Weir; start that one", have, want)
	}
	return nil
}

func provider(db *sql.DB, dialect string, files fs.FS) (*goose.Provider, error) {
	sub, err := fs.Sub(files, dialect)
	if err != nil {
		return nil, fmt.Errorf("opening the migrations of %q: %w", dialect, err)
	}
	d, opts := goose.DialectSQLite3, []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithTableName("schema_versions")}
	if dialect == "postgres" {
		d, opts = goose.DialectPostgres, append(opts, goose.WithSessionLocker(sessionLock{}))
	}
	p, err := goose.NewProvider(d, db, sub, opts...)
	if err != nil {
		return nil, fmt.Errorf("reading the migrations of %q: %w", dialect, err)
	}
	return p, nil
}

// sessionLock lets one process migrate at a time. The lock dies with its
// connection, so a crashed holder blocks nobody. It is polled because a
// blocked statement cannot be cancelled through the driver.
type sessionLock struct{}

func (sessionLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	for {
		var ok bool
		if err := conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", lockKey).Scan(&ok); err != nil {
			return fmt.Errorf("taking the migration lock: %w", err)
		}
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for another process to migrate the database: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (sessionLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", lockKey); err != nil {
		return fmt.Errorf("releasing the migration lock: %w", err)
	}
	return nil
}
