package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/runtime/run"
)

// refuses fails unless opening is refused with all of the words.
func refuses(t *testing.T, o store.Options, words ...string) {
	t.Helper()
	s, err := store.Open(context.Background(), o)
	if err == nil {
		_ = s.Close()
		t.Fatal("it was opened")
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
}

// refusesBoth fails unless opening and checking are refused with all of the words.
func refusesBoth(t *testing.T, o store.Options, words ...string) {
	t.Helper()
	refuses(t, o, words...)
	_, err := store.Check(t.Context(), o)
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("the check does not say %q: %v", w, err)
		}
	}
}

// filled makes a closed database with some content.
func filled(t *testing.T) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	s, err := store.Open(context.Background(), store.Options{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	id := run.NewSessionID()
	if err := s.CreateSession(context.Background(), run.Session{ID: id}); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if _, err := s.Append(context.Background(), run.Batch{Session: id, Drafts: []run.Draft{{Payload: &run.Warning{Text: strings.Repeat("x", 3000)}}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(dir, "weir.db")
}

func TestOpenRefusals(t *testing.T) {
	t.Parallel()
	t.Run("NoFolder", func(t *testing.T) {
		t.Parallel()
		refuses(t, store.Options{}, "--data", "--db")
	})
	t.Run("FileInTheWay", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		refuses(t, store.Options{Path: file}, file, "--data")
		refuses(t, store.Options{Path: filepath.Join(file, "below")}, file, "--data")
	})
	t.Run("ReadOnlyFolder", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if os.Geteuid() == 0 {
			dir = "/proc/self" // no mode keeps root out, but nothing can be made there
		} else if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		refuses(t, store.Options{Path: dir}, dir, "cannot be written")
	})
	t.Run("SecondServer", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		openStore(t, store.Options{Path: dir}, &store.Fault{})
		refusesBoth(t, store.Options{Path: dir}, dir, "another Weir server", "--data")
	})
	t.Run("LockedDatabase", func(t *testing.T) {
		t.Parallel()
		dir, file := filled(t)
		db, err := sql.Open("sqlite", "file:"+file+"?_txlock=exclusive&_pragma=journal_mode(DELETE)")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		tx, err := db.BeginTx(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		refusesBoth(t, store.Options{Path: dir}, file, "locked by another process")
	})
	t.Run("NotADatabase", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "weir.db"), bytes.Repeat([]byte("not a database "), 1000), 0o600); err != nil {
			t.Fatal(err)
		}
		refusesBoth(t, store.Options{Path: dir}, "weir.db is not a Weir database", "move it away")
	})
	t.Run("DamagedPage", func(t *testing.T) {
		t.Parallel()
		dir, file := filled(t)
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		for page := info.Size() / 4096 / 2; page < info.Size()/4096; page += 2 {
			if _, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, 4096), page*4096); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		refusesBoth(t, store.Options{Path: dir}, file, "is damaged", "backup")
	})
	t.Run("Truncated", func(t *testing.T) {
		t.Parallel()
		dir, file := filled(t)
		if err := os.Truncate(file, 300_000); err != nil {
			t.Fatal(err)
		}
		refusesBoth(t, store.Options{Path: dir}, file, "is damaged")
	})
	t.Run("NewerSchema", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := openStore(t, store.Options{Path: dir}, &store.Fault{})
		if err := s.Exec(context.Background(), "INSERT INTO schema_versions (version_id, is_applied) VALUES (99999, 1)"); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		before := content(t, filepath.Join(dir, "weir.db"))
		refusesBoth(t, store.Options{Path: dir}, "99999", "newer version")
		// Behind the header, in which SQLite counts who opened it for writing.
		if !bytes.Equal(before[100:], content(t, filepath.Join(dir, "weir.db"))[100:]) {
			t.Error("the newer database was changed")
		}
	})
	t.Run("NewerSchemaOnPostgres", func(t *testing.T) {
		t.Parallel()
		o := store.Options{URL: pgtest.Database(t)}
		s := openStore(t, o, &store.Fault{})
		if err := s.Exec(context.Background(), "INSERT INTO schema_versions (version_id, is_applied) VALUES (99999, true)"); err != nil {
			t.Fatal(err)
		}
		refusesBoth(t, o, "99999", "newer version")
	})
	t.Run("MissingColumn", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := openStore(t, store.Options{Path: dir}, &store.Fault{})
		if err := s.Exec(context.Background(), "ALTER TABLE runs DROP COLUMN result"); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		refuses(t, store.Options{Path: dir}, "runs", "not as this version of Weir expects it")
	})
	t.Run("NoServer", func(t *testing.T) {
		t.Parallel()
		refusesBoth(t, store.Options{URL: "postgres://u:geheim@127.0.0.1:1/db"}, "127.0.0.1:1", "server runs")
	})
}

