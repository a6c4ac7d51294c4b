package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox/sandboxtest"
)

// secret is in the environment of every server that runs the cases: case 58
// looks for it from inside.
const secret = "WEIR_SECRET=must-not-be-seen"

// heavy lets two cases at once take the machine's processors, disk or memory.
var heavy = make(chan struct{}, 2)

// TestCases runs every case through a whole server: on both stores, as root and
// as an ordinary user, and as plain processes, where the label has to name what
// fails. Which user the server has and where it keeps its data have nothing to do
// with each other: WEIR_EVERY_CASE runs the other two pairs as well.
func TestCases(t *testing.T) {
	t.Parallel()
	needPython(t)
	cases, err := sandboxtest.All()
	if err != nil || len(cases) < 40 {
		t.Fatalf("found %d cases: %v", len(cases), err)
	}
	type kind struct {
		name                  string
		postgres, root, plain bool
	}
	kinds := []kind{
		{name: "SQLiteRoot", root: true},
		{name: "PostgresUser", postgres: true},
		{name: "Plain", root: true, plain: true},
	}
	if os.Getenv("WEIR_EVERY_CASE") != "" {
		kinds = append(kinds, kind{name: "SQLiteUser"}, kind{name: "PostgresRoot", postgres: true, root: true})
	}
	// The servers whose stopped cases are still to be timed. What takes all of the
	// machine waits for them, also on the other servers.
	var timing sync.WaitGroup
	timing.Add(len(kinds))
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			timed := sync.OnceFunc(timing.Done)
			t.Cleanup(timed)
			t.Parallel()
			need(t, !kind.root || os.Geteuid() == 0, "the user root")
			url := ""
			if kind.postgres {
				url = pgtest.Database(t)
			}
			s := newServer(t, url, "--concurrency", "10")
			s.env = []string{secret}
			if !kind.root {
				s.as(ordinaryUser())
			}
			if kind.plain {
				s.args = append(s.args, "--allow-unsandboxed")
				s.env = append(s.env, "PATH="+bareTools(t, "yes"))
			}
			s.start()
			label := s.label()
			if kind.plain != (label.Isolation == "UNSANDBOXED") || kind.plain && !strings.Contains(label.Reason, "bubblewrap (bwrap) is not installed") {
				t.Fatalf("the label says %+v", label)
			}
			s.runCases(t, cases, label, timed, timing.Wait)
			if peak := s.peakMiB(); peak > maxServerMiB {
				t.Errorf("the server used %d MiB, bound %d", peak, maxServerMiB)
			}
		})
	}
}

// label is what the server says about its sandbox.
func (s *server) label() sandboxtest.Label {
	s.t.Helper()
	var out struct {
		Server struct {
			Sandboxes []struct {
				Backend           string
				Available         bool
				Reason, Isolation *string
			}
		}
	}
	s.must(`{ server { sandboxes { backend available reason isolation } } }`, nil, &out)
	for _, b := range out.Server.Sandboxes {
		if b.Backend != "local" {
			continue
		}
		if !b.Available {
			pgtest.Need(s.t, "no sandbox works here: "+deref(b.Reason))
		}
		var l sandboxtest.Label
		if b.Reason != nil {
			l.Reason = *b.Reason
		}
		if b.Isolation != nil {
			l.Isolation = *b.Isolation
		}
		return l
	}
	s.t.Fatalf("no local backend in %+v", out)
	return sandboxtest.Label{}
}

