package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

// Whatever answers, the error is one line that says what to do.
func TestDoExplainsStrangeAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		code   run.Code
		want   string
	}{
		"APage":       {http.StatusOK, "<html>hello", run.Invalid, "is not a Weir server"},
		"NotFound":    {http.StatusNotFound, "404", run.Invalid, "is not a Weir server (404"},
		"AProxy":      {http.StatusBadGateway, "<html>", run.Unavailable, "answers 502"},
		"Empty":       {http.StatusOK, "{}", run.Invalid, "is not a Weir server"},
		"AnotherForm": {http.StatusOK, `{"data":{"run":{"id":7}}}`, run.Internal, "same version"},
		"Refused":     {http.StatusOK, `{"data":null,"errors":[{"message":"no\nsuch \u001b[2Jthing","extensions":{"code":"NOT_FOUND"}}]}`, run.NotFound, "no such thing"},
		"NoCode":      {http.StatusOK, `{"errors":[{"message":"odd"}]}`, run.Internal, "odd"},
		"NoRun":       {http.StatusOK, `{"data":{"run":null}}`, run.NotFound, "run_1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			t.Cleanup(s.Close)
			_, err := client(t, s.URL, Options{}).Run(t.Context(), "run_1")
			if err == nil || run.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v (%s)", err, run.CodeOf(err))
			}
		})
	}
}

// A start whose answer is lost is sent again with the same key.
func TestStartIsSentAgain(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	var keys [2]string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := calls.Add(1)
		body, _ := io.ReadAll(r.Body)
		_, rest, _ := strings.Cut(string(body), `"idempotencyKey":"`)
		key, _, _ := strings.Cut(rest, `"`)
		keys[min(n, 2)-1] = key
		if n == 1 {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		_, _ = io.WriteString(w, `{"data":{"startRun":{"id":"run_1"}}}`)
	}))
	t.Cleanup(s.Close)
	r, err := start(t.Context(), client(t, s.URL, Options{}), map[string]any{"agent": "script"})
	if err != nil || r.ID != "run_1" || calls.Load() != 2 || keys[0] == "" || keys[0] != keys[1] {
		t.Errorf("got %+v, %v after %d calls with %q", r, err, calls.Load(), keys)
	}
}

// A server that answered once is waited for; one that never did is not.
func TestWatchIsPatient(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"data":{"run":null}}`)
	}))
	t.Cleanup(s.Close)
	var n notices
	c := client(t, s.URL, Options{Notice: n.add})
	if _, err := Watch(t.Context(), c, "run_1", &PlainView{}); run.CodeOf(err) != run.Unavailable || calls.Load() != 1 {
		t.Errorf("the first contact gave %v after %d calls", err, calls.Load())
	}
	c.met.Store(true)
	if _, err := Watch(t.Context(), c, "run_1", &PlainView{}); run.CodeOf(err) != run.NotFound || calls.Load() != 3 || len(n.list) != 1 {
		t.Errorf("got %v after %d calls and told %q", err, calls.Load(), n.list)
	}
}
