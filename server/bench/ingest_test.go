package bench

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/weirhq/weir/db/migrations"
	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/runtime/run"
)

// A batch is what a busy training script prints in one read: its output and the
// points of its metric lines.
const (
	ingestBatches   = 300
	ingestPoints    = 200 // 40 steps of 5 curves
	ingestTextBytes = 8 << 10
)

// BenchmarkIngest: batches through the store, buckets included, against writing
// the same rows by hand in the same transactions: prepared statements on SQLite,
// one INSERT for the events and COPY for the points on PostgreSQL.
func BenchmarkIngest(b *testing.B) {
	for _, dialect := range []string{"sqlite", "postgres"} {
		b.Run(dialect, func(b *testing.B) {
			var cluster *pgtest.Cluster
			if dialect == "postgres" {
				cluster = pgtest.Start(b)
			}
			var ratios []float64
			for range rounds() {
				url := func() string {
					if cluster == nil {
						return ""
					}
					return cluster.Database(b)
				}
				from := target{dir: b.TempDir(), url: url()}
				ours := ingest(b, from)
				rows := from.rows(b)
				hand := rows.write(b, target{dir: b.TempDir(), url: url()})
				b.Logf("store %v, by hand %v: %d events, %d points, %d buckets", ours, hand, len(rows.events), len(rows.points), len(rows.buckets))
				ratios = append(ratios, float64(hand)/float64(ours))
			}
			check(b, "by-hand/store", median(ratios), 0.7, false)
		})
	}
}

// target is an empty or a written database.
type target struct{ dir, url string }

func (t target) open(b *testing.B) *sql.DB {
	b.Helper()
	if t.url != "" {
		return sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(dsn(t.url))))
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.dir, "weir.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=cache_size(-65536)&_pragma=journal_size_limit(67108864)")
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	return db
}

