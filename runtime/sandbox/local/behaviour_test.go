//go:build linux

package local_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// traced runs s and gives the one span that it made.
func traced(ctx context.Context, t *testing.T, b sandbox.Backend, s sandbox.Spec, sink sandbox.Sink) (sandbox.Result, span, error) {
	t.Helper()
	rec := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	res, err := sandbox.Run(ctx, b, s, sink, sandbox.Options{Tracer: provider.Tracer("test")})
	ended := rec.Ended()
	if len(ended) != 1 || len(rec.Started()) != 1 {
		t.Fatalf("%d spans ended, %d started; want one", len(ended), len(rec.Started()))
	}
	return res, span{ended[0]}, err
}

type span struct{ sdktrace.ReadOnlySpan }

func (s span) get(key string) (attribute.Value, bool) {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value, true
		}
	}
	return attribute.Value{}, false
}

func (s span) failed() bool { return s.Status().Code == codes.Error }

func TestS1ExactOutputCodeAndSpan(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		code := "import sys\nprint('héllo')\nprint('warn', file=sys.stderr)\n"
		s := python(t, code)
		r := &recorder{}
		res, sp, err := traced(t.Context(), t, b, s, r)
		if err != nil {
			t.Fatal(err)
		}
		if r.stdout() != "héllo\n" || r.stderr() != "warn\n" {
			t.Errorf("stdout %q stderr %q", r.stdout(), r.stderr())
		}
		if res.Class != run.ClassOK || res.ExitCode == nil || *res.ExitCode != 0 || res.IsError() || res.TimedOut() || res.Signal != "" {
			t.Errorf("result %+v", res)
		}
		if res.Loss.BytesRead != int64(len("héllo\nwarn\n")) || res.Loss.LinesRead != 2 || res.Loss.BytesTruncated != 0 {
			t.Errorf("loss %+v", res.Loss)
		}
		if sp.Name() != "sandbox.execute" || sp.failed() {
			t.Errorf("span %q %v", sp.Name(), sp.Status())
		}
		if v, _ := sp.get("sandbox.code_chars"); v.AsInt64() != int64(len([]rune(code))) {
			t.Errorf("code_chars %v", v.AsInt64())
		}
		if v, _ := sp.get("sandbox.timeout_s"); v.AsFloat64() != 30 {
			t.Errorf("timeout_s %v", v.AsFloat64())
		}
		if v, ok := sp.get("sandbox.returncode"); !ok || v.AsInt64() != 0 {
			t.Errorf("returncode %v %v", v.AsInt64(), ok)
		}
		if v, _ := sp.get("sandbox.elapsed_s"); v.AsFloat64() <= 0 || v.AsFloat64() > 20 {
			t.Errorf("elapsed_s %v", v.AsFloat64())
		}
		if res.ProcessGoneAt.IsZero() || res.SandboxGoneAt.IsZero() || !res.SignalledAt.IsZero() {
			t.Errorf("times %+v", res)
		}
	})
}

const twoLines = `echo '{"step":1,"metrics":{"loss":0.5}}'; echo plain`

func TestS2MetricLinesWithAStage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		s := shell(t, twoLines)
		s.Stage = "eda"
		res, r := execute(t, b, s)
		if len(r.points) != 1 || r.points[0].Stage != "eda" || r.points[0].Name != "loss" || r.points[0].Value != 0.5 {
			t.Errorf("points %+v", r.points)
		}
		if r.stdout() != "{\"step\":1,\"metrics\":{\"loss\":0.5}}\nplain\n" {
			t.Errorf("stdout %q: every byte belongs to the output, metric lines included", r.stdout())
		}
		if res.Loss.LinesParsed != 1 || res.Loss.LinesRead != 2 {
			t.Errorf("loss %+v", res.Loss)
		}
	})
}

