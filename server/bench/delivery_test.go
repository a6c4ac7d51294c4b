package bench

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/weirhq/weir/db/pgtest"

	_ "modernc.org/sqlite" // the bare database to compare with
)

// BenchmarkDelivery: from the call of Append to the event in the subscriber's
// hands, committed first, at 1,000 events/s, against the bare commit of one row at
// the same rate on the same store.
func BenchmarkDelivery(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		delivery(b, newRig(b, ""), bareSQLite(b))
	})
	b.Run("postgres", func(b *testing.B) {
		url := pgtest.Start(b).Database(b)
		delivery(b, newRig(b, url), barePostgres(b, url))
	})
}

func delivery(b *testing.B, r *rig, commit func()) {
	const rate, seconds = 1000, 3
	var medians, tails []float64
	for range rounds() {
		bare := make([]time.Duration, 0, rate*seconds)
		pace(rate*seconds, rate, func(int) {
			begin := time.Now()
			commit()
			bare = append(bare, time.Since(begin))
		})
		ours := deliver(b, r, rate, seconds)
		b.Logf("bare commit: median %v, p99 %v; append to delivery: median %v, p99 %v",
			quantile(bare, 0.5), quantile(bare, 0.99), quantile(ours, 0.5), quantile(ours, 0.99))
		medians = append(medians, float64(quantile(ours, 0.5))/float64(quantile(bare, 0.5)))
		tails = append(tails, float64(quantile(ours, 0.99))/float64(quantile(bare, 0.99)))
	}
	check(b, "median/bare", median(medians), 3, true)
	check(b, "p99/bare", median(tails), 3, true)
}

// deliver appends one event at a time and measures until each is read from a socket.
func deliver(b *testing.B, r *rig, rate, seconds int) []time.Duration {
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	session := r.session()
	conn := r.subscribe(ctx, session)
	defer func() { _ = conn.CloseNow() }()
	n := rate * seconds
	began := make([]time.Time, n+1)
	got := make([]time.Time, n+1)
	var mu sync.Mutex // orders began before got
	done := make(chan error, 1)
	go func() {
		for seen := 0; seen < n; {
			batch, err := seqs(ctx, conn)
			if err != nil {
				done <- err
				return
			}
			now := time.Now()
			for _, s := range batch {
				got[s] = now
			}
			seen += len(batch)
		}
		done <- nil
	}()
	pace(n, rate, func(i int) {
		mu.Lock()
		began[i+1] = time.Now()
		mu.Unlock()
		if _, err := r.store.Append(ctx, thoughts(session, 1)); err != nil {
			b.Error(err)
		}
	})
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	took := make([]time.Duration, 0, n)
	for i := 1; i <= n; i++ {
		took = append(took, got[i].Sub(began[i]))
	}
	return took
}

const bareRow = `INSERT INTO bare (a, b, c) VALUES `

func bareSQLite(b *testing.B) func() {
	b.Helper()
	// The same settings as the store's writer.
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "bare.db")+
		"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=journal_size_limit(67108864)")
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	b.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(b.Context(), `CREATE TABLE bare (a INTEGER, b INTEGER, c TEXT, PRIMARY KEY (a, b))`); err != nil {
		b.Fatal(err)
	}
	stmt, err := db.PrepareContext(b.Context(), bareRow+`(?, ?, ?)`)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = stmt.Close() })
	body, n := strings.Repeat("thinking ", 24), 0
	return func() {
		n++
		if _, err := stmt.ExecContext(context.Background(), 1, n, body); err != nil {
			b.Error(err)
		}
	}
}

func barePostgres(b *testing.B, url string) func() {
	b.Helper()
	db := sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(dsn(url))))
	db.SetMaxOpenConns(1)
	b.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(b.Context(), `CREATE TABLE bare (a BIGINT, b BIGINT, c TEXT, PRIMARY KEY (a, b))`); err != nil {
		b.Fatal(err)
	}
	body, n := strings.Repeat("thinking ", 24), 0
	return func() {
		n++
		if _, err := db.ExecContext(context.Background(), bareRow+`($1, $2, $3)`, 1, n, body); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkStall: three subscribers at 5,000 events/s, one of which stops
// reading: the 99th percentile of the others against the same run without the
// stall.
func BenchmarkStall(b *testing.B) {
	eachStore(b, func(b *testing.B, url string) {
		r := newRig(b, url)
		const rate, perBatch = 1000, 5
		seconds := 30
		if rounds() == 1 {
			seconds = 5
		}
		var ratios []float64
		for range min(rounds(), 3) {
			calm := r.others(b, rate, perBatch, seconds, false)
			stalled := r.others(b, rate, perBatch, seconds, true)
			b.Logf("p99 of the others: %v calm, %v with one stalled", quantile(calm, 0.99), quantile(stalled, 0.99))
			ratios = append(ratios, float64(quantile(stalled, 0.99))/float64(quantile(calm, 0.99)))
		}
		check(b, "p99-stalled/p99", median(ratios), 1.5, true)
	})
}

// others gives the delivery times of two readers beside a third, which may stall.
func (r *rig) others(b *testing.B, rate, perBatch, seconds int, stall bool) []time.Duration {
	ctx, cancel := context.WithTimeout(b.Context(), time.Duration(seconds)*time.Second+time.Minute)
	defer cancel()
	session := r.session()
	n := rate * seconds
	began := make([]time.Time, n*perBatch+1)
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	for i := range 3 {
		conn := r.subscribe(ctx, session)
		defer func() { _ = conn.CloseNow() }()
		if i == 2 && stall {
			continue // never read again
		}
		wg.Go(func() {
			var mine []time.Duration
			for seen := 0; seen < n*perBatch; {
				batch, err := seqs(ctx, conn)
				if err != nil {
					b.Error(err)
					return
				}
				now := time.Now()
				mu.Lock()
				for _, s := range batch {
					mine = append(mine, now.Sub(began[s]))
				}
				mu.Unlock()
				seen += len(batch)
			}
			if i < 2 {
				mu.Lock()
				took = append(took, mine...)
				mu.Unlock()
			}
		})
	}
	pace(n, rate, func(i int) {
		now := time.Now()
		mu.Lock()
		for k := range perBatch {
			began[i*perBatch+k+1] = now
		}
		mu.Unlock()
		if _, err := r.store.Append(ctx, thoughts(session, perBatch)); err != nil {
			b.Error(err)
		}
	})
	wg.Wait()
	return took
}
