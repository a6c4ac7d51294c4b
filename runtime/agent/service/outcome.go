package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// outcome is what the end of the process means for the run. work is the context
// that it was executed in, ctx that of the run.
func outcome(ctx, work context.Context, res sandbox.Result, out agent.Output) (string, error) {
	took := res.Elapsed.Round(10 * time.Millisecond)
	switch res.Class {
	case run.ClassOK:
		return fmt.Sprintf("the service ended by itself after %s", took), nil
	case run.ClassCancelled:
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if cause := context.Cause(work); cause != nil && !errors.Is(cause, errOver) {
			return "", after(out, cause) // it was not ready in time
		}
		return "", after(out, errors.New("the service was stopped"))
	case run.ClassTimeout:
		return "", after(out, fmt.Errorf("the service was stopped after %s: sandbox.timeoutSeconds is %g; raise it: %w", took, res.Limits.Timeout.Seconds(), agent.ErrTimeout))
	case run.ClassOutputLimit:
		return "", after(out, fmt.Errorf("the service printed more than its limit: sandbox.maxOutputBytes is %d; raise it, or set onOutputLimit to TRUNCATE", res.Limits.MaxOutputBytes))
	case run.ClassDiskLimit:
		return "", after(out, errors.New("the service filled its workspace over the disk limit: "+res.DiskWords()+"; raise it, or write less"))
	case run.ClassOOM:
		return "", after(out, crash(fmt.Sprintf("the service used more memory than its limit: sandbox.memoryMiB is %d; raise it, or use less", res.Limits.MemoryMiB)))
	case run.ClassSignal:
		return "", after(out, crash(fmt.Sprintf("the service was killed by %s after %s", res.Signal, took)))
	case run.ClassError, run.ClassInfrastructure:
	}
	if res.ExitCode != nil {
		return "", after(out, crash(fmt.Sprintf("the service ended with exit code %d after %s", *res.ExitCode, took)))
	}
	return "", after(out, crash(fmt.Sprintf("the service ended as %s after %s", res.Class, took)))
}

// crash is the end of a service by itself.
type crash string

func (c crash) Error() string { return string(c) }

// Unwrap makes it agent.ErrCrashed.
func (crash) Unwrap() error { return agent.ErrCrashed }

const (
	errorLines = 5    // of stderr in an error
	maxError   = 1000 // and their bytes
)

// after puts why behind what the service printed, where it said little enough
// for that to be its last words.
func after(out agent.Output, why error) error {
	if len(out.Stderr) >= agent.OutputHead {
		return why
	}
	lines := strings.Split(strings.TrimSpace(out.Stderr), "\n")
	tail := strings.TrimSpace(strings.Join(lines[max(0, len(lines)-errorLines):], "\n"))
	if tail == "" {
		return why
	}
	if len(tail) > maxError {
		tail = "…" + strings.ToValidUTF8(tail[len(tail)-maxError:], "")
	}
	return fmt.Errorf("%s\n%w", tail, why)
}