// runCases runs them side by side, for most of them wait, and judges them one by
// one. It calls timed when no stopped case is left, and calm before a heavy one.
func (s *server) runCases(t *testing.T, cases []sandboxtest.Case, label sandboxtest.Label, timed, calm func()) {
	type ran struct {
		outcome sandboxtest.Outcome
		err     error
	}
	all := make([]ran, len(cases))
	var wg, stopped sync.WaitGroup
	places := make(chan struct{}, 10)
	for i, c := range cases {
		if c.Number == 51 && c.Excused(label) {
			continue // nothing would bound it
		}
		if c.Drive != nil {
			stopped.Add(1)
		}
		wg.Go(func() {
			if c.Drive != nil {
				defer stopped.Done()
			}
			if c.Heavy() {
				calm()
				heavy <- struct{}{}
				defer func() { <-heavy }()
			}
			places <- struct{}{}
			defer func() { <-places }()
			all[i].outcome, all[i].err = s.runCase(c, label)
		})
	}
	stopped.Wait()
	timed()
	wg.Wait()
	for i, c := range cases {
		if c.Number == 51 && c.Excused(label) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			o := all[i].outcome
			if all[i].err != nil {
				t.Fatal(all[i].err)
			}
			for _, p := range c.Judge(o, label) {
				if c.Excused(label) {
					t.Logf("excused by the label: %s", p)
				} else {
					t.Error(p)
				}
			}
			if t.Failed() {
				t.Logf("%s %d after %s, %+v\nstdout %.300q\nstderr %.300q", o.Class, o.Code(), o.Wall, o.Loss, o.Stdout, o.Stderr)
			}
		})
	}
}

// input is what a user would send to run a case.
func input(c sandboxtest.Case) map[string]any {
	sandbox := map[string]any{"timeoutSeconds": c.Limits.TimeoutS}
	for name, n := range map[string]int64{
		"memoryMiB": c.Limits.MemoryMB, "pids": c.Limits.PIDs, "diskMiB": c.Limits.DiskMB, "maxOutputBytes": c.Limits.MaxOutputBytes,
	} {
		if n > 0 {
			sandbox[name] = n
		}
	}
	if c.Drive != nil {
		sandbox["graceSeconds"] = c.Drive.GraceS
	}
	in := map[string]any{"agent": "script", "stage": "train", "sandbox": sandbox}
	if c.IsPython() {
		in["code"] = c.Source
	} else {
		in["command"] = []string{"sh", "-c", c.Source}
	}
	return in
}

func (s *server) runCase(c sandboxtest.Case, label sandboxtest.Label) (sandboxtest.Outcome, error) {
	var o sandboxtest.Outcome
	var started struct{ StartRun startedRun }
	if err := s.try(`mutation($input: StartRunInput!) { startRun(input: $input) { id status session { id } } }`,
		map[string]any{"input": input(c)}, &started); err != nil {
		return o, fmt.Errorf("starting: %w", err)
	}
	r := started.StartRun
	if c.Drive != nil {
		after := time.Duration(c.Drive.AfterS * float64(time.Second))
		got, err := s.drive(r, after)
		if err != nil {
			return o, err
		}
		// Counted from its first output, however late a busy machine sees that.
		o.Wall, o.Survivors = after+got.SandboxGoneAt.Sub(got.RequestedAt), got.Survivors
	}
	rep, err := s.report(r, 3*time.Minute)
	if err != nil {
		return o, err
	}
	x := rep.Executions[0]
	o.Class, o.ExitCode, o.Loss = run.ExitClass(x.ExitClass), x.ExitCode, x.Loss
	if x.Signal != nil {
		o.Signal = *x.Signal
	}
	if c.Drive == nil {
		o.Wall = time.Duration(x.Seconds * float64(time.Second))
	}
	if isolation := deref(x.Isolation); isolation != "null" && isolation != label.Isolation || x.Isolation == nil && label.Isolation != "" {
		return o, fmt.Errorf("the execution's label is %s, the server's %q", isolation, label.Isolation)
	}
	if err := s.gather(r, &o); err != nil {
		return o, err
	}
	if left := processesWith("WEIR_EXECUTION=" + x.ID); len(left) > 0 && !c.Excused(label) {
		return o, fmt.Errorf("left behind: %v", left)
	}
	curves, err := s.curves(r, o.Points)
	if err != nil {
		return o, err
	}
	return o, sameCurves(curves, o.Points)
}

// stopped is the receipt of an abort, as far as the cases need it.
type stopped struct {
	RequestedAt, SandboxGoneAt time.Time
	Survivors                  []int
	Outcome                    string
}

