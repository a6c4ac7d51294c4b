package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/server/operation"
)

// graphQL is the API over POST (everything), GET (everything but mutations) and
// WebSocket. What yields many answers comes as an event stream, and so does
// everything else for a client that prefers one. It follows the GraphQL over HTTP
// draft: a request that could not be executed has no data entry, and is 200 for
// application/json but 400 for application/graphql-response+json.
type graphQL struct {
	runner  operation.Runner
	socket  http.Handler
	streams *streams
}

func (g *graphQL) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var params *graphql.RawParams
	var problem *requestError
	switch {
	case isUpgrade(r):
		g.socket.ServeHTTP(w, r)
		return
	case r.Method == http.MethodPost:
		params, problem = fromBody(w, r)
	case r.Method == http.MethodGet:
		params, problem = fromURL(r)
	default:
		w.Header().Set("Allow", "GET, POST")
		problem = reject(http.StatusMethodNotAllowed, "the method %s is not answered here; POST a JSON object with query and variables", r.Method)
	}
	if problem != nil {
		refuse(w, problem.status, problem.err)
		return
	}
	g.execute(w, r, params)
}

// requestError is a request that holds no GraphQL operation.
type requestError struct {
	status int
	err    *run.Error
}

func reject(status int, format string, args ...any) *requestError {
	return &requestError{status, run.Errorf(run.Invalid, format, args...)}
}

func fromBody(w http.ResponseWriter, r *http.Request) (*graphql.RawParams, *requestError) {
	kind, attrs, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := strings.ToLower(attrs["charset"])
	if err != nil || (kind != typeJSON && kind != "application/graphql+json") || (charset != "" && charset != "utf-8") {
		w.Header().Set("Accept-Post", typeJSON)
		return nil, reject(http.StatusUnsupportedMediaType,
			"the content type %q is not taken; send a JSON object with Content-Type: application/json", clip(r.Header.Get("Content-Type")))
	}
	for _, coding := range r.Header.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			w.Header().Set("Accept-Encoding", "identity")
			return nil, reject(http.StatusUnsupportedMediaType, "the content encoding %q is not taken; send the body as it is", clip(coding))
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, reject(http.StatusRequestEntityTooLarge, "the request body is over %d bytes; put large files into the session's workspace instead", MaxBody)
	case err != nil:
		return nil, reject(http.StatusBadRequest, "the request body could not be read to its end; send it again")
	}
	if at := invalidUTF8(body); at >= 0 {
		return nil, reject(http.StatusBadRequest, "the request body is not valid UTF-8 (at byte %d)", at)
	}
	params := new(graphql.RawParams)
	if err := decode(body, params); err != nil {
		return nil, reject(http.StatusBadRequest, "the request body is not one JSON object with query, variables and operationName: %s", position(err))
	}
	return params, nil
}

func fromURL(r *http.Request) (*graphql.RawParams, *requestError) {
	q := r.URL.Query()
	params := &graphql.RawParams{Query: q.Get("query"), OperationName: q.Get("operationName")}
	for name, into := range map[string]*map[string]any{"variables": &params.Variables, "extensions": &params.Extensions} {
		if text := q.Get(name); text != "" {
			if err := decode([]byte(text), into); err != nil {
				return nil, reject(http.StatusBadRequest, "the URL's %s is not a JSON object: %s", name, position(err))
			}
		}
	}
	if !utf8.ValidString(params.Query) {
		return nil, reject(http.StatusBadRequest, "the URL's query is not valid UTF-8")
	}
	return params, nil
}

// decode reads exactly one JSON value; numbers keep their digits.
func decode(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}

// position describes a JSON error without the text of the body.
func position(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return run.Errorf(run.Invalid, "a syntax error at byte %d", syntax.Offset).Message
	case errors.As(err, &kind):
		return run.Errorf(run.Invalid, "%s where %s is wanted", kind.Value, wanted(kind.Field)).Message
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends too early"
	}
	return "something follows the object"
}

func wanted(field string) string {
	switch field {
	case "query", "operationName":
		return "a string for " + field
	case "variables", "extensions":
		return "an object for " + field
	}
	return "an object"
}

func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

func (g *graphQL) execute(w http.ResponseWriter, r *http.Request, params *graphql.RawParams) {
	if strings.TrimSpace(params.Query) == "" {
		refuse(w, http.StatusBadRequest, run.Errorf(run.Invalid, "the request has no query; send a JSON object with query and, if needed, variables"))
		return
	}
	takes := accept(r.Header.Values("Accept"))
	last, problem := lastSeen(r)
	switch {
	case problem != nil:
		refuse(w, problem.status, problem.err)
		return
	case takes.kind == typeStream:
		g.stream(w, r, params, last)
		return
	}
	// What panics outside of a resolver is an internal error like any other.
	defer g.runner.Recover(r.Context(), func(errs gqlerror.List) {
		writeErrors(w, http.StatusInternalServerError, takes.kind, errs)
	})
	ctx, op, errs := g.runner.Begin(r.Context(), params, r.Header)
	if errs != nil {
		status := http.StatusOK
		if takes.kind == typeResponse {
			status = http.StatusBadRequest
		}
		writeErrors(w, status, takes.kind, errs)
		return
	}
	switch op.Operation.Operation {
	case ast.Subscription:
		if takes.stream {
			g.stream(w, r, params, last)
			return
		}
		refuse(w, http.StatusBadRequest, run.Errorf(run.Invalid,
			"a subscription needs a stream; send Accept: text/event-stream, or connect a WebSocket with the subprotocol graphql-transport-ws"))
		return
	case ast.Mutation:
		if r.Method != http.MethodPost {
			refuseMutation(w)
			return
		}
	case ast.Query:
	}
	responses, ctx := g.runner.Exec.DispatchOperation(ctx, op)
	body, err := json.Marshal(responses(ctx))
	if err != nil {
		refuse(w, http.StatusInternalServerError, run.Errorf(run.Internal, "internal error: the answer could not be encoded"))
		return
	}
	write(w, http.StatusOK, takes.kind, body)
}

// refuseMutation answers a mutation by GET, which any link could send.
func refuseMutation(w http.ResponseWriter) {
	w.Header().Set("Allow", "POST")
	refuse(w, http.StatusMethodNotAllowed, run.Errorf(run.Invalid, "a mutation by GET is refused; send it by POST"))
}

// refuse answers a request that reached no operation.
func refuse(w http.ResponseWriter, status int, err *run.Error) {
	writeErrors(w, status, typeJSON, gqlerror.List{{
		Message: err.Message, Extensions: map[string]any{"code": string(err.Code)},
	}})
}

func writeErrors(w http.ResponseWriter, status int, kind string, errs gqlerror.List) {
	body, err := json.Marshal(struct {
		Errors gqlerror.List `json:"errors"`
	}{errs})
	if err != nil {
		body = []byte(`{"errors":[{"message":"internal error","extensions":{"code":"INTERNAL"}}]}`)
	}
	write(w, status, kind, body)
}

// writeTimeout bounds how long a client may take to read an answer.
const writeTimeout = time.Minute

func write(w http.ResponseWriter, status int, kind string, body []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has one
	h := w.Header()
	h.Set("Content-Type", kind+"; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
