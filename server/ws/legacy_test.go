package ws

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// legacy dials with the older subprotocol and passes connection_init.
func (b *bundle) legacy(t *testing.T) *client {
	t.Helper()
	c := b.dial(t, LegacySubprotocol)
	c.send(`{"type":"connection_init","payload":{}}`)
	c.want(`{"type":"connection_ack"}`)
	c.want(`{"type":"ka"}`)
	return c
}

func TestLegacyOperations(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	c := b.dial(t, LegacySubprotocol)
	// Its clients do not wait for connection_ack.
	c.send(`{"type":"connection_init"}`)
	c.send(`{"id":"1","type":"start","payload":{"query":"{hello}"}}`)
	c.want(`{"type":"connection_ack"}`)
	c.want(`{"type":"ka"}`)
	c.want(`{"id":"1","type":"data","payload":{"data":{"hello":"world"}}}`)
	c.want(`{"id":"1","type":"complete"}`)

	c.send(`{"id":"2","type":"start","payload":{"query":"subscription{ticks}"}}`)
	b.ticks <- "a"
	c.want(`{"id":"2","type":"data","payload":{"data":{"ticks":"a"}}}`)
	c.send(`{"id":"2","type":"stop"}`)
	c.want(`{"id":"2","type":"complete"}`)
	<-b.ended
	c.send(`{"id":"2","type":"stop"}`) // again: no answer

	c.send(`{"id":"3","type":"start","payload":{"query":"subscription{none}"}}`)
	c.want(`{"id":"3","type":"error","payload":{"message":"there is no such thing","extensions":{"code":"NOT_FOUND"},` +
		`"errors":[{"message":"there is no such thing","extensions":{"code":"NOT_FOUND"}}]}}`)
	c.send(`{"id":"4","type":"start","payload":{"query":"{panic}"}}`)
	if got, err := c.read(); err != nil || !strings.HasPrefix(got, `{"id":"4","type":"error","payload":{"message":`) {
		t.Fatal(got, err)
	}

	c.send(`{"type":"connection_terminate"}`)
	c.closed(websocket.StatusNormalClosure)
}

// A start with a live id takes its place: the first one yields nothing more.
func TestLegacyStartTwice(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	c := b.legacy(t)
	c.send(`{"id":"1","type":"start","payload":{"query":"subscription{ticks}"}}`)
	b.ticks <- "a"
	c.want(`{"id":"1","type":"data","payload":{"data":{"ticks":"a"}}}`)
	c.send(`{"id":"1","type":"start","payload":{"query":"subscription{numbers}"}}`)
	for _, n := range []string{"1", "2", "3"} {
		c.want(`{"id":"1","type":"data","payload":{"data":{"numbers":` + n + `}}}`)
	}
	c.want(`{"id":"1","type":"complete"}`)
	<-b.ended
}

func TestLegacyRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{
		InitTimeout: time.Hour,
		Init: func(_ *http.Request, payload map[string]any) error {
			if payload["token"] != "right" {
				return errors.New("the token is wrong")
			}
			return nil
		},
	})
	c := b.dial(t, LegacySubprotocol)
	c.send(`{"type":"connection_init"}`)
	c.want(`{"payload":{"message":"the token is wrong"},"type":"connection_error"}`)
	c.closed(codeUnauthorized)

	c = b.dial(t, LegacySubprotocol)
	c.send(`{"id":"1","type":"start","payload":{"query":"{hello}"}}`)
	c.closed(codeUnauthorized)

	// The words of the other protocol are unknown in each.
	for text, subprotocol := range map[string]string{
		`{"id":"1","type":"subscribe","payload":{"query":"{hello}"}}`: LegacySubprotocol,
		`{"type":"ping"}`: LegacySubprotocol,
		`{"id":"1","type":"start","payload":{"query":"{hello}"}}`: Subprotocol,
		`{"type":"connection_terminate"}`:                         Subprotocol,
	} {
		c = b.dial(t, subprotocol)
		c.send(`{"type":"connection_init","payload":{"token":"right"}}`)
		c.want(`{"type":"connection_ack"}`)
		if subprotocol == LegacySubprotocol {
			c.want(`{"type":"ka"}`)
		}
		c.send(text)
		c.closed(codeBadRequest)
	}
}

// A client that offers both gets the newer one.
func TestTheNewerSubprotocolIsPreferred(t *testing.T) {
	t.Parallel()
	c := setup(t, Options{}).dial(t, LegacySubprotocol, Subprotocol)
	if got := c.c.Subprotocol(); got != Subprotocol {
		t.Errorf("got %q", got)
	}
}

// A legacy client that answers no ping of the WebSocket is cut.
func TestASilentLegacyClientIsCut(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{PingInterval: 10 * time.Millisecond})
	b.legacy(t) // and reads no more, so that nobody answers
	deadline := time.Now().Add(20 * time.Second)
	for b.server.Counts().Silent == 0 {
		if time.Now().After(deadline) {
			t.Fatal("not cut")
		}
		time.Sleep(time.Millisecond) // a real socket: nothing to wait on
	}
}

// One that does stays, though it never says anything by itself.
func TestAnAnsweringLegacyClientStays(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{PingInterval: 600 * time.Millisecond}) // a busy machine may answer late
	c := b.legacy(t)
	for range 8 { // 2.4 s; without a sign of life it would be cut after 1.8 s
		c.want(`{"type":"ka"}`)
	}
	if n := b.server.Counts().Silent; n != 0 {
		t.Errorf("%d connections counted as silent", n)
	}
}
