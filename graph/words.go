package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// maxErrors bounds the errors of one document: a document of a few kilobytes
// can be wrong in thousands of ways.
const maxErrors = 20

// worded is an executor whose errors about a document are bounded in number
// and name the variable that they are about.
type worded struct{ *executor.Executor }

// CreateOperationContext implements graphql.GraphExecutor.
func (w worded) CreateOperationContext(ctx context.Context, params *graphql.RawParams) (*graphql.OperationContext, gqlerror.List) {
	op, errs := w.Executor.CreateOperationContext(ctx, params)
	for _, e := range errs {
		nameVariable(e, params.Variables)
	}
	if n := len(errs) - maxErrors; n > 0 {
		errs = errs[:maxErrors]
		errs[maxErrors-1] = refuse("the document has %d more errors", n+1)
	}
	return op, errs
}

// nameVariable says in the message what the validation leaves to the path.
func nameVariable(e *gqlerror.Error, variables map[string]any) {
	if len(e.Path) < 2 || e.Path[0] != ast.PathName("variable") {
		return
	}
	path := e.Path[1:]
	var value any = variables
	for _, step := range path {
		switch step := step.(type) {
		case ast.PathName:
			fields, _ := value.(map[string]any)
			value = fields[string(step)]
		case ast.PathIndex:
			items, _ := value.([]any)
			if int(step) >= len(items) {
				return
			}
			value = items[step]
		}
	}
	message := e.Message
	if n, ok := value.(json.Number); ok { // which is a string of digits in Go
		message = strings.Replace(message, "cannot use string as", "cannot use the number "+short(n.String())+" as", 1)
	}
	e.Message = fmt.Sprintf("the variable $%s: %s", short(path.String()), message)
}
