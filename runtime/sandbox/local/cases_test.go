//go:build linux

package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local"
)

// expectation is a case's right answer.
type expectation struct {
	Script string
	Limits struct {
		TimeoutS       float64 `json:"timeout_s"`
		MaxWallS       float64 `json:"max_wall_s"`
		MemoryMB       int64   `json:"memory_mb"`
		PIDs           int64
		DiskMB         int64 `json:"disk_mb"`
		MaxOutputBytes int64 `json:"max_output_bytes"`
	}
	Drive *struct {
		AfterS float64 `json:"after_s"`
		GraceS float64 `json:"grace_s"`
	}
	Exit struct {
		Class     string
		ClassAlso []string `json:"class_also"`
		Code      *int
	}
	Metrics      []point
	MetricsCheck *struct {
		Count    int
		Contains []point
	} `json:"metrics_check"`
	Events []map[string]any
}

type point struct {
	Step  int64
	Name  string
	Value any
	Run   string
}

func (p point) String() string { return fmt.Sprintf("%d %q %v %q", p.Step, p.Name, p.Value, p.Run) }

func pointOf(p run.Point) point {
	q := point{Step: p.Step, Name: p.Name, Run: p.RunTag}
	switch f := p.Float(); {
	case math.IsNaN(f):
		q.Value = "NaN"
	case math.IsInf(f, 1):
		q.Value = "Infinity"
	case math.IsInf(f, -1):
		q.Value = "-Infinity"
	default:
		q.Value = f + 0 // -0 equals 0
	}
	return q
}

// notOnPlain are the cases that no process without isolation can meet; its
// label says so.
var notOnPlain = []string{"51", "57", "58"}

func isPlain(t *testing.T, b backend) bool {
	t.Helper()
	_, plain := b.(*local.Plain)
	return plain
}

// limitsAllMemory tells whether the memory limit is the kernel's, over all
// processes; a server without root may not have it, and says so.
func limitsAllMemory(t *testing.T, b backend) bool {
	t.Helper()
	return !strings.Contains(b.Probe(t.Context()).Reason, "for each process")
}

func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.expected.json")
	if err != nil || len(files) < 40 {
		t.Fatalf("found %d cases: %v", len(files), err)
	}
	each(t, func(t *testing.T, b backend) {
		plain := isPlain(t, b)
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".expected.json")
			t.Run(name, func(t *testing.T) {
				if plain && slices.Contains(notOnPlain, name[:2]) {
					return
				}
				runCase(t, b, file)
			})
		}
	})
}

func runCase(t *testing.T, b backend, file string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want expectation
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	s := spec(t)
	script, err := os.ReadFile(filepath.Join("testdata/cases", want.Script))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Workspace, want.Script), script, 0o755); err != nil {
		t.Fatal(err)
	}
	s.Command = []string{"./" + want.Script}
	l := want.Limits
	s.Limits.Timeout = time.Duration(l.TimeoutS * float64(time.Second))
	for _, x := range []struct {
		to   *int64
		from int64
	}{{&s.Limits.MemoryMiB, l.MemoryMB}, {&s.Limits.PIDs, l.PIDs}, {&s.Limits.DiskMiB, l.DiskMB}, {&s.Limits.MaxOutputBytes, l.MaxOutputBytes}} {
		if x.from > 0 {
			*x.to = x.from
		}
	}
	ctx := t.Context()
	if want.Drive != nil {
		s.Limits.Grace = time.Duration(want.Drive.GraceS * float64(time.Second))
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(want.Drive.AfterS*float64(time.Second)))
		defer stop()
	}
	began := time.Now()
	r := &recorder{}
	res, err := sandbox.Run(ctx, b, s, r, sandbox.Options{})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if l.MaxWallS > 0 && time.Since(began) > time.Duration(l.MaxWallS*float64(time.Second)) {
		t.Errorf("took %s, at most %vs are allowed", time.Since(began), l.MaxWallS)
	}
	classes := append(want.Exit.ClassAlso, want.Exit.Class)
	if want.Exit.Class == "oom" && !limitsAllMemory(t, b) {
		classes = append(classes, "error") // a MemoryError, as the label says
	}
	if !slices.Contains(classes, strings.ToLower(string(res.Class))) {
		t.Errorf("class %s, want %v", res.Class, classes)
	}
	if want.Exit.Code != nil && exitCode(res) != *want.Exit.Code {
		t.Errorf("exit code %d, want %d", exitCode(res), *want.Exit.Code)
	}
	if len(res.Survivors) > 0 {
		t.Errorf("survivors %v", res.Survivors)
	}
	checkPoints(t, want, r.points)
	checkEvents(t, want.Events, r)
	checkMust(t, b, file, s, res, r)
	if t.Failed() {
		t.Logf("result %+v\nstdout %.300q\nstderr %.300q", res, r.stdout(), r.stderr())
	}
}

