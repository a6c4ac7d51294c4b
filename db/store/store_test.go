package store_test

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/db/storetest"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(killEnv); spec != "" {
		os.Exit(killChild(spec))
	}
	pgtest.Main(m, func() error { return goleak.Find() })
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Subject {
		return subject(t, store.Options{Path: t.TempDir()}, false)
	})
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	pgtest.Reused(t) // skips here, once and loudly
	storetest.Run(t, func(t *testing.T) storetest.Subject {
		return subject(t, store.Options{URL: pgtest.Reused(t)}, true)
	})
}

func subject(t *testing.T, o store.Options, many bool) storetest.Subject {
	t.Helper()
	fault, book := &store.Fault{}, &storetest.Book{}
	o.Pricer = book
	s := openStore(t, o, fault)
	sub := storetest.Subject{
		Store:  s,
		Book:   book,
		Listen: func(l storetest.Listener) { s.Listen(l) },
		Fail:   fault.Set,
		Reopen: func(t *testing.T) storetest.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openStore(t, o, fault)
			return s
		},
		Exec: func(t *testing.T, query string) {
			t.Helper()
			if err := s.Exec(context.Background(), query); err != nil {
				t.Fatal(err)
			}
		},
	}
	sub.Waiting = func() int { return s.Waiting() }
	sub.RefuseStep13 = func(t *testing.T) {
		t.Helper()
		if many {
			sub.Exec(t, "ALTER TABLE metric_points ADD CONSTRAINT no13 CHECK (step <> 13)")
			t.Cleanup(func() { pgtest.Exec(t, o.URL, "ALTER TABLE metric_points DROP CONSTRAINT no13") }) // others use the database
			return
		}
		sub.Exec(t, "CREATE TRIGGER no13 BEFORE INSERT ON metric_points WHEN NEW.step = 13 BEGIN SELECT RAISE(ABORT, 'step 13 is refused'); END")
	}
	sub.Count = func(t *testing.T, query string) int64 {
		t.Helper()
		n, err := s.Count(context.Background(), query)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if many {
		sub.Second = func(t *testing.T) (storetest.Store, func(storetest.Listener)) {
			second := openStore(t, o, &store.Fault{})
			return second, func(l storetest.Listener) { second.Listen(l) }
		}
	}
	return sub
}

func openStore(t testing.TB, o store.Options, fault *store.Fault) *store.Store {
	t.Helper()
	s, err := store.OpenFaulty(context.Background(), o, fault)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
