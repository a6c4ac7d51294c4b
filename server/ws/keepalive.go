package ws

import (
	"context"
	"errors"
	"time"
)

// keepAlive sends pings and cuts a connection that shows no sign of life: a
// peer that is gone without a word would otherwise stay for hours.
func (c *conn) keepAlive() {
	tick := time.NewTicker(c.server.o.PingInterval)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		if c.silent() || c.write(nil, []byte(`{"type":"ping"}`)) != nil {
			return
		}
	}
}

// silent cuts a connection that gave no sign of life for too long.
func (c *conn) silent() bool {
	silence := time.Since(time.Unix(0, c.heard.Load()))
	if silence <= missedPings*c.server.o.PingInterval {
		return false
	}
	c.server.silent.Add(1)
	c.cut("no sign of life", "silence", silence)
	return true
}

// legacyKeepAlive is the part of PingInterval after which a ka is due: clients of
// graphql-ws leave after 30 s without one.
const legacyKeepAlive = 2

// keepAliveLegacy sends ka messages, which nobody answers, and pings of the
// WebSocket itself, which every client does; so a peer that is gone without a
// word is cut here too.
func (c *conn) keepAliveLegacy() {
	interval := c.server.o.PingInterval
	tick := time.NewTicker(interval / legacyKeepAlive)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		if c.silent() || c.write(nil, keepAliveMessage) != nil {
			return
		}
		// Not c.ctx: its end would close the connection before the close handshake.
		// The ping ends with the connection too.
		ctx, cancel := context.WithTimeoutCause(context.Background(), interval/legacyKeepAlive, errors.New("no pong"))
		if c.socket.Ping(ctx) == nil {
			c.heard.Store(time.Now().UnixNano())
		}
		cancel()
	}
}
