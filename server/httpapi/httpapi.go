// Package httpapi is Weir's HTTP front: the GraphQL transports, the page, health
// and metrics, behind one guard.
//
// Guarantees:
//   - The guard sees every request first: foreign hosts and origins, proxied
//     requests without a token and, where a token is configured, requests
//     without it never reach the API.
//   - What the API refuses it refuses as JSON with extensions.code and a remedy,
//     and never echoes a request's body.
//   - Serve returns when every connection and every goroutine of a request has
//     ended; WebSocket clients are told to come back (1012) before, and event
//     streams break off.
//   - Event streams and WebSockets stand under the same limits: WebSocket in
//     Options holds them for both.
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/server/operation"
	"github.com/weirhq/weir/server/ws"
)

// API is the executable GraphQL API. Wait returns when the goroutines of its
// subscriptions have ended.
type API interface {
	Executor() graphql.GraphExecutor
	Wait()
}

// OpenOutput opens the raw output of an execution. Errors for the user are *run.Error.
type OpenOutput func(ctx context.Context, id run.ExecutionID, s run.OutputStream) (*os.File, error)

// Options says what is served, and to whom.
type Options struct {
	API API
	// Output is asked for downloads of raw output; nil: there are none.
	Output OpenOutput
	// Watch is given to the WebSocket transport: see ws.Options.
	Watch func(ctx context.Context) (context.Context, func() error)
	// Resume lets a subscription start after the id that an event stream's client
	// saw last; what it gives is called once for each response and tells the
	// response's id, 0 for none. Nil: no ids.
	Resume func(ctx context.Context, seq int64) (context.Context, func() int64)
	Log    *slog.Logger

	// Token is the bearer token that the API asks for; "" asks for none, which
	// is only safe on a loopback address. The page's files never need it.
	Token string
	// Hosts are names under which the server may be called, beside loopback names
	// and the address that a connection arrived at. No port: any is fine.
	Hosts []string
	// Origins are foreign origins that may call the API, for example
	// https://dash.example.com.
	Origins []string

	// Page holds the built page (index.html, playground.html, assets/); nil: none.
	Page fs.FS
	// Ready says whether the server can do its work; nil: always. A draining
	// server is never ready.
	Ready func(ctx context.Context) error
	// Recovered is closed once the runs of an earlier server have got their ends;
	// nil: there are none. Before that the API would show them as live, so its
	// requests wait, but no longer than RecoveryWait.
	Recovered <-chan struct{}

	WebSocket       ws.Options    // Exec, Log, Init, Watch and Gate are set here
	ShutdownTimeout time.Duration // for requests in flight; 5 s
}

// MaxBody is the largest request body, in bytes.
const MaxBody = 2 << 20

// RecoveryWait is how long a request waits for Options.Recovered.
const RecoveryWait = 3 * time.Second

// Server is the front. It is an http.Handler; Serve serves it.
type Server struct {
	o        Options
	guard    guard
	handler  http.Handler
	ws       *ws.Server
	streams  *streams
	draining atomic.Bool
}

// New makes the front.
func New(o Options) (*Server, error) {
	if o.ShutdownTimeout == 0 {
		o.ShutdownTimeout = 5 * time.Second
	}
	if o.Resume == nil {
		o.Resume = func(ctx context.Context, _ int64) (context.Context, func() int64) {
			return ctx, func() int64 { return 0 }
		}
	}
	g, err := newGuard(o.Token, o.Hosts, o.Origins)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, guard: g}
	o.WebSocket.Exec, o.WebSocket.Log = o.API.Executor(), o.Log
	o.WebSocket.Init, o.WebSocket.Watch = g.admitSocket, o.Watch
	s.ws = ws.New(o.WebSocket)
	runner := operation.Runner{Exec: o.API.Executor(), Log: o.Log, Watch: o.Watch}
	s.streams = newStreams(runner, o.Resume, s.ws.Options())

	mux := http.NewServeMux()
	mux.Handle("/graphql", g.api(s.recovered(&graphQL{runner: runner, socket: s.ws, streams: s.streams}), true))
	mux.Handle("GET /metrics", g.api(s.metrics(), false))
	if o.Output != nil {
		mux.Handle("GET /executions/{id}/{stream}", g.api(&outputs{open: o.Output, log: o.Log}, false))
	}
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /readyz", s.ready)
	page, err := newPage(o.Page)
	if err != nil {
		return nil, err
	}
	mux.Handle("/", page)
	s.handler = g.everyone(mux)
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve answers requests on l until ctx ends. Then it stops accepting, lets
// requests in flight end within ShutdownTimeout, sends WebSocket clients away,
// and waits for all of them.
//
// It refuses a listener that other machines can reach unless there is a token.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if err := s.guard.mayServe(l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	// Requests keep their context when ctx ends: they may finish.
	base, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	srv := &http.Server{
		Handler:           s,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second, // of a whole request; not of a WebSocket or a stream
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	var serving sync.WaitGroup
	serving.Go(func() { failed <- srv.Serve(l) })

	var err error
	select {
	case err = <-failed:
		err = fmt.Errorf("serving HTTP on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}

	s.draining.Store(true)
	var sockets sync.WaitGroup
	s.streams.shutdown()
	sockets.Go(s.ws.Shutdown)
	limit, stop := context.WithTimeout(base, s.o.ShutdownTimeout)
	defer stop()
	if e := srv.Shutdown(limit); e != nil {
		s.o.Log.Warn("requests were still in flight at shutdown and are cut off", "after", s.o.ShutdownTimeout)
		cut(errors.New("the server is shutting down"))
		_ = srv.Close()
	}
	serving.Wait()
	sockets.Wait()
	s.o.API.Wait()
	return err
}

// recovered lets requests wait for Options.Recovered.
func (s *Server) recovered(next http.Handler) http.Handler {
	if s.o.Recovered == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-s.o.Recovered:
		default:
			limit := time.NewTimer(RecoveryWait)
			defer limit.Stop()
			select {
			case <-s.o.Recovered:
			case <-limit.C:
			case <-r.Context().Done():
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	writePlain(w, http.StatusOK, "ok\n")
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() {
		writePlain(w, http.StatusServiceUnavailable, "shutting down\n")
		return
	}
	if s.o.Ready != nil {
		if err := s.o.Ready(r.Context()); err != nil {
			writePlain(w, http.StatusServiceUnavailable, err.Error()+"\n")
			return
		}
	}
	writePlain(w, http.StatusOK, "ready\n")
}

func writePlain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}
