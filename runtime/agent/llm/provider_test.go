//go:build linux

package llm_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/weirhq/weir/runtime/agent/llm"
	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/run"
)

// said is what a provider is to answer, whatever its wire format.
type said struct {
	id        string
	reasoning string
	pieces    []string // of the text
	calls     []call
	stop      chat.Stop
	why       string // of a refusal
	tokens    run.Tokens
}

type call struct{ id, name, args string }

// asked is what a request said, whatever its wire format.
type asked struct {
	key          string // as it came
	model        string
	instructions string
	tools        []string
	reasoning    string
	messages     []string // "user: hello", "assistant: hi", "call c1 read_file {...}", "result c1 text", "error c1 text"
}

// wire is how a provider's API looks on the wire.
type wire interface {
	name() string
	model(t llm.Target) chat.Model
	// frames writes an answer as events of a stream, each with its blank line.
	frames(model string, s said) []string
	// fault is the body of an error.
	fault(status int, text string) string
	// parse reads a request.
	parse(r *http.Request, body []byte) (asked, error)
	// provider is whose model it is, and what the answer uses as it comes to the bill.
	provider() string
	billed(t run.Tokens) run.Tokens
}

var wires = []wire{messages{}, responses{}, completions{}, generate{}}

// step answers one request.
type step func(w http.ResponseWriter, r *http.Request)

// provider is a loopback server that speaks the wire format.
type provider struct {
	t    *testing.T
	wire wire
	url  string

	mu    sync.Mutex
	steps []step
	asked []asked
	over  chan struct{} // closed when the test ends: for answers that hang
}

func newProvider(t *testing.T, w wire, steps ...step) *provider {
	t.Helper()
	p := &provider{t: t, wire: w, steps: steps, over: make(chan struct{})}
	srv := httptest.NewServer(p)
	p.url = srv.URL
	t.Cleanup(func() {
		close(p.over)
		srv.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.steps) > 0 && !t.Failed() {
			t.Errorf("%d requests were expected and did not come", len(p.steps))
		}
	})
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Errorf("reading a request: %v", err)
		return
	}
	a, err := p.wire.parse(r, body)
	if err != nil {
		p.t.Errorf("a request that the provider does not understand: %v\n%s %s\n%s", err, r.Method, r.URL, body)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, a)
	if len(p.steps) == 0 {
		p.mu.Unlock()
		p.t.Errorf("a request that nobody expected: %+v", a)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	next := p.steps[0]
	p.steps = p.steps[1:]
	p.mu.Unlock()
	next(w, r)
}

// requests gives what was asked so far.
func (p *provider) requests() []asked {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func send(w http.ResponseWriter, frames ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, f := range frames {
		_, _ = io.WriteString(w, f) // the client may be gone
		_ = http.NewResponseController(w).Flush()
	}
}

// answers answers whole.
func answers(w wire, s said) step {
	return func(rw http.ResponseWriter, _ *http.Request) { send(rw, w.frames(testModel, s)...) }
}

// breaks answers the first n frames and the half of the next one.
func breaks(w wire, s said, n int) step {
	return func(rw http.ResponseWriter, _ *http.Request) {
		all := w.frames(testModel, s)
		send(rw, all[:n]...)
		send(rw, all[n][:len(all[n])/2])
		panic(http.ErrAbortHandler) // the connection breaks
	}
}

// stops answers the first n frames and ends in good order, as if that were all.
func stops(w wire, s said, n int) step {
	return func(rw http.ResponseWriter, _ *http.Request) { send(rw, w.frames(testModel, s)[:n]...) }
}

// garbles answers with an event that is no JSON after n frames.
func garbles(w wire, s said, n int) step {
	return func(rw http.ResponseWriter, _ *http.Request) {
		all := w.frames(testModel, s)
		send(rw, all[:n]...)
		send(rw, strings.Replace(all[n], "{", "{]", 1))
	}
}

// fails answers with an error.
func fails(w wire, status int, text string, header ...string) step {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			rw.Header().Set(header[i], header[i+1])
		}
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, w.fault(status, text))
	}
}

// hangs answers the first n frames and then nothing. reached is closed when they are out.
func hangs(p *provider, w wire, s said, n int, reached chan struct{}) step {
	return func(rw http.ResponseWriter, r *http.Request) {
		if n >= 0 {
			send(rw, w.frames(testModel, s)[:n]...)
		}
		close(reached)
		select {
		case <-r.Context().Done():
		case <-p.over:
		}
	}
}

func frame(event, data string) string {
	if event == "" {
		return "data: " + data + "\n\n"
	}
	return fmt.Sprintf("event: %s\ndata: %s\n\n", event, data)
}

// plain is JSON as a person writes it: an encoder may escape what need not be.
func plain(raw json.RawMessage) string {
	return strings.NewReplacer(`\u003e`, ">", `\u003c`, "<", `\u0026`, "&").Replace(string(raw))
}
