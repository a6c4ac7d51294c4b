package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/weirhq/weir/runtime/run"
)

// script answers one subscription: it gets the cursor and writes frames.
type script func(after int64, send func(frame string)) (closeWith websocket.StatusCode)

// server serves one script after the other, one per connection, and then the
// last one again.
func server(t *testing.T, scripts ...script) *httptest.Server {
	t.Helper()
	var mu sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" && r.Header.Get("Authorization") != "Bearer right" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{protocol}})
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		mu.Lock()
		next := scripts[0]
		if len(scripts) > 1 {
			scripts = scripts[1:]
		}
		mu.Unlock()
		send := func(frame string) { _ = conn.Write(r.Context(), websocket.MessageText, []byte(frame)) }
		for {
			_, data, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			var m struct {
				Type    string
				Payload struct{ Variables struct{ After int64 } }
			}
			if json.Unmarshal(data, &m) != nil {
				return
			}
			switch m.Type {
			case "connection_init":
				send(`{"type":"connection_ack"}`)
			case "ping":
				send(`{"type":"pong"}`)
			case "subscribe":
				if code := next(m.Payload.Variables.After, send); code != 0 {
					_ = conn.Close(code, "scripted")
					return
				}
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// batch is a message with the events from..to.
func batch(from, to int64) string {
	var events []string
	for seq := from; seq <= to; seq++ {
		events = append(events, fmt.Sprintf(`{"seq":%d,"type":"WARNING","text":"%d"}`, seq, seq))
	}
	return `{"id":"1","type":"next","payload":{"data":{"events":[` + strings.Join(events, ",") + `]}}}`
}

type notices struct {
	mu   sync.Mutex
	list []string
}

func (n *notices) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, text)
}

func client(t *testing.T, url string, o Options) *Client {
	t.Helper()
	o.Server = url
	c, err := NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// follow collects up to event last.
func follow(t *testing.T, c *Client, q Query, last int64) ([]int64, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var got []int64
	err := c.Follow(ctx, q, func(e *Event) error {
		got = append(got, int64(e.Seq))
		if int64(e.Seq) == last {
			return ErrStop
		}
		return nil
	})
	return got, err
}

func upTo(from, to int64) (all []int64) {
	for i := from; i <= to; i++ {
		all = append(all, i)
	}
	return all
}

// A connection that is cut, closed, or whose server ends the subscription is
// made again, and every event comes once. A connection that brings nothing does
// not count as found.
func TestFollowResumes(t *testing.T) {
	t.Parallel()
	cuts := []script{
		func(after int64, send func(string)) websocket.StatusCode {
			send(batch(after+1, after+3))
			return websocket.StatusGoingAway
		},
		func(after int64, send func(string)) websocket.StatusCode { // repeats what was seen
			send(batch(1, after+2))
			send(`{"id":"1","type":"complete"}`)
			return 0
		},
		func(after int64, send func(string)) websocket.StatusCode { // skips an event
			send(batch(after+2, after+3))
			return 0
		},
		func(int64, func(string)) websocket.StatusCode { return websocket.StatusInternalError },
		func(after int64, send func(string)) websocket.StatusCode {
			send(`{"type":"ping"}`)
			send(`{"id":"1","type":"error","payload":[{"message":"the store is away","extensions":{"code":"UNAVAILABLE"}}]}`)
			return 0
		},
		func(after int64, send func(string)) websocket.StatusCode {
			send(batch(after+1, 10))
			return 0
		},
	}
	var n notices
	c := client(t, server(t, cuts...).URL, Options{Notice: n.add})
	got, err := follow(t, c, Query{Session: "ses_1"}, 10)
	if err != nil || !slices.Equal(got, upTo(1, 10)) {
		t.Errorf("got %v, %v", got, err)
	}
	var lost, found int
	for _, text := range n.list {
		if strings.Contains(text, "connecting again") {
			lost++
		}
		if strings.Contains(text, "going on after event") {
			found++
		}
	}
	if lost != 2 || found != 2 {
		t.Errorf("told of %d losses and %d returns: %q", lost, found, n.list)
	}
}

// A gap that retention has cut is said by the server and is no fault.
func TestFollowTakesAGap(t *testing.T) {
	t.Parallel()
	c := client(t, server(t, func(after int64, send func(string)) websocket.StatusCode {
		send(`{"id":"1","type":"next","payload":{"data":{"events":[{"seq":40,"type":"GAP_EVENT","fromSeq":1,"toSeq":40}]}}}`)
		send(batch(41, 42))
		return 0
	}).URL, Options{})
	if got, err := follow(t, c, Query{Session: "s"}, 42); err != nil || !slices.Equal(got, []int64{40, 41, 42}) {
		t.Errorf("got %v, %v", got, err)
	}
}

// What a server refuses is not asked again.
func TestFollowEndsWhenRefused(t *testing.T) {
	t.Parallel()
	refuse := func(code string) script {
		return func(_ int64, send func(string)) websocket.StatusCode {
			send(`{"id":"1","type":"error","payload":[{"message":"in the server's words","extensions":{"code":"` + code + `"}}]}`)
			return 0
		}
	}
	for name, c := range map[string]struct {
		script script
		token  string
		code   run.Code
		text   string
	}{
		"Unknown":    {refuse("NOT_FOUND"), "", run.NotFound, "in the server's words"},
		"Invalid":    {refuse("INVALID"), "", run.Invalid, "in the server's words"},
		"WrongToken": {refuse("INVALID"), "wrong", run.Unauthenticated, "WEIR_TOKEN"},
		"LateToken":  {func(int64, func(string)) websocket.StatusCode { return codeUnauthorized }, "", run.Unauthenticated, "--token-file"},
		"WordsOfTomor.": {func(_ int64, send func(string)) websocket.StatusCode {
			send(`{"id":"1","type":"next","payload":{"data":{"events":[{"seq":"x"}]}}}`)
			return 0
		}, "", run.Internal, "same version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := follow(t, client(t, server(t, c.script).URL, Options{Token: c.token}), Query{Session: "s"}, 1)
			if run.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.text) {
				t.Errorf("got %v (%s)", err, run.CodeOf(err))
			}
		})
	}
}

