package engine_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
)

// rawPath is where the raw output of a stream is kept.
func (b *bench) rawPath(s run.SessionID, x run.ExecutionID, stream string) string {
	return filepath.Join(b.dir, "outputs", string(s), string(x)+"."+stream)
}

func (b *bench) plays(play func(p *scriptedProcess) int) {
	b.backends["local"].(*scriptedBackend).play = play
}

func prints(p *scriptedProcess, pieces ...string) {
	for _, s := range pieces {
		_, _ = io.WriteString(p.out, s)
	}
}

func TestRawOutputIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	b := newBench(t, "sqlite")
	b.plays(func(p *scriptedProcess) int {
		prints(p, "a\xff\r", "\nb\xe2", "\x82\xac\x00", "c\xe2\x82") // the last character never ends
		_, _ = io.WriteString(p.err, "\xf0\x9f")
		return 0
	})
	var e *running
	b.agent("train", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
		_, _, err := h.Execute(ctx, sh("true"))
		return "", err
	})
	e = b.engine()
	r := b.ended(e.start("train").ID)
	rows, err := b.store.Executions(t.Context(), r.ID)
	if err != nil || len(rows) != 1 {
		t.Fatalf("the executions are %v, %v", rows, err)
	}
	x := rows[0]
	want := map[run.OutputStream]string{run.Stdout: "a\xff\r\nb\xe2\x82\xac\x00c\xe2\x82", run.Stderr: "\xf0\x9f"}
	if x.Loss.BytesRead != 14 || x.Loss.LinesRead != 3 || x.Loss.BytesNotKept != 0 {
		t.Errorf("the account is %+v", x.Loss)
	}
	kept, err := e.Outputs(r.Session, x.ID)
	if err != nil || len(kept) != 2 {
		t.Fatalf("kept are %v, %v", kept, err)
	}
	for _, o := range kept {
		f, err := e.OpenOutput(t.Context(), x.ID, o.Stream)
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(f)
		info, _ := f.Stat()
		_ = f.Close()
		if err != nil || string(all) != want[o.Stream] || o.Bytes != int64(len(all)) || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %q (%d bytes, %v), %v", o.Stream, all, o.Bytes, info.Mode(), err)
		}
	}
	if info, err := os.Stat(filepath.Join(b.dir, "outputs")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others may enter: %v, %v", info.Mode(), err)
	}
	for _, c := range []struct {
		id   run.ExecutionID
		s    run.OutputStream
		code run.Code
	}{{"exe_../../x", run.Stdout, run.NotFound}, {x.ID, "../x", run.Invalid}, {run.NewExecutionID(), run.Stdout, run.NotFound}} {
		if _, err := e.OpenOutput(t.Context(), c.id, c.s); run.CodeOf(err) != c.code {
			t.Errorf("%s %s: %v, want %s", c.id, c.s, err, c.code)
		}
	}
	if err := e.DeleteSession(t.Context(), r.Session); err != nil {
		t.Fatal(err)
	}
	if !gone(t, filepath.Dir(b.rawPath(r.Session, x.ID, "stdout"))) {
		t.Error("the output is still there")
	}
	if kept, err := e.Outputs(r.Session, x.ID); err != nil || kept != nil {
		t.Errorf("kept are %v, %v", kept, err)
	}
}

