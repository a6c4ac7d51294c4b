package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/weirhq/weir/examples"
	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/server/config"
	"github.com/weirhq/weir/server/supervise"
)

const demoListen = "127.0.0.1:8080"

// demoCommand serves from a temporary folder and starts the shipped examples.
type demoCommand struct {
	Listen string `help:"Loopback address; the default takes a free port when 8080 is taken." default:"127.0.0.1:8080" setting:"WEIR_LISTEN" placeholder:"HOST:PORT"`
	Data   string `help:"Keep the data in this folder instead of a temporary one." placeholder:"DIR"`

	ExitAfterRuns bool `help:"End when the examples have ended."`
	Verbose       bool `short:"v" help:"Log more than warnings."`
}

// Run implements the command.
func (d *demoCommand) Run(c *call) (err error) {
	cfg := config.Serve{
		Listen: d.Listen, Data: d.Data, Concurrency: 8,
	}
	if cfg.Data == "" {
		dir, err := temporaryData()
		if err != nil {
			return err
		}
		cfg.Data = dir
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	if err := cfg.Check(func(string) string { return "" }); err != nil {
		return err
	}
	cfg.Python = c.getenv("WEIR_PYTHON") // or none: findPython decides
	level := slog.LevelWarn
	if d.Verbose {
		level = slog.LevelInfo
	}
	log := logger(c.streams, level, "text")
	agents, err := exampleAgents(c.ctx, &cfg)
	if err != nil {
		return err
	}
	l, err := d.listen(c.ctx)
	if err != nil {
		return err
	}
	srv, err := build(c.ctx, options{cfg: cfg, agents: agents, listener: l, log: log, examplesOnly: true, getenv: c.getenv})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	ctx, stop := context.WithCancelCause(c.ctx)
	defer stop(nil)
	show := supervise.Service{Name: "demo", Run: func(ctx context.Context) error {
		if err := srv.startExamples(ctx, c.stdout, d.ExitAfterRuns); err != nil {
			return err
		}
		if d.ExitAfterRuns {
			stop(errors.New("the examples have ended"))
		}
		<-ctx.Done()
		return nil
	}}
	err = supervise.Run(ctx, log, append(srv.services(), show)...)
	return errors.Join(err, srv.close())
}

// listen falls back to a free port, unless an address was asked for.
func (d *demoCommand) listen(ctx context.Context) (net.Listener, error) {
	l, err := listen(ctx, d.Listen)
	if err != nil && d.Listen == demoListen {
		return listen(ctx, "127.0.0.1:0")
	}
	return l, err
}

// temporaryData makes a folder that a sandbox of another user can walk through.
func temporaryData() (string, error) {
	dir, err := os.MkdirTemp("", "weir-demo-")
	if err != nil {
		return "", fmt.Errorf("making a temporary data folder: %w; name one with --data", err)
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // to be walked through, not listed
		return "", errors.Join(fmt.Errorf("opening up the temporary data folder: %w", err), os.RemoveAll(dir))
	}
	return dir, nil
}

// The example scripts as agents.
const (
	irisAgent  = "iris"
	mediaAgent = "media"
)

// exampleAgents are the shipped agents, and the Iris script in Python or, where
// there is no Python, in awk; the one that logs media needs Python.
func exampleAgents(ctx context.Context, cfg *config.Serve) (*agent.Set, error) {
	set, err := agent.Load(examples.Agents())
	if err != nil {
		return nil, err
	}
	train := "train"
	iris := agent.Definition{
		Name: irisAgent, Role: "Trains a classifier on Fisher's flowers", Driver: agent.DriverScript, Stage: &train,
	}
	var defs []agent.Definition
	if cfg.Python = findPython(ctx, cfg.Python); cfg.Python != "" {
		iris.Code = examples.IrisPython
		show := "show"
		defs = append(defs, agent.Definition{
			Name: mediaAgent, Role: "Logs one of each kind of media", Driver: agent.DriverScript, Stage: &show, Code: examples.MediaPython,
		})
	} else {
		iris.Files = map[string]string{"iris.awk": examples.IrisAwk}
		iris.Command = []string{"awk", "-f", "iris.awk"}
	}
	for _, d := range set.List() {
		if d.Name != agent.Builtin {
			defs = append(defs, d)
		}
	}
	return agent.NewSet(append(defs, iris)...), nil
}

// findPython gives a Python that really starts, or "".
func findPython(ctx context.Context, wanted string) string {
	candidates := []string{"/usr/bin/python3", "/usr/local/bin/python3"}
	switch wanted {
	case "":
	case "none":
		return ""
	default:
		candidates = []string{wanted}
	}
	for _, path := range candidates {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := exec.CommandContext(ctx, path, "-c", "import json, math").Run()
		cancel()
		if err == nil {
			return path
		}
	}
	return ""
}

// example is a run of the demo.
type example struct{ title, agent, prompt string }

func shipped() []example {
	return []example{
		{"Iris: logistic regression, two learning rates", irisAgent, ""},
		{"Images, tables and other media", mediaAgent, ""},
		{"A research team at work", "researcher", "which petal measurement tells the Iris species apart"},
	}
}

// startExamples starts the examples, prints where to look and, if asked, waits
// until all have ended.
func (s *server) startExamples(ctx context.Context, out io.Writer, wait bool) error {
	select {
	case <-s.engine.Ready():
	case <-ctx.Done():
		return nil
	}
	var runs []run.Run
	fmt.Fprintf(out, "Weir is at     %s\n", s.url())
	for _, e := range shipped() {
		if e.agent == mediaAgent && s.cfg.Python == "" {
			continue
		}
		session, err := s.engine.CreateSession(ctx, e.title)
		if err != nil {
			return fmt.Errorf("starting the example %q: %w", e.title, err)
		}
		r, err := s.engine.Start(ctx, run.StartRequest{
			Session: session.ID, Input: run.Input{Agent: e.agent, Prompt: e.prompt},
		})
		if err != nil {
			return fmt.Errorf("starting the example %q: %w", e.title, err)
		}
		runs = append(runs, r)
		fmt.Fprintf(out, "               %s/?session=%s  %s\n", s.url(), session.ID, e.title)
	}
	fmt.Fprintf(out, "Playground     %s/playground\n", s.url())
	for _, b := range s.sandboxes.found {
		if b.Isolation != "" {
			fmt.Fprintf(out, "No sandbox     the examples run as plain processes, and nothing else can be started.\n               %s\n", b.Reason)
		} else if b.Reason != "" {
			fmt.Fprintf(out, "Sandbox        %s: %s\n", b.Backend, b.Reason)
		}
	}
	fmt.Fprintf(out, "Ctrl-C ends it. The data is in %s\n", s.cfg.Data)
	if !wait {
		return nil
	}
	return s.awaitEnd(ctx, runs)
}

// awaitEnd waits until all runs have ended, and fails when one did not end well.
func (s *server) awaitEnd(ctx context.Context, runs []run.Run) error {
	var errs []error
	for _, r := range runs {
		// A session's RunEnded of the root run is its last word.
		end := errors.New("ended")
		err := s.stream.Follow(ctx, r.Session, 0, run.EventFilter{Types: []run.EventType{run.TypeRunEnded}, Run: r.ID},
			func([]*run.Event) error { return end })
		if !errors.Is(err, end) {
			return nil // the demo is being stopped
		}
		last, err := s.store.Run(ctx, r.ID)
		if err != nil {
			return fmt.Errorf("reading the example's end: %w", err)
		}
		if last.State.Status != run.Done {
			errs = append(errs, fmt.Errorf("the example %s ended as %s: %s", r.Agent, last.State.Status, last.Error))
		}
	}
	return errors.Join(errs...)
}
