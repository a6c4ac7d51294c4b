package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local"
)

// really makes the bench run real processes in real sandboxes.
func (b *bench) really() {
	b.t.Helper()
	w := local.NewBubblewrap(local.Options{})
	b.t.Cleanup(func() {
		if err := w.Close(); err != nil {
			b.t.Errorf("closing the sandboxes: %v", err)
		}
	})
	if st := w.Probe(b.t.Context()); !st.Available {
		pgtest.Need(b.t, "no sandbox works here: "+st.Reason)
	}
	b.backends["local"] = w
}

// traced makes the bench keep its spans.
func (b *bench) traced() *tracetest.InMemoryExporter {
	spans := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	b.t.Cleanup(func() { _ = p.Shutdown(context.WithoutCancel(b.t.Context())) })
	b.tracer = p.Tracer("test")
	return spans
}

func oneSpan(t *testing.T, spans *tracetest.InMemoryExporter) (attrs map[string]string, failed bool) {
	t.Helper()
	list := spans.GetSpans()
	if len(list) != 1 {
		t.Fatalf("there are %d spans, want one", len(list))
	}
	attrs = map[string]string{}
	for _, a := range list[0].Attributes {
		attrs[string(a.Key)] = a.Value.String()
	}
	return attrs, list[0].Status.Code == codes.Error
}

// executed is what became of one execution.
type executed struct {
	run    run.Run
	res    sandbox.Result
	out    agent.Output
	err    error
	events []*run.Event
	row    run.Execution
	usage  []*run.UsageRecorded
}

// execute runs one command in a run of its own and gathers what is known of it.
func (b *bench) execute(x agent.Exec, change ...func(*run.StartRequest)) executed {
	b.t.Helper()
	var got executed
	b.agent("train", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
		got.res, got.out, got.err = h.Execute(ctx, x)
		return "", got.err
	})
	got.run = b.ended(b.engine().start("train", change...).ID)
	got.events = b.events(got.run.Session)
	rows, err := b.store.Executions(b.t.Context(), got.run.ID)
	if err != nil || len(rows) != 1 {
		b.t.Fatalf("the executions are %v, %v; want one", rows, err)
	}
	got.row = rows[0]
	for _, e := range got.events {
		if p, err := e.Payload(); err != nil {
			b.t.Fatal(err)
		} else if u, ok := p.(*run.UsageRecorded); ok {
			got.usage = append(got.usage, u)
		}
	}
	return got
}

// text joins what was printed to a stream and checks that the offsets fit.
func (x executed) text(t *testing.T, s run.OutputStream) string {
	t.Helper()
	var all strings.Builder
	for _, e := range x.events {
		p, err := e.Payload()
		if err != nil {
			t.Fatal(err)
		}
		if o, ok := p.(*run.OutputWritten); ok && o.Stream == s {
			if o.Offset != int64(all.Len()) {
				t.Errorf("a piece of %s begins at %d, want %d", s, o.Offset, all.Len())
			}
			all.WriteString(o.Text)
		}
	}
	return all.String()
}

// points gives the points of the log as name@step=value [stage].
func (x executed) points(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, e := range x.events {
		p, err := e.Payload()
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := p.(*run.MetricsLogged); ok {
			for _, pt := range m.Points {
				out = append(out, fmt.Sprintf("%s@%d=%g [%s]", pt.Name, pt.Step, pt.Float(), pt.Stage))
			}
		}
	}
	return out
}

func (x executed) wantOneUsage(t *testing.T, isError bool) {
	t.Helper()
	if len(x.usage) != 1 || x.usage[0].Kind != run.ComputeUsage || x.usage[0].IsError != isError || x.usage[0].ComputeMicros <= 0 {
		t.Errorf("the usage is %+v, want one compute record with isError=%v", x.usage, isError)
	}
	if u := x.run.Usage; u.Records != 1 || u.ComputeMicros <= 0 || u.CostNanoUSD != nil {
		t.Errorf("the run's usage is %+v", u)
	}
}

func sh(script string) agent.Exec { return agent.Exec{Command: []string{"sh", "-c", script}} }

func TestS1_SuccessIsExact(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.really()
		spans := b.traced()
		code := "import sys\nprint('hello')\nprint('oops', file=sys.stderr)\n"
		x := b.execute(agent.Exec{Code: code, Timeout: 20 * time.Second})
		if x.err != nil || x.res.Class != run.ClassOK || x.res.ExitCode == nil || *x.res.ExitCode != 0 {
			t.Fatalf("got %+v, %v", x.res, x.err)
		}
		if out, errs := x.text(t, run.Stdout), x.text(t, run.Stderr); out != "hello\n" || errs != "oops\n" {
			t.Errorf("stdout is %q, stderr %q", out, errs)
		}
		if x.out.Stdout != "hello\n" || x.out.Stderr != "oops\n" {
			t.Errorf("the driver saw %+v", x.out)
		}
		x.wantOneUsage(t, false)
		if r := x.row; r.Class != run.ClassOK || r.IsError || r.EndedAt.IsZero() || r.Loss.BytesRead != 11 || r.Backend != "local" {
			t.Errorf("the row is %+v", r)
		}
		attrs, failed := oneSpan(t, spans)
		if attrs["sandbox.code_chars"] != fmt.Sprint(len(code)) || attrs["sandbox.timeout_s"] != "20" || attrs["sandbox.returncode"] != "0" || attrs["sandbox.elapsed_s"] == "" || failed {
			t.Errorf("the span has %v, error %v", attrs, failed)
		}
	})
}

