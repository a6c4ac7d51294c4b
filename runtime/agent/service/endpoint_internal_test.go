//go:build linux

package service

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// workspace is a folder with a short path: that of a socket has few bytes.
func workspace(t *testing.T) (string, *os.Root) {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-svc-")
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = root.Close()
		_ = os.RemoveAll(dir)
	})
	return dir, root
}

// serve answers on a socket until the test ends.
func serve(t *testing.T, path string, h http.HandlerFunc) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	listen(t, l, h)
}

func listen(t *testing.T, l net.Listener, h http.HandlerFunc) {
	t.Helper()
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() { // the cleanup waits for it
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
}

func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

const good = `{"tokens_input":111,"tokens_output":222,"tokens_cache_read":33,"tokens_cache_write":44,"turns":3,"tool_calls":2,"model":"m-1"}`

// with gives the good answer with another value for the input.
func with(v string) string { return strings.Replace(good, "111", v, 1) }

func ask(ctx context.Context, e *endpoint) (answer, error) {
	body, err := e.get(ctx, "/usage/status")
	if err != nil {
		return answer{}, err
	}
	return parse(body)
}

func TestAnswersAreReadExactly(t *testing.T) {
	t.Parallel()
	dir, root := workspace(t)
	serve(t, filepath.Join(dir, "s"), says(good))
	got, err := ask(t.Context(), &endpoint{root: root, socket: "s", patience: patience})
	want := answer{tokens: run.Tokens{Input: 111, Output: 222, CacheRead: 33, CacheWriteShort: 44}, model: "m-1", turns: 3, toolCalls: 2}
	if err != nil || got != want {
		t.Errorf("read as %+v, %v; want %+v", got, err, want)
	}
	if again, err := parse(got.raw()); err != nil || again != want {
		t.Errorf("what is kept reads as %+v, %v", again, err)
	}
}

// What is no answer is refused as a whole, with words for what came.
func TestBadAnswersAreNone(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen(t, other, func(w http.ResponseWriter, _ *http.Request) {
		elsewhere.Add(1)
		_, _ = io.WriteString(w, good)
	})
	gone := make(chan struct{})
	t.Cleanup(func() { close(gone) })
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"HTML":          {says("<html>hello</html>"), "an HTML page came"},
		"words":         {says("hello"), `"hello"`},
		"nothing":       {says(""), `""`},
		"an array":      {says("[1]"), "no JSON object came"},
		"null":          {says("null"), "no JSON object came"},
		"two objects":   {says(good + good), "no JSON object came"},
		"cut off":       {says(good[:40]), "no JSON object came"},
		"negative":      {says(with("-3")), "tokens_input was \"-3\""},
		"fractional":    {says(with("1.5")), "tokens_input was \"1.5\""},
		"a float":       {says(with("1e3")), "tokens_input was \"1e3\""},
		"a null number": {says(with("null")), "tokens_input was \"null\""},
		"a text":        {says(with(`"111"`)), "tokens_input was"},
		"huge":          {says(with("1000000000001")), "tokens_input was \"1000000000001\""},
		"beyond 64 bit": {says(with("99999999999999999999")), "tokens_input was"},
		"missing":       {says(`{"tokens_input":1,"tokens_output":2,"tokens_cache_read":3}`), "tokens_cache_write was missing"},
		"a bad model":   {says(strings.Replace(good, `"m-1"`, "7", 1)), "model was"},
		"5 MB":          {says(`{"tokens_input":` + strings.Repeat(" ", 5<<20) + "1}"), "more than 65536 bytes came"},
		"a large head": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 100<<10))
			_, _ = io.WriteString(w, good)
		}, "no answer came"},
		"an error": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, good, http.StatusServiceUnavailable) }, "status 503 came"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+other.Addr().String()+"/usage/status", http.StatusFound)
		}, "a redirect came (status 302)"},
		"a slow drip": {func(w http.ResponseWriter, r *http.Request) {
			drip := time.NewTicker(5 * time.Millisecond)
			defer drip.Stop()
			for _, c := range []byte(good) {
				_, _ = w.Write([]byte{c})
				_ = http.NewResponseController(w).Flush()
				select {
				case <-drip.C:
				case <-r.Context().Done():
					return
				}
			}
		}, "no answer came within 200ms"},
		"silence": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-gone:
			}
		}, "no answer came within 200ms"},
		"a closed connection": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "no answer came"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, root := workspace(t)
			serve(t, filepath.Join(dir, "s"), c.h)
			e := &endpoint{root: root, socket: "s", patience: patience}
			if strings.Contains(c.want, "200ms") {
				e.patience = 200 * time.Millisecond
			}
			got, err := ask(t.Context(), e)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v, %v; want an error with %q", got, err, c.want)
			}
		})
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests went where the redirect pointed", n)
	}
}

// Nothing is taken for the service but a socket of the workspace's owner: what
// stands there was made in the sandbox.
func TestOnlyTheServicesSocketIsConnectedTo(t *testing.T) {
	t.Parallel()
	dir, root := workspace(t)
	outside, _ := workspace(t)
	var asked atomic.Int64
	serve(t, filepath.Join(outside, "s"), func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, good)
	})
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(filepath.Join(outside, "s"), "link")
	link(outside, "folder")
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(good), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	serve(t, filepath.Join(dir, "in"), says(good))
	link("in", "in-link")
	for name, want := range map[string]string{
		"link": "no socket", "in-link": "no socket", "folder/s": "escapes", "file": "no socket", "fifo": "no socket", "none": "no such file", "../s": "escapes",
	} {
		e := &endpoint{root: root, socket: name, patience: patience}
		if got, err := ask(t.Context(), e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %+v, %v; want an error with %q", name, got, err, want)
		}
		if err := e.ready(t.Context(), ""); err == nil {
			t.Errorf("%s is ready", name)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the socket outside was asked %d times", n)
	}
	in := &endpoint{root: root, socket: "in", patience: patience}
	if err := in.ready(t.Context(), ""); err != nil {
		t.Errorf("a socket of the workspace is not ready: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Log("whose a socket is cannot be changed without root")
		return
	}
	if err := os.Chown(filepath.Join(dir, "in"), 61234, 61234); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t.Context(), in); err == nil || !strings.Contains(err.Error(), "belongs to user 61234") {
		t.Errorf("another user's socket gives %v", err)
	}
	if err := os.Lchown(dir, 61234, 61234); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t.Context(), in); err != nil {
		t.Errorf("a socket of the workspace's owner gives %v", err)
	}
}

// A port is that of this machine.
func TestAPortIsAsked(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen(t, l, says(good))
	e := &endpoint{port: l.Addr().(*net.TCPAddr).Port, patience: patience}
	if got, err := ask(t.Context(), e); err != nil || got.tokens.Input != 111 {
		t.Errorf("got %+v, %v", got, err)
	}
	if s := fmt.Sprint(e); !strings.Contains(s, "127.0.0.1") {
		t.Errorf("shown as %q", s)
	}
}