// drive aborts the run when it has printed for some time.
func (s *server) drive(r startedRun, after time.Duration) (stopped, error) {
	var none stopped
	for deadline := time.Now().Add(time.Minute); ; {
		var out struct {
			Events struct{ Nodes []json.RawMessage }
		}
		if err := s.try(`query($s: ID!) { events(sessionId: $s, types: [OUTPUT_WRITTEN]) { nodes { seq } } }`, map[string]any{"s": r.Session.ID}, &out); err != nil {
			return none, err
		}
		if len(out.Events.Nodes) > 0 {
			break
		}
		if time.Now().After(deadline) {
			return none, errors.New("it printed nothing")
		}
		<-time.After(20 * time.Millisecond)
	}
	<-time.After(after)
	for deadline := time.Now().Add(60 * time.Second); ; {
		var out struct{ AbortRun stopped }
		if err := s.try(`mutation($id: ID!) { abortRun(id: $id, wait: true) { `+receiptFields+` } }`, map[string]any{"id": r.ID}, &out); err != nil {
			return none, fmt.Errorf("aborting: %w", err)
		}
		switch got := out.AbortRun; {
		case got.Outcome == "STOPPED":
			return got, nil
		case got.Outcome != "PENDING" || time.Now().After(deadline): // the wait is bounded, and a busy machine slow
			return none, fmt.Errorf("the abort came to %s", got.Outcome)
		}
	}
}

// report is what the API says of an ended run.
type report struct {
	Status             string
	Error              *string
	StartedAt, EndedAt *time.Time
	Executions         []struct {
		ID                string
		ExitClass         string
		ExitCode          *int
		Signal, Isolation *string
		Seconds           float64
		IsError           bool
		GPU               *string
		Loss              run.Loss
	}
}

func (s *server) report(r startedRun, limit time.Duration) (report, error) {
	for deadline := time.Now().Add(limit); ; {
		var out struct{ Run report }
		if err := s.try(`query($id: ID!) { run(id: $id) { status error startedAt endedAt } }`, map[string]any{"id": r.ID}, &out); err != nil {
			return report{}, err
		}
		if out.Run.EndedAt != nil {
			break
		}
		if time.Now().After(deadline) {
			return report{}, fmt.Errorf("it is %s after %s", out.Run.Status, limit)
		}
		<-time.After(100 * time.Millisecond)
	}
	var out struct{ Run report }
	err := s.try(`query($id: ID!) { run(id: $id) { status error startedAt endedAt
		executions { id exitClass exitCode signal seconds isolation isError gpu loss { bytesRead linesRead linesParsed linesRejected bytesTruncated rejectedSamples } } } }`, map[string]any{"id": r.ID}, &out)
	if err == nil && len(out.Run.Executions) != 1 {
		err = fmt.Errorf("%d executions, the run is %s: %s", len(out.Run.Executions), out.Run.Status, deref(out.Run.Error))
	}
	return out.Run, err
}

// logged is an event as the cases look at it.
type logged struct {
	Seq    int64
	Type   string
	Stream string
	Text   string
	Offset int64
	Points []struct {
		Step            json.Number
		Name            string
		Value           *float64
		Special, RunTag *string
		Stage           *string
		At              time.Time
	}
	Config any
	Kind   string
	Key    string
	Step   json.Number
	RunTag *string
	Data   any
}

const loggedFields = `seq type
	... on OutputWritten { stream text offset }
	... on MetricsLogged { points { step name value special runTag stage at } }
	... on ChartConfigured { config }
	... on MediaLogged { kind key step runTag data }
	... on Warning { text }`

