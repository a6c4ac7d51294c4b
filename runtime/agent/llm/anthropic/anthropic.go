// Package anthropic asks models over Anthropic's Messages API.
package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/meter"
)

// name marks what is this adapter's own.
const name = "anthropic"

// defaultMaxOutput is what a request may answer when nothing is said; the API
// wants a number.
const defaultMaxOutput = 32_000

// Options say where the API is.
type Options struct {
	BaseURL  string // "": the provider's own
	Key      string
	Provider string // on the bill; "": anthropic
	Client   *http.Client
}

// Model is the adapter.
type Model struct {
	messages sdk.MessageService
	provider string
}

// New makes the adapter. It takes nothing from the environment, and of the SDK
// this one service: the client with all of them makes the program 30 MB larger.
func New(o Options) *Model {
	opts := []option.RequestOption{
		option.WithEnvironmentProduction(), option.WithAPIKey(o.Key), option.WithHTTPClient(o.Client), option.WithMaxRetries(0),
	}
	if o.BaseURL != "" {
		opts = append(opts, option.WithBaseURL(o.BaseURL))
	}
	provider := o.Provider
	if provider == "" {
		provider = name
	}
	return &Model{messages: sdk.NewMessageService(opts...), provider: provider}
}

// Stream implements chat.Model.
func (m *Model) Stream(ctx context.Context, q chat.Request, text func(int, string) error) (reply chat.Reply, err error) {
	usage, err := chat.NewMeter(meter.AnthropicSSE, m.provider, q)
	if err != nil {
		return chat.Reply{}, err
	}
	a := answer{text: text}
	defer func() {
		reply = a.reply()
		usage.Settle(&reply)
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errOver)
	stream := m.messages.NewStreaming(ctx, params(q))
	defer func() { _ = stream.Close() }() // its end was seen, or does not matter
	for stream.Next() {
		e := stream.Current()
		usage.Event(e.RawJSON())
		if err := a.event(e); err != nil {
			return reply, err
		}
	}
	switch err := stream.Err(); {
	case err != nil:
		return reply, fault(ctx, err)
	case !a.over:
		return reply, chat.Broke(ctx, "the answer broke off", nil)
	}
	return reply, a.broken()
}

var errOver = errors.New("the request is over")

// fault tells what an error of the SDK means.
func fault(ctx context.Context, err error) error {
	var e *sdk.Error
	if !errors.As(err, &e) {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) && ctx.Err() == nil {
			return &chat.Error{Class: chat.Malformed, Text: "the answer cannot be read: " + err.Error(), Cause: err}
		}
		return chat.Broke(ctx, "the connection broke", err)
	}
	var header http.Header
	if e.Response != nil {
		header = e.Response.Header
	}
	c := chat.Of(e.StatusCode, header, e.Message, err)
	switch string(e.Type()) { // an error within a stream has the status 200
	case "overloaded_error", "rate_limit_error", "api_error", "timeout_error":
		c.Class = chat.Passing
	case "authentication_error", "permission_error":
		c.Class = chat.Denied
	case "billing_error":
		c.Class = chat.NoCredit
	case "request_too_large":
		c.Class = chat.TooLong
	case "invalid_request_error":
		c.Class = chat.Invalid
		if tooLong(e.Message) {
			c.Class = chat.TooLong
		}
	}
	return c
}