const mixedLines = `echo begin
echo '{"step":1,"metrics":{"loss":0.5,"acc":0.75}}'
echo '{"step":2,"metric":"loss","value":NaN}'
echo end`

const mixedOutput = "begin\n" + `{"step":1,"metrics":{"loss":0.5,"acc":0.75}}` + "\n" + `{"step":2,"metric":"loss","value":NaN}` + "\nend\n"

func TestS2_MetricLinesAreStoredWithTheStage(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.really()
		stage := "fit"
		x := b.execute(sh(mixedLines), func(q *run.StartRequest) { q.Input.Stage = &stage })
		if x.err != nil {
			t.Fatal(x.err)
		}
		sameLines(t, x.points(t), "loss@1=0.5 [fit]", "acc@1=0.75 [fit]", "loss@2=NaN [fit]")
		if out := x.text(t, run.Stdout); out != mixedOutput {
			t.Errorf("stdout is %q", out)
		}
		series, err := b.store.Metrics(t.Context(), x.run.ID, run.MetricQuery{MaxPoints: 100})
		if err != nil || len(series) != 2 {
			t.Fatalf("the curves are %v, %v", series, err)
		}
		for _, s := range series {
			if s.Key.Stage != "fit" {
				t.Errorf("the curve %s has the stage %q", s.Key.Name, s.Key.Stage)
			}
		}
		if l := x.row.Loss; l.LinesRead != 4 || l.LinesParsed != 2 || l.LinesRejected != 0 {
			t.Errorf("the loss is %+v", l)
		}
		if s := b.session(x.run.Session); s.State != "fit_done" {
			t.Errorf("the session's state is %q", s.State)
		}
	})
}

func TestS3_WithoutAStageNothingIsParsed(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.really()
		none := ""
		x := b.execute(sh(mixedLines), func(q *run.StartRequest) { q.Input.Stage = &none })
		if got := x.points(t); x.err != nil || len(got) != 0 {
			t.Errorf("got %v, %v; want no points", got, x.err)
		}
		if out := x.text(t, run.Stdout); out != mixedOutput {
			t.Errorf("stdout is %q", out)
		}
		if s := b.session(x.run.Session); s.State != "train_done" {
			t.Errorf("the session's state is %q, want the agent's name in it", s.State)
		}
	})
}

func TestS4_TimeoutIsAResult(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.really()
		spans := b.traced()
		x := b.execute(agent.Exec{Command: []string{"sh", "-c", "echo early; sleep 60"}, Timeout: 300 * time.Millisecond})
		if x.err != nil || !x.res.TimedOut() || !x.res.IsError() {
			t.Fatalf("got %+v, %v", x.res, x.err)
		}
		if x.res.ExitCode != nil && *x.res.ExitCode == 0 {
			t.Error("the exit code is 0")
		}
		x.wantOneUsage(t, true)
		if out := x.text(t, run.Stdout); out != "early\n" {
			t.Errorf("stdout is %q", out)
		}
		if _, failed := oneSpan(t, spans); !failed {
			t.Error("the span has no error")
		}
		wantState(t, x.run, run.Done, run.Completed) // what to make of it is the driver's
	})
}

func TestS5_NonZeroExitIsAResult(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.really()
		spans := b.traced()
		x := b.execute(sh("exit 3"))
		if x.err != nil || x.res.Class != run.ClassError || x.res.ExitCode == nil || *x.res.ExitCode != 3 {
			t.Fatalf("got %+v, %v", x.res, x.err)
		}
		x.wantOneUsage(t, true)
		if !x.row.IsError || x.row.ExitCode == nil || *x.row.ExitCode != 3 {
			t.Errorf("the row is %+v", x.row)
		}
		attrs, failed := oneSpan(t, spans)
		if !failed || attrs["sandbox.returncode"] != "3" {
			t.Errorf("the span has %v, error %v", attrs, failed)
		}
	})
}