func TestS3NothingIsParsedWithoutAStage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		s := shell(t, twoLines)
		s.Stage = ""
		res, r := execute(t, b, s)
		if len(r.points) != 0 || res.Loss.LinesParsed != 0 {
			t.Errorf("points %+v loss %+v", r.points, res.Loss)
		}
		if !strings.HasSuffix(r.stdout(), "}}\nplain\n") || res.Loss.LinesRead != 2 {
			t.Errorf("stdout %q loss %+v", r.stdout(), res.Loss)
		}
	})
}

func TestS4TimeoutIsAResult(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		s := shell(t, "echo begun; sleep 100")
		s.Limits.Timeout, s.Limits.Grace = 500*time.Millisecond, 300*time.Millisecond
		r := &recorder{}
		began := time.Now()
		res, sp, err := traced(t.Context(), t, b, s, r)
		if err != nil {
			t.Fatalf("a timeout is no error: %v", err)
		}
		if !res.TimedOut() || !res.IsError() || (res.ExitCode != nil && *res.ExitCode == 0) || res.SignalledAt.IsZero() {
			t.Errorf("result %+v", res)
		}
		if d := time.Since(began); d > s.Limits.Timeout+s.Limits.Grace+10*time.Second { // of the 100 that it would sleep
			t.Errorf("took %s", d)
		}
		if r.stdout() != "begun\n" || !sp.failed() {
			t.Errorf("stdout %q, span %v", r.stdout(), sp.Status())
		}
		mustBeGone(t, s)
	})
}

func TestS5NonZeroExitIsAResult(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		res, sp, err := traced(t.Context(), t, b, shell(t, "exit 3"), &recorder{})
		if err != nil || res.Class != run.ClassError || !res.IsError() || *res.ExitCode != 3 {
			t.Errorf("result %+v, error %v", res, err)
		}
		if v, _ := sp.get("sandbox.returncode"); v.AsInt64() != 3 || !sp.failed() {
			t.Errorf("returncode %d, span %v", v.AsInt64(), sp.Status())
		}
	})
}

func TestS6FailedCreationIsAnError(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		for name, prepare := range map[string]func(s *sandbox.Spec) string{
			"MissingCommand": func(s *sandbox.Spec) string {
				s.Command = []string{"no-such-program", "x"}
				return "command not found: no-such-program"
			},
			"NotExecutable": func(s *sandbox.Spec) string {
				s.Command = []string{"/etc"}
				return "not an executable file: /etc"
			},
			"NoWorkspace": func(s *sandbox.Spec) string {
				s.Workspace += "/gone"
				return "does not exist"
			},
			"HugeVariable": func(s *sandbox.Spec) string {
				s.Env = []run.EnvVar{{Name: "BIG", Value: strings.Repeat("x", 200<<10)}}
				return "BIG"
			},
		} {
			t.Run(name, func(t *testing.T) {
				s := shell(t, "true")
				words := prepare(&s)
				res, sp, err := traced(t.Context(), t, b, s, &recorder{})
				if err == nil || !strings.Contains(err.Error(), words) {
					t.Fatalf("error %v, want words %q", err, words)
				}
				if res.Class != run.ClassInfrastructure || !sp.failed() {
					t.Errorf("class %s, span %v", res.Class, sp.Status())
				}
				mustBeGone(t, s)
			})
		}
	})
}

func TestS7BrokenSinkEndsTheProcess(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		s := shell(t, "trap '' TERM; echo one; (setsid sleep 100 &); while :; do sleep 0.1; echo more; done")
		s.Limits.Grace = 20 * time.Second
		broken := errors.New("the disk is full")
		r := &recorder{}
		r.onText = func(text string) {
			if strings.Contains(text, "more") {
				r.err = broken
			}
		}
		began := time.Now()
		res, sp, err := traced(t.Context(), t, b, s, r)
		if !errors.Is(err, broken) {
			t.Fatalf("error %v", err)
		}
		if res.Class != run.ClassInfrastructure || !sp.failed() || time.Since(began) > 10*time.Second {
			t.Errorf("result %+v, span %v, after %s", res, sp.Status(), time.Since(began))
		}
		if !strings.HasPrefix(r.stdout(), "one\n") || res.Loss.BytesRead < 4 {
			t.Errorf("what was read before is kept: %q, %+v", r.stdout(), res.Loss)
		}
		mustBeGone(t, s)
	})
}

