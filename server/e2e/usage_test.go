package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

const spender = `name: spender
team: lab
driver: replay
provider: p
model: m
turns:
  - usage: {input: 50, output: 100, cacheRead: 10, costUsd: "0.5"}
  - ask: {text: Go on?}
  - usage: {input: 7, output: 1}
  - text: {say: Done}
`

// activeUsage opens the subscription usage; the function gives its next message as
// "runs/input/cost/unpriced".
func (s *server) activeUsage(ctx context.Context) func() string {
	s.t.Helper()
	conn, err := s.dial(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.CloseNow() })
	if err := conn.Write(ctx, websocket.MessageText, []byte(`{"id":"1","type":"subscribe","payload":{"query":"subscription { usage { at runs usage { input costUsd unpriced } } }"}}`)); err != nil {
		s.t.Fatal(err)
	}
	return func() string {
		s.t.Helper()
		for {
			_, raw, err := conn.Read(ctx)
			if err != nil {
				s.t.Fatal(err)
			}
			var m struct {
				Type    string
				Payload struct {
					Data struct {
						Usage struct {
							At    time.Time
							Runs  int
							Usage struct {
								Input    int
								CostUsd  *float64
								Unpriced int
							}
						}
					}
				}
			}
			if err := json.Unmarshal(raw, &m); err != nil {
				s.t.Fatalf("%v in %s", err, raw)
			}
			switch u := m.Payload.Data.Usage; {
			case m.Type != "next":
			case u.Usage.CostUsd == nil:
				return fmt.Sprintf("%d/%d/-/%d", u.Runs, u.Usage.Input, u.Usage.Unpriced)
			default:
				return fmt.Sprintf("%d/%d/%g/%d", u.Runs, u.Usage.Input, *u.Usage.CostUsd, u.Usage.Unpriced)
			}
		}
	}
}

// TestReports: what a run uses is told live, kept as snapshots while it waits, and
// in the report once it is closed; on PostgreSQL another replica tells the same.
func TestReports(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, url string) {
		t.Parallel()
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "spender.yaml"), []byte(spender), 0o600); err != nil {
			t.Fatal(err)
		}
		quick := []string{"--agents", folder, "--snapshot-interval", "1s", "--rollup-interval", "1s"}
		s := newServer(t, url, quick...)
		s.start()
		seer := s // who is asked
		if url != "" {
			seer = newServer(t, url, quick...)
			seer.start()
		}
		next := seer.activeUsage(background(t, callPatience))
		until := func(want string) {
			t.Helper()
			var got string
			for got != want { // a message that tells of the way there may come first
				got = next()
			}
		}
		until("0/0/-/0")

		r := s.startRun(map[string]any{"agent": "spender", "prompt": "go"})
		until("1/50/0.5/0")
		type bill struct {
			Snapshots []struct {
				Usage struct{ Input int }
			}
			UsageRecords []struct {
				RequestKey, Kind string
				Superseded       bool
				Usage            struct {
					Input   int
					CostUsd *float64
				}
			}
			Session struct {
				Usage struct {
					Input, Unpriced int
					CostNanoUsd     *int64
				}
			}
			Questions []struct{ ID, State string }
		}
		read := func() (b bill) {
			t.Helper()
			var out struct{ Run bill }
			seer.must(`query($id: ID!) { run(id: $id) { snapshots { at usage { input } } usageRecords { requestKey kind superseded usage { input costUsd } }
				session { usage { input costNanoUsd unpriced } } questions { id state } } }`, map[string]any{"id": r.ID}, &out)
			return out.Run
		}
		var b bill
		eventually(t, callPatience, "a snapshot", func() error {
			if b = read(); len(b.Snapshots) != 1 || b.Snapshots[0].Usage.Input != 50 || len(b.Questions) != 1 {
				return fmt.Errorf("%+v", b)
			}
			return nil
		})
		if out := seer.ok("usage", "--by", "agent", "--json"); out != "[]\n" {
			t.Errorf("the report of open runs is %s", out)
		}
		s.must(`mutation($id: ID!) { answerQuestion(input: {id: $id, answer: "yes"}) { id } }`, map[string]any{"id": b.Questions[0].ID}, nil)
		until("0/0/-/0")

		if b = read(); b.Session.Usage.Input != 57 || b.Session.Usage.CostNanoUsd == nil || *b.Session.Usage.CostNanoUsd != 500_000_000 || b.Session.Usage.Unpriced != 1 || len(b.UsageRecords) != 2 {
			t.Errorf("the session is billed %+v", b)
		}
		want := "agent,model,runs,input,cache_read,cache_write_short,cache_write_long,output,reasoning,compute_seconds,cost_nano_usd,cost_source,provenance,unpriced\n" +
			"spender,m,1,57,10,0,0,101,0,0,500000000,AGENT_REPORTED,MEASURED,1\n"
		eventually(t, callPatience, "the report", func() error {
			if out := seer.ok("usage", "--by", "agent,model", "--since", "1d", "--csv"); out != want {
				return fmt.Errorf("%s", out)
			}
			return nil
		})
		out, notes, code := seer.weir("usage", "--team", "lab")
		if code != 0 || !strings.Contains(out, "$0.5000") || !strings.Contains(notes, "1 record without a known price") {
			t.Errorf("weir usage ended with %d:\n%s%s", code, out, notes)
		}
		out, notes, code = seer.weir("usage", "--team", "another")
		if code != 0 || out != "" || !strings.Contains(notes, "the report has no run that ended from") {
			t.Errorf("weir usage of nobody ended with %d:\n%s%s", code, out, notes)
		}
	})
}
