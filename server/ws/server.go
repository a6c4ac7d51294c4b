// Package ws carries GraphQL operations over WebSocket connections, in the
// subprotocol graphql-transport-ws and in the older graphql-ws (legacy.go).
//
// Guarantees:
//   - Nothing is sent for an operation after its complete or error.
//   - A client that takes nothing for WriteTimeout is cut; slowness alone never
//     is. A cut client sees 1006, and the reason is logged and counted.
//   - No operation's end or cancellation closes the connection of the others.
//   - A panic ends its operation with an internal error, or at worst its
//     connection; never the process.
//   - ServeHTTP returns when the connection and all goroutines of its operations
//     have ended; Shutdown returns when all connections have.
//   - Close codes are those of the protocol (44xx) and 1012 at shutdown. Codes
//     that clients take for fatal (1011, 4500) are never used: an internal error
//     is an error message of its operation.
package ws

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/coder/websocket"

	"github.com/weirhq/weir/server/operation"
)

// The subprotocols that are spoken here, the preferred one first.
const (
	Subprotocol       = "graphql-transport-ws"
	LegacySubprotocol = "graphql-ws" // of the retired npm package subscriptions-transport-ws
)

// Options says what connections may do. Zero durations and counts mean the defaults.
type Options struct {
	Exec graphql.GraphExecutor
	Log  *slog.Logger

	// Init decides over a connection by its request and the payload of its
	// connection_init (nil when there is none). An error closes the connection
	// with 4401 and the error's text, at most 123 bytes of it.
	Init func(r *http.Request, payload map[string]any) error
	// Watch prepares the context of an operation; the function it gives says
	// after the last response why a stream ended, nil for a normal end.
	Watch func(ctx context.Context) (context.Context, func() error)

	InitTimeout    time.Duration // until connection_init; 10 s
	WriteTimeout   time.Duration // without progress of a write; 10 s
	PingInterval   time.Duration // of our pings; three without any sign of life cut the connection; 25 s
	CloseTimeout   time.Duration // of a close handshake; 2 s
	ReadLimit      int64         // of one message, bytes; 1 MiB
	WriteBuffer    int           // of the kernel, bytes; 128 KiB
	MaxOperations  int           // at once on one connection; 128
	MaxConnections int           // at once; 10,000

	// Gate counts the connections, perhaps together with those of another
	// transport; nil: a gate of its own for MaxConnections.
	Gate *operation.Gate
}

// initReadLimit bounds what an unknown client may send before connection_init was accepted.
const initReadLimit = 16 << 10

// Counts are totals since the start, except Open.
type Counts struct {
	Open     int64 // connections now
	Accepted int64
	Stalled  int64 // cut because they took nothing for WriteTimeout
	Silent   int64 // cut because they gave no sign of life
	Frames   int64 // written
	Bytes    int64 // written, without frame headers
}

// Server serves connections.
type Server struct {
	o      Options
	runner operation.Runner

	mu      sync.Mutex
	closing bool
	conns   map[*conn]struct{}

	accepted, stalled, silent, frames, bytes atomic.Int64
}

// New makes a server.
func New(o Options) *Server {
	setDuration := func(d *time.Duration, standard time.Duration) {
		if *d == 0 {
			*d = standard
		}
	}
	setDuration(&o.InitTimeout, 10*time.Second)
	setDuration(&o.WriteTimeout, 10*time.Second)
	setDuration(&o.PingInterval, 25*time.Second)
	setDuration(&o.CloseTimeout, 2*time.Second)
	if o.ReadLimit == 0 {
		o.ReadLimit = 1 << 20
	}
	if o.WriteBuffer == 0 {
		o.WriteBuffer = 128 << 10
	}
	if o.MaxOperations == 0 {
		o.MaxOperations = 128
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 10_000
	}
	if o.Init == nil {
		o.Init = func(*http.Request, map[string]any) error { return nil }
	}
	if o.Gate == nil {
		o.Gate = operation.NewGate(o.MaxConnections)
	}
	return &Server{
		o:      o,
		runner: operation.Runner{Exec: o.Exec, Log: o.Log, Watch: o.Watch},
		conns:  map[*conn]struct{}{},
	}
}