// keeper is a backend that only keeps what it was asked for.
type keeper struct {
	sandbox.Backend
	spec sandbox.Spec
}

func (k *keeper) Start(ctx context.Context, s sandbox.Spec) (sandbox.Process, error) {
	k.spec = s
	return k.Backend.Start(ctx, s)
}

func TestS8GPUAndTimeoutReachTheBackend(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		policy := sandbox.DefaultPolicy()
		policy.Ceilings.GPUs = []string{"A100:2"}
		choice, err := policy.Resolve(run.SandboxRequest{GPU: "A100:2", TimeoutSeconds: 12.5})
		if err != nil {
			t.Fatal(err)
		}
		s := shell(t, "true")
		choice.Apply(&s)
		k := &keeper{Backend: b}
		_, sp, err := traced(t.Context(), t, k, s, &recorder{})
		if k.spec.GPU != "A100:2" || k.spec.Limits.Timeout != 12500*time.Millisecond {
			t.Errorf("the backend got gpu %q, timeout %s", k.spec.GPU, k.spec.Limits.Timeout)
		}
		if err == nil || !strings.Contains(err.Error(), "A100:2") {
			t.Errorf("a backend without GPUs must say so, not run without: %v", err)
		}
		if v, _ := sp.get("sandbox.timeout_s"); v.AsFloat64() != 12.5 {
			t.Errorf("timeout_s %v", v.AsFloat64())
		}
	})
}

// mustBeGone fails if a process of the execution is alive.
func mustBeGone(t *testing.T, s sandbox.Spec) {
	t.Helper()
	if left := labelledProcesses(string(s.Execution)); len(left) > 0 {
		t.Errorf("processes %v of the execution are alive", left)
	}
}

func TestStopAsksFirst(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		s := python(t, "import os,signal,sys,time\ndef bye(*_):\n    print('bye'); sys.exit(9)\nsignal.signal(signal.SIGTERM, bye)\nos.write(1, b'up\\n')\nwhile True: time.sleep(0.05)\n")
		s.Limits.Grace = 10 * time.Second
		ctx, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		cause := errors.New("aborted by the user")
		r := &recorder{}
		r.onText = func(text string) {
			if strings.Contains(text, "up") {
				stop(cause)
			}
		}
		res, err := sandbox.Run(ctx, b, s, r, sandbox.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if res.Class != run.ClassCancelled || res.ExitCode == nil || *res.ExitCode != 9 || !errors.Is(res.Cause, cause) {
			t.Errorf("result %+v", res)
		}
		if r.stdout() != "up\nbye\n" {
			t.Errorf("stdout %q: the last words belong to the output", r.stdout())
		}
		if res.SignalledAt.IsZero() || res.ProcessGoneAt.Before(res.SignalledAt) || res.SandboxGoneAt.Before(res.ProcessGoneAt) {
			t.Errorf("times %s %s %s", res.SignalledAt, res.ProcessGoneAt, res.SandboxGoneAt)
		}
	})
}

