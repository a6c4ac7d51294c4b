package e2e

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/runtime/sandbox/sandboxtest"
)

// TestBehaviours is what an execution owes, through whole servers: S1 to S6, S8
// and S9. S7, a stream that breaks, needs a broken backend: see the tests of
// runtime/engine and runtime/sandbox.
func TestBehaviours(t *testing.T) {
	t.Parallel()
	needPython(t)
	onBothStores(t, func(t *testing.T, url string) {
		t.Parallel()
		need(t, os.Geteuid() == 0, "the user root")
		s := newServer(t, url, "--sandbox-gpus", "a100")
		s.data = filepath.Join(s.data, "data")
		s.args = append(s.args, "--data", s.data) // the last one counts
		s.start()
		s.label() // skips or fails where no sandbox works
		for _, b := range []struct {
			name string
			test func(t *testing.T, s *server, url string)
		}{
			{"S1_OutputCodeAndUsage", behaviourS1},
			{"S2_MetricLinesWithTheStage", behaviourS2},
			{"S3_NothingIsParsedWithoutAStage", behaviourS3},
			{"S4_TimeoutIsAResult", behaviourS4},
			{"S5_NonZeroExitIsAResult", behaviourS5},
			{"S6_FailedCreationIsAnError", behaviourS6},
			{"S8_GPUReachesTheBackend", behaviourS8},
			{"S9_RefusedMetricsAreCounted", behaviourS9},
		} {
			t.Run(b.name, func(t *testing.T) { b.test(t, s, url) })
		}
	})
}

// seen is all that the API says of a run.
type seen struct {
	report
	sandboxtest.Outcome
	usage []usageEvent
}

type usageEvent struct {
	Backend *string
	IsError bool
	Usage   struct {
		ComputeSeconds float64
		CostNanoUsd    *string
		Unpriced       int
	}
}

