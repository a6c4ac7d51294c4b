package httpapi

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/weirhq/weir/server/operation"
	"github.com/weirhq/weir/server/ws"
)

// The bounds of event streams; the durations are those of WebSockets.
const (
	streamPiece = 4 << 10 // bytes under one write deadline; the size of net/http's own buffer
	retryAfter  = "1000"  // ms that a browser waits before it connects again
	headerLast  = "Last-Event-ID"
)

// stream answers with an event stream, also what is wrong with the document: a
// client that wants a stream reads nothing else.
func (g *graphQL) stream(w http.ResponseWriter, r *http.Request, params *graphql.RawParams, last int64) {
	leave, problem := g.streams.gate.Enter()
	if problem != "" {
		ws.Refuse(w, problem)
		return
	}
	defer leave()
	var (
		ctx  = r.Context()
		op   *graphql.OperationContext
		errs gqlerror.List
	)
	func() {
		defer g.runner.Recover(ctx, func(list gqlerror.List) { errs = list })
		ctx, op, errs = g.runner.Begin(ctx, params, r.Header)
	}()
	if errs == nil && op.Operation.Operation == ast.Mutation && r.Method != http.MethodPost {
		refuseMutation(w)
		return
	}
	endless := errs == nil && op.Operation.Operation == ast.Subscription
	g.streams.serve(ctx, w, last, endless, func(ctx context.Context, to operation.Sink) {
		defer g.runner.Recover(ctx, to.Fail)
		if errs != nil {
			to.Fail(errs)
			return
		}
		g.runner.Stream(ctx, op, to)
	})
}

// lastSeen is the seq that a browser's EventSource saw last; 0 when it is new.
func lastSeen(r *http.Request) (int64, *requestError) {
	text := r.Header.Get(headerLast)
	if text == "" {
		return 0, nil
	}
	seq, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seq < 0 {
		return 0, reject(http.StatusBadRequest, "%s is %q; send the last id of the stream, which is an event's seq, or leave the header out", headerLast, clip(text))
	}
	return seq, nil
}

var errStopping = errors.New("the server is shutting down")

// streams answers operations as event streams, by the protocol graphql-sse in
// its mode of distinct connections.
//
// A client that takes nothing for the write timeout is cut; slowness alone never
// is. A stream that the server did not end in good order ends without complete,
// and by a broken connection, so that no client takes it for the end.
type streams struct {
	runner operation.Runner
	resume func(ctx context.Context, seq int64) (context.Context, func() int64)
	gate   *operation.Gate
	log    *slog.Logger

	writeTimeout, pingInterval, closeTimeout time.Duration
	writeBuffer                              int // of the kernel, bytes

	stop context.Context // ends when the server does
	end  context.CancelCauseFunc

	open, accepted, stalled, messages, bytes atomic.Int64
}

// newStreams makes streams with the limits of the WebSockets, whose gate they share.
func newStreams(runner operation.Runner, resume func(context.Context, int64) (context.Context, func() int64), limits ws.Options) *streams {
	stop, end := context.WithCancelCause(context.Background())
	return &streams{
		runner: runner, resume: resume, gate: limits.Gate, log: runner.Log,
		writeTimeout: limits.WriteTimeout, pingInterval: limits.PingInterval, closeTimeout: limits.CloseTimeout,
		writeBuffer: limits.WriteBuffer, stop: stop, end: end,
	}
}

// connKey is where a request's context holds its connection.
type connKey struct{}

// stream is one event stream, written by its operation and its pings.
type stream struct {
	of       *streams
	out      operation.Progress
	flush    func() error
	position func() int64
	cancel   context.CancelCauseFunc

	mu  sync.Mutex
	err error // of the first write that failed: nothing more is written
}

