//go:build linux

package local_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/sandboxtest"
)

// TestCases runs each case by itself: what comes of them through a whole server,
// as root and not, is in server/e2e.
func TestCases(t *testing.T) {
	t.Parallel()
	cases, err := sandboxtest.All()
	if err != nil || len(cases) < 40 {
		t.Fatalf("found %d cases: %v", len(cases), err)
	}
	each(t, func(t *testing.T, b backend) {
		status := b.Probe(t.Context())
		label := sandboxtest.Label{Isolation: status.Isolation, Reason: status.Reason}
		for _, c := range cases {
			if c.Number == 51 && c.Excused(label) {
				continue // nothing would bound it
			}
			t.Run(c.Name, func(t *testing.T) {
				problems := c.Judge(runCase(t, b, c), label)
				for _, p := range problems {
					if c.Excused(label) {
						t.Logf("excused by the label: %s", p)
					} else {
						t.Error(p)
					}
				}
			})
		}
	})
}

func runCase(t *testing.T, b backend, c sandboxtest.Case) sandboxtest.Outcome {
	t.Helper()
	s := spec(t)
	if err := os.WriteFile(filepath.Join(s.Workspace, c.Script), []byte(c.Source), 0o755); err != nil {
		t.Fatal(err)
	}
	s.Command = []string{"./" + c.Script}
	s.Limits.Timeout = time.Duration(c.Limits.TimeoutS * float64(time.Second))
	for _, x := range []struct {
		to   *int64
		from int64
	}{
		{&s.Limits.MemoryMiB, c.Limits.MemoryMB},
		{&s.Limits.PIDs, c.Limits.PIDs},
		{&s.Limits.DiskMiB, c.Limits.DiskMB},
		{&s.Limits.MaxOutputBytes, c.Limits.MaxOutputBytes},
	} {
		if x.from > 0 {
			*x.to = x.from
		}
	}
	r := &recorder{}
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	if d := c.Drive; d != nil {
		s.Limits.Grace = time.Duration(d.GraceS * float64(time.Second))
		r.onText = func(string) {
			r.onText = nil
			time.AfterFunc(time.Duration(d.AfterS*float64(time.Second)), func() { stop(nil) })
		}
	}
	began := time.Now()
	res, err := sandbox.Run(ctx, b, s, r, sandbox.Options{})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return outcome(t, res, r, time.Since(began))
}

func outcome(t *testing.T, res sandbox.Result, r *recorder, wall time.Duration) sandboxtest.Outcome {
	t.Helper()
	o := sandboxtest.Outcome{
		Class: res.Class, ExitCode: res.ExitCode, Signal: res.Signal, Wall: wall, Stdout: r.stdout(), Stderr: r.stderr(),
		Loss: res.Loss, Warnings: res.Warnings, Survivors: res.Survivors,
	}
	for _, p := range r.points {
		if p.Stage != "train" || p.At.IsZero() {
			t.Fatalf("point %+v has no stage or no time", p)
		}
		o.Points = append(o.Points, sandboxtest.NewPoint(p.Step, p.Name, p.Float(), p.RunTag))
	}
	for _, c := range r.charts {
		o.Events = append(o.Events, map[string]any{"type": "chart_config", "config": decode(t, c)})
	}
	for _, m := range r.media {
		o.Events = append(o.Events, mediaEvent(t, m))
	}
	return o
}

func mediaEvent(t *testing.T, m run.MediaLogged) map[string]any {
	t.Helper()
	e := map[string]any{"type": m.Kind, "step": float64(m.Step), "key": m.Key, "data": decode(t, string(m.Data))}
	if m.RunTag != "" {
		e["run"] = m.RunTag
	}
	return e
}

func decode(t *testing.T, s string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("stored JSON %q: %v", s, err)
	}
	return v
}
