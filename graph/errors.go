package graph

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/weirhq/weir/runtime/run"
)

// presenter turns every error into what a client may see. A *run.Error shows
// its message and code; what gqlgen says about the document itself stays as it
// is; the text of anything else goes to the log under an id, and the client
// gets the id.
func presenter(log *slog.Logger) graphql.ErrorPresenterFunc {
	return func(ctx context.Context, err error) *gqlerror.Error {
		shown := &gqlerror.Error{Path: graphql.GetPath(ctx)}
		var g *gqlerror.Error
		if errors.As(err, &g) {
			shown.Locations = g.Locations
			if g.Path != nil {
				shown.Path = g.Path
			}
		}
		var known *run.Error
		switch {
		case errors.As(err, &known) && known.Code != run.Internal:
			shown.Message = known.Message
			shown.Extensions = map[string]any{"code": string(known.Code)}
			if known.Err != nil {
				log.DebugContext(ctx, "request refused", "code", known.Code, "message", known.Message, "cause", known.Err)
			}
		case g != nil && aboutDocument(g):
			shown.Message = g.Message
			shown.Rule = g.Rule
			shown.Extensions = map[string]any{"code": g.Extensions["code"]}
		case ctx.Err() != nil:
			// Whoever asked is gone, or the server is stopping: nothing to find out later.
			shown.Message = "the request was cancelled before it was answered; send it again"
			shown.Extensions = map[string]any{"code": string(run.Unavailable)}
		default:
			id := run.NewKey("err")
			log.ErrorContext(ctx, "internal error", "id", id, "path", shown.Path.String(), "error", err)
			shown.Message = fmt.Sprintf("internal error (id %s); the server's log has the details under this id", id)
			shown.Extensions = map[string]any{"code": string(run.Internal)}
		}
		return shown
	}
}

// aboutDocument tells whether gqlgen, or a limit of ours, judged the document
// or its variables, in words that are meant for its author.
func aboutDocument(g *gqlerror.Error) bool {
	switch g.Extensions["code"] {
	case errcode.ParseFailed, errcode.ValidationFailed, string(run.Invalid):
		return true
	}
	return false
}

// recoverer turns a panic in a resolver into an error for the presenter.
func recoverer(log *slog.Logger) graphql.RecoverFunc {
	return func(ctx context.Context, p any) error {
		log.ErrorContext(ctx, "panic while answering", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		return fmt.Errorf("panic: %v", p)
	}
}