// exitCode is the code as a shell would show it.
func exitCode(r sandbox.Result) int {
	if r.ExitCode != nil {
		return *r.ExitCode
	}
	return 128 + map[string]int{"SIGKILL": 9, "SIGTERM": 15, "SIGSEGV": 11}[r.Signal]
}

func checkPoints(t *testing.T, want expectation, got []run.Point) {
	t.Helper()
	have := map[string]int{}
	for _, p := range got {
		have[pointOf(p).String()]++
		if p.Stage != "train" || p.At.IsZero() {
			t.Fatalf("point %+v has no stage or no time", p)
		}
	}
	if want.MetricsCheck != nil {
		if len(got) != want.MetricsCheck.Count {
			t.Errorf("%d points, want %d", len(got), want.MetricsCheck.Count)
		}
		for _, p := range want.MetricsCheck.Contains {
			if have[p.String()] == 0 {
				t.Errorf("no point %s", p)
			}
		}
		return
	}
	need := map[string]int{}
	for _, p := range want.Metrics {
		need[p.String()]++
	}
	if !maps.Equal(have, need) {
		t.Errorf("points\n%v\nwant\n%v", have, need)
	}
}

func checkEvents(t *testing.T, want []map[string]any, r *recorder) {
	t.Helper()
	var got []map[string]any
	for _, c := range r.charts {
		got = append(got, map[string]any{"type": "chart_config", "config": decode(t, c)})
	}
	for _, m := range r.media {
		e := map[string]any{"type": m.Kind, "step": float64(m.Step), "key": m.Key, "data": decode(t, string(m.Data))}
		if m.RunTag != "" {
			e["run"] = m.RunTag
		}
		got = append(got, e)
	}
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

func decode(t *testing.T, s string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("stored JSON %q: %v", s, err)
	}
	return v
}

// checkMust checks what the cases demand in words.
func checkMust(t *testing.T, b backend, file string, s sandbox.Spec, res sandbox.Result, r *recorder) {
	t.Helper()
	switch filepath.Base(file)[:2] {
	case "06":
		if !strings.Contains(r.stdout(), "\x1b]52;c;aGk=\x07") {
			t.Error("the raw control sequences are not in the stored output")
		}
	case "08":
		if n := len(r.stdout()); n < 10<<20 {
			t.Errorf("only %d bytes of the long line were forwarded", n)
		}
	case "26":
		if res.Loss.LinesRejected != 3 || len(res.Loss.RejectedSamples) != 3 {
			t.Errorf("rejected %d lines, samples %q; want the three with other text around", res.Loss.LinesRejected, res.Loss.RejectedSamples)
		}
	case "36":
		if res.Class == run.ClassOutputLimit && res.Loss.BytesTruncated == 0 || int64(len(r.stdout())) > s.Limits.MaxOutputBytes {
			t.Errorf("forwarded %d bytes, truncated %d", len(r.stdout()), res.Loss.BytesTruncated)
		}
	case "37":
		if strings.Contains(r.stdout(), "late") {
			t.Error("output after the end")
		}
	case "53":
		if limitsAllMemory(t, b) && (len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "killed for memory")) {
			t.Errorf("warnings %q", res.Warnings)
		}
	}
}