// Options gives the options with their defaults filled in.
func (s *Server) Options() Options { return s.o }

// Counts gives the counters.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	open := len(s.conns)
	s.mu.Unlock()
	return Counts{
		Open:     int64(open),
		Accepted: s.accepted.Load(),
		Stalled:  s.stalled.Load(),
		Silent:   s.silent.Load(),
		Frames:   s.frames.Load(),
		Bytes:    s.bytes.Load(),
	}
}

// ServeHTTP upgrades the request and serves the connection to its end. Whose
// requests may come at all (host, origin) was decided before.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	leave, problem := s.o.Gate.Enter()
	if problem != "" {
		Refuse(w, problem)
		return
	}
	defer leave()

	hijack := &hijacker{ResponseWriter: w, timeout: s.o.WriteTimeout, buffer: s.o.WriteBuffer}
	socket, err := websocket.Accept(hijack, r, &websocket.AcceptOptions{
		Subprotocols: []string{Subprotocol, LegacySubprotocol},
		// The guard in front compares Origin with its own list, which may hold
		// more than this request's host.
		InsecureSkipVerify: true,
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		s.o.Log.DebugContext(r.Context(), "websocket upgrade refused", "error", err)
		return
	}
	s.accepted.Add(1)
	// The request's context says nothing about a hijacked connection: a fresh
	// one ends with the connection.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	c := &conn{
		server:  s,
		request: r,
		socket:  socket,
		net:     hijack.conn,
		ctx:     ctx,
		cancel:  cancel,
		active:  map[string]*stream{},
		log:     s.o.Log.With("remote", r.RemoteAddr),
	}
	s.register(c)
	defer s.unregister(c)
	c.run()
}

// Refuse answers a connection that may not come in.
func Refuse(w http.ResponseWriter, problem string) {
	body, _ := json.Marshal(map[string]any{"errors": []any{map[string]any{ // strings only: cannot fail
		"message": problem, "extensions": map[string]any{"code": "UNAVAILABLE"},
	}}})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "2")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(body)
}

func (s *Server) register(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
	if s.closing { // Shutdown began between enter and here and did not see this one
		c.close(websocket.StatusServiceRestart, "server is shutting down")
	}
}

func (s *Server) unregister(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Shutdown tells all clients to come back (1012), gives them CloseTimeout, then
// cuts them, and returns when every connection's goroutines have ended, those of
// others that share its gate included. New connections are refused from the start.
func (s *Server) Shutdown() {
	s.o.Gate.Close()
	s.mu.Lock()
	s.closing = true
	for c := range s.conns {
		c.close(websocket.StatusServiceRestart, "server is shutting down")
	}
	s.mu.Unlock()
	s.o.Gate.Wait()
}

// hijacker hands coder/websocket a connection whose writes make progress or fail.
type hijacker struct {
	http.ResponseWriter
	timeout time.Duration
	buffer  int
	conn    net.Conn
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	raw, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	// A bounded kernel buffer bounds how old the data of a slow client is.
	if tcp, ok := raw.(interface{ SetWriteBuffer(int) error }); ok {
		_ = tcp.SetWriteBuffer(h.buffer)
	}
	h.conn = newProgressConn(raw, h.timeout)
	return h.conn, bufio.NewReadWriter(rw.Reader, bufio.NewWriter(h.conn)), nil
}

// writePiece is how much is written under one deadline. Plain connections could
// do without; one with TLS does not survive a deadline in the midst of a write.
const writePiece = 32 << 10

// progressConn fails a write after timeout without any progress.
type progressConn struct {
	net.Conn
	progress operation.Progress
}

func newProgressConn(c net.Conn, timeout time.Duration) *progressConn {
	return &progressConn{c, operation.Progress{W: c, SetDeadline: c.SetWriteDeadline, Timeout: timeout, Piece: writePiece, Resumes: true}}
}

func (c *progressConn) Write(p []byte) (int, error) { return c.progress.Write(p) }
