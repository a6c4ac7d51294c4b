// Package script is the driver of plain commands: it runs the code or the
// command of the request (or else of the definition) once in the run's sandbox.
//
// Exit code 0 is success, the execution's own timeout is the run's timeout, and
// every other end is an error that says how the command ended and what it last
// printed.
package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// Driver runs scripts.
type Driver struct{}

// New makes the driver.
func New() Driver { return Driver{} }

// Name implements agent.Driver.
func (Driver) Name() string { return agent.DriverScript }

// Run implements agent.Driver.
func (Driver) Run(ctx context.Context, t agent.Task, h agent.Host) (string, error) {
	e := agent.Exec{Code: t.Run.Input.Code, Command: t.Run.Input.Command}
	if e.Code == "" && len(e.Command) == 0 {
		e.Code, e.Command = t.Definition.Code, t.Definition.Command
	}
	if e.Code == "" && len(e.Command) == 0 {
		return "", errors.New("there is nothing to run: give code or command")
	}
	res, out, err := h.Execute(ctx, e)
	if err != nil {
		return "", err
	}
	return outcome(ctx, res, out)
}

func outcome(ctx context.Context, res sandbox.Result, out agent.Output) (string, error) {
	switch res.Class {
	case run.ClassOK:
		return summary(res, out), nil
	case run.ClassTimeout:
		return "", &timeoutError{after(out, fmt.Sprintf("the command was stopped after %s: sandbox.timeoutSeconds is %g; raise it (weir run --timeout), or let the command do less",
			res.Elapsed.Round(10*time.Millisecond), res.Limits.Timeout.Seconds()))}
	case run.ClassCancelled:
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", errors.New(after(out, "the command was stopped"))
	case run.ClassSignal:
		return "", errors.New(after(out, "the command was killed by "+res.Signal))
	case run.ClassOOM:
		return "", errors.New(after(out, fmt.Sprintf("the command used more memory than its limit: sandbox.memoryMiB is %d; raise it (weir run --memory), or use less", res.Limits.MemoryMiB)))
	case run.ClassOutputLimit:
		return "", errors.New(after(out, fmt.Sprintf("the command printed more than its limit: sandbox.maxOutputBytes is %d; raise it (weir run --max-output), or set onOutputLimit to TRUNCATE (--on-output-limit truncate)", res.Limits.MaxOutputBytes)))
	case run.ClassDiskLimit:
		return "", errors.New(after(out, "the command filled its workspace over the disk limit: "+res.DiskWords()+"; raise it (weir run --disk), or write less"))
	case run.ClassError, run.ClassInfrastructure:
	}
	if res.ExitCode != nil {
		return "", withStderr(fmt.Sprintf("the command ended with exit code %d", *res.ExitCode), out)
	}
	return "", withStderr("the command ended as "+string(res.Class), out)
}

const (
	maxResult  = 2000 // bytes of a result
	errorLines = 5    // of stderr in an error
	maxError   = 1000 // and their bytes
)

// summary is the run's result: the last line of plain text, unless the output
// was longer than what the host kept, or held metric lines only.
func summary(res sandbox.Result, out agent.Output) string {
	if res.Loss.BytesRead <= agent.OutputHead {
		lines := strings.Split(strings.ReplaceAll(out.Stdout, "\r", "\n"), "\n")
		for i := len(lines) - 1; i >= 0; i-- {
			if l := strings.TrimSpace(lines[i]); l != "" && !json.Valid([]byte(l)) {
				return clip(l, maxResult)
			}
		}
	}
	if res.Loss.LinesRead == 0 {
		return "finished without output"
	}
	return fmt.Sprintf("finished after %d lines of output, %d of them metrics", res.Loss.LinesRead, res.Loss.LinesParsed)
}

// timeoutError says which limit ended the command; it is agent.ErrTimeout.
type timeoutError struct{ text string }

func (e *timeoutError) Error() string { return e.text }

// Unwrap implements the errors package's chain.
func (e *timeoutError) Unwrap() error { return agent.ErrTimeout }

// withStderr is for a command that ended by itself: what it said last is why, so
// that comes last.
func withStderr(what string, out agent.Output) error {
	if tail := stderrTail(out); tail != "" {
		return fmt.Errorf("%s:\n%s", what, tail)
	}
	return errors.New(what)
}

// after is for a command that something else ended: why stands last, behind what
// the command happened to say before.
func after(out agent.Output, why string) string {
	if tail := stderrTail(out); tail != "" {
		return tail + "\n" + why
	}
	return why
}

// stderrTail is the end of stderr, "" when nothing was printed.
func stderrTail(out agent.Output) string {
	lines := strings.Split(strings.TrimSpace(out.Stderr), "\n")
	tail := strings.TrimSpace(strings.Join(lines[max(0, len(lines)-errorLines):], "\n"))
	if len(tail) > maxError {
		tail = "…" + strings.ToValidUTF8(tail[len(tail)-maxError:], "")
	}
	return tail
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
