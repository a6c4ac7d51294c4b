// Package operation runs one GraphQL operation from its request to its last
// response, for transports that stream.
//
// Guarantees:
//   - A response is made only after the one before it was taken: a slow client
//     holds its own stream back and nobody else's.
//   - Exactly one of Sink.Complete and Sink.Fail ends an operation, unless a
//     Next failed, the context ended or the operation was over before.
//   - A panic outside of a resolver ends the operation as an internal error.
package operation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// Runner runs operations.
type Runner struct {
	Exec graphql.GraphExecutor
	Log  *slog.Logger
	// Watch prepares the context of an operation; the function it gives says
	// after the last response why a stream ended, nil for a normal end. Nil: nobody knows.
	Watch func(ctx context.Context) (context.Context, func() error)
}

// Sink takes what one operation yields, from one goroutine at a time.
type Sink interface {
	// Next takes a response; its Data is valid only until Next returns. An error
	// ends the operation without a further call.
	Next(r *graphql.Response) error
	// Complete ends the operation in good order.
	Complete()
	// Fail ends it with errors, in the words of the error presenter.
	Fail(errs gqlerror.List)
}

// Begin judges a request. Errors are in the words of the error presenter; then
// there is no operation. The context is that of the operation.
func (r Runner) Begin(ctx context.Context, params *graphql.RawParams, header http.Header) (context.Context, *graphql.OperationContext, gqlerror.List) {
	ctx = graphql.StartOperationTrace(ctx)
	now := graphql.Now()
	params.ReadTime = graphql.TraceTiming{Start: now, End: now}
	params.Headers = header
	op, errs := r.Exec.CreateOperationContext(ctx, params)
	if errs != nil {
		return ctx, nil, r.Exec.DispatchError(graphql.WithOperationContext(ctx, op), errs).Errors
	}
	return graphql.WithOperationContext(ctx, op), op, nil
}

// Stream runs what Begin gave to its end.
func (r Runner) Stream(ctx context.Context, op *graphql.OperationContext, to Sink) {
	outcome := func() error { return nil }
	if r.Watch != nil {
		ctx, outcome = r.Watch(ctx)
	}
	responses, ctx := r.Exec.DispatchOperation(ctx, op)
	if op.Operation.Operation != ast.Subscription {
		if response := responses(ctx); response != nil && to.Next(response) == nil {
			to.Complete()
		}
		return
	}
	for first := true; ; first = false {
		response := responses(ctx)
		if response == nil {
			break
		}
		if first && len(response.Errors) > 0 && (len(response.Data) == 0 || bytes.Equal(response.Data, []byte("null"))) {
			to.Fail(response.Errors) // it never started
			return
		}
		if to.Next(response) != nil {
			return
		}
	}
	if ctx.Err() != nil {
		return // it was cut short: neither an end nor a failure of its own
	}
	if err := outcome(); err != nil {
		to.Fail(r.Present(ctx, err))
		return
	}
	to.Complete()
}

// Present puts an error into the words of the error presenter.
func (r Runner) Present(ctx context.Context, err error) gqlerror.List {
	return r.Exec.DispatchError(ctx, gqlerror.List{gqlerror.Wrap(err)}).Errors
}

// Recover is to be deferred around Begin and Stream: nobody else recovers from
// what panics outside of a resolver, while a document is judged or an answer is
// written out.
func (r Runner) Recover(ctx context.Context, fail func(gqlerror.List)) {
	if p := recover(); p != nil {
		r.Log.ErrorContext(ctx, "panic in an operation", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		fail(r.Present(ctx, fmt.Errorf("panic: %v", p)))
	}
}

// AppendPayload appends a response as JSON in valid UTF-8: a browser drops a
// whole connection for one wrong byte.
func AppendPayload(dst []byte, r *graphql.Response) ([]byte, error) {
	start := len(dst)
	if len(r.Errors) == 0 && len(r.Extensions) == 0 && len(r.Data) > 0 {
		dst = append(dst, `{"data":`...)
		dst = append(dst, r.Data...)
		dst = append(dst, '}')
	} else {
		payload, err := json.Marshal(r)
		if err != nil {
			return dst, fmt.Errorf("encoding a response: %w", err)
		}
		dst = append(dst, payload...)
	}
	if !utf8.Valid(dst[start:]) {
		dst = append(dst[:start], bytes.ToValidUTF8(dst[start:], []byte("\uFFFD"))...)
	}
	return dst, nil
}

// MarshalErrors gives errors as a JSON array.
func MarshalErrors(errs gqlerror.List) []byte {
	payload, err := json.Marshal(errs)
	if err != nil {
		return []byte(`[{"message":"internal error","extensions":{"code":"INTERNAL"}}]`)
	}
	return payload
}