// whole runs a command to its end and gathers everything.
func (s *server) whole(t *testing.T, input map[string]any) seen {
	t.Helper()
	input["agent"] = "script"
	r := s.startRun(input)
	var x seen
	var err error
	if x.report, err = s.report(r, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := s.gather(r, &x.Outcome); err != nil {
		t.Fatal(err)
	}
	var out struct {
		Events struct{ Nodes []usageEvent }
	}
	s.must(`query($s: ID!) { events(sessionId: $s, types: [USAGE_RECORDED]) { nodes { ... on UsageRecorded { backend isError usage { computeSeconds unpriced } } } } }`,
		map[string]any{"s": r.Session.ID}, &out)
	x.usage = out.Events.Nodes
	curves, err := s.curves(r, x.Points)
	if err != nil {
		t.Fatal(err)
	}
	if err := sameCurves(curves, x.Points); err != nil {
		t.Error(err)
	}
	return x
}

// checkEnd compares the run's status, the execution's class and code ("-" for
// none), and the one usage record that every execution has.
func (x seen) checkEnd(t *testing.T, status, class, code string, isError bool) {
	t.Helper()
	e := x.Executions[0]
	got := "-"
	if e.ExitCode != nil {
		got = fmt.Sprint(*e.ExitCode)
	}
	if x.Status != status || e.ExitClass != class || got != code || e.IsError != isError {
		t.Errorf("the run is %s, the execution %s with the code %s and isError %v; want %s, %s, %s, %v", x.Status, e.ExitClass, got, e.IsError, status, class, code, isError)
	}
	if len(x.usage) != 1 || x.usage[0].IsError != isError || word(x.usage[0].Backend) != "local" || x.usage[0].Usage.ComputeSeconds <= 0 {
		t.Errorf("the usage is %+v, want one record with isError %v", x.usage, isError)
	}
}

func behaviourS1(t *testing.T, s *server, _ string) {
	x := s.whole(t, map[string]any{"code": "import sys\nprint('hello')\nprint('oops', file=sys.stderr)\n"})
	x.checkEnd(t, "DONE", "OK", "0", false)
	if x.Stdout != "hello\n" || x.Stderr != "oops\n" || x.Executions[0].Loss.BytesRead != 11 {
		t.Errorf("stdout %q, stderr %q, loss %+v", x.Stdout, x.Stderr, x.Executions[0].Loss)
	}
}

const mixed = "begin\n{\"step\":1,\"metrics\":{\"loss\":0.5,\"acc\":0.75}}\n{\"step\":2,\"metric\":\"loss\",\"value\":NaN}\nend\n"

func behaviourS2(t *testing.T, s *server, _ string) {
	x := s.whole(t, map[string]any{"command": []string{"printf", "%s", mixed}, "stage": "train"}) // gather wants this stage
	x.checkEnd(t, "DONE", "OK", "0", false)
	if got := fmt.Sprint(x.Points); x.Stdout != mixed || got != `[1 "loss" 0.5 "" 1 "acc" 0.75 "" 2 "loss" NaN ""]` {
		t.Errorf("stdout %q, points %s", x.Stdout, got)
	}
	if l := x.Executions[0].Loss; l.LinesRead != 4 || l.LinesParsed != 2 || l.LinesRejected != 0 {
		t.Errorf("the loss is %+v", l)
	}
}

func behaviourS3(t *testing.T, s *server, _ string) {
	x := s.whole(t, map[string]any{"command": []string{"printf", "%s", mixed}, "stage": ""})
	x.checkEnd(t, "DONE", "OK", "0", false)
	if x.Stdout != mixed || len(x.Points) != 0 || x.Executions[0].Loss.LinesParsed != 0 {
		t.Errorf("stdout %q, points %v, loss %+v", x.Stdout, x.Points, x.Executions[0].Loss)
	}
}

func behaviourS4(t *testing.T, s *server, _ string) {
	x := s.whole(t, map[string]any{
		"command": []string{"sh", "-c", "trap '' TERM; echo early; while :; do sleep 60; done"},
		"sandbox": map[string]any{"timeoutSeconds": 0.5, "graceSeconds": 0.2},
	})
	e := x.Executions[0]
	if x.Status != "TIMED_OUT" || e.ExitClass != "TIMEOUT" || e.ExitCode != nil && *e.ExitCode == 0 || !e.IsError || x.Stdout != "early\n" || e.Seconds < 0.5 || e.Seconds > 30 { // of the 60 that it would sleep
		t.Errorf("the run is %s, %+v, stdout %q", x.Status, e, x.Stdout)
	}
	if len(x.usage) != 1 || !x.usage[0].IsError {
		t.Errorf("the usage is %+v, want one record with isError", x.usage)
	}
}

func behaviourS5(t *testing.T, s *server, _ string) {
	s.whole(t, map[string]any{"command": []string{"sh", "-c", "exit 3"}}).checkEnd(t, "FAILED", "ERROR", "3", true)
}

// behaviourS6 shuts the sandbox's user out of the folder above the data: no
// sandbox can be made there.
func behaviourS6(t *testing.T, s *server, _ string) {
	if err := os.Chmod(filepath.Dir(s.data), 0o700); err != nil {
		t.Fatal(err)
	}
	x := s.whole(t, map[string]any{"command": []string{"true"}})
	if err := os.Chmod(filepath.Dir(s.data), 0o711); err != nil {
		t.Fatal(err)
	}
	if e := x.Executions[0]; x.Status != "FAILED" || e.ExitClass != "INFRASTRUCTURE" || !strings.Contains(deref(x.Error), "cannot reach the workspace") {
		t.Errorf("the run is %s: %s; the execution %+v", x.Status, deref(x.Error), e)
	}
	if len(x.usage) != 0 {
		t.Errorf("usage was recorded: %+v", x.usage)
	}
	s.whole(t, map[string]any{"command": []string{"true"}}).checkEnd(t, "DONE", "OK", "0", false)
}

// behaviourS8: the local backend has no such device and says which was asked for.
func behaviourS8(t *testing.T, s *server, _ string) {
	x := s.whole(t, map[string]any{"command": []string{"true"}, "sandbox": map[string]any{"gpu": "a100"}})
	if x.Status != "FAILED" || !strings.Contains(deref(x.Error), "a100") || deref(x.Executions[0].GPU) != "a100" || len(x.usage) != 0 {
		t.Errorf("the run is %s: %s; %+v; usage %+v", x.Status, deref(x.Error), x.Executions[0], x.usage)
	}
}

// behaviourS9 makes the database itself refuse a step.
func behaviourS9(t *testing.T, s *server, url string) {
	if url != "" {
		pgtest.Exec(t, url, "ALTER TABLE metric_points ADD CHECK (step <> 13)")
	} else {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(s.data, "weir.db")+"?_pragma=busy_timeout(10000)")
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.ExecContext(t.Context(), "CREATE TRIGGER no13 BEFORE INSERT ON metric_points WHEN NEW.step = 13 BEGIN SELECT RAISE(ABORT, 'step 13 is refused'); END")
		if err = errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	const printed = "{\"step\":12,\"metrics\":{\"m\":1}}\n{\"step\":13,\"metrics\":{\"m\":2}}\n{\"step\":14,\"metrics\":{\"m\":3}}\nend\n"
	r := s.startRun(map[string]any{"agent": "script", "command": []string{"printf", "%s", printed}, "stage": "train"})
	x, err := s.report(r, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var o sandboxtest.Outcome
	if err := s.gather(r, &o); err != nil {
		t.Fatal(err)
	}
	if x.Status != "DONE" || o.Stdout != printed {
		t.Errorf("the run is %s, stdout %q", x.Status, o.Stdout)
	}
	if len(o.Warnings) != 1 || !strings.HasPrefix(o.Warnings[0], "1 metric points could not be stored") {
		t.Errorf("the warnings are %q", o.Warnings)
	}
	curves, err := s.curves(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sameCurves(curves, []sandboxtest.Point{{Name: "m"}, {Name: "m"}}); err != nil {
		t.Error(err)
	}
}