func TestStubbornTreesAreGoneWithinTheGraceAndASecond(t *testing.T) {
	t.Parallel()
	scripts := map[string]string{
		"IgnoresTerm": "trap '' TERM INT HUP; echo up; while :; do sleep 0.05; done",
		"DoubleFork":  "(setsid sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' &) ; trap '' TERM; echo up; while :; do sleep 0.05; done",
		"HoldsPipes":  "(trap '' TERM; sleep 1000) & (setsid sleep 1000 &); trap '' TERM; echo up; wait; sleep 1000",
		"ForksAlways": "trap '' TERM; echo up; while :; do (sleep 0.3 &) ; sleep 0.02; done",
		"Stopped":     "echo up; kill -STOP $$; sleep 1000",
	}
	each(t, func(t *testing.T, b backend) {
		for name, script := range scripts {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := shell(t, script)
				s.Limits.Grace = 500 * time.Millisecond
				ctx, stop := context.WithCancelCause(t.Context())
				defer stop(nil)
				var stopped time.Time
				r := &recorder{}
				r.onText = func(string) { stopped = time.Now(); stop(nil); r.onText = nil }
				res, err := sandbox.Run(ctx, b, s, r, sandbox.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if d := time.Since(stopped); d > s.Limits.Grace+time.Second {
					t.Errorf("gone after %s", d)
				}
				if res.Class != run.ClassCancelled || len(res.Survivors) > 0 {
					t.Errorf("result %+v", res)
				}
				mustBeGone(t, s)
			})
		}
	})
}

func TestExitCodesAreNotTakenForSignals(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		for _, c := range []struct {
			script string
			class  run.ExitClass
			code   int
			signal string
		}{
			{"exit 124", run.ClassError, 124, ""},
			{"exit 255", run.ClassError, 255, ""},
			{"kill -SEGV $$", run.ClassSignal, -1, "SIGSEGV"},
			{"kill -KILL $$", run.ClassSignal, -1, "SIGKILL"},
			{"exit 137", run.ClassError, 137, ""},
		} {
			res, _ := execute(t, b, shell(t, c.script))
			code := -1
			if res.ExitCode != nil {
				code = *res.ExitCode
			}
			if res.Signal == "SIGKILL" && c.code == 137 && !exactStatus() {
				t.Logf("this kernel does not tell %q from a signal", c.script)
				continue
			}
			if res.Class != c.class || code != c.code || res.Signal != c.signal {
				t.Errorf("%s: %s %d %q", c.script, res.Class, code, res.Signal)
			}
		}
	})
}

func TestTruncateKeepsReadingMetrics(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		s := python(t, "for i in range(2000):\n    print('x' * 100)\nprint('{\"step\":7,\"metrics\":{\"loss\":1}}')\n")
		s.Limits.MaxOutputBytes, s.Limits.Truncate = 1000, true
		res, r := execute(t, b, s)
		if res.Class != run.ClassOK || len(r.points) != 1 || r.points[0].Step != 7 {
			t.Errorf("class %s points %v", res.Class, r.points)
		}
		if len(r.stdout()) != 1000 || res.Loss.BytesTruncated != res.Loss.BytesRead-1000 || res.Loss.LinesRead != 2001 {
			t.Errorf("stdout %d bytes, loss %+v", len(r.stdout()), res.Loss)
		}
	})
}

func TestManyStartsAreNotKilled(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		starts := 20 * rounds(t)
		work := make(chan struct{}, starts)
		for range starts {
			work <- struct{}{}
		}
		close(work)
		bad := make(chan string, starts)
		done := make(chan struct{})
		for range 4 {
			go func() {
				defer func() { done <- struct{}{} }()
				for range work {
					s := shell(t, "echo $((6*7))")
					r := &recorder{}
					res, err := sandbox.Run(t.Context(), b, s, r, sandbox.Options{})
					if err != nil || res.Class != run.ClassOK || r.stdout() != "42\n" {
						bad <- strings.Join([]string{string(res.Class), r.stdout(), r.stderr()}, "|") + errText(err)
					}
				}
			}()
		}
		for range 4 {
			<-done
		}
		close(bad)
		var all []string
		for x := range bad {
			all = append(all, x)
		}
		if len(all) > 0 {
			slices.Sort(all)
			t.Errorf("%d of %d starts went wrong: %q", len(all), starts, all[0])
		}
	})
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
