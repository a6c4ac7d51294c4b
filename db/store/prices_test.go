package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/db/storetest"
	"github.com/weirhq/weir/runtime/run"
)

// TestNewPricesOfTwoProcesses: price rows that are new to two processes at once,
// in any order of the records, make neither wait for ever.
func TestNewPricesOfTwoProcesses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	book := &storetest.Book{}
	o := store.Options{URL: pgtest.Database(t), Pricer: book}
	var stores [2]*store.Store
	var runs [2]run.Run
	for i := range stores {
		stores[i] = openStore(t, o, &store.Fault{})
		session := run.Session{ID: run.NewSessionID()}
		if err := stores[i].CreateSession(ctx, session); err != nil {
			t.Fatal(err)
		}
		r := run.Run{ID: run.NewID(), Session: session.ID, Agent: "a", Driver: "script", Definition: []byte("{}")}
		if _, err := stores[i].Accept(ctx, run.NewRun{Run: r}); err != nil {
			t.Fatal(err)
		}
		runs[i] = r
	}
	const rounds, models = 30, 6
	for round := range rounds {
		for n := range models {
			book.Set(fmt.Sprint("m", n), int64(round+1))
		}
		var wg sync.WaitGroup
		for i, s := range stores {
			wg.Go(func() {
				var usage []run.UsageRecord
				for n := range models {
					if i == 1 {
						n = models - 1 - n
					}
					usage = append(usage, run.UsageRecord{Run: runs[i].ID, RequestKey: fmt.Sprint(round, "/", n), Kind: run.ModelCall, Rank: run.FromResult, Provenance: run.Measured, Model: fmt.Sprint("m", n), Tokens: run.Tokens{Input: 1}})
				}
				if _, err := s.Append(ctx, run.Batch{Session: runs[i].Session, Usage: usage}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if a, b := stores[0].Stats().Retries, stores[1].Stats().Retries; a+b > 0 {
		t.Errorf("%d transactions were rolled back, since each waited for the other", a+b)
	}
	if n, err := stores[0].Count(ctx, "SELECT count(*) FROM prices"); err != nil || n != rounds*models {
		t.Errorf("%d price rows are stored, want %d (%v)", n, rounds*models, err)
	}
}