func TestS6_FailedCreationIsAnError(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		spans := b.traced()
		broken := errors.New("no more sandboxes")
		b.backends["local"].(*scriptedBackend).refuse = func(sandbox.Spec) error { return broken }
		x := b.execute(sh("true"))
		if !errors.Is(x.err, broken) {
			t.Errorf("the driver got %v", x.err)
		}
		wantState(t, x.run, run.Failed, run.ExitError)
		if len(x.usage) != 0 || x.run.Usage.Records != 0 {
			t.Errorf("usage was recorded: %+v", x.usage)
		}
		if x.row.Class != run.ClassInfrastructure || !strings.Contains(x.row.ErrMessage, broken.Error()) || x.row.EndedAt.IsZero() {
			t.Errorf("the row is %+v", x.row)
		}
		if _, failed := oneSpan(t, spans); !failed {
			t.Error("the span has no error")
		}
	})
}

func TestS7_BrokenStreamIsAnError(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		spans := b.traced()
		gone := make(chan struct{})
		b.backends["local"].(*scriptedBackend).play = func(p *scriptedProcess) int {
			_, _ = io.WriteString(p.out, "first half\n")
			_ = p.out.CloseWithError(io.ErrUnexpectedEOF)
			select {
			case <-p.kill:
			case <-p.term:
			}
			close(gone)
			return 0
		}
		x := b.execute(sh("true"))
		if !errors.Is(x.err, io.ErrUnexpectedEOF) {
			t.Errorf("the driver got %v", x.err)
		}
		receive(t, "the end of the process", gone)
		wantState(t, x.run, run.Failed, run.ExitError)
		if len(x.usage) != 0 || x.run.Usage.Records != 0 {
			t.Errorf("usage was recorded: %+v", x.usage)
		}
		if out := x.text(t, run.Stdout); out != "first half\n" {
			t.Errorf("what was read before is %q", out)
		}
		if x.row.Class != run.ClassInfrastructure || x.row.Loss.BytesRead != 11 {
			t.Errorf("the row is %+v", x.row)
		}
		if _, failed := oneSpan(t, spans); !failed {
			t.Error("the span has no error")
		}
	})
}

func TestS8_GPUAndTimeoutReachTheBackend(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.tweak = func(o *engine.Options) {
			o.Policy = sandbox.DefaultPolicy()
			o.Policy.Ceilings.GPUs = []string{"a100"}
		}
		x := b.execute(sh("true"), func(q *run.StartRequest) {
			q.Input.Sandbox = run.SandboxRequest{GPU: "a100", TimeoutSeconds: 123.5}
		})
		specs := b.backends["local"].(*scriptedBackend).started()
		if x.err != nil || len(specs) != 1 || specs[0].GPU != "a100" || specs[0].Limits.Timeout != 123500*time.Millisecond {
			t.Errorf("the backend was asked for %+v, %v", specs, x.err)
		}
		if x.row.GPU != "a100" {
			t.Errorf("the row has the GPU %q", x.row.GPU)
		}
	})
}

func TestS9_RefusedMetricsAreCounted(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.tweak = func(o *engine.Options) { o.Store = metricsRefused{b.store} }
		b.backends["local"].(*scriptedBackend).play = func(p *scriptedProcess) int {
			_, _ = io.WriteString(p.out, mixedOutput)
			return 0
		}
		x := b.execute(sh("true"))
		if x.err != nil {
			t.Fatal(x.err)
		}
		wantState(t, x.run, run.Done, run.Completed)
		if out := x.text(t, run.Stdout); out != mixedOutput {
			t.Errorf("stdout is %q", out)
		}
		if l := x.row.Loss; l.LinesParsed != 0 || l.LinesRejected != 2 || len(l.RejectedSamples) == 0 {
			t.Errorf("the loss is %+v", l)
		}
		if lines := b.told(x.run); !has(lines, "WARNING 2 metric lines could not be stored") {
			t.Errorf("got %q", lines)
		}
		x.wantOneUsage(t, false)
	})
}

func TestChartAndMediaKeepTheOrderOfTheLines(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.backends["local"].(*scriptedBackend).play = func(p *scriptedProcess) int {
			_, _ = io.WriteString(p.out, `{"step":1,"metrics":{"a":1}}
{"step":2,"metrics":{"a":2}}
{"chart_config":{"charts":[{"title":"A","metrics":["a"],"type":"line"}]}}
{"step":3,"metrics":{"a":3}}
{"log":{"type":"text","step":3,"key":"note","data":{"text":"hi"}}}
`)
			return 0
		}
		x := b.execute(sh("true"))
		sameLines(
			t, b.told(x.run), "RUN_STARTED", "STATE_CHANGED train_running", "EXECUTION_STARTED",
			"OUTPUT_WRITTEN", "METRICS_LOGGED", "CHART_CONFIGURED", "METRICS_LOGGED", "MEDIA_LOGGED",
			"EXECUTION_FINISHED OK", "USAGE_RECORDED", "STATE_CHANGED train_done", "RUN_ENDED DONE COMPLETED",
		)
		sameLines(t, x.points(t), "a@1=1 [train]", "a@2=2 [train]", "a@3=3 [train]")
	})
}
