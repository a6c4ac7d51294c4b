package ws

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/weirhq/weir/server/operation"
)

// stream is one query, mutation or subscription of a connection.
type stream struct {
	conn   *conn
	id     []byte // as a JSON string
	key    string
	over   atomic.Bool // nothing more may be sent for it
	cancel context.CancelCauseFunc
}

var (
	errCompleted = errors.New("the client completed the operation")
	errEnded     = errors.New("the operation ended")
)

// stop ends an operation in the client's name; its frame in flight may finish.
func (op *stream) stop() {
	op.over.Store(true)
	op.cancel(errCompleted)
}

func (c *conn) subscribe(m message) {
	if m.ID == "" || len(m.ID) > maxID {
		c.close(codeBadRequest, "Invalid message: "+m.Type+" needs an id of 1 to 256 bytes")
		return
	}
	params := new(graphql.RawParams)
	dec := json.NewDecoder(bytes.NewReader(m.Payload))
	dec.UseNumber() // a 64-bit integer survives
	if err := dec.Decode(params); err != nil || params.Query == "" {
		c.close(codeBadRequest, "Invalid message: the payload of "+m.Type+" needs a query")
		return
	}
	id, err := json.Marshal(m.ID)
	if err != nil {
		c.close(codeBadRequest, "Invalid message: the id is not text")
		return
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	op := &stream{conn: c, id: id, key: m.ID, cancel: cancel}

	if c.legacy {
		c.end(m.ID) // there, a start with a live id takes its place
	}
	c.mu.Lock()
	acked, taken, full := c.acked, c.active[m.ID] != nil, len(c.active) >= c.server.o.MaxOperations
	if acked && !taken && !full {
		c.active[m.ID] = op
	}
	c.mu.Unlock()
	switch {
	case !acked:
		cancel(errEnded)
		c.close(codeUnauthorized, "Unauthorized: send connection_init first")
	case taken:
		cancel(errEnded)
		// A bounded part of the id: the reason must fit into a close frame.
		c.close(codeDuplicateID, "Subscriber for "+clip(m.ID, 60)+" already exists")
	case full:
		cancel(errEnded)
		op.Fail(gqlerror.List{{
			Message:    "this connection has as many operations as it may; complete one first",
			Extensions: map[string]any{"code": "INVALID"},
		}})
	default:
		c.spawn("operation", func() {
			defer cancel(errEnded)
			op.run(ctx, params)
		})
	}
}

// run executes the operation to its end.
func (op *stream) run(ctx context.Context, params *graphql.RawParams) {
	runner := op.conn.server.runner
	// Also what panics while the document is judged is this operation's end only.
	defer runner.Recover(ctx, op.Fail)
	ctx, opCtx, errs := runner.Begin(ctx, params, op.conn.request.Header)
	if errs != nil {
		op.Fail(errs)
		return
	}
	runner.Stream(ctx, opCtx, op)
}

// message begins a message of the operation.
func (op *stream) message(kind string, room int) []byte {
	frame := append(make([]byte, 0, len(op.id)+room+64), `{"id":`...)
	frame = append(frame, op.id...)
	frame = append(frame, `,"type":"`...)
	frame = append(frame, kind...)
	return append(frame, '"')
}

// Next implements operation.Sink.
func (op *stream) Next(r *graphql.Response) error {
	frame := append(op.message(op.conn.words.next, len(r.Data)), `,"payload":`...)
	frame, err := operation.AppendPayload(frame, r)
	if err != nil {
		return err
	}
	return op.conn.write(op, append(frame, '}'))
}

// Complete implements operation.Sink. The id is free before the client can know.
func (op *stream) Complete() {
	op.release()
	_ = op.conn.write(op, append(op.message("complete", 0), '}'))
	op.over.Store(true)
}

// Fail implements operation.Sink; no complete follows.
func (op *stream) Fail(errs gqlerror.List) {
	op.release()
	payload := operation.MarshalErrors(errs)
	if op.conn.legacy {
		payload = legacyError(errs, payload)
	}
	frame := append(op.message("error", len(payload)), `,"payload":`...)
	_ = op.conn.write(op, append(append(frame, payload...), '}'))
	op.over.Store(true)
}

// release frees the id, unless another operation has it by now.
func (op *stream) release() {
	op.conn.mu.Lock()
	defer op.conn.mu.Unlock()
	if op.conn.active[op.key] == op {
		delete(op.conn.active, op.key)
	}
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "..."
}