// serve runs an operation that was begun with ctx. It returns when all that
// belongs to the stream has ended. One that is not endless may finish at shutdown.
func (s *streams) serve(ctx context.Context, w http.ResponseWriter, last int64, endless bool, run func(context.Context, operation.Sink)) {
	s.accepted.Add(1)
	s.open.Add(1)
	defer s.open.Add(-1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, position := s.resume(ctx, last)

	rc := http.NewResponseController(w)
	if c, ok := ctx.Value(connKey{}).(interface{ SetWriteBuffer(int) error }); ok {
		_ = c.SetWriteBuffer(s.writeBuffer) // bounds how old the data of a slow client is
	}
	st := &stream{
		of: s, flush: rc.Flush, position: position, cancel: cancel,
		out: operation.Progress{W: w, SetDeadline: rc.SetWriteDeadline, Timeout: s.writeTimeout, Piece: streamPiece},
	}
	defer func() { _ = rc.SetWriteDeadline(time.Time{}) }() // the connection may serve another request
	h := w.Header()
	h.Set("Content-Type", typeStream+"; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // else nginx holds events back
	w.WriteHeader(http.StatusOK)

	var helpers sync.WaitGroup
	leave := func() bool { return true }
	if endless {
		helpers.Add(1)
		leave = context.AfterFunc(s.stop, func() { // a write under way gets the time of a close handshake
			defer helpers.Done()
			cancel(errStopping)
			_ = rc.SetWriteDeadline(time.Now().Add(s.closeTimeout))
		})
	}
	end := sync.OnceFunc(func() {
		cancel(nil)
		if leave() && endless {
			helpers.Done()
		}
		helpers.Wait()
	})
	defer end()
	_ = st.write([]byte("retry: " + retryAfter + "\n:\n\n"))
	helpers.Go(func() { st.keepAlive(ctx) })
	run(ctx, st)
	cause := context.Cause(ctx)
	end()
	if errors.Is(cause, errStopping) {
		_ = st.write([]byte(": the server is shutting down; connect again\n\n"))
	}
	if cause != nil || st.failed() != nil {
		panic(http.ErrAbortHandler) // cuts the connection
	}
}

// shutdown ends the subscriptions; their clients come back. It does not wait for them.
func (s *streams) shutdown() { s.end(errStopping) }

// keepAlive sends comments, so that nothing on the way takes the stream for dead.
func (st *stream) keepAlive(ctx context.Context) {
	tick := time.NewTicker(st.of.pingInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if st.write([]byte(":\n\n")) != nil {
			return
		}
	}
}

// Next implements operation.Sink.
func (st *stream) Next(r *graphql.Response) error {
	message := make([]byte, 0, len(r.Data)+64)
	if seq := st.position(); seq > 0 {
		message = append(append(message, "id: "...), strconv.FormatInt(seq, 10)...)
		message = append(message, '\n')
	}
	message = append(message, "event: next\ndata: "...)
	start := len(message)
	message, err := operation.AppendPayload(message, r)
	if err != nil {
		st.mu.Lock()
		defer st.mu.Unlock()
		st.err = err
		return err
	}
	oneLine(message[start:])
	return st.write(append(message, "\n\n"...))
}

// Complete implements operation.Sink. The empty data makes a browser's
// EventSource deliver the event.
func (st *stream) Complete() { _ = st.write([]byte("event: complete\ndata:\n\n")) }

// Fail implements operation.Sink.
func (st *stream) Fail(errs gqlerror.List) {
	message := append([]byte("event: next\ndata: {\"errors\":"), operation.MarshalErrors(errs)...)
	_ = st.write(append(message, "}\n\nevent: complete\ndata:\n\n"...))
}

// oneLine takes line ends out of JSON: they are spaces there, never text, and
// would end the field.
func oneLine(text []byte) {
	for i := bytes.IndexAny(text, "\r\n"); i >= 0; i = bytes.IndexAny(text, "\r\n") {
		text[i] = ' '
		text = text[i+1:]
	}
}

func (st *stream) failed() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.err
}

// write sends whole messages. After an error half of one may be on the wire.
func (st *stream) write(messages []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.err != nil {
		return st.err
	}
	n, err := st.out.Write(messages)
	if err == nil {
		err = st.out.SetDeadline(time.Now().Add(st.out.Timeout))
	}
	if err == nil {
		err = st.flush()
	}
	st.of.bytes.Add(int64(n))
	if err == nil {
		st.of.messages.Add(1)
		return nil
	}
	st.err = err
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() && st.of.stop.Err() == nil {
		st.of.stalled.Add(1)
		st.of.log.Warn("event stream cut: the client took nothing", "for", st.out.Timeout)
	}
	st.cancel(err)
	return err
}
