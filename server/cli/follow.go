package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/weirhq/weir/runtime/run"
)

const (
	protocol     = "graphql-transport-ws"
	maxFrame     = 256 << 20
	pingEvery    = 10 * time.Second
	silenceLimit = 40 * time.Second
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 3 * time.Second

	codeUnauthorized websocket.StatusCode = 4401
)

// ErrStop makes Follow return nil when the function they call returns it.
var ErrStop = errors.New("stop following")

var errFollowed = errors.New("the connection is no longer needed")

// Query says which events of a session are wanted. Zero fields want all.
type Query struct {
	Session string
	// After is the last seq that is known already.
	After int64
	Types []string // such as OUTPUT_WRITTEN
	Run   string
}

const followText = `subscription Follow($s: ID!, $after: Long, $types: [EventType!], $run: ID) {
events(sessionId: $s, after: $after, types: $types, runId: $run) { ` + eventFields + ` } }`

func (q Query) variables() map[string]any {
	v := map[string]any{"s": q.Session, "after": q.After}
	if len(q.Types) > 0 {
		v["types"] = q.Types
	}
	if q.Run != "" {
		v["run"] = q.Run
	}
	return v
}

// Follow calls take with every event after q.After once and in order: history
// first, then live, from one goroutine. A lost connection is made again from the
// last event taken, after a growing pause; the client's notice hears of it. It
// returns nil when take returns ErrStop, take's error, ctx's cause, the server's
// refusal, or UNAVAILABLE when the server did not answer at first or was away
// for longer than the client's patience.
func (c *Client) Follow(ctx context.Context, q Query, take func(*Event) error) error {
	f := &follower{client: c, query: q, take: take}
	for attempt := 0; ; attempt++ {
		before := f.query.After
		err := f.once(ctx)
		var t *takeError
		switch {
		case errors.As(err, &t):
			if errors.Is(t.err, ErrStop) {
				return nil
			}
			return t.err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !c.met.Load(), run.CodeOf(err) != run.Unavailable:
			return err
		}
		if f.query.After > before {
			attempt = 0
		}
		if f.lost.IsZero() {
			f.lost = time.Now()
			c.notice(fmt.Sprintf("%v; connecting again", err))
		}
		if time.Since(f.lost) > c.patience {
			return run.Errorf(run.Unavailable, "the server at %s has been away for %s; event %d was the last one seen", c.URL(), seconds(time.Since(f.lost)), f.query.After)
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
}

// pause waits before the next attempt: longer each time, and not at the same
// moment as everybody else.
func pause(ctx context.Context, attempt int) error {
	d := min(firstBackoff<<min(attempt, 10), maxBackoff)
	t := time.NewTimer(d/2 + rand.N(d/2))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// takeError is the error of the function that takes the events.
type takeError struct{ err error }

func (e *takeError) Error() string { return e.err.Error() }

type follower struct {
	client *Client
	query  Query // After moves with each event taken
	take   func(*Event) error
	lost   time.Time // since when it is away; zero: it is not
}

type frame struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// once follows over one connection until it ends, which is always an error.
func (f *follower) once(ctx context.Context) error {
	conn, err := f.client.dial(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() { _ = conn.CloseNow() }()
	defer cancel(errFollowed)

	vars, err := json.Marshal(map[string]any{"query": followText, "variables": f.query.variables()})
	if err != nil {
		return fmt.Errorf("encoding a subscription: %w", err)
	}
	if err := f.client.send(ctx, conn, frame{Type: "connection_init"}); err != nil {
		return err
	}
	wg.Go(func() { // a server that is gone without a word shows by its silence
		tick := time.NewTicker(pingEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if f.client.send(ctx, conn, frame{Type: "ping"}) != nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	for {
		m, err := f.client.receive(ctx, conn)
		if err != nil {
			return err
		}
		switch m.Type {
		case "connection_ack":
			if err := f.client.send(ctx, conn, frame{ID: "1", Type: "subscribe", Payload: vars}); err != nil {
				return err
			}
			f.client.met.Store(true)
			// Its answer says that the subscription is well, also in a quiet session.
			if err := f.client.send(ctx, conn, frame{Type: "ping"}); err != nil {
				return err
			}
		case "pong":
			f.found()
		case "ping":
			if err := f.client.send(ctx, conn, frame{Type: "pong"}); err != nil {
				return err
			}
		case "next":
			if err := f.next(m.Payload); err != nil {
				return err
			}
		case "error":
			var errs []gqlError
			if json.Unmarshal(m.Payload, &errs) != nil || len(errs) == 0 {
				return f.client.stranger(http.StatusOK)
			}
			return f.client.refused(errs[0])
		case "complete":
			return run.Errorf(run.Unavailable, "the server at %s ended the subscription", f.client.URL())
		default: // what later versions may add
		}
	}
}

// found is called when a connection has proved to work: one that is cut right
// after it was made does not end the server's absence.
func (f *follower) found() {
	if !f.lost.IsZero() {
		f.client.notice(fmt.Sprintf("connected again after %s; going on after event %d", seconds(time.Since(f.lost)), f.query.After))
		f.lost = time.Time{}
	}
}

func (f *follower) next(payload json.RawMessage) error {
	var p struct {
		Data   struct{ Events []*Event }
		Errors []gqlError
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return f.client.otherForm(err)
	}
	if slices.Contains(p.Data.Events, nil) {
		return f.client.otherForm(errNothing)
	}
	if len(p.Errors) > 0 {
		return f.client.refused(p.Errors[0])
	}
	all := len(f.query.Types) == 0 && f.query.Run == ""
	for _, e := range p.Data.Events {
		seq := int64(e.Seq)
		if seq <= f.query.After {
			continue // seen already
		}
		if all && seq != f.query.After+1 && e.Type != run.TypeGapEvent {
			return run.Errorf(run.Unavailable, "the server at %s sent event %d after %d", f.client.URL(), seq, f.query.After)
		}
		if err := f.take(e); err != nil {
			return &takeError{err}
		}
		f.query.After = seq
		f.found()
	}
	return nil
}

// dial opens a socket to the API.
func (c *Client) dial(ctx context.Context) (*websocket.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	conn, resp, err := websocket.Dial(limited, c.base.String()+"/graphql", &websocket.DialOptions{
		HTTPClient: c.http, HTTPHeader: c.header(), Subprotocols: []string{protocol},
	})
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close()
	}
	switch {
	case err == nil:
		conn.SetReadLimit(maxFrame)
		return conn, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case resp == nil:
		return nil, c.unreachable(ctx, err)
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, c.unauthenticated()
	case resp.StatusCode == http.StatusForbidden:
		return nil, run.Errorf(run.Forbidden, "the server at %s refuses this client; call it by localhost or its address, or start it with this name allowed (--allow-host)", c.URL())
	}
	return nil, c.stranger(resp.StatusCode)
}

func (c *Client) send(ctx context.Context, conn *websocket.Conn, m frame) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding a frame: %w", err)
	}
	if err := conn.Write(ctx, websocket.MessageText, data); err != nil {
		return c.cut(ctx, err)
	}
	return nil
}

func (c *Client) receive(ctx context.Context, conn *websocket.Conn) (frame, error) {
	limited, cancel := context.WithTimeout(ctx, silenceLimit)
	defer cancel()
	var m frame
	_, data, err := conn.Read(limited)
	if err != nil {
		return m, c.cut(ctx, err)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, run.Errorf(run.Unavailable, "the server at %s sent something that is not a message: %w", c.URL(), err)
	}
	return m, nil
}

// cut is the error for the end of a connection.
func (c *Client) cut(ctx context.Context, err error) error {
	var e websocket.CloseError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &e) && e.Code == codeUnauthorized:
		return c.unauthenticated()
	case errors.As(err, &e) && e.Reason != "":
		return run.Errorf(run.Unavailable, "the server at %s closed the connection (%s)", c.URL(), oneLine(strings.ToLower(e.Reason)))
	}
	return run.Errorf(run.Unavailable, "the connection to %s was lost", c.URL())
}
