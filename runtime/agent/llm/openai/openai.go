// Package openai asks models over OpenAI's Responses API and over Chat
// Completions, which many other servers speak.
package openai

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
)

const (
	ownProvider = "openai"
	ownBaseURL  = "https://api.openai.com/v1"
)

// Options say where the API is.
type Options struct {
	BaseURL  string // with its /v1; "": OpenAI's own
	Key      string // "": none is sent
	Provider string // on the bill; "": openai
	Client   *http.Client
}

// client sends requests. It is not OpenAI's SDK: that one takes "error":null for
// an error, loses the status of errors that are no JSON, reads the environment,
// and costs minutes of compiling.
type client struct {
	http     *http.Client
	base     string
	provider string
	key      string
	// without is told what a server did not take, and tells whether it is left
	// out from now on: then the request may work when it is asked again. Or nil.
	without func(problem) bool
}

func newClient(o Options) client {
	c := client{http: o.Client, base: strings.TrimRight(o.BaseURL, "/"), provider: o.Provider, key: o.Key}
	if c.base == "" {
		c.base = ownBaseURL
	}
	if c.provider == "" {
		c.provider = ownProvider
	}
	return c
}

// errOver ends a stream whose end was seen.
var errOver = errors.New("the answer is over")

// stream asks once and hands over the data of each event until event gives an error.
func (c client) stream(ctx context.Context, path string, body any, event func(data []byte) error) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		return fmt.Errorf("writing a request: %w", err)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, &b)
	if err != nil {
		return fmt.Errorf("writing a request: %w", err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "text/event-stream, application/json")
	q.Header.Set("User-Agent", "weir")
	if c.key != "" {
		q.Header.Set("Authorization", "Bearer "+c.key)
	}
	answer, err := c.http.Do(q)
	if err != nil {
		return chat.Broke(ctx, "the connection broke", err)
	}
	defer func() { _ = answer.Body.Close() }() // its end was seen, or does not matter
	if answer.StatusCode >= 300 {
		return c.failed(ctx, answer)
	}
	if err := c.streams(answer); err != nil {
		return err
	}
	err = chat.Events(answer.Body, event, nil)
	var broken *chat.ReadError
	switch {
	case errors.Is(err, errOver):
		return nil
	case errors.As(err, &broken):
		return chat.Broke(ctx, "the connection broke", broken.Cause)
	}
	return err
}

// read reads an event. Fields of another type than the expected one are passed over.
func read(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var other *json.UnmarshalTypeError
	if err == nil || errors.As(err, &other) {
		return nil
	}
	return &chat.Error{Class: chat.Malformed, Text: "the answer cannot be read: " + err.Error(), Cause: err}
}

func malformed(format string, args ...any) error {
	return &chat.Error{Class: chat.Malformed, Text: "the answer cannot be read: " + fmt.Sprintf(format, args...)}
}

// null tells whether a value is missing or says nothing.
func null(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// shortID makes an id of at most n characters of one that may be another
// provider's; the same one each time.
func shortID(id string, n int) string {
	if len(id) <= n {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:min(n, 32)]
}

// failure is how a result says that it is an error: the APIs have no field for it.
const failure = "Error: "

func resultText(r chat.Result) string {
	text := r.Text
	if text == "" {
		text = "(no output)"
	}
	if r.IsError && !strings.HasPrefix(text, failure) {
		text = failure + text
	}
	return text
}

// arguments is what a call asks for, as a JSON object in a text.
func arguments(c chat.Call) string {
	if len(c.Arguments) == 0 {
		return "{}"
	}
	return string(c.Arguments)
}
