package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/graph"
	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/agent/llm"
	"github.com/weirhq/weir/runtime/agent/replay"
	"github.com/weirhq/weir/runtime/agent/script"
	"github.com/weirhq/weir/runtime/agent/service"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/meter/pricebook"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local"
	"github.com/weirhq/weir/runtime/stream"
	"github.com/weirhq/weir/server/cli"
	"github.com/weirhq/weir/server/config"
	"github.com/weirhq/weir/server/httpapi"
	"github.com/weirhq/weir/server/supervise"
	"github.com/weirhq/weir/web"
)

// What satisfies whose interface is said here, so that no implementation needs
// to know who uses it.
var (
	_ engine.Store    = (*store.Store)(nil)
	_ engine.Agents   = (*agent.Set)(nil)
	_ sandbox.Backend = (*local.Bubblewrap)(nil)
	_ sandbox.Backend = (*local.Plain)(nil)
	_ agent.Driver    = script.Driver{}
	_ agent.Driver    = replay.Driver{}
	_ stream.Source   = (*store.Store)(nil)
	_ store.Listener  = (*stream.Stream)(nil)
	_ graph.Runs      = (*engine.Engine)(nil)
	_ graph.Reader    = (*store.Store)(nil)
	_ graph.Feed      = (*stream.Stream)(nil)
	_ graph.Agents    = catalog{}
	_ graph.Server    = about{}
	_ run.Pricer      = (*pricebook.Live)(nil)
	_ httpapi.API     = (*graph.API)(nil)
)

// otherWriters is how often followed sessions are checked for events that
// another server wrote to the same PostgreSQL.
const otherWriters = time.Second

// options are what a server is built from.
type options struct {
	cfg      config.Serve
	agents   *agent.Set
	listener net.Listener
	log      *slog.Logger
	// examplesOnly allows plain processes where no sandbox works, and then
	// refuses every run that the API asks for.
	examplesOnly bool
	// typed is set for one command that its user typed; nothing else can be started.
	typed *typed
	// outage is given to the store; nil: the log is enough.
	outage func(cause error)
	getenv func(string) string // for the keys of providers
}

// rollupCheck leaves the daily check to servers: a typed command is over soon.
func (o *options) rollupCheck() time.Duration {
	if o.typed != nil {
		return -1
	}
	return 0
}

// snapshotKeep leaves old snapshots to servers, too.
func (o *options) snapshotKeep() time.Duration {
	if days := o.cfg.SnapshotKeepDays; days > 0 && o.typed == nil {
		return time.Duration(days) * 24 * time.Hour
	}
	return -1
}

// budgets leaves the operator's budgets to servers: a typed command has its own.
func (o *options) budgets() engine.Budgets {
	b := o.cfg.Budget
	if o.typed != nil {
		return engine.Budgets{}
	}
	return engine.Budgets{Run: b.Run, Session: b.Session, AgentDay: b.AgentDay, Day: b.Day}
}

// server is the built server.
type server struct {
	options
	store     *store.Store
	stream    *stream.Stream
	sandboxes *sandboxes
	engine    *engine.Engine
	http      *httpapi.Server
	replica   string
	prices    *pricebook.Live
	models    *llm.Driver
}

