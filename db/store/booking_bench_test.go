package store_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/db/storetest"
	"github.com/weirhq/weir/runtime/run"
)

// bookingLimit is the most that a call of a run with 20,000 may cost, as a multiple
// of that of a run with 1,000.
const bookingLimit = 2

// BenchmarkBooking measures what it costs to book one model call of a run that had
// many before: CPU time of this process, or of the server's, per call.
func BenchmarkBooking(b *testing.B) {
	for _, dialect := range []string{"sqlite", "postgres"} {
		b.Run(dialect, func(b *testing.B) {
			for b.Loop() {
				benchBooking(b, dialect)
			}
		})
	}
}

func benchBooking(b *testing.B, dialect string) {
	ctx := context.Background()
	book := &storetest.Book{}
	book.Set("m", 3)
	o := store.Options{Path: b.TempDir(), Pricer: book}
	if dialect == "postgres" {
		o = store.Options{URL: pgtest.Database(b), Pricer: book}
	}
	s := openStore(b, o, &store.Fault{})
	_, conn := store.Raw(b, o)
	clock, _ := clocks(b, s, conn, dialect)
	r := run.Run{ID: run.NewID(), Session: run.NewSessionID(), Agent: "a", Driver: "script", Definition: []byte("{}")}
	if err := s.CreateSession(ctx, run.Session{ID: r.Session}); err != nil {
		b.Fatal(err)
	}
	if _, err := s.Accept(ctx, run.NewRun{Run: r}); err != nil {
		b.Fatal(err)
	}
	n := 0
	calls := func(to, each int) {
		for n < to {
			var usage []run.UsageRecord
			for range each {
				n++
				usage = append(usage, run.UsageRecord{
					Run: r.ID, RequestKey: fmt.Sprint("call", n), Kind: run.ModelCall, Rank: run.FromResult, Provenance: run.Measured, Model: "m", Stream: "s",
					Tokens: run.Tokens{Input: 100, Output: 10},
				})
			}
			if _, err := s.Append(ctx, run.Batch{Session: r.Session, Usage: usage}); err != nil {
				b.Fatal(err)
			}
		}
	}
	const measured = 500
	var costs []float64
	for _, before := range []int{1000, 20_000} {
		calls(before, 500)
		_, cpu := timed(clock, func() { calls(before+measured, 1) })
		costs = append(costs, cpu/measured)
	}
	got, err := s.Run(ctx, r.ID)
	if err != nil || got.Usage.Records != int64(n) || *got.Usage.CostNanoUSD != int64(n)*330 {
		b.Fatalf("after %d calls the run has %+v, %v", n, got.Usage, err)
	}
	b.ReportMetric(costs[0], "ms/call-of-1000")
	b.ReportMetric(costs[1], "ms/call-of-20000")
	if costs[1] > bookingLimit*costs[0] {
		b.Errorf("a call of a run with 20,000 costs %.3f ms, of one with 1,000 %.3f ms", costs[1], costs[0])
	}
}
