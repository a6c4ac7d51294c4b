package store_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/db/storetest"
)

func TestMain(m *testing.M) {
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
	pgtest.Database(t) // skips here, once and loudly
	storetest.Run(t, func(t *testing.T) storetest.Subject {
		return subject(t, store.Options{URL: pgtest.Database(t)}, true)
	})
}

func subject(t *testing.T, o store.Options, many bool) storetest.Subject {
	t.Helper()
	fault := &store.Fault{}
	s := openStore(t, o, fault)
	sub := storetest.Subject{
		Store:  s,
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
	if many {
		sub.Second = func(t *testing.T) storetest.Store { return openStore(t, o, &store.Fault{}) }
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