func TestOpenPostgresRefusals(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	name := url[strings.Index(url, "@/")+2 : strings.Index(url, "?")]
	refusesBoth(t, store.Options{URL: strings.Replace(url, name, "nosuch", 1)}, "nosuch", "createdb nosuch")
	refusesBoth(t, store.Options{URL: strings.Replace(url, "postgres@", "nobody@", 1)}, "nobody", "check user and password")
}

// TestReplicasStartAtOnce: several processes may migrate one fresh database.
func TestReplicasStartAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := store.Open(context.Background(), store.Options{URL: url})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestFileDeleted: SQLite itself goes on writing into a file that is gone.
func TestFileDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, store.Options{Path: dir}, &store.Fault{})
	if err := s.Ping(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "weir.db")); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(context.Background()); run.CodeOf(err) != run.Unavailable || !strings.Contains(err.Error(), "deleted or replaced") {
		t.Fatalf("ping says %v", err)
	}
}

// TestMigratedTwice: opening an existing database changes nothing in it, and
// every pragma that the promises rest on is set.
func TestMigratedTwice(t *testing.T) {
	t.Parallel()
	dir, _ := filled(t)
	s := openStore(t, store.Options{Path: dir}, &store.Fault{})
	for query, want := range map[string]int64{
		"SELECT count(*) FROM sessions":               1,
		"SELECT count(*) FROM events":                 200,
		"SELECT max(version_id) FROM schema_versions": 7,
	} {
		if n, err := s.Count(context.Background(), query); err != nil || n != want {
			t.Errorf("%s gives %d (%v), want %d", query, n, err, want)
		}
	}
	for pragma, want := range map[string]int64{"synchronous": 2, "auto_vacuum": 2, "foreign_keys": 1, "busy_timeout": 5000} {
		if n, err := s.WriterNumber("PRAGMA " + pragma); err != nil || n != want {
			t.Errorf("%s is %d (%v), want %d", pragma, n, err, want)
		}
	}
}

// TestFilesArePrivate: prompts and output are nobody else's business.
func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := store.Open(t.Context(), store.Options{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.CreateSession(t.Context(), run.Session{ID: run.NewSessionID()}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"weir.db", "weir.db-wal", "weir.db-shm"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %o, want 600", name, info.Mode().Perm())
		}
	}
}

// A check changes nothing, not even a database that this version would migrate.
func TestCheckChangesNothing(t *testing.T) {
	t.Parallel()
	names := func(dir string) (all []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	empty := t.TempDir()
	h, err := store.Check(t.Context(), store.Options{Path: empty})
	if err != nil || !h.Fresh || h.Dialect != "sqlite" || h.Where != filepath.Join(empty, "weir.db") || len(names(empty)) > 0 {
		t.Errorf("%+v %v, left %v", h, err, names(empty))
	}
	dir, file := filled(t)
	before, files := content(t, file), names(dir)
	h, err = store.Check(t.Context(), store.Options{Path: dir})
	if err != nil || h.Fresh || !strings.HasPrefix(h.Version, "3.") {
		t.Errorf("%+v %v", h, err)
	}
	if !bytes.Equal(before, content(t, file)) || !slices.Equal(files, names(dir)) {
		t.Errorf("it changed the database or left %v", names(dir))
	}
	h, err = store.Check(t.Context(), store.Options{URL: pgtest.Database(t)})
	if err != nil || h.Dialect != "postgres" || h.Version < "13" || h.Skew.Abs() > time.Second {
		t.Errorf("%+v %v", h, err)
	}
}

func content(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
