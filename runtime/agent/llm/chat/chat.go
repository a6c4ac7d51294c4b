// Package chat is the contract between the loop of a model's agent and the
// adapters of the providers.
//
// Guarantees of every adapter:
//   - A reply is whole only when the provider said that it is: a stream that ends
//     early is an *Error, whatever the SDK makes of it.
//   - A reply, also one that came with an error, holds the usage of the request as
//     far as it was told.
//   - It asks once. Whether to ask again is the loop's to decide.
package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// Model answers requests. It is safe for concurrent use.
type Model interface {
	// Stream asks once. text gets the pieces of the reply's texts as they come:
	// part is the index of the Part in the reply. Its error ends the request.
	Stream(ctx context.Context, q Request, text func(part int, piece string) error) (Reply, error)
}

// Request is one request to a model.
type Request struct {
	Model        string
	Instructions string
	Messages     []Message
	Tools        []Tool
	MaxOutput    int64  // tokens; 0: what the adapter takes
	Reasoning    Level  // "": the provider's default
	CacheKey     string // requests with the same one begin alike
}

// Level is how much a model reasons.
type Level string

// The levels. An adapter that lacks one takes the next lower one that it has.
const (
	None   Level = "none"
	Low    Level = "low"
	Medium Level = "medium"
	High   Level = "high"
	Max    Level = "max"
)

// Tool is offered to the model.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // a JSON schema, of type object
}

// Role says whose message it is.
type Role string

// The roles. Results of tools are parts of the user's messages.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one side's turn.
type Message struct {
	Role  Role
	Parts []Part
}

// Part is a Text, Reasoning, Call or Result.
type Part interface{ part() }

// Text is what is said.
type Text struct{ Text string }

// Reasoning is what a model thought, as far as it shows it. Opaque is what the
// provider wants to see again; it is a JSON object with the adapter's name as its
// only key, so that another one knows that it is not its own.
type Reasoning struct {
	Text   string
	Opaque json.RawMessage
}

// Call asks for a tool.
type Call struct {
	ID        string
	Name      string
	Arguments json.RawMessage // a JSON object; else Broken says what the model wrote
	Broken    string
	Opaque    json.RawMessage // as in Reasoning
}

// Result is what a call came to.
type Result struct {
	ID      string // of the call
	Name    string
	Text    string
	IsError bool
}

func (Text) part()      {}
func (Reasoning) part() {}
func (Call) part()      {}
func (Result) part()    {}

// Stop says why a reply ended.
type Stop string

// The reasons.
const (
	Done      Stop = "done"
	Calls     Stop = "calls"      // tools are to be called
	MaxOutput Stop = "max output" // cut at the limit of the request
	Refused   Stop = "refused"
	Full      Stop = "full"   // the model's context is full
	Paused    Stop = "paused" // ask again with what came so far
)

// Reply is what a model answered.
type Reply struct {
	ID    string // the provider's
	Parts []Part
	Stop  Stop
	Why   string // words of a refusal

	Usage      []run.UsageRecord
	Incomplete []string // why Usage may be too low
}

// Class says what can be done about an Error.
type Class string

// The classes.
const (
	Passing   Class = "passing"   // it may work when asked again
	Denied    Class = "denied"    // the key is wrong, or may not do that
	Invalid   Class = "invalid"   // the request is at fault
	TooLong   Class = "too long"  // the conversation does not fit the model
	NoCredit  Class = "no credit" // nobody pays for it
	Malformed Class = "malformed" // no answer that can be read; it may pass
)

// Error is a request without a whole reply.
type Error struct {
	Class  Class
	Status int    // of HTTP; 0: none came
	Text   string // what the provider said, or what went wrong
	After  time.Duration
	Cause  error
}

func (e *Error) Error() string { return e.Text }
func (e *Error) Unwrap() error { return e.Cause }

// Again tells whether asking again may help.
func (e *Error) Again() bool { return e.Class == Passing || e.Class == Malformed }

// NewCall makes the call that a model wrote. Arguments that are no JSON object
// are kept as they stand, so that the model can be told.
func NewCall(id, name, arguments string, opaque json.RawMessage) Call {
	c := Call{ID: id, Name: name, Opaque: opaque}
	trimmed := bytes.TrimSpace([]byte(arguments))
	switch {
	case len(trimmed) == 0:
		c.Arguments = json.RawMessage("{}")
	case trimmed[0] == '{' && json.Valid(trimmed):
		c.Arguments = trimmed
	default:
		c.Arguments, c.Broken = json.RawMessage("{}"), arguments
	}
	return c
}
