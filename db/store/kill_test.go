package store_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/runtime/run"
)

const killEnv = "WEIR_TEST_KILL" // "folder|url|session ids" for the child

// killChild writes without end, and prints "session seq" for each event that was
// published. It is killed in the middle.
func killChild(spec string) int {
	part := strings.Split(spec, "|")
	s, err := store.Open(context.Background(), store.Options{Path: part[0], URL: part[1]})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	s.Listen(&printer{})
	fmt.Println("ready")
	var wg sync.WaitGroup
	for i, id := range strings.Fields(part[2]) {
		wg.Go(func() {
			r := run.ID(strings.Replace(id, "ses_", "run_", 1))
			for n := int64(0); ; n++ {
				points := make([]run.Point, 40)
				for j := range points {
					points[j] = run.Point{Step: n*40 + int64(j), Name: "loss", Value: float64(n), At: time.Now()}
				}
				if _, err := s.Append(context.Background(), run.Batch{Session: run.SessionID(id), Drafts: []run.Draft{
					{Run: r, Payload: &run.MetricsLogged{Points: points}}, {Payload: &run.Warning{Text: strings.Repeat("x", 100*i)}},
				}}); err != nil {
					fmt.Println("error", err)
					return
				}
			}
		})
	}
	wg.Wait()
	return 1
}

type printer struct{ mu sync.Mutex }

func (p *printer) Committed(events []*run.Event, _ []run.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintln(&b, e.Session, e.Seq)
	}
	_, _ = os.Stdout.WriteString(b.String())
}

// TestKilled kills a writing process with SIGKILL at random moments: what it
// published is there, seq has no gap, the points are those of the events, and
// the buckets become right again.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{"sqlite", "postgres"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			o := store.Options{Path: t.TempDir()}
			if dialect == "postgres" {
				o.URL = pgtest.Database(t)
			}
			s, err := store.Open(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			var ids []run.SessionID
			for range 3 {
				id := run.NewSessionID()
				r := run.Run{ID: run.ID(strings.Replace(string(id), "ses_", "run_", 1)), Session: id, Agent: "a"}
				if _, err := s.Accept(context.Background(), run.NewRun{Run: r, NewSession: &run.Session{ID: id}}); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, id)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			published := map[string]int64{}
			for round := range 4 {
				killOnce(t, o, ids, published)
				checkKilled(t, o, ids, published, round)
			}
		})
	}
}

func killOnce(t *testing.T, o store.Options, ids []run.SessionID, published map[string]int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killEnv+"="+o.Path+"|"+o.URL+"|"+strings.Trim(fmt.Sprint(ids), "[]"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	left := 200 + rand.N(1500) // lines until the kill
	killed := false
	for lines.Scan() {
		field := strings.Fields(lines.Text())
		if len(field) == 0 || field[0] == "error" {
			t.Fatal(lines.Text())
		}
		if len(field) == 2 && strings.HasPrefix(field[0], "ses_") {
			seq, err := strconv.ParseInt(field[1], 10, 64)
			if err == nil {
				published[field[0]] = max(published[field[0]], seq)
			}
		}
		if left--; left == 0 {
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed = true
		}
	}
	_ = cmd.Wait()
	if !killed {
		t.Fatal("the child ended by itself")
	}
}

func checkKilled(t *testing.T, o store.Options, ids []run.SessionID, published map[string]int64, round int) {
	t.Helper()
	ctx := context.Background()
	s, err := store.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i, id := range ids {
		log := wholeLog(t, s, id)
		if int64(len(log)) < published[string(id)] {
			t.Fatalf("seq %d was published, the log ends at %d", published[string(id)], len(log))
		}
		logged := int64(0)
		for _, e := range log {
			if p, err := e.Payload(); err != nil {
				t.Fatal(err)
			} else if m, ok := p.(*run.MetricsLogged); ok {
				logged += int64(len(m.Points))
			}
		}
		r := run.ID(strings.Replace(string(id), "ses_", "run_", 1))
		if n, err := s.Count(ctx, "SELECT count(*) FROM metric_points p JOIN series s ON s.id = p.series WHERE s.run_id = '"+string(r)+"'"); err != nil || n != logged {
			t.Fatalf("%d points are stored, the log has %d (%v)", n, logged, err)
		}
		// In every other round the buckets are read before they are rebuilt.
		if (round+i)%2 == 0 {
			if err := s.Fold(ctx); err != nil {
				t.Fatal(err)
			}
		}
		curves, err := s.Metrics(ctx, r, run.MetricQuery{MaxPoints: 10})
		if err != nil || len(curves) != 1 {
			t.Fatalf("%d curves (%v)", len(curves), err)
		}
		n := int64(0)
		for _, b := range curves[0].Buckets {
			n += b.Count
		}
		if n != logged {
			t.Fatalf("the curve has %d points, the log %d", n, logged)
		}
	}
}