func TestRawOutputEndsAtTheLimit(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"STOP", "TRUNCATE"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "sqlite")
			b.plays(func(p *scriptedProcess) int {
				prints(p, "aaaaaa\xe2\x82\xac\nmore\n", "and more\n", "half") // the limit cuts the character
				return 0
			})
			x := b.execute(sh("true"), func(q *run.StartRequest) {
				q.Input.Sandbox = run.SandboxRequest{MaxOutputBytes: 8, OnOutputLimit: limit}
			})
			if got, err := os.ReadFile(b.rawPath(x.run.Session, x.row.ID, "stdout")); err != nil || string(got) != "aaaaaa\xe2\x82" {
				t.Errorf("kept is %q, %v", got, err)
			}
			if text := x.text(t, run.Stdout); text != "aaaaaa��" {
				t.Errorf("shown is %q", text)
			}
			if l := x.row.Loss; l.BytesRead != 28 || l.BytesTruncated != 20 || l.LinesRead != 4 || l.BytesNotKept != 0 {
				t.Errorf("the account is %+v", l)
			}
			if !gone(t, b.rawPath(x.run.Session, x.row.ID, "stdout.count")) {
				t.Error("the account of the ended execution is still in its file")
			}
		})
	}
}

// looksFirst is a store that looks at the raw output before it shows events.
type looksFirst struct {
	*store.Store
	b      *bench
	looked atomic.Int32
}

func (l *looksFirst) Append(ctx context.Context, batch run.Batch) ([]*run.Event, error) {
	for _, d := range batch.Drafts {
		if o, ok := d.Payload.(*run.OutputWritten); ok {
			l.looked.Add(1)
			info, err := os.Stat(l.b.rawPath(batch.Session, o.ExecutionID, "stdout"))
			if err != nil || info.Size() < o.Offset+int64(len(o.Text)) {
				l.b.t.Errorf("an event shows %d bytes; the file: %v, %v", o.Offset+int64(len(o.Text)), info, err)
			}
		}
	}
	return l.Store.Append(ctx, batch)
}

func TestTheFileHasWhatTheEventsShow(t *testing.T) {
	t.Parallel()
	b := newBench(t, "sqlite")
	l := &looksFirst{Store: b.store, b: b}
	b.tweak = func(o *engine.Options) { o.Store = l }
	b.plays(func(p *scriptedProcess) int {
		for i := range 300 {
			prints(p, fmt.Sprintf("line %d\n", i), `{"step":1,"metrics":{"a":1}}`+"\n")
		}
		return 0
	})
	if x := b.execute(sh("true")); x.err != nil || l.looked.Load() < 300 {
		t.Errorf("%v, %d looks", x.err, l.looked.Load())
	}
}

func TestARawFileThatCannotBeWrittenEndsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, "sqlite")
	writeFile(t, b.dir, "outputs", "in the way")
	b.plays(func(p *scriptedProcess) int {
		prints(p, "one\n", "two\n")
		_, _ = io.WriteString(p.err, "three\n")
		return 0
	})
	x := b.execute(sh("true"))
	wantState(t, x.run, run.Done, run.Completed)
	if x.err != nil || x.text(t, run.Stdout) != "one\ntwo\n" || x.row.Loss.BytesNotKept != 14 || x.row.Loss.BytesRead != 14 {
		t.Errorf("got %+v, %v", x.row.Loss, x.err)
	}
	warnings := 0
	for _, line := range b.told(x.run) {
		if strings.HasPrefix(line, "WARNING The raw output of execution "+string(x.row.ID)) {
			warnings++
		}
	}
	if warnings != 1 {
		t.Errorf("%d warnings in %q", warnings, b.told(x.run))
	}
	e := b.engine()
	const want = "a file has the place of outputs"
	if _, err := e.Outputs(x.run.Session, x.row.ID); run.CodeOf(err) != run.Unavailable || !strings.Contains(err.Error(), want) {
		t.Errorf("what is kept of it: %v", err)
	}
	if _, err := e.OpenOutput(t.Context(), x.row.ID, run.Stdout); run.CodeOf(err) != run.Unavailable || !strings.Contains(err.Error(), want) {
		t.Errorf("its output: %v", err)
	}
}

