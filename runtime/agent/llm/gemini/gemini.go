// Package gemini asks models over Google's Gemini API.
package gemini

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/meter"
)

const (
	defaultProvider = "google"
	defaultBaseURL  = "https://generativelanguage.googleapis.com"
	defaultVersion  = "v1beta"

	maxFault = 64 << 10
)

// Options say where the API is.
type Options struct {
	BaseURL  string // "": the provider's own; its version may be left out
	Key      string
	Provider string // on the bill; "": google
	Client   *http.Client
}

// Model is the adapter. It does without Google's SDK, which reads the arguments of
// calls into maps, where their order and the digits of large numbers are lost,
// drops the headers of errors, takes comments in a stream for faults, starts a
// goroutine that never ends and brings 400 packages.
type Model struct {
	client   *http.Client
	base     string // with its version
	key      string
	provider string
}

// New makes the adapter. It takes nothing from the environment.
func New(o Options) *Model {
	m := &Model{client: o.Client, base: address(o.BaseURL), key: o.Key, provider: o.Provider}
	if m.provider == "" {
		m.provider = defaultProvider
	}
	return m
}

// address adds the version that an address lacks.
func address(at string) string {
	if at == "" {
		at = defaultBaseURL
	}
	at = strings.TrimRight(at, "/")
	for _, v := range []string{"/v1", "/v1alpha", "/v1beta"} {
		if strings.HasSuffix(at, v) {
			return at
		}
	}
	return at + "/" + defaultVersion
}

// Stream implements chat.Model.
func (m *Model) Stream(ctx context.Context, q chat.Request, text func(int, string) error) (reply chat.Reply, err error) {
	usage, err := chat.NewMeter(meter.GeminiSSE, m.provider, q)
	if err != nil {
		return reply, err
	}
	a := answer{text: text}
	defer func() {
		reply = a.reply()
		usage.Settle(&reply)
	}()
	answered, err := m.send(ctx, q)
	if err != nil {
		return reply, err
	}
	defer func() { _ = answered.Body.Close() }() // its end was seen, or does not matter
	if answered.StatusCode >= 300 {
		body, _ := io.ReadAll(io.LimitReader(answered.Body, maxFault)) // what came of it
		return reply, explain(answered, body)
	}
	var stray []byte // lines that are no fields: an error may come as plain JSON
	err = chat.Events(answered.Body, func(data []byte) error {
		if failed(data) != nil {
			return explain(answered, data)
		}
		if !json.Valid(data) {
			return errTorn
		}
		usage.Event(string(data))
		return a.event(data)
	}, func(line []byte) {
		if len(stray)+len(line) < maxFault {
			stray = append(append(stray, line...), '\n')
		}
	})
	var broken *chat.ReadError
	switch {
	case errors.As(err, &broken):
		return reply, chat.Broke(ctx, "the connection broke", broken.Cause)
	case errors.Is(err, errTorn):
		return reply, malformed("an event is no JSON", nil)
	case err != nil:
		return reply, err
	case failed(stray) != nil:
		return reply, explain(answered, stray)
	case !a.over():
		return reply, chat.Broke(ctx, "the answer broke off", nil)
	}
	return reply, a.broken()
}

var errTorn = errors.New("the event is no JSON")

// send sends a request.
func (m *Model) send(ctx context.Context, q chat.Request) (*http.Response, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body(q)); err != nil {
		return nil, fmt.Errorf("writing a request: %w", err)
	}
	model := q.Model
	if !strings.Contains(model, "/") {
		model = "models/" + model
	}
	at := m.base + "/" + (&url.URL{Path: model}).EscapedPath() + ":streamGenerateContent?alt=sse"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, &b)
	if err != nil {
		return nil, fmt.Errorf("writing a request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "weir")
	if m.key != "" {
		r.Header.Set("X-Goog-Api-Key", m.key)
	}
	answered, err := m.client.Do(r)
	if err != nil {
		return nil, chat.Broke(ctx, "the connection broke", err)
	}
	return answered, nil
}
