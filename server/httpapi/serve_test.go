package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
)

func TestHealthAndReadiness(t *testing.T) {
	t.Parallel()
	var notReady error
	b := setup(t, func(o *Options) { o.Ready = func(context.Context) error { return notReady } })
	if a := b.ask(t, http.MethodGet, "/readyz", ""); a.status != 200 || a.body != "ready\n" {
		t.Errorf("%d %q", a.status, a.body)
	}
	notReady = errors.New("the database is locked")
	if a := b.ask(t, http.MethodGet, "/readyz", ""); a.status != 503 || !strings.Contains(a.body, "locked") {
		t.Errorf("%d %q", a.status, a.body)
	}
	if a := b.ask(t, http.MethodGet, "/healthz", ""); a.status != 200 {
		t.Errorf("a server that is not ready is alive: %d", a.status)
	}
}

// Until the runs of an earlier server have their ends, the API would show them as
// live: its requests wait for that, but not for ever.
func TestRequestsWaitForRecovery(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]func(recovered chan struct{}){
		"recovered":  func(recovered chan struct{}) { close(recovered) },
		"it is late": func(chan struct{}) { time.Sleep(RecoveryWait) },
	} {
		synctest.Test(t, func(t *testing.T) {
			recovered := make(chan struct{})
			s := Server{o: Options{Recovered: recovered}}
			var answered atomic.Bool
			h := s.recovered(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { answered.Store(true) }))
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/graphql", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			go h.ServeHTTP(nil, r)
			time.Sleep(RecoveryWait - time.Millisecond)
			synctest.Wait()
			if answered.Load() {
				t.Errorf("%s: a request was answered before", name)
			}
			step(recovered)
			synctest.Wait()
			if !answered.Load() {
				t.Errorf("%s: the request still waits", name)
			}
		})
	}
}

// At shutdown a request in flight is answered, a WebSocket is told to come back,
// and nothing new is let in.
func TestShutdownIsOrdered(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.hold = make(chan struct{})
	answered := make(chan answer, 1)
	go func() { answered <- b.post(t, `mutation{createSession(input:{title:"slow"}){title}}`) }()
	<-b.started
	c, _, err := b.dial(t, nil) //nolint:bodyclose // Dial closes it
	if err != nil {
		t.Fatal(err)
	}
	send(t, c, `{"type":"connection_init"}`)
	send(t, c, `{"id":"1","type":"subscribe","payload":{"query":"subscription{events(sessionId:\"`+session+`\"){seq}}"}}`)
	for range 2 {
		if _, err := read(t, c); err != nil {
			t.Fatal(err)
		}
	}

	stopped := make(chan error, 1)
	go func() { stopped <- b.stop() }()
	if got, err := read(t, c); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("the WebSocket sees %s, %v; want 1012", got, err)
	}
	if !b.server.draining.Load() {
		t.Error("a stopping server calls itself ready")
	}
	if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", b.addr); err == nil {
		_ = conn.Close()
		t.Error("a stopping server accepts")
	}
	select {
	case err := <-stopped:
		t.Fatalf("Serve returned before its request was answered: %v", err)
	default:
	}
	close(b.hold)
	if a := <-answered; a.status != 200 || !strings.Contains(a.body, "slow") {
		t.Errorf("the request in flight got %d %s", a.status, a.body)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A request that does not end is cut off after the limit.
func TestShutdownIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.ShutdownTimeout = 50 * time.Millisecond })
	b.hold = make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+b.addr+"/graphql",
			strings.NewReader(`{"query":"mutation{createSession(input:{title:\"x\"}){id}}"}`))
		if err != nil {
			failed <- err
			return
		}
		req.Header.Set("Content-Type", "application/json")
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	<-b.started
	start := time.Now()
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	t.Log("the request ended with", <-failed) // cut off, or told that the server stops
}

func TestServeReportsAListenerThatFails(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	s, err := New(b.server.o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("got %v", err)
	}
}
