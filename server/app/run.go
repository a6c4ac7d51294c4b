package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox/local"
	"github.com/weirhq/weir/server/cli"
	"github.com/weirhq/weir/server/config"
	"github.com/weirhq/weir/server/supervise"
)

// runCommand runs a command in the current folder without a server, or one at a
// server.
type runCommand struct {
	cli.RunCommand `embed:""`

	Mount   []string `help:"File or folder that the command may read, at its own path. Repeatable. Without a server only." sep:"none" placeholder:"PATH"`
	NoChart bool     `help:"Plain lines, without what is redrawn below them."`
	Agents  string   `help:"Folder of agent definitions for --agent, without a server." setting:"WEIR_AGENTS" section:"serve" placeholder:"DIR"`
	Data    string   `help:"Folder that keeps what ran, without a server." default:"${data}" setting:"WEIR_DATA" section:"serve" placeholder:"DIR"`
}

// Run implements the command.
func (r *runCommand) Run(c *call, i *cli.IO) error {
	if !r.NoChart && !r.JSON {
		i.NewView = cli.NewLiveView
	}
	if r.Server != "" {
		if len(r.Mount) > 0 {
			return cli.UsageError(fmt.Errorf("--mount %s names a path of this machine, which no server takes; leave --server out (or WEIR_SERVER, now %s) to run it here", r.Mount[0], r.Server))
		}
		return r.RunCommand.Run(c.ctx, i)
	}
	i.Raw = r.Raw
	if r.Detach {
		return cli.UsageError(errors.New("--detach needs a server that goes on with the run: start one with weir serve, and name it with --server"))
	}
	TuneGC(c.getenv)
	data, err := filepath.Abs(r.Data)
	if err != nil {
		return cli.UsageError(fmt.Errorf("--data %q: %w", r.Data, err))
	}
	e := &embedded{runCommand: r, call: c, io: i, data: data, outages: make(chan outage, 1)}
	if err := e.prepare(); err != nil {
		return err
	}
	return e.run()
}

// embedded is one command that runs in a server of its own.
type embedded struct {
	*runCommand
	*call
	io   *cli.IO
	data string

	input run.Input
	typed *typed
	notes []string
	srv   *server

	outages chan outage // the newest word of the store
}

// outage tells why nothing can be kept; nil: it can be again.
type outage struct{ cause error }

// run makes the server, runs the command in it and stops it. The user's signals
// end the run, not the server: it has the end to write down.
func (e *embedded) run() (err error) {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(e.ctx))
	defer stop(nil)
	log := slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	agents, err := loadAgents(e.Agents, slog.New(slog.DiscardHandler))
	if err != nil {
		return cli.UsageError(err)
	}
	if err := e.build(ctx, agents, log); err != nil {
		return err
	}
	var outcome error
	attend := supervise.Service{Name: "run", Run: func(ctx context.Context) error {
		outcome = e.attend(ctx)
		stop(errRunEnded)
		<-ctx.Done()
		return nil
	}}
	err = supervise.Run(ctx, log, append(e.srv.services(), attend)...)
	err = errors.Join(err, e.srv.close())
	if err == nil {
		return outcome
	}
	if outcome != nil {
		e.io.Notice(err.Error())
		return outcome
	}
	return err
}

var errRunEnded = errors.New("the run has ended")

// build takes the first data folder that no other weir has.
func (e *embedded) build(ctx context.Context, agents *agent.Set, log *slog.Logger) error {
	for _, dir := range slots(e.data) {
		cfg := config.Serve{Listen: "127.0.0.1:0", Data: dir, Concurrency: 8}
		if err := cfg.Check(func(string) string { return "" }); err != nil {
			return err
		}
		l, err := listen(ctx, cfg.Listen)
		if err != nil {
			return err
		}
		if e.srv, err = build(ctx, options{cfg: cfg, agents: agents, listener: l, log: log, typed: e.typed, outage: e.outaged}); err == nil {
			waiting, err := e.srv.hasWaiting(ctx)
			if err == nil && !waiting {
				return nil
			}
			if err = errors.Join(err, e.srv.close(), l.Close()); err != nil {
				return err
			}
			continue
		}
		err = errors.Join(err, l.Close())
		if !errors.Is(err, store.ErrInUse) {
			return err
		}
	}
	return errNoSlot
}

