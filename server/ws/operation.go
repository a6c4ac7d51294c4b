package ws

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// operation is one query, mutation or subscription of a connection.
type operation struct {
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
func (op *operation) stop() {
	op.over.Store(true)
	op.cancel(errCompleted)
}

func (c *conn) subscribe(m message) {
	if m.ID == "" || len(m.ID) > maxID {
		c.close(codeBadRequest, "Invalid message: subscribe needs an id of 1 to 256 bytes")
		return
	}
	params := new(graphql.RawParams)
	dec := json.NewDecoder(bytes.NewReader(m.Payload))
	dec.UseNumber() // a 64-bit integer survives
	if err := dec.Decode(params); err != nil || params.Query == "" {
		c.close(codeBadRequest, "Invalid message: the payload of subscribe needs a query")
		return
	}
	id, err := json.Marshal(m.ID)
	if err != nil {
		c.close(codeBadRequest, "Invalid message: the id is not text")
		return
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	op := &operation{conn: c, id: id, key: m.ID, cancel: cancel}

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
		op.fail(gqlerror.List{{
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
func (op *operation) run(ctx context.Context, params *graphql.RawParams) {
	exec := op.conn.server.o.Exec
	ctx = graphql.StartOperationTrace(ctx)
	now := graphql.Now()
	params.ReadTime = graphql.TraceTiming{Start: now, End: now}
	params.Headers = op.conn.request.Header

	// Also what panics while the document is judged is this operation's end only.
	defer func() {
		if p := recover(); p != nil {
			op.conn.log.ErrorContext(ctx, "panic in an operation", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			op.failed(ctx, fmt.Errorf("panic: %v", p))
		}
	}()

	opCtx, errs := exec.CreateOperationContext(ctx, params)
	if errs != nil {
		op.fail(exec.DispatchError(graphql.WithOperationContext(ctx, opCtx), errs).Errors)
		return
	}
	ctx = graphql.WithOperationContext(ctx, opCtx)
	ctx, outcome := op.conn.server.o.Watch(ctx)
	responses, ctx := exec.DispatchOperation(ctx, opCtx)
	if opCtx.Operation.Operation != ast.Subscription {
		if r := responses(ctx); r != nil && op.next(r) == nil {
			op.complete()
		}
		return
	}
	for first := true; ; first = false {
		r := responses(ctx)
		if r == nil {
			break
		}
		if first && len(r.Errors) > 0 && (len(r.Data) == 0 || bytes.Equal(r.Data, []byte("null"))) {
			op.fail(r.Errors) // it never started
			return
		}
		if op.next(r) != nil {
			return
		}
	}
	if err := outcome(); err != nil {
		op.failed(ctx, err)
		return
	}
	op.complete()
}

// next sends one response. r.Data is only valid until the next response is
// made, so it is copied here.
func (op *operation) next(r *graphql.Response) error {
	frame := append(make([]byte, 0, len(r.Data)+len(op.id)+64), `{"id":`...)
	frame = append(frame, op.id...)
	frame = append(frame, `,"type":"next","payload":`...)
	if len(r.Errors) == 0 && len(r.Extensions) == 0 && len(r.Data) > 0 {
		frame = append(frame, `{"data":`...)
		frame = append(frame, r.Data...)
		frame = append(frame, '}')
	} else {
		payload, err := json.Marshal(r)
		if err != nil {
			return err
		}
		frame = append(frame, payload...)
	}
	frame = append(frame, '}')
	if !utf8.Valid(frame) { // a browser must drop the whole connection on such a frame
		frame = bytes.ToValidUTF8(frame, []byte("\uFFFD"))
	}
	return op.conn.write(op, frame)
}

// complete ends the operation in good order. The id is free before the client
// can know.
func (op *operation) complete() {
	op.release()
	frame := append([]byte(`{"id":`), op.id...)
	_ = op.conn.write(op, append(frame, `,"type":"complete"}`...))
	op.over.Store(true)
}

// failed ends the operation with an error, in the words of the error presenter.
func (op *operation) failed(ctx context.Context, err error) {
	op.fail(op.conn.server.o.Exec.DispatchError(ctx, gqlerror.List{gqlerror.Wrap(err)}).Errors)
}

// fail ends the operation with errors; no complete follows.
func (op *operation) fail(errs gqlerror.List) {
	op.release()
	payload, err := json.Marshal(errs)
	if err != nil {
		payload = []byte(`[{"message":"internal error","extensions":{"code":"INTERNAL"}}]`)
	}
	frame := append([]byte(`{"id":`), op.id...)
	frame = append(frame, `,"type":"error","payload":`...)
	frame = append(frame, payload...)
	_ = op.conn.write(op, append(frame, '}'))
	op.over.Store(true)
}

// release frees the id, unless another operation has it by now.
func (op *operation) release() {
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
