package store

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/weirhq/weir/runtime/run"
)

// minPostgres is the first version with pg_current_xact_id, which resolves the
// outcome of a commit whose answer was lost.
const minPostgres = 130000

// connectPG is the only place where the driver is configured. The read timeout
// stands above statement_timeout: a client that gives up first would not know
// whether the server went on and committed.
func connectPG(t pgTarget, statement time.Duration, conns int) *bun.DB {
	opts := []pgdriver.Option{
		pgdriver.WithNetwork(t.network), pgdriver.WithAddr(t.addr),
		pgdriver.WithUser(t.user), pgdriver.WithPassword(t.password), pgdriver.WithDatabase(t.database),
		pgdriver.WithApplicationName(t.app),
		pgdriver.WithTLSConfig(t.tls),
		pgdriver.WithDialTimeout(3 * time.Second),
		pgdriver.WithReadTimeout(statement + 2*time.Second),
		pgdriver.WithWriteTimeout(5 * time.Second),
		pgdriver.WithConnParams(map[string]any{
			"statement_timeout":                   ms(statement),
			"lock_timeout":                        ms(3 * time.Second),
			"idle_in_transaction_session_timeout": ms(5 * time.Second),
		}),
	}
	db := sql.OpenDB(pgdriver.NewConnector(opts...))
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxLifetime(30 * time.Minute)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return bun.NewDB(db, pgdialect.New())
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func (s *Store) openPostgres(ctx context.Context, url string) error {
	t, err := parsePGURL(url)
	if err != nil {
		return err
	}
	s.d = &pgDialect{target: t}
	maintenance := connectPG(t, 15*time.Minute, 2)
	defer func() { _ = maintenance.Close() }()
	var version int
	if err := maintenance.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return pgOpenError(t, err)
	}
	if err := newEnough(t, version); err != nil {
		return err
	}
	if err := s.migrate(ctx, maintenance); err != nil {
		return pgOpenError(t, err)
	}
	s.read = connectPG(t, 8*time.Second, 16)
	s.write = connectPG(t, 8*time.Second, 2)
	return nil
}

func pgOpenError(t pgTarget, err error) error {
	remedy := ""
	switch sqlState(err) {
	case "28P01", "28000":
		remedy = "check user and password in the URL, and pg_hba.conf"
	case "3D000":
		remedy = fmt.Sprintf("create it: createdb %s", t.database)
	case "42501":
		remedy = fmt.Sprintf("grant the user %s the right to create tables in the database %s", t.user, t.database)
	default:
		if classify(err) == classGone {
			remedy = "check that the server runs and that the host, port and sslmode of the URL are right"
		}
	}
	if remedy == "" {
		return fmt.Errorf("opening PostgreSQL %s: %w", t.name(), err)
	}
	return run.Errorf(run.Unavailable, "PostgreSQL %s cannot be used: %w; %s", t.name(), err, remedy)
}