// hasWaiting tells whether a server has left runs that it will go on with. They
// are its own, with its own limits: they stay where they are.
func (s *server) hasWaiting(ctx context.Context) (bool, error) {
	page, err := s.store.Runs(ctx, run.RunFilter{Statuses: []run.Status{run.Queued, run.Waiting}}, run.PageQuery{First: 1})
	if err != nil {
		return false, fmt.Errorf("looking for runs that a server has left: %w", err)
	}
	return len(page.Nodes) > 0, nil
}

// attend starts the run and watches it to its end.
func (e *embedded) attend(ctx context.Context) error {
	select {
	case <-e.srv.engine.Ready():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, n := range e.notes {
		e.io.Notice(n)
	}
	var telling sync.WaitGroup
	defer telling.Wait()
	done := make(chan struct{})
	defer close(done)
	telling.Go(func() { e.tellOutages(done) })
	started, err := e.start(ctx)
	if run.CodeOf(err) == run.Invalid { // what was typed, and nothing was started
		return cli.UsageError(err)
	}
	if err != nil {
		return err
	}
	client, err := cli.NewClient(cli.Options{Server: e.srv.url(), Notice: e.io.Notice})
	if err != nil {
		return err
	}
	defer client.Close()
	e.io.Notice("run " + string(started.ID) + " at " + client.PageURL(string(started.Session)))
	if why := e.srv.sandboxes.unsandboxed; why != "" {
		e.io.Notice(local.Unsandboxed + ": " + why + " (weir doctor tells more)")
		e.io.KnownIsolation = true
	}
	return cli.Attend(e.ctx, client, string(started.ID), e.io, cli.Attention{
		JSON: e.JSON,
		Again: func() {
			e.io.Notice("killing " + string(started.ID))
			e.srv.engine.Hurry()
		},
		Unwritten: unwrittenEnd,
		Ended:     e.ended,
		Signals:   []os.Signal{syscall.SIGPIPE, syscall.SIGHUP}, // nobody reads what it prints any more
	})
}

// unwrittenEnd is how long a killed run's end is waited for.
const unwrittenEnd = 5 * time.Second

// outaged keeps the store's newest word for tellOutages; it never blocks.
func (e *embedded) outaged(cause error) {
	select {
	case <-e.outages:
	default:
	}
	e.outages <- outage{cause} // by one goroutine only, so there is room
}

// tellOutages says why a command seems to stand still, until done is closed.
func (e *embedded) tellOutages(done <-chan struct{}) {
	told := false
	for {
		select {
		case <-done:
			return
		case o := <-e.outages:
			switch {
			case o.cause != nil:
				e.io.Notice(fmt.Sprintf("nothing can be kept in %s any more (%v), so the command has to wait: free some space there, and it goes on; Ctrl-C aborts it", e.srv.cfg.Data, o.cause))
			case told:
				e.io.Notice("it can be kept again; the command goes on")
			}
			told = o.cause != nil
		}
	}
}

func (e *embedded) start(ctx context.Context) (run.Run, error) {
	q := run.StartRequest{Session: run.SessionID(e.Session), Input: e.input, OnBusy: run.OnBusy(strings.ToUpper(e.OnBusy))}
	if e.Session == "" {
		title := e.Title
		if title == "" && e.input.Prompt == "" {
			title = cli.ShellWords(e.input.Command)
		}
		if title != "" {
			if len(title) > maxTitle {
				title = strings.ToValidUTF8(title[:maxTitle], "") + "…"
			}
			q.Title = title // of a session that is made with the run, or not at all
		}
	}
	return e.srv.engine.Start(ctx, q)
}

const maxTitle = 120

// ended says in a few lines what came out, and where it can be looked at again.
func (e *embedded) ended(o cli.Outcome) {
	if e.JSON {
		return
	}
	for _, line := range cli.Summary(o) {
		e.io.Notice(line)
	}
	if hint := e.hint(o.Run); hint != "" {
		e.io.Notice("hint: " + hint)
	}
	again := "weir serve"
	if e.srv.cfg.Data != config.DefaultData(e.getenv) {
		again += " --data " + cli.ShellWords([]string{e.srv.cfg.Data})
	}
	e.io.Notice("look at it again with " + again + ", repeat it with weir run --again " + o.Run.ID)
}