// The first contact fails at once; a server that answered before may be away for
// as long as the client's patience lasts.
func TestFollowLosesPatience(t *testing.T) {
	t.Parallel()
	var l net.ListenConfig
	closed, err := l.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	begin := time.Now()
	_, err = follow(t, client(t, closed.Addr().String(), Options{}), Query{Session: "s"}, 1)
	if run.CodeOf(err) != run.Unavailable || !strings.Contains(fmt.Sprint(err), "weir serve") || time.Since(begin) > 5*time.Second {
		t.Errorf("got %v after %s", err, time.Since(begin))
	}

	s := server(t, func(after int64, send func(string)) websocket.StatusCode {
		send(batch(1, 3))
		return websocket.StatusGoingAway
	})
	c := client(t, s.URL, Options{Patience: 300 * time.Millisecond})
	got, err := follow(t, c, Query{Session: "s"}, 9)
	if !slices.Equal(got, upTo(1, 3)) || run.CodeOf(err) != run.Unavailable || !strings.Contains(fmt.Sprint(err), "event 3 was the last one seen") {
		t.Errorf("got %v, %v", got, err)
	}
}

// A taker's error ends it and comes back as it is.
func TestFollowReturnsTheTakersError(t *testing.T) {
	t.Parallel()
	c := client(t, server(t, func(after int64, send func(string)) websocket.StatusCode { send(batch(1, 3)); return 0 }).URL, Options{})
	mine := errors.New("mine")
	if err := c.Follow(t.Context(), Query{Session: "s"}, func(*Event) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := c.Follow(ctx, Query{Session: "s"}, func(*Event) error { cancel(mine); return nil })
	if !errors.Is(err, mine) {
		t.Errorf("got %v, want the context's cause", err)
	}
}

// Of a session's events a run's watcher sees those of the run and its descendants.
func TestFamily(t *testing.T) {
	t.Parallel()
	var got []string
	take := family("a", func(e *Event) error { got = append(got, e.Text); return nil })
	for _, e := range []*Event{
		{Type: run.TypeRunStarted, RunID: "a", Text: "1"},
		{Type: run.TypeRunStarted, RunID: "b", ParentID: "a", Text: "2"},
		{Type: run.TypeRunStarted, RunID: "c", ParentID: "b", Text: "3"},
		{Type: run.TypeRunStarted, RunID: "x", Text: "no"},
		{Type: run.TypeOutputWritten, RunID: "x", Text: "no"},
		{Type: run.TypeOutputWritten, RunID: "c", Text: "4"},
		{Type: run.TypeOutputWritten, Text: "no"},
		{Type: run.TypeGapEvent, Text: "5"},
	} {
		if err := take(e); err != nil {
			t.Fatal(err)
		}
	}
	if s := strings.Join(got, ""); s != "12345" {
		t.Errorf("got %s", s)
	}
}