// ingest writes the batches through the store and gives the time until all is
// committed, buckets included.
func ingest(b *testing.B, t target) time.Duration {
	b.Helper()
	ctx := b.Context()
	st, err := store.Open(ctx, store.Options{Path: t.dir, URL: t.url})
	if err != nil {
		b.Fatal(err)
	}
	r := run.Run{ID: run.NewID(), Session: run.NewSessionID(), Agent: "script", Stage: "train", Driver: "script", State: run.State{Status: run.Queued}, Attempt: 1, CreatedAt: time.Now(), Definition: []byte("{}")}
	if _, err := st.Accept(ctx, run.NewRun{Run: r, NewSession: &run.Session{ID: r.Session, CreatedAt: time.Now()}}); err != nil {
		b.Fatal(err)
	}
	claimed, err := st.Claim(ctx, "bench", 1)
	if err != nil || len(claimed) != 1 {
		b.Fatal(err, claimed)
	}
	r = claimed[0]
	text := strings.Repeat("{\"step\": 1, \"metrics\": {}}\n", ingestTextBytes/27)
	names := []string{"loss", "accuracy", "val/loss", "val/accuracy", "lr"}
	begin := time.Now()
	for i := range ingestBatches {
		now := time.Now()
		points := make([]run.Point, 0, ingestPoints)
		for k := range ingestPoints {
			step := i*ingestPoints/len(names) + k/len(names)
			points = append(points, run.Point{Step: int64(step), Name: names[k%len(names)], Value: math.Exp(-float64(step) / 1000), Stage: "train", At: now})
		}
		batch := run.Batch{Session: r.Session, Fence: run.Fence{Run: r.ID, Token: r.Token}, Drafts: []run.Draft{
			run.DraftOf(r, now, &run.OutputWritten{ExecutionID: "exe_bench", Stream: run.Stdout, Text: text, Offset: int64(i * len(text))}),
			run.DraftOf(r, now, &run.MetricsLogged{ExecutionID: "exe_bench", Points: points}),
		}}
		if _, err := st.Append(ctx, batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := st.Close(); err != nil { // folds what is left
		b.Fatal(err)
	}
	return time.Since(begin)
}

// tableRows are the rows of one table as the driver gives them.
type tableRows [][]any

type written struct{ events, points, buckets tableRows }

const (
	eventColumns  = "sid, seq, at_us, kind, run_id, agent, stage, body"
	pointColumns  = "series, step, ord, at_us, special, value"
	bucketColumns = "series, level, bucket, n, nan, pos_inf, neg_inf, min_step, max_step, first_us, last_us, mn, mx, first_step, first_ord, first_v, last_step, last_ord, last_v"
)

// rows reads back what the store wrote.
func (t target) rows(b *testing.B) written {
	b.Helper()
	db := t.open(b)
	defer func() { _ = db.Close() }()
	read := func(columns, table, order string) tableRows {
		rows, err := db.QueryContext(b.Context(), "SELECT "+columns+" FROM "+table+" ORDER BY "+order)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		var out tableRows
		for rows.Next() {
			row := make([]any, strings.Count(columns, ",")+1)
			into := make([]any, len(row))
			for i := range row {
				into[i] = &row[i]
			}
			if err := rows.Scan(into...); err != nil {
				b.Fatal(err)
			}
			for i, v := range row {
				if raw, ok := v.([]byte); ok {
					row[i] = string(raw)
				}
			}
			out = append(out, row)
		}
		if err := rows.Err(); err != nil {
			b.Fatal(err)
		}
		return out
	}
	return written{
		events:  read(eventColumns, "events WHERE kind IN (9, 11)", "seq"),
		points:  read(pointColumns, "metric_points", "ord"),
		buckets: read(bucketColumns, "metric_buckets", "series, level, bucket"),
	}
}

// write puts the rows into a fresh, migrated database by hand: each batch in its
// transaction, the buckets in one.
func (w written) write(b *testing.B, t target) time.Duration {
	b.Helper()
	db := t.open(b)
	defer func() { _ = db.Close() }()
	dialect := "sqlite"
	if t.url != "" {
		dialect = "postgres"
	}
	if _, err := migrations.Migrate(b.Context(), db, dialect); err != nil {
		b.Fatal(err)
	}
	if len(w.points) != ingestBatches*ingestPoints || len(w.events) != 2*ingestBatches || len(w.buckets) == 0 {
		b.Fatalf("the store wrote %d events, %d points, %d buckets", len(w.events), len(w.points), len(w.buckets))
	}
	put := putSQLite
	if t.url != "" {
		put = putPostgres
	}
	begin := time.Now()
	for i := range ingestBatches {
		if err := put(b.Context(), db, w.events[2*i:2*i+2], w.points[i*ingestPoints:(i+1)*ingestPoints], nil); err != nil {
			b.Fatal(err)
		}
	}
	if err := put(b.Context(), db, nil, nil, w.buckets); err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

func marks(n int) string { return "(?" + strings.Repeat(", ?", n-1) + ")" }

func putSQLite(ctx context.Context, db *sql.DB, events, points, buckets tableRows) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, part := range []struct {
		table, columns string
		rows           tableRows
	}{{"events", eventColumns, events}, {"metric_points", pointColumns, points}, {"metric_buckets", bucketColumns, buckets}} {
		if len(part.rows) == 0 {
			continue
		}
		if err := insertEach(ctx, tx, "INSERT INTO "+part.table+" ("+part.columns+") VALUES "+marks(len(part.rows[0])), part.rows); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func insertEach(ctx context.Context, tx *sql.Tx, query string, rows tableRows) error {
	stmt, err := tx.PrepareContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = stmt.Close() }()
	for _, row := range rows {
		if _, err := stmt.ExecContext(ctx, row...); err != nil {
			return err
		}
	}
	return nil
}

func putPostgres(ctx context.Context, db *sql.DB, events, points, buckets tableRows) error {
	conn, err := bun.NewDB(db, pgdialect.New()).Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	insert := func(table, columns string, rows tableRows) error {
		if len(rows) == 0 {
			return nil
		}
		var args []any
		for _, r := range rows {
			args = append(args, r...)
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO "+table+" ("+columns+") VALUES "+marks(len(rows[0]))+strings.Repeat(", "+marks(len(rows[0])), len(rows)-1), args...)
		return err
	}
	if err := insert("events", eventColumns, events); err != nil {
		return err
	}
	if len(points) > 0 {
		var text bytes.Buffer
		for _, p := range points {
			fmt.Fprintf(&text, "%v\t%v\t%v\t%v\t%v\t%v\n", p...)
		}
		if _, err := pgdriver.CopyFrom(ctx, conn, bytes.NewReader(text.Bytes()), "COPY metric_points ("+pointColumns+") FROM STDIN"); err != nil {
			return err
		}
	}
	if err := insert("metric_buckets", bucketColumns, buckets); err != nil {
		return err
	}
	return tx.Commit()
}
