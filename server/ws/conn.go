package ws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
)

// The close codes of graphql-transport-ws.
const (
	codeBadRequest      websocket.StatusCode = 4400
	codeUnauthorized    websocket.StatusCode = 4401
	codeSubprotocol     websocket.StatusCode = 4406
	codeInitTimeout     websocket.StatusCode = 4408
	codeDuplicateID     websocket.StatusCode = 4409
	codeTooManyInits    websocket.StatusCode = 4429
	maxReason                                = 123 // bytes; a longer reason would send no close frame at all
	maxID                                    = 256 // bytes of an operation's id
	missedPings                              = 3
	lingerTime                               = time.Second
	lingerBytes                              = 16 << 20
	errClosedConnection                      = constError("the connection is closed")
)

type constError string

func (e constError) Error() string { return string(e) }

// conn is one connection: a read loop in the handler's goroutine, a goroutine
// per operation and one for pings.
type conn struct {
	server  *Server
	request *http.Request
	socket  *websocket.Conn
	net     net.Conn
	log     *slog.Logger
	legacy  bool // the subprotocol is graphql-ws
	words   words

	ctx    context.Context // of all operations; ends with the connection
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // everything but the read loop

	writing sync.Mutex  // one frame at a time
	closed  atomic.Bool // nothing may be written any more
	once    sync.Once   // of close

	heard atomic.Int64 // when the client last sent anything, Unix nanoseconds

	mu     sync.Mutex
	acked  bool
	active map[string]*stream
}

func (c *conn) run() {
	defer c.wg.Wait()
	defer c.survive("read loop") // a handler's panic would be logged by net/http only
	defer func() {
		c.abandon()             // frees a blocked writer, and a close handshake under way
		_ = c.socket.CloseNow() // waits for coder's own goroutines
		c.once.Do(func() {})    // no close handshake starts after this
	}()

	switch c.socket.Subprotocol() {
	case Subprotocol:
		c.words = modernWords
	case LegacySubprotocol:
		c.legacy, c.words = true, legacyWords
	default:
		c.close(codeSubprotocol, "Subprotocol not acceptable: ask for "+Subprotocol)
		c.drain()
		return
	}
	c.heard.Store(time.Now().UnixNano())
	c.socket.SetReadLimit(initReadLimit)
	late := time.AfterFunc(c.server.o.InitTimeout, func() {
		defer c.survive("timer")
		c.mu.Lock()
		acked := c.acked
		c.mu.Unlock()
		if !acked {
			c.close(codeInitTimeout, "Connection initialisation timeout")
		}
	})
	defer late.Stop()
	c.read()
}

// spawn runs f in a goroutine that the connection waits for.
func (c *conn) spawn(what string, f func()) {
	c.wg.Go(func() {
		defer c.survive(what)
		f()
	})
}

// survive turns a panic into the end of this connection: nobody else recovers
// in its goroutines, and one client must not take the server down.
func (c *conn) survive(what string) {
	if p := recover(); p != nil {
		c.log.Error("panic in a websocket's "+what+"; the connection is cut", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		c.abandon()
	}
}

// read handles messages until the connection ends.
func (c *conn) read() {
	for {
		// Background: a context with an end would close the connection with it.
		kind, data, err := c.socket.Read(context.Background())
		if err != nil {
			c.log.Debug("websocket closed", "status", int(websocket.CloseStatus(err)), "error", err)
			if errors.Is(err, websocket.ErrMessageTooBig) {
				c.linger()
			}
			return
		}
		c.heard.Store(time.Now().UnixNano())
		if c.closed.Load() {
			continue // only the client's close frame is of interest now
		}
		if kind != websocket.MessageText || !utf8.Valid(data) {
			c.close(codeBadRequest, "Invalid message: it must be text in UTF-8")
			continue
		}
		c.handle(data)
	}
}

// linger takes what the client is still sending of a message that is too big. A
// close with bytes unread would reset the connection, and the client would lose
// the close frame that tells it why.
func (c *conn) linger() {
	_ = c.net.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, c.net, lingerBytes)
}

// drain reads until the connection ends, so that a close handshake can finish.
func (c *conn) drain() {
	for {
		if _, _, err := c.socket.Read(context.Background()); err != nil {
			return
		}
	}
}

// message is what clients send.
type message struct {
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
}