// gather reads a session's log into the outcome, 200 events at a time.
func (s *server) gather(r startedRun, o *sandboxtest.Outcome) error {
	text := map[string]*strings.Builder{"STDOUT": {}, "STDERR": {}}
	for after, more := int64(0), true; more; {
		var out struct {
			Events struct {
				Nodes   []logged
				HasMore bool
			}
		}
		if err := s.try(`query($s: ID!, $after: Long) { events(sessionId: $s, after: $after, first: 200,
			types: [OUTPUT_WRITTEN, METRICS_LOGGED, CHART_CONFIGURED, MEDIA_LOGGED, WARNING]) { nodes { `+loggedFields+` } hasMore } }`,
			map[string]any{"s": r.Session.ID, "after": after}, &out); err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
		for _, e := range out.Events.Nodes {
			if err := add(o, text, e); err != nil {
				return err
			}
			after = e.Seq
		}
		more = out.Events.HasMore
	}
	o.Stdout, o.Stderr = text["STDOUT"].String(), text["STDERR"].String()
	return nil
}

func add(o *sandboxtest.Outcome, text map[string]*strings.Builder, e logged) error {
	switch e.Type {
	case "OUTPUT_WRITTEN":
		text[e.Stream].WriteString(e.Text)
	case "WARNING":
		o.Warnings = append(o.Warnings, e.Text)
	case "METRICS_LOGGED":
		for _, p := range e.Points {
			step, err := p.Step.Int64()
			if err != nil || deref(p.Stage) != "train" || p.At.IsZero() || (p.Value == nil) != (p.Special != nil) {
				return fmt.Errorf("the point %+v: %w", p, err)
			}
			v := math.NaN()
			switch deref(p.Special) {
			case "POSITIVE_INFINITY":
				v = math.Inf(1)
			case "NEGATIVE_INFINITY":
				v = math.Inf(-1)
			case "null":
				v = *p.Value
			}
			o.Points = append(o.Points, sandboxtest.NewPoint(step, p.Name, v, word(p.RunTag)))
		}
	case "CHART_CONFIGURED":
		o.Events = append(o.Events, map[string]any{"type": "chart_config", "config": e.Config})
	case "MEDIA_LOGGED":
		step, err := e.Step.Float64()
		if err != nil {
			return err
		}
		m := map[string]any{"type": strings.ToLower(e.Kind), "step": step, "key": e.Key, "data": e.Data}
		if e.RunTag != nil {
			m["run"] = *e.RunTag
		}
		o.Events = append(o.Events, m)
	}
	return nil
}

func word(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// curve is a series of Run.metrics.
type curve struct {
	Name    string
	RunTag  *string
	Stage   *string
	Buckets []struct{ Count json.Number }
}

// curves asks for all curves of the points: some names at a time, as the
// API bounds an answer, and at least once, for curves that should not be there.
func (s *server) curves(r startedRun, points []sandboxtest.Point) ([]curve, error) {
	var names []string
	for _, p := range points {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	ask := [][]string{nil}
	if len(names) > 200 {
		ask = slices.Collect(slices.Chunk(names, 200))
	}
	var all []curve
	for _, some := range ask {
		var out struct{ Run struct{ Metrics []curve } }
		if err := s.try(`query($id: ID!, $names: [String!]) { run(id: $id) { metrics(names: $names, maxPoints: 100) { name runTag stage buckets { count } } } }`,
			map[string]any{"id": r.ID, "names": some}, &out); err != nil {
			return nil, fmt.Errorf("reading the curves: %w", err)
		}
		all = append(all, out.Run.Metrics...)
	}
	return all, nil
}

// sameCurves: the curves hold exactly the points of the events.
func sameCurves(curves []curve, points []sandboxtest.Point) error {
	var want, have []string
	for _, p := range points {
		want = append(want, p.Run+"/"+p.Name)
	}
	for _, m := range curves {
		n := int64(0)
		for _, b := range m.Buckets {
			c, err := b.Count.Int64()
			if err != nil {
				return err
			}
			n += c
		}
		for range n {
			have = append(have, word(m.RunTag)+"/"+m.Name)
		}
	}
	slices.Sort(want)
	slices.Sort(have)
	for i := range max(len(want), len(have)) {
		if i >= len(want) || i >= len(have) || want[i] != have[i] {
			return fmt.Errorf("the curves hold %d points, the events %d; they differ at %.300q and %.300q", len(have), len(want), have[min(i, len(have)):], want[min(i, len(want)):])
		}
	}
	return nil
}
