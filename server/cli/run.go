package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// RunCommand starts a run at a server and watches it.
type RunCommand struct {
	Connection `embed:""`
	RunFlags   `embed:""`

	Detach bool `help:"Print the run's id and leave it to the server."`
	Raw    bool `help:"On a terminal, too, show the lines of metrics and media as they were printed."`

	Program []string `arg:"" optional:"" passthrough:"" help:"A Python file, or a command and its arguments."`
}

// errDetached is the cause of the second Ctrl-C's end.
var errDetached = errors.New("detached")

// Run implements the command: it starts the run and, unless it is to be left
// alone, watches it to its end. The first Ctrl-C aborts the run, the second one
// leaves it to the server.
func (r *RunCommand) Run(ctx context.Context, i *IO) error {
	in, err := r.Input(r.Program, i.Getenv)
	if err != nil {
		return err
	}
	i.Raw = r.Raw
	warning, err := r.travels(r.Program)
	if err != nil {
		return err
	}
	if warning != "" {
		i.Notice("warning: " + warning)
	}
	c, err := r.client(i)
	if err != nil {
		return err
	}
	defer c.Close()
	if r.Again != "" {
		if in, err = repeat(ctx, c, r.Again, in); err != nil {
			return err
		}
	}
	if r.Title != "" && r.Session == "" {
		in["title"] = r.Title
	}
	started, err := start(ctx, c, in)
	if err != nil {
		return err
	}
	if r.Detach {
		if r.JSON {
			return i.jsonLine(started.Raw)
		}
		i.Notice("started; watch it at " + c.PageURL(started.Session.ID))
		return i.print("%s\n", started.ID)
	}
	i.Notice(fmt.Sprintf("run %s at %s", started.ID, c.PageURL(started.Session.ID)))
	return Attend(ctx, c, started.ID, i, Attention{JSON: r.JSON})
}

// Attention is how a run is watched to its end.
type Attention struct {
	JSON bool
	// Again is what a second Ctrl-C does, while the end is still waited for; nil:
	// it leaves the abort to the server.
	Again func()
	// Unwritten is how long the end is waited for after Again, which may not be
	// possible to write; 0: for ever.
	Unwritten time.Duration
	// Ended is told the outcome, after everything was shown.
	Ended func(Outcome)
	// Signals act as the first Ctrl-C does, beside those that always do.
	Signals []os.Signal
}

// reasonOf is what an abort says for a signal.
func reasonOf(s os.Signal) string {
	if s == os.Interrupt {
		return ctrlC
	}
	return "at the command line: " + s.String()
}

const ctrlC = "Ctrl-C at the command line"

func (a Attention) promise() string {
	if a.Again != nil {
		return "Ctrl-C again kills it at once"
	}
	return "Ctrl-C again leaves that to the server"
}

// start sends the input, again if the answer got lost: by its key the server
// knows that it is the same run.
func start(ctx context.Context, c *Client, in map[string]any) (*Run, error) {
	in["idempotencyKey"] = key()
	for attempt := 0; ; attempt++ {
		r, err := c.Start(ctx, in)
		var dns *net.DNSError
		switch {
		case err == nil:
			return r, nil
		case run.CodeOf(err) != run.Unavailable, attempt == 5, errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, errNoAnswer), errors.As(err, &dns):
			return nil, err
		}
		if err := pause(ctx, attempt); err != nil {
			return nil, err
		}
	}
}

// Attend watches a run to its end. A first Ctrl-C, which is also the end of ctx,
// aborts it and prints the receipt; a second one leaves it to the server. The
// error carries the exit code of the outcome.
func Attend(ctx context.Context, c *Client, id string, i *IO, a Attention) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, append([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT}, a.Signals...)...)
	defer signal.Stop(signals)

	view := i.view(a.JSON, false)
	defer view.close()
	view.failing = func(err error) { // it would be said at the end only, hours later
		if !errors.Is(err, syscall.EPIPE) { // the reader went, which is an end
			i.Notice(fmt.Sprintf("writing the output: %v: the rest of it is not shown here; the run goes on", err))
		}
	}
	wctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(errDetached)

	type end struct {
		Outcome
		err error
	}
	watched := make(chan end, 1)
	wg.Go(func() {
		o, err := Watch(wctx, c, id, view)
		watched <- end{o, err}
	})
	finish := func(e end) error {
		view.close()
		if e.err == nil && a.Ended != nil {
			a.Ended(e.Outcome)
		}
		switch {
		case e.err != nil:
			return fmt.Errorf("%w; weir tail %s --after %d goes on watching", e.err, id, e.LastSeq)
		case view.failed() != nil:
			return fmt.Errorf("writing the output: %w", view.failed())
		case e.Code() != CodeDone:
			return &ExitError{Code: e.Code()}
		}
		return nil
	}

	reason := ctrlC
	select {
	case e := <-watched:
		return finish(e)
	case why := <-signals:
		reason = reasonOf(why)
	case <-ctx.Done(): // the same Ctrl-C, seen by the caller
		select {
		case why := <-signals:
			reason = reasonOf(why)
		case <-time.After(50 * time.Millisecond):
		}
	}
	i.Notice("aborting " + id + "; " + a.promise())
	aborted := make(chan error, 1)
	wg.Go(func() {
		var r *Receipt
		err := c.patiently(wctx, func() (err error) {
			r, err = c.Abort(wctx, AbortOrder{Run: id, Wait: true, Reason: reason})
			return err
		})
		if err == nil {
			i.Notice("abort: " + strings.TrimRight(r.text(), "\n"))
		}
		aborted <- err
	})
	var last *end
	var receipt bool
	var unwritten <-chan time.Time
	for last == nil || !receipt {
		select {
		case e := <-watched:
			last = &e
		case err := <-aborted:
			if err != nil {
				return err
			}
			receipt = true
		case again := <-signals:
			if slices.Contains(a.Signals, again) {
				continue // it may come more than once
			}
			if a.Again != nil {
				a.Again()
				if a.Unwritten > 0 && unwritten == nil {
					unwritten = time.After(a.Unwritten)
				}
				continue
			}
			i.Notice("left alone; the abort goes on. weir show " + id + " tells how it ended")
			return &ExitError{Code: CodeAborted}
		case <-unwritten:
			i.Notice("the end of " + id + " could not be written: it will be listed as LOST")
			return &ExitError{Code: CodeAborted}
		}
	}
	return finish(*last)
}