func (c *conn) handle(data []byte) {
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		c.close(codeBadRequest, "Invalid message: it is not a JSON object with type, id and payload")
		return
	}
	switch {
	case m.Type == "connection_init":
		c.init(m.Payload)
	case m.Type == c.words.subscribe:
		c.subscribe(m)
	case m.Type == c.words.stop:
		if op := c.end(m.ID); op != nil && c.legacy {
			_ = c.write(nil, append(op.message("complete", 0), '}')) // some clients wait for it
		}
	case !c.legacy && m.Type == "ping":
		c.pong(m.Payload)
	case !c.legacy && m.Type == "pong":
	case c.legacy && m.Type == "connection_terminate":
		c.close(websocket.StatusNormalClosure, "")
	default:
		c.close(codeBadRequest, fmt.Sprintf("Invalid message type %.40q", m.Type))
	}
}

// end stops the operation with an id in the client's name, if there is one.
func (c *conn) end(id string) *stream {
	c.mu.Lock()
	op := c.active[id]
	delete(c.active, id)
	c.mu.Unlock()
	if op != nil {
		op.stop()
	}
	return op
}

func (c *conn) init(payload json.RawMessage) {
	c.mu.Lock()
	again := c.acked
	c.mu.Unlock()
	if again {
		c.close(codeTooManyInits, "Too many initialisation requests")
		return
	}
	var params map[string]any
	if len(payload) > 0 {
		if err := json.Unmarshal(payload, &params); err != nil {
			c.close(codeBadRequest, "Invalid message: the payload of connection_init must be an object")
			return
		}
	}
	if err := c.server.o.Init(c.request, params); err != nil {
		if c.legacy {
			_ = c.write(nil, legacyRefusal(err))
		}
		c.close(codeUnauthorized, "Unauthorized: "+err.Error())
		return
	}
	c.socket.SetReadLimit(c.server.o.ReadLimit)
	c.mu.Lock()
	c.acked = true
	c.mu.Unlock()
	_ = c.write(nil, []byte(`{"type":"connection_ack"}`))
	if c.legacy {
		_ = c.write(nil, keepAliveMessage)
		c.spawn("pings", c.keepAliveLegacy)
		return
	}
	c.spawn("pings", c.keepAlive)
}

// pong answers a ping from the read loop itself, so that a client that floods
// pings without reading the answers is held back like any other.
func (c *conn) pong(payload json.RawMessage) {
	frame := []byte(`{"type":"pong"}`)
	if len(payload) > 0 {
		frame = append(append([]byte(`{"type":"pong","payload":`), payload...), '}')
	}
	_ = c.write(nil, frame)
}

// write sends one frame, for op unless it is nil. It fails when op or the
// connection is over.
func (c *conn) write(op *stream, frame []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.closed.Load() || (op != nil && op.over.Load()) {
		return errClosedConnection
	}
	// Background: the deadline is the connection's own (see progressConn), and a
	// context that ends in here would close the connection of all operations.
	err := c.socket.Write(context.Background(), websocket.MessageText, frame)
	if err == nil {
		c.server.frames.Add(1)
		c.server.bytes.Add(int64(len(frame)))
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && !c.closed.Load() {
		c.server.stalled.Add(1)
		c.cut("the client took nothing", "for", c.server.o.WriteTimeout)
		return err
	}
	// Half a frame may be on the wire: the connection is finished.
	c.log.Debug("websocket write failed", "error", err)
	c.abandon()
	return err
}

// cut ends the connection without a close frame; clients see 1006 and return.
func (c *conn) cut(reason string, args ...any) {
	if !c.closed.Load() {
		c.log.Warn("websocket cut: "+reason, args...)
	}
	c.abandon()
}

func (c *conn) abandon() {
	c.closed.Store(true)
	c.cancel(errClosedConnection)
	_ = c.net.Close()
}

// close starts the close handshake and returns at once; the read loop goes on
// until the peer has answered or CloseTimeout has passed. Only the first call counts.
func (c *conn) close(code websocket.StatusCode, reason string) {
	c.once.Do(func() {
		c.closed.Store(true)
		c.cancel(errClosedConnection)
		c.spawn("close handshake", func() {
			force := time.AfterFunc(c.server.o.CloseTimeout, func() { _ = c.net.Close() })
			defer force.Stop()
			if err := c.socket.Close(code, clipReason(reason)); err != nil {
				c.log.Debug("websocket close", "code", int(code), "error", err)
			}
		})
	})
}

// clipReason cuts at a character's border.
func clipReason(s string) string {
	if len(s) <= maxReason {
		return s
	}
	n := maxReason
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
