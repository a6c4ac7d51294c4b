// Package bench measures Weir against the limits of what it stands on: its
// database, its sockets, its own migrations. Every figure is a ratio of two
// medians taken alternately in one run, since machines are noisy. The bounds are
// checked: a benchmark fails when its ratio is over the limit.
package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	neturl "net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/graph"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/stream"
	"github.com/weirhq/weir/server/httpapi"
)

// rig is the way from the store to a socket, without engine and processes.
type rig struct {
	b     *testing.B
	store *store.Store
	addr  string
}

// newRig opens a fresh store and serves it. url is "" for SQLite.
func newRig(b *testing.B, url string) *rig {
	b.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	st, err := store.Open(b.Context(), store.Options{Path: b.TempDir(), URL: url, Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	feed := stream.New(st, stream.Options{Logger: quiet})
	st.Listen(feed)
	api, err := httpapi.New(httpapi.Options{API: graph.New(graph.Options{Reader: st, Feed: feed, Log: quiet}), Log: quiet})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- api.Serve(ctx, l) }()
	b.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			b.Error(err)
		}
		if err := st.Close(); err != nil {
			b.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return &rig{b, st, l.Addr().String()}
}

func (r *rig) session() run.SessionID {
	r.b.Helper()
	s := run.Session{ID: run.NewSessionID(), Title: "bench", CreatedAt: time.Now()}
	if err := r.store.CreateSession(r.b.Context(), s); err != nil {
		r.b.Fatal(err)
	}
	return s.ID
}

// thoughts is a batch of n events of about 270 bytes.
func thoughts(s run.SessionID, n int) run.Batch {
	b := run.Batch{Session: s}
	for range n {
		b.Drafts = append(b.Drafts, run.Draft{At: time.Now(), Agent: "bench", Payload: &run.AgentThought{Text: strings.Repeat("thinking ", 20)}})
	}
	return b
}

// subscribe opens a socket that follows a session, and gives its frames.
func (r *rig) subscribe(ctx context.Context, s run.SessionID) *websocket.Conn {
	r.b.Helper()
	conn, resp, err := websocket.Dial(ctx, "ws://"+r.addr+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close()
	}
	if err != nil {
		r.b.Fatal(err)
	}
	conn.SetReadLimit(64 << 20)
	payload, err := json.Marshal(map[string]any{
		"query":     `subscription($s: ID!) { events(sessionId: $s) { seq at type runId agent stage ... on AgentThought { text } } }`,
		"variables": map[string]any{"s": s},
	})
	if err != nil {
		r.b.Fatal(err)
	}
	for _, m := range []string{`{"type":"connection_init"}`, fmt.Sprintf(`{"id":"1","type":"subscribe","payload":%s}`, payload)} {
		if err := conn.Write(ctx, websocket.MessageText, []byte(m)); err != nil {
			r.b.Fatal(err)
		}
	}
	return conn
}

// seqs reads the next message that carries events and gives their seqs.
func seqs(ctx context.Context, conn *websocket.Conn) ([]int64, error) {
	for {
		_, raw, err := conn.Read(ctx)
		if err != nil {
			return nil, err
		}
		var m struct {
			Type    string
			Payload json.RawMessage
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, err
		}
		if m.Type == "ping" {
			if err := conn.Write(ctx, websocket.MessageText, []byte(`{"type":"pong"}`)); err != nil {
				return nil, err
			}
		}
		if m.Type != "next" {
			continue
		}
		var p struct {
			Data struct{ Events []struct{ Seq int64 } }
		}
		if err := json.Unmarshal(m.Payload, &p); err != nil {
			return nil, err
		}
		var out []int64
		for _, e := range p.Data.Events {
			out = append(out, e.Seq)
		}
		return out, nil
	}
}

// quantile gives the q-quantile of durations.
func quantile(d []time.Duration, q float64) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

// check reports a ratio and fails when it is over (or, for most = false, under) its limit.
func check(b *testing.B, name string, ratio, limit float64, most bool) {
	b.Helper()
	b.ReportMetric(ratio, name)
	ok := ratio <= limit
	word := "at most"
	if !most {
		ok, word = ratio >= limit, "at least"
	}
	b.Logf("%s = %.2f (limit: %s %.2f)", name, ratio, word, limit)
	if !ok {
		b.Errorf("%s = %.2f, want %s %.2f", name, ratio, word, limit)
	}
}

// eachStore runs a benchmark on SQLite and on a PostgreSQL that flushes as in earnest.
func eachStore(b *testing.B, f func(b *testing.B, url string)) {
	b.Run("sqlite", func(b *testing.B) { f(b, "") })
	b.Run("postgres", func(b *testing.B) { f(b, pgtest.Start(b).Database(b)) })
}

// dsn turns a test cluster's URL into the driver's own form, which names the
// socket file.
func dsn(url string) string {
	u, err := neturl.Parse(url)
	if err != nil {
		panic(err)
	}
	host := u.Query().Get("host")
	if host == "" {
		return url
	}
	return "unix://" + u.User.Username() + "@" + u.Path[1:] + host + "/.s.PGSQL.5432?sslmode=disable"
}

func rounds() int {
	if os.Getenv("WEIR_BENCH_QUICK") != "" {
		return 1
	}
	return 5
}

// pace calls f n times, perSecond a second, and gives when each call began.
func pace(n, perSecond int, f func(i int)) {
	begin := time.Now()
	for i := range n {
		if wait := time.Until(begin.Add(time.Duration(i) * time.Second / time.Duration(perSecond))); wait > 0 {
			time.Sleep(wait)
		}
		f(i)
	}
}
