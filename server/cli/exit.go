package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirhq/weir/runtime/run"
)

// The exit codes of the program. ExitCodes describes them.
const (
	CodeDone     = 0
	CodeFailed   = 1
	CodeUsage    = 2
	CodeTimedOut = 124 // as timeout(1) does
	CodeAborted  = 130 // as a shell reports an end by Ctrl-C: 128 + SIGINT
)

// ExitCode is one row of the documented table.
type ExitCode struct {
	Code    int
	Meaning string
}

// ExitCodes lists every exit code once.
func ExitCodes() []ExitCode {
	return []ExitCode{
		{CodeDone, "The command did its work; for `weir run`: the run is DONE; for `weir tail`: all was shown, however the run ended."},
		{CodeFailed, "The run ended as FAILED, or as CANCELLED by something else than an abort (replaced, over budget, server stopped); or an error: the server cannot be reached, it refused the request, or an abort left something running."},
		{CodeUsage, "The command line, the environment or the configuration file is wrong. Nothing was sent or started."},
		{CodeTimedOut, "The run ended as TIMED_OUT."},
		{CodeAborted, "The run was aborted, by Ctrl-C or by another client; or Ctrl-C ended the command, which for `weir tail` leaves the run alone."},
	}
}

// ExitError ends the program with a code. Without Err there is nothing left to
// say: it has been printed.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap gives the error to print.
func (e *ExitError) Unwrap() error { return e.Err }

// Exit is the code that a program should end with, and the error to print first,
// if there is something to say.
func Exit(err error) (int, error) {
	if err == nil {
		return CodeDone, nil
	}
	var e *ExitError
	if errors.As(err, &e) {
		if e.Err == nil {
			return e.Code, nil
		}
		return e.Code, err
	}
	return CodeFailed, err
}

// Line is what to say last, on stderr, in one line and harmless for a terminal: an
// error may hold what a server sent or a file holds.
func Line(say error) string {
	return "weir: " + strings.ReplaceAll(strings.TrimSpace(clean(say.Error())), "\n", "; ")
}

// UsageError marks an error as one of the command line.
func UsageError(err error) error { return &ExitError{Code: CodeUsage, Err: err} }

func usagef(format string, args ...any) error {
	return UsageError(run.Errorf(run.Invalid, format, args...))
}

// CodeOf is the exit code of a run that ended so.
func CodeOf(status run.Status, reason run.ExitReason) int {
	switch status {
	case run.Done:
		return CodeDone
	case run.TimedOut:
		return CodeTimedOut
	case run.Cancelled:
		if reason == run.Aborted {
			return CodeAborted
		}
	case run.Failed, run.Queued, run.Running, run.Waiting:
	}
	return CodeFailed
}
