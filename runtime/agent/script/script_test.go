package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/agent/script"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host answers Execute; a script needs nothing else.
type host struct {
	agent.Host
	asked []agent.Exec
	res   sandbox.Result
	out   agent.Output
	err   error
}

func (h *host) Execute(_ context.Context, e agent.Exec) (sandbox.Result, agent.Output, error) {
	h.asked = append(h.asked, e)
	return h.res, h.out, h.err
}

func code(n int) *int { return &n }

func TestWhatIsRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		input run.Input
		def   agent.Definition
		want  agent.Exec
	}{
		"code of the request":       {run.Input{Code: "a"}, agent.Definition{}, agent.Exec{Code: "a"}},
		"command of the request":    {run.Input{Command: []string{"b", "c"}}, agent.Definition{}, agent.Exec{Command: []string{"b", "c"}}},
		"code of the definition":    {run.Input{}, agent.Definition{Code: "d"}, agent.Exec{Code: "d"}},
		"command of the definition": {run.Input{}, agent.Definition{Command: []string{"e"}}, agent.Exec{Command: []string{"e"}}},
		"request over definition":   {run.Input{Code: "a"}, agent.Definition{Command: []string{"e"}}, agent.Exec{Code: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &host{res: sandbox.Result{Class: run.ClassOK}}
			if _, err := script.New().Run(t.Context(), agent.Task{Run: run.Run{Input: c.input}, Definition: c.def}, h); err != nil {
				t.Fatal(err)
			}
			if len(h.asked) != 1 || h.asked[0].Code != c.want.Code || !slices.Equal(h.asked[0].Command, c.want.Command) {
				t.Errorf("ran %+v, want %+v", h.asked, c.want)
			}
		})
	}
	h := &host{}
	if _, err := script.New().Run(t.Context(), agent.Task{}, h); err == nil || len(h.asked) != 0 {
		t.Errorf("nothing to run: got %v after %d executions", err, len(h.asked))
	}
}

func TestResultOfASuccess(t *testing.T) {
	t.Parallel()
	metrics := `{"step":1,"metrics":{"loss":1}}` + "\n"
	for name, c := range map[string]struct {
		out  string
		loss run.Loss
		want string
	}{
		"last line":             {"first\naccuracy 0.9\n\n", run.Loss{BytesRead: 20, LinesRead: 3}, "accuracy 0.9"},
		"before metric lines":   {"done: 3\n" + metrics, run.Loss{BytesRead: 40, LinesRead: 2, LinesParsed: 1}, "done: 3"},
		"only metric lines":     {metrics, run.Loss{BytesRead: 32, LinesRead: 1, LinesParsed: 1}, "finished after 1 lines of output, 1 of them metrics"},
		"no output":             {"", run.Loss{}, "finished without output"},
		"more than is kept":     {"early\n", run.Loss{BytesRead: 1 << 20, LinesRead: 900}, "finished after 900 lines of output, 0 of them metrics"},
		"a progress bar's rest": {"10 %\r100 %\r", run.Loss{BytesRead: 11, LinesRead: 2}, "100 %"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &host{res: sandbox.Result{Class: run.ClassOK, ExitCode: code(0), Loss: c.loss}, out: agent.Output{Stdout: c.out}}
			got, err := script.New().Run(t.Context(), agent.Task{Run: run.Run{Input: run.Input{Code: "x"}}}, h)
			if err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// Every exit class but OK is an error; only the timeout is agent.ErrTimeout.
func TestEveryOtherEndIsAnError(t *testing.T) {
	t.Parallel()
	for class, want := range map[run.ExitClass]string{
		run.ClassError:          "exit code 3:\nTraceback\nValueError: bad",
		run.ClassSignal:         "killed by SIGSEGV",
		run.ClassTimeout:        "the command was stopped after 2s: sandbox.timeoutSeconds is 1.5; raise it (weir run --timeout), or let the command do less",
		run.ClassCancelled:      "the command was stopped",
		run.ClassOOM:            "sandbox.memoryMiB is 64; raise it (weir run --memory), or use less",
		run.ClassOutputLimit:    "sandbox.maxOutputBytes is 1000; raise it (weir run --max-output), or set onOutputLimit to TRUNCATE (--on-output-limit truncate)",
		run.ClassDiskLimit:      "11.1 MiB were counted, and sandbox.diskMiB is 10; raise it (weir run --disk), or write less",
		run.ClassInfrastructure: "exit code 3",
	} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			h := &host{
				res: sandbox.Result{
					Class: class, ExitCode: code(3), Signal: "SIGSEGV", Elapsed: 2 * time.Second, DiskUse: 11<<20 + 1, DiskLimit: 10 << 20,
					Limits: sandbox.Limits{Timeout: 1500 * time.Millisecond, MemoryMiB: 64, MaxOutputBytes: 1000},
				},
				out: agent.Output{Stderr: "Traceback\nValueError: bad\n"},
			}
			_, err := script.New().Run(t.Context(), agent.Task{Run: run.Run{Input: run.Input{Code: "x"}}}, h)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			if byItself := class == run.ClassError || class == run.ClassInfrastructure; err != nil && strings.HasSuffix(err.Error(), "ValueError: bad") != byItself {
				t.Errorf("the last line does not say why: %v", err)
			}
			if got := errors.Is(err, agent.ErrTimeout); got != (class == run.ClassTimeout) {
				t.Errorf("counts as a timeout: %v", got)
			}
		})
	}
}

func TestOnlyTheEndOfStderrIsShown(t *testing.T) {
	t.Parallel()
	h := &host{
		res: sandbox.Result{Class: run.ClassError, ExitCode: code(1)},
		out: agent.Output{Stderr: strings.Repeat("noise\n", 1000) + strings.Repeat("é", 5000) + "\nlast"},
	}
	_, err := script.New().Run(t.Context(), agent.Task{Run: run.Run{Input: run.Input{Code: "x"}}}, h)
	if err == nil || !strings.HasSuffix(err.Error(), "last") || len(err.Error()) > 1200 {
		t.Errorf("got %d bytes: %v", len(err.Error()), err)
	}
	if _, err := json.Marshal(err.Error()); err != nil {
		t.Error(err)
	}
}

func TestHostErrorIsTheRunsError(t *testing.T) {
	t.Parallel()
	h := &host{err: errors.New("no sandbox")}
	if _, err := script.New().Run(t.Context(), agent.Task{Run: run.Run{Input: run.Input{Code: "x"}}}, h); !errors.Is(err, h.err) {
		t.Errorf("got %v", err)
	}
}
