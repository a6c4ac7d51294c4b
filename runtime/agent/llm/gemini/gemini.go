// Package gemini asks models over Google's Gemini API.
package gemini

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/genai"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/meter"
)

const (
	defaultProvider = "google"
	defaultBaseURL  = "https://generativelanguage.googleapis.com"
	defaultVersion  = "v1beta"
)

// Options say where the API is.
type Options struct {
	BaseURL  string // "": the provider's own; its version may be left out
	Key      string
	Provider string // on the bill; "": google
	Client   *http.Client
}

// Model is the adapter.
type Model struct {
	client   *genai.Client
	failed   error // why there is no client
	provider string
}

// New makes the adapter. What the SDK would look up in the environment is given
// to it: the address here, the key by the transport.
func New(o Options) *Model {
	m := &Model{provider: o.Provider}
	if m.provider == "" {
		m.provider = defaultProvider
	}
	c := *o.Client
	c.Transport = &transport{base: c.Transport, key: o.Key}
	at, version := address(o.BaseURL)
	m.client, m.failed = genai.NewClient(context.Background(), &genai.ClientConfig{
		Backend: genai.BackendGeminiAPI, APIKey: "set by the transport", HTTPClient: &c,
		HTTPOptions: genai.HTTPOptions{BaseURL: at, APIVersion: version},
	})
	return m
}

// address takes the version off an address.
func address(at string) (base, version string) {
	if at == "" {
		return defaultBaseURL, defaultVersion
	}
	at = strings.TrimRight(at, "/")
	for _, v := range []string{"v1", "v1alpha", "v1beta"} {
		if base, ok := strings.CutSuffix(at, "/"+v); ok {
			return base, v
		}
	}
	return at, defaultVersion
}

// Stream implements chat.Model.
func (m *Model) Stream(ctx context.Context, q chat.Request, text func(int, string) error) (reply chat.Reply, err error) {
	if m.failed != nil {
		return reply, m.failed
	}
	usage, err := chat.NewMeter(meter.GeminiSSE, m.provider, q)
	if err != nil {
		return reply, err
	}
	a := answer{text: text}
	defer func() {
		reply = a.reply()
		usage.Settle(&reply)
	}()
	x := &exchange{}
	for _, err := range m.client.Models.GenerateContentStream(context.WithValue(ctx, exchangeKey{}, x), q.Model, nil, config(q)) {
		if err != nil {
			return reply, fault(ctx, x, err)
		}
		usage.Event(string(x.event))
		if err := a.event(x.event); err != nil {
			return reply, err
		}
	}
	switch {
	case x.err != nil || x.fault != nil:
		return reply, fault(ctx, x, x.err)
	case !a.over():
		return reply, chat.Broke(ctx, "the answer broke off", nil)
	}
	return reply, a.broken()
}