// What a server that died had read is counted from its files, also where no
// event shows it, where it is no UTF-8, and beyond the output limit.
func TestALostExecutionIsCountedFromItsFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t, "sqlite")
	b.agent("train", says("never"))
	type lost struct {
		events []string
		files  map[string]string
		want   run.Loss
	}
	cases := map[string]lost{
		"ExactBytes": {
			[]string{"a�\n"},
			map[string]string{"stdout": "a\xff\n{\"step\":1,\"metrics\":{\"a\":1}}\nhalf", "stderr": "oh\xfe"},
			run.Loss{BytesRead: 39, LinesRead: 4, LinesParsed: 1},
		},
		"NoFile":    {[]string{"a\n", "b"}, nil, run.Loss{BytesRead: 3, LinesRead: 2, BytesNotKept: 3}},
		"ShortFile": {[]string{"a\nb\n"}, map[string]string{"stdout": "a\n"}, run.Loss{BytesRead: 4, LinesRead: 2, BytesNotKept: 2}},
		"BeyondTheLimit": {
			[]string{"ab"},
			map[string]string{"stdout": "ab", "stdout.count": `{"loss":{"bytesRead":100,"linesRead":7,"linesParsed":2,"bytesTruncated":98,"rejectedSamples":["x"]},"unended":true}  ` + "\n"},
			run.Loss{BytesRead: 100, LinesRead: 8, LinesParsed: 2, BytesTruncated: 98},
		},
		"BrokenCount": {[]string{"ab"}, map[string]string{"stdout": "ab", "stdout.count": `{"loss":{"bytes`}, run.Loss{BytesRead: 2, LinesRead: 1}},
	}
	runs := map[string]run.Run{}
	for name, c := range cases {
		r := b.leave("train", true)
		x := run.Execution{ID: run.NewExecutionID(), Run: r.ID, Backend: "local", Command: []string{"sleep"}, StartedAt: time.Now()}
		batch := run.Batch{Session: r.Session, Executions: []run.Execution{x}}
		at := int64(0)
		for _, text := range c.events {
			batch.Drafts = append(batch.Drafts, run.DraftOf(r, time.Now(), &run.OutputWritten{ExecutionID: x.ID, Stream: run.Stdout, Offset: at, Text: text}))
			at += int64(len(text) - 2*strings.Count(text, "�"))
		}
		b.append(batch)
		for file, content := range c.files {
			path := b.rawPath(r.Session, x.ID, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Dir(path), filepath.Base(path), content)
		}
		runs[name] = r
	}
	b.engine()
	for name, c := range cases {
		rows, err := b.store.Executions(t.Context(), runs[name].ID)
		if err != nil || len(rows) != 1 {
			t.Fatalf("the executions are %v, %v", rows, err)
		}
		got := rows[0].Loss
		got.RejectedSamples = nil
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: counted %+v, want %+v", name, got, c.want)
		}
	}
}

func TestTheAccountIsCurrentWhileItRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t, "sqlite")
	more, end := make(chan struct{}), make(chan struct{})
	wait := func(p *scriptedProcess, c chan struct{}) {
		select {
		case <-c:
		case <-p.kill: // the test has failed
		}
	}
	b.plays(func(p *scriptedProcess) int {
		prints(p, "plain\n", `{"step":1,"metrics":{"a":1}}`+"\n")
		wait(p, more)
		prints(p, "INFO {\"metrics\":1}\nhalf")
		wait(p, end)
		return 0
	})
	b.agent("train", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
		_, _, err := h.Execute(ctx, sh("true"))
		return "", err
	})
	e := b.engine()
	r := e.start("train")
	live := func(want string) {
		t.Helper()
		b.until("the account is "+want, func() bool {
			for _, l := range e.Losses(r.ID) {
				return fmt.Sprintf("%d %d %d %d", l.BytesRead, l.LinesRead, l.LinesParsed, l.LinesRejected) == want
			}
			return false
		})
	}
	live("35 2 1 0")
	close(more)
	live("58 3 1 1")
	close(end)
	b.ended(r.ID)
	if l := e.Losses(r.ID); len(l) != 0 {
		t.Errorf("an ended run still has %v", l)
	}
}

