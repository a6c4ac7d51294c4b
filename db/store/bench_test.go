package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/runtime/run"
)

// The load: batches of one metric event with 20 points of 4 curves and one piece
// of output of 1 KB, from 256 callers over 16 sessions; groups of 512 events.
const (
	benchSessions = 16
	benchCallers  = 256
	benchPoints   = 20
	benchBatches  = 6_000 // of one round: 12,000 events, 120,000 points
	benchGroup    = 256   // batches of one transaction by hand: 512 events
)

// BenchmarkIngest measures the ratio of what the store writes in a second and of
// the same rows written by hand, in transactions of the same size, on a database
// of the same kind. 1 is as fast as by hand; the least that is allowed is 0.7.
// Both are measured in turns in one run, and the median of the ratios counts.
func BenchmarkIngest(b *testing.B) {
	for _, dialect := range []string{"sqlite", "postgres"} {
		b.Run(dialect, func(b *testing.B) {
			var ratios, ours, hands []float64
			for b.Loop() {
				for range 3 {
					mine, hand := benchStore(b, dialect), benchHand(b, dialect)
					ours, hands, ratios = append(ours, mine), append(hands, hand), append(ratios, mine/hand)
				}
			}
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(median(ours), "events/s")
			b.ReportMetric(median(hands), "events/s-by-hand")
			if r := median(ratios); r < 0.7 {
				b.Errorf("%s: the store writes %.2f of what is written by hand, want at least 0.7", dialect, r)
			}
		})
	}
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

func benchOptions(b *testing.B, dialect string) store.Options {
	b.Helper()
	if dialect == "postgres" {
		return store.Options{URL: pgtest.Start(b).Database(b)}
	}
	return store.Options{Path: b.TempDir()}
}

func benchBatch(r run.Run, n int) run.Batch {
	points := make([]run.Point, benchPoints)
	now := time.Now()
	for i := range points {
		points[i] = run.Point{Step: int64(n*benchPoints/4 + i/4), Name: benchNames[i%4], Value: float64(n) / 7, Stage: "train", At: now}
	}
	return run.Batch{Session: r.Session, Fence: run.Fence{Run: r.ID, Token: r.Token}, Drafts: []run.Draft{
		run.DraftOf(r, now, &run.MetricsLogged{ExecutionID: "exe_1", Points: points}),
		run.DraftOf(r, now, &run.OutputWritten{ExecutionID: "exe_1", Stream: run.Stdout, Text: benchText, Offset: int64(n) * 1000}),
	}}
}

var (
	benchNames = []string{"loss", "acc", "lr", "grad_norm"}
	benchText  = strings.Repeat("0123456789abcdef'\"\\\n", 50)
)

func benchRuns(b *testing.B, s *store.Store) []run.Run {
	b.Helper()
	ctx := context.Background()
	for range benchSessions {
		id := run.NewSessionID()
		if _, err := s.Accept(ctx, run.NewRun{Run: run.Run{ID: run.NewID(), Session: id, Agent: "a", Stage: "train"}, NewSession: &run.Session{ID: id}}); err != nil {
			b.Fatal(err)
		}
	}
	runs, err := s.Claim(ctx, "me", benchSessions)
	if err != nil || len(runs) != benchSessions {
		b.Fatalf("%d runs (%v)", len(runs), err)
	}
	return runs
}

// benchStore gives the events per second through the store, buckets included.
func benchStore(b *testing.B, dialect string) float64 {
	b.Helper()
	s := openStore(b, benchOptions(b, dialect), &store.Fault{})
	runs := benchRuns(b, s)
	var wg sync.WaitGroup
	begin := time.Now()
	for c := range benchCallers {
		wg.Go(func() {
			for i := c; i < benchBatches; i += benchCallers {
				if _, err := s.Append(context.Background(), benchBatch(runs[i%benchSessions], i/benchSessions)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := s.Fold(context.Background()); err != nil {
		b.Fatal(err)
	}
	took := time.Since(begin)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return 2 * benchBatches / took.Seconds()
}

// benchHand writes the same rows with the quickest statements of each database:
// prepared ones on SQLite, one INSERT and one COPY per transaction on
// PostgreSQL. The bodies are made before the clock starts.
func benchHand(b *testing.B, dialect string) float64 {
	b.Helper()
	o := benchOptions(b, dialect)
	s := openStore(b, o, &store.Fault{}) // for the tables
	runs := benchRuns(b, s)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	type row struct {
		r      run.Run
		body   []byte
		points []run.Point
	}
	var rows []row
	for i := range benchBatches {
		batch := benchBatch(runs[i%benchSessions], i/benchSessions)
		p, err := s.Bodies(batch)
		if err != nil {
			b.Fatal(err)
		}
		rows = append(rows, row{runs[i%benchSessions], p[0], batch.Drafts[0].Payload.(*run.MetricsLogged).Points}, row{runs[i%benchSessions], p[1], nil})
	}
	db, conn := store.Raw(b, o)
	defer func() { _ = db.Close() }()
	ctx := context.Background()
	exec := func(query string, args ...any) {
		b.Helper()
		if _, err := conn.ExecContext(ctx, query, args...); err != nil {
			b.Fatal(err)
		}
	}
	exec("INSERT INTO series (run_id, attempt, stage, tag, name) SELECT r.id, 1, 'train', '', n.name FROM runs r, (SELECT 'loss' AS name UNION SELECT 'acc' UNION SELECT 'lr' UNION SELECT 'grad_norm') n")
	series := map[string]int64{}
	sids := map[run.SessionID]int64{}
	each(b, conn, "SELECT run_id || name, id FROM series", func(k string, id int64) { series[k] = id })
	each(b, conn, "SELECT id, sid FROM sessions", func(k string, id int64) { sids[run.SessionID(k)] = id })
	seqs := map[run.SessionID]int64{}
	each(b, conn, "SELECT id, last_seq FROM sessions", func(k string, n int64) { seqs[run.SessionID(k)] = n })
	fold := newHandFold()
	var event, point *sql.Stmt
	if dialect == "sqlite" {
		event = prepare(b, conn, "INSERT INTO events (sid, seq, at_us, kind, run_id, agent, stage, body) VALUES (?,?,?,?,?,?,?,?)")
		point = prepare(b, conn, "INSERT INTO metric_points (series, step, ord, at_us, special, value) VALUES (?,?,?,?,?,?)")
	}
	begin, folded := time.Now(), time.Now()
	for group := range slices.Chunk(rows, 2*benchGroup) {
		exec(map[string]string{"sqlite": "BEGIN IMMEDIATE", "postgres": "BEGIN"}[dialect])
		var text, copied bytes.Buffer
		now := time.Now().UnixMicro()
		n := map[run.SessionID]int64{}
		for i, r := range group {
			seqs[r.r.Session]++
			n[r.r.Session]++
			seq := seqs[r.r.Session]
			kind := run.TypeOutputWritten.Code()
			if r.points != nil {
				kind = run.TypeMetricsLogged.Code()
			}
			if event != nil {
				if _, err := event.ExecContext(ctx, sids[r.r.Session], seq, now, kind, string(r.r.ID), "a", "train", string(r.body)); err != nil {
					b.Fatal(err)
				}
			} else {
				if i > 0 {
					text.WriteByte(',')
				}
				fmt.Fprintf(&text, "(%d,%d,%d,%d,'%s','a','train','", sids[r.r.Session], seq, now, kind, r.r.ID)
				text.Write(bytes.ReplaceAll(r.body, []byte("'"), []byte("''")))
				text.WriteString("')")
			}
			for j, p := range r.points {
				id, ord := series[string(r.r.ID)+p.Name], seq<<20|int64(j)
				fold.add(id, p, ord)
				if point != nil {
					if _, err := point.ExecContext(ctx, id, p.Step, ord, p.At.UnixMicro(), 0, p.Value); err != nil {
						b.Fatal(err)
					}
					continue
				}
				line := copied.AvailableBuffer()
				for _, v := range []int64{id, p.Step, ord, p.At.UnixMicro(), 0} {
					line = append(strconv.AppendInt(line, v, 10), '\t')
				}
				copied.Write(append(strconv.AppendFloat(line, p.Value, 'g', -1, 64), '\n'))
			}
		}
		if event == nil {
			exec("INSERT INTO events (sid, seq, at_us, kind, run_id, agent, stage, body) VALUES " + text.String())
			if _, err := pgdriver.CopyFrom(ctx, conn, bytes.NewReader(copied.Bytes()), "COPY metric_points (series, step, ord, at_us, special, value) FROM STDIN"); err != nil {
				b.Fatal(err)
			}
		}
		for id, k := range n {
			exec("UPDATE sessions SET last_seq = last_seq + " + strconv.FormatInt(k, 10) + " WHERE id = '" + string(id) + "'")
		}
		exec("COMMIT")
		if time.Since(folded) > time.Second {
			fold.write(b, conn, dialect)
			folded = time.Now()
		}
	}
	fold.write(b, conn, dialect)
	return 2 * benchBatches / time.Since(begin).Seconds()
}

func prepare(b *testing.B, conn bun.Conn, query string) *sql.Stmt {
	b.Helper()
	stmt, err := conn.Conn.PrepareContext(context.Background(), query)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = stmt.Close() })
	return stmt
}

func each(b *testing.B, conn bun.Conn, query string, f func(string, int64)) {
	b.Helper()
	rows, err := conn.QueryContext(context.Background(), query)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var k string
		var v int64
		if err := rows.Scan(&k, &v); err != nil {
			b.Fatal(err)
		}
		f(k, v)
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
}

// handFold is the plainest way to keep buckets: a map of all levels.
type handFold struct{ m map[[3]int64]*store.Summary }

func newHandFold() *handFold { return &handFold{m: map[[3]int64]*store.Summary{}} }

func (f *handFold) add(series int64, p run.Point, ord int64) {
	key := [3]int64{series, 4, p.Step >> 4}
	s := f.m[key]
	if s == nil {
		s = &store.Summary{}
		f.m[key] = s
	}
	store.AddPoint(s, p, ord)
}

func (f *handFold) write(b *testing.B, conn bun.Conn, dialect string) {
	b.Helper()
	if err := store.WriteBuckets(conn, dialect, f.m); err != nil {
		b.Fatal(err)
	}
	clear(f.m)
}
