package migrations

import (
	"context"
	"database/sql"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // registers the driver "sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newer is what a later version of Weir may carry: the files of this one, and
// one more.
func newer(t *testing.T, statements string) fs.FS {
	t.Helper()
	more := fstest.MapFS{}
	for _, dialect := range []string{"sqlite", "postgres"} {
		entries, err := fs.ReadDir(files, dialect)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			data, err := fs.ReadFile(files, dialect+"/"+e.Name())
			if err != nil {
				t.Fatal(err)
			}
			more[dialect+"/"+e.Name()] = &fstest.MapFile{Data: data}
		}
	}
	more["sqlite/90000_more.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + statements)}
	return more
}

// old is a database that this version made and wrote to.
func old(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "weir.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := Migrate(t.Context(), db, "sqlite"); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{"CREATE TABLE kept (word TEXT)", "INSERT INTO kept VALUES ('one'), ('two')"} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func one[T any](t *testing.T, db *sql.DB, query string) (v T) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// TestUpgrade: a newer version brings an older database up to date and keeps what
// is in it; the older version then refuses it and changes nothing.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	db := old(t)
	to := newer(t, "ALTER TABLE kept ADD COLUMN length INTEGER;\nUPDATE kept SET length = 3;\n")
	version, err := migrate(t.Context(), db, "sqlite", to)
	if err != nil || version != 90000 {
		t.Fatalf("version %d: %v", version, err)
	}
	if n := one[int](t, db, "SELECT sum(length) FROM kept"); n != 6 {
		t.Errorf("the rows add up to %d, want 6", n)
	}
	before := one[string](t, db, "SELECT group_concat(sql) FROM sqlite_master")
	for name, refuse := range map[string]func(context.Context) error{
		"migrating": func(ctx context.Context) error { _, err := Migrate(ctx, db, "sqlite"); return err },
		"checking":  func(ctx context.Context) error { return Known(ctx, db, "sqlite") },
	} {
		if err := refuse(t.Context()); err == nil || !strings.Contains(err.Error(), "90000") || !strings.Contains(err.Error(), "newer version of Weir") {
			t.Errorf("%s by the older version gives: %v", name, err)
		}
	}
	if after := one[string](t, db, "SELECT group_concat(sql) FROM sqlite_master"); after != before {
		t.Errorf("the older version changed the tables to %s", after)
	}
	if n := one[int](t, db, "SELECT count(*) FROM kept"); n != 2 {
		t.Errorf("%d rows are left", n)
	}
}

// TestFailedUpgrade: a migration that fails leaves the database as it was, for
// the older version to go on with.
func TestFailedUpgrade(t *testing.T) {
	t.Parallel()
	db := old(t)
	to := newer(t, "UPDATE kept SET word = 'lost';\nALTER TABLE nosuch ADD COLUMN a;\n")
	if _, err := migrate(t.Context(), db, "sqlite", to); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("it gives: %v", err)
	}
	if word := one[string](t, db, "SELECT min(word) FROM kept"); word != "one" {
		t.Errorf("the rows hold %q", word)
	}
	if _, err := Migrate(t.Context(), db, "sqlite"); err != nil {
		t.Errorf("the older version cannot go on: %v", err)
	}
}
