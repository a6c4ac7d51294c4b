package ws

import (
	"encoding/json"

	"github.com/vektah/gqlparser/v2/gqlerror"
)

// words are the names that the two subprotocols have for the same messages.
type words struct{ subscribe, stop, next string }

var (
	modernWords      = words{subscribe: "subscribe", stop: "complete", next: "next"}
	legacyWords      = words{subscribe: "start", stop: "stop", next: "data"}
	keepAliveMessage = []byte(`{"type":"ka"}`)
)

// legacyError is the payload of an error message of graphql-ws: one error, with
// the whole list in errors, which its reference client prefers.
func legacyError(errs gqlerror.List, list []byte) []byte {
	first := &gqlerror.Error{Message: "the operation failed"}
	if len(errs) > 0 {
		first = errs[0]
	}
	payload, err := json.Marshal(struct {
		Message    string          `json:"message"`
		Extensions map[string]any  `json:"extensions,omitempty"`
		Errors     json.RawMessage `json:"errors"`
	}{first.Message, first.Extensions, list})
	if err != nil {
		return []byte(`{"message":"internal error","extensions":{"code":"INTERNAL"}}`)
	}
	return payload
}

// legacyRefusal says why a connection_init is refused; the close follows.
func legacyRefusal(err error) []byte {
	frame, _ := json.Marshal(map[string]any{ // strings only: cannot fail
		"type": "connection_error", "payload": map[string]string{"message": err.Error()},
	})
	return frame
}