// keepsPoints is a store that takes the points for itself: thousands of curves
// take a database long.
type keepsPoints struct {
	*store.Store
	mu     sync.Mutex
	names  map[string]bool
	points int
}

func (k *keepsPoints) Append(ctx context.Context, batch run.Batch) ([]*run.Event, error) {
	k.mu.Lock()
	batch.Drafts = slices.DeleteFunc(slices.Clone(batch.Drafts), func(d run.Draft) bool {
		m, ok := d.Payload.(*run.MetricsLogged)
		if ok {
			for _, p := range m.Points {
				k.names[p.Name] = true
			}
			k.points += len(m.Points)
		}
		return ok
	})
	k.mu.Unlock()
	return k.Store.Append(ctx, batch)
}

// A run's executions share one bound on its curves.
func TestARunHasABoundedNumberOfCurves(t *testing.T) {
	t.Parallel()
	b := newBench(t, "sqlite")
	k := &keepsPoints{Store: b.store, names: map[string]bool{}}
	b.tweak = func(o *engine.Options) { o.Store = k }
	var round atomic.Int32
	b.plays(func(p *scriptedProcess) int {
		n := int(round.Add(1))
		for i := range 6 {
			var line strings.Builder
			line.WriteString(`{"step":1,"metrics":{`)
			for j := range 1000 {
				fmt.Fprintf(&line, `"%d/%d/%d":1,`, n, i, j)
			}
			prints(p, line.String()+`"same":1}}`+"\n")
		}
		return 0
	})
	b.agent("train", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
		for range 2 {
			if _, _, err := h.Execute(ctx, sh("true")); err != nil {
				return "", err
			}
		}
		return "", nil
	})
	r := b.ended(b.engine().start("train").ID)
	if len(k.names) != 10_000 || k.points != 9_999+12 {
		t.Errorf("%d curves, %d points", len(k.names), k.points)
	}
	rows, err := b.store.Executions(t.Context(), r.ID)
	if err != nil || len(rows) != 2 {
		t.Fatal(err)
	}
	l := rows[1].Loss
	if rows[0].Loss.LinesRejected != 0 || l.LinesRead != 6 || l.LinesParsed != 6 || l.LinesRejected != 3 ||
		!strings.HasPrefix(l.RejectedSamples[0], "the run has 10000 curves and gets no more; print the same names with other steps. Left out: 2/3/999") {
		t.Errorf("the accounts are %+v, %+v", rows[0].Loss, l)
	}
}

// A stream that printed nothing can be opened, unlike one of an execution that
// is not known, or whose output was deleted; the errors tell which.
func TestAnOutputOfNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, "sqlite")
	b.plays(func(*scriptedProcess) int { return 0 })
	b.agent("train", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
		_, _, err := h.Execute(ctx, sh("true"))
		return "", err
	})
	e := b.engine()
	r := b.ended(e.start("train").ID)
	rows, err := b.store.Executions(t.Context(), r.ID)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v, %v", rows, err)
	}
	if kept, err := e.Outputs(r.Session, rows[0].ID); err != nil || len(kept) != 0 {
		t.Errorf("listed are %v, %v", kept, err)
	}
	for _, s := range []run.OutputStream{run.Stdout, run.Stderr} {
		f, err := e.OpenOutput(t.Context(), rows[0].ID, s)
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(f)
		if _ = f.Close(); err != nil || len(all) != 0 {
			t.Errorf("%s: %q, %v", s, all, err)
		}
	}
	if err := os.Remove(b.rawPath(r.Session, rows[0].ID, "stderr")); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[run.ExecutionID]string{rows[0].ID: "its file was deleted", run.NewExecutionID(): "there is no execution exe_"} {
		if _, err := e.OpenOutput(t.Context(), id, run.Stderr); run.CodeOf(err) != run.NotFound || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", id, err, want)
		}
	}
}