// build opens and connects the layers. Nothing works yet: that is for the
// services. An error leaves nothing open but the listener.
func build(ctx context.Context, o options) (_ *server, err error) {
	s := &server{options: o}
	var probing sync.WaitGroup
	defer func() {
		if err != nil {
			probing.Wait()
			err = errors.Join(err, s.close())
		}
	}()
	if o.typed == nil && !o.examplesOnly && !o.cfg.AllowUnsandboxed {
		if p := local.ClosedAbove(o.cfg.Data); p != nil && makesData(o.cfg) {
			return nil, fmt.Errorf("--data %s: %w", o.cfg.Data, p)
		}
	}
	if s.prices, err = pricebook.Open(o.cfg.Prices, o.log); err != nil {
		return nil, cli.UsageError(fmt.Errorf("--prices: %w", err))
	}
	if err := makeData(o.cfg.Data); err != nil {
		return nil, err
	}
	// Trying the sandbox takes as long as all the rest: it is done beside it.
	probing.Go(func() { s.sandboxes = openSandboxes(ctx, o) })
	probing.Go(func() { s.prices.Book() })
	if s.store, err = store.Open(ctx, store.Options{Path: o.cfg.Data, URL: o.cfg.DB, Pricer: s.prices, NoWait: o.typed != nil, Logger: o.log, Outage: o.outage}); err != nil {
		return nil, err
	}
	if s.replica, err = replica(o.cfg.Data); err != nil {
		return nil, err
	}
	var so stream.Options
	if s.store.Dialect() == "postgres" {
		so.Poll = otherWriters
	}
	so.Logger = o.log
	s.stream = stream.New(s.store, so)
	s.store.Listen(s.stream)

	probing.Wait()
	for _, st := range s.sandboxes.found {
		if st.Problem != nil && st.Problem.Misplaced {
			return nil, fmt.Errorf("--data %s: %w", o.cfg.Data, st.Problem)
		}
	}
	if s.sandboxes.work() { // else plain processes use it, or nothing does
		err := o.cfg.SandboxPython()
		if err != nil && !o.examplesOnly {
			return nil, err
		}
		if err != nil { // it came from the environment, which may be meant for other commands
			o.log.Warn("The examples run with the python3 of this machine's /usr, not with WEIR_PYTHON: " + strings.TrimPrefix(err.Error(), "--python "))
		}
	}
	s.models = llm.New(llm.Options{Open: openModel, Getenv: o.getenv})
	s.engine, err = engine.New(engine.Options{
		Store:  s.store,
		Agents: o.agents,
		Drivers: map[string]agent.Driver{
			agent.DriverScript:  script.New(),
			agent.DriverReplay:  replay.New(),
			agent.DriverService: service.New(service.Files{}),
			agent.DriverLLM:     s.models,
		},
		Backends:    s.sandboxes.backends,
		Policy:      s.sandboxes.policy,
		Places:      o.typed != nil,
		DataDir:     o.cfg.Data,
		Replica:     s.replica,
		Concurrency: o.cfg.Concurrency,
		Drain:       o.cfg.StopTimeout,

		Budgets: o.budgets(),
		Pricer:  s.prices,

		SnapshotInterval: o.cfg.SnapshotInterval,
		SnapshotKeep:     o.snapshotKeep(),
		RollupInterval:   o.cfg.RollupInterval,
		RollupCheck:      o.rollupCheck(),
		Logger:           o.log,
	})
	if err != nil {
		return nil, fmt.Errorf("making the engine: %w", err)
	}
	var runs graph.Runs = s.engine
	switch {
	case o.typed != nil:
		runs = keepAll{watchOnly{s.engine, errTypedOnly}}
	case s.sandboxes.examplesOnly:
		runs = watchOnly{s.engine, errExamplesOnly}
	}
	api := graph.New(graph.Options{
		Runs: runs, Reader: s.store, Feed: s.stream, Agents: catalog{o.agents}, Log: o.log,
		Server: about{replica: s.replica, store: s.store.Dialect(), sandboxes: s.sandboxes.found, prices: s.prices},
	})
	s.http, err = httpapi.New(httpapi.Options{
		API: api, Output: s.engine.OpenOutput, Watch: graph.Watch, Resume: graph.Resume, Log: o.log, Token: o.cfg.Token, Hosts: o.cfg.AllowHosts, Origins: o.cfg.AllowOrigins,
		Page: web.Dist(), Ready: s.ready, Recovered: s.engine.Ready(),
	})
	if err != nil {
		return nil, fmt.Errorf("making the HTTP front: %w", err)
	}
	return s, nil
}

// services are the layers above the store, in the order of their start.
func (s *server) services() []supervise.Service {
	return []supervise.Service{
		{Name: "prices", Run: s.prices.Run},
		{Name: "stream", Run: s.stream.Run},
		{Name: "engine", Run: s.engine.Run},
		{Name: "http", Run: func(ctx context.Context) error { return s.http.Serve(ctx, s.listener) }},
	}
}

// ready says whether runs can be taken: an earlier server's runs are dealt with
// and the database answers.
func (s *server) ready(ctx context.Context) error {
	select {
	case <-s.engine.Ready():
	default:
		return errors.New("still dealing with the runs that an earlier server left open")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := s.store.Ping(ctx); err != nil {
		s.log.WarnContext(ctx, "the database does not answer", "error", err)
		return errors.New("the database does not answer")
	}
	return nil
}

// close closes what has no service of its own: last the store.
func (s *server) close() error {
	var errs []error
	if s.models != nil {
		s.models.Close()
	}
	if s.sandboxes != nil {
		errs = append(errs, s.sandboxes.close())
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return errors.Join(errs...)
}

// announce says what was found and where the server is.
func (s *server) announce() {
	s.log.Info("weir "+Version(), "data", s.cfg.Data, "store", s.store.Dialect(), "replica", s.replica)
	s.log.Info("agents", "usable", len(s.agents.List()), "problems", len(s.agents.Problems()), "folder", s.cfg.Agents)
	book := s.prices.Book().Summary()
	s.log.Info("prices", "models", book.Models, "newest", book.Newest, "file", s.cfg.Prices)
	for _, b := range s.sandboxes.found {
		switch {
		case !b.Available:
			s.log.Warn("sandbox not available", "backend", b.Backend, "reason", b.Reason)
		case b.Isolation != "":
			s.log.Warn("commands run as plain processes, without a sandbox: they can do all that this user can",
				"backend", b.Backend, "isolation", b.Isolation)
		default:
			s.log.Info("sandbox works", "backend", b.Backend, "note", b.Reason)
		}
	}
	if s.cfg.Token == "" {
		s.log.Warn("no token is set: every user of this machine can use this server and so act as you; set WEIR_TOKEN to change that")
	}
	s.log.Info("listening", "url", s.url())
}

// url is where the page is.
func (s *server) url() string { return "http://" + s.listener.Addr().String() }
