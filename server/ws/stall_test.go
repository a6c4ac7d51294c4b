package ws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// A client that stops reading is cut, is counted and logged, and nobody else notices.
func TestAStalledClientIsCut(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{WriteTimeout: 300 * time.Millisecond, WriteBuffer: 64 << 10})
	b.flood = []byte(`"` + strings.Repeat("x", 10_000) + `"`)
	other := b.ready(t)
	other.subscribe("t", `subscription{ticks}`)

	stalled := b.ready(t)
	stalled.subscribe("f", `subscription{flood}`) // and never reads
	deadline := time.Now().Add(20 * time.Second)
	for n := 0; b.server.Counts().Stalled == 0; n++ {
		if time.Now().After(deadline) {
			t.Fatalf("not cut: %+v", b.server.Counts())
		}
		text := fmt.Sprint(n)
		b.ticks <- text
		other.want(`{"id":"t","type":"next","payload":{"data":{"ticks":"` + text + `"}}}`)
	}
	select {
	case <-b.ended: // its operation ended
	case <-time.After(10 * time.Second):
		t.Fatal("the stalled client's operation goes on")
	}
	for b.server.Counts().Open != 1 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond) // a real socket: nothing to wait on
	}
	if c := b.server.Counts(); c.Open != 1 || c.Stalled != 1 {
		t.Errorf("after the cut: %+v", c)
	}
	if !strings.Contains(b.log.String(), "the client took nothing") {
		t.Errorf("the reason is not logged: %s", b.log)
	}
	for { // what was on its way arrives, then the connection is gone without a close frame
		if _, err := stalled.read(); err != nil {
			if websocket.CloseStatus(err) != -1 {
				t.Errorf("the stalled client sees %v", err)
			}
			break
		}
	}
	b.ticks <- "still here"
	other.want(`{"id":"t","type":"next","payload":{"data":{"ticks":"still here"}}}`)
}

// A slow client that makes progress is not cut, however long one frame takes.
func TestASlowClientIsNotCut(t *testing.T) {
	t.Parallel()
	const timeout = time.Second // a busy machine may be late itself
	b := setup(t, Options{WriteTimeout: timeout, WriteBuffer: 16 << 10})
	b.flood = []byte(`"` + strings.Repeat("x", 8<<20) + `"`)
	c := b.dialBy(t, &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetReadBuffer(64 << 10) // else the kernel takes most of the frame at once
			}
			return conn, err
		},
	}})
	c.send(`{"type":"connection_init"}`)
	c.want(`{"type":"connection_ack"}`)
	c.subscribe("f", `subscription{flood}`)
	_, r, err := c.c.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for piece := make([]byte, 512<<10); ; {
		if _, err := io.ReadFull(r, piece); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("cut after %s: %v", time.Since(start), err)
		}
		time.Sleep(timeout / 8) // this client is slow
	}
	if took := time.Since(start); took < timeout {
		t.Fatalf("one frame took %s only; the test shows nothing", took)
	}
	if n := b.server.Counts().Stalled; n != 0 {
		t.Errorf("%d connections counted as stalled", n)
	}
}

func TestASilentClientIsCut(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{PingInterval: 10 * time.Millisecond})
	c := b.ready(t)
	for { // reads the pings, and answers none
		if _, err := c.read(); err != nil {
			break
		}
	}
	if n := b.server.Counts().Silent; n != 1 {
		t.Errorf("%d connections counted as silent", n)
	}
}

func TestAnAnsweringClientStays(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{PingInterval: 600 * time.Millisecond}) // a busy machine may answer late
	c := b.ready(t)
	for range 4 {
		c.want(`{"type":"ping"}`)
		c.send(`{"type":"pong"}`)
	}
	if n := b.server.Counts().Silent; n != 0 {
		t.Errorf("%d connections counted as silent", n)
	}
}

// Shutdown sends everybody away with 1012, cuts who does not go, and waits.
func TestShutdown(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{CloseTimeout: 200 * time.Millisecond})
	idle, busy := b.ready(t), b.ready(t)
	b.dial(t) // before connection_init, and deaf
	b.flood = []byte(`"` + strings.Repeat("x", 10_000) + `"`)
	stalled := b.ready(t)
	stalled.subscribe("f", `subscription{flood}`)
	busy.subscribe("t", `subscription{ticks}`)
	b.ticks <- "x"
	busy.want(`{"id":"t","type":"next","payload":{"data":{"ticks":"x"}}}`)

	done := make(chan time.Duration)
	start := time.Now()
	go func() {
		b.server.Shutdown()
		done <- time.Since(start)
	}()
	if reason := idle.closed(websocket.StatusServiceRestart); reason == "" {
		t.Error("no reason")
	}
	busy.closed(websocket.StatusServiceRestart) // and no complete: the stream did not end
	if took := <-done; took > 5*time.Second {
		t.Errorf("shutdown took %s", took)
	}
	if n := b.server.Counts().Open; n != 0 {
		t.Errorf("%d connections are open", n)
	}
	_, resp, err := websocket.Dial(t.Context(), b.url, &websocket.DialOptions{Subprotocols: []string{Subprotocol}}) //nolint:bodyclose // Dial closes it
	if err == nil || resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatal("a closing server accepts", resp, err)
	}
}

// A client that vanishes ends its operations.
func TestAVanishedClient(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	c := b.ready(t)
	c.subscribe("a", `subscription{ticks}`)
	b.ticks <- "x"
	_ = c.c.CloseNow()
	select {
	case <-b.ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the operation goes on")
	}
}

// Many operations share one connection and never tear each other's frames.
func TestManyOperationsOnOneConnection(t *testing.T) {
	t.Parallel()
	c := setup(t, Options{}).ready(t)
	const n = 100
	for i := range n {
		c.subscribe(fmt.Sprint(i), `subscription{numbers}`)
	}
	next := map[string]int{}
	for done := 0; done < n; {
		got, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			message
			Payload struct{ Data struct{ Numbers int } } `json:"payload"`
		}
		if err := json.Unmarshal([]byte(got), &m); err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		if m.Type == "complete" {
			if next[m.ID] != 3 {
				t.Fatalf("%s completes after %d", m.ID, next[m.ID])
			}
			done++
			continue
		}
		if next[m.ID]++; m.Payload.Data.Numbers != next[m.ID] {
			t.Fatalf("%s has %d as its number %d", m.ID, m.Payload.Data.Numbers, next[m.ID])
		}
	}
}
