package engine_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// patience bounds every wait of these tests; it passes only when one fails.
const patience = 30 * time.Second

// onStores runs a test on each kind of store.
func onStores(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, newBench(t, kind))
		})
	}
}

// work is what an agent of a test does.
type work func(ctx context.Context, t agent.Task, h agent.Host) (string, error)

// bench is a store with what an engine needs; its engines are started by the
// test, one after the other or side by side.
type bench struct {
	t        *testing.T
	store    *store.Store
	dir      string
	changes  *changes
	backends map[string]sandbox.Backend
	tracer   trace.Tracer
	tweak    func(*engine.Options)
	replica  string // of its own: an engine ends what it finds under its name

	mu     sync.Mutex
	agents map[string]agent.Definition
	works  map[string]work
}

func newBench(t *testing.T, kind string) *bench {
	t.Helper()
	b := emptyBench(t)
	if kind == "postgres" {
		b.open(store.Options{URL: pgtest.Reused(t)})
	} else {
		if err := os.WriteFile(filepath.Join(b.dir, "weir.db"), emptyDatabase(t), 0o600); err != nil {
			t.Fatal(err)
		}
		b.open(store.Options{Path: b.dir})
	}
	return b
}

var emptied struct {
	once sync.Once
	file []byte
	err  error
}

// emptyDatabase is the file of a SQLite store that has its tables: to make them
// takes longer than most of the tests.
func emptyDatabase(t *testing.T) []byte {
	t.Helper()
	emptied.once.Do(func() {
		dir := t.TempDir()
		s, err := store.Open(t.Context(), store.Options{Path: dir})
		if err == nil {
			err = s.Close()
		}
		if err == nil {
			emptied.file, err = os.ReadFile(filepath.Join(dir, "weir.db"))
		}
		emptied.err = err
	})
	if emptied.err != nil {
		t.Fatal(emptied.err)
	}
	return emptied.file
}

func emptyBench(t *testing.T) *bench {
	t.Helper()
	return &bench{
		t: t, replica: run.NewKey("replica"), dir: dataFolder(t), changes: newChanges(), agents: map[string]agent.Definition{}, works: map[string]work{},
		backends: map[string]sandbox.Backend{"local": &scriptedBackend{}},
	}
}

// open opens the store; it is closed with the test.
func (b *bench) open(o store.Options) {
	t := b.t
	t.Helper()
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	s.Listen(b.changes)
	b.store = s
}

// dataFolder is a temporary folder that a sandbox's user can pass through,
// which t.TempDir is not.
func dataFolder(t *testing.T) string {
	t.Helper()
	top, err := os.MkdirTemp("", "weir-engine-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(top); err != nil {
			t.Errorf("removing the data folder: %v", err)
		}
	})
	if err := os.Chmod(top, 0o711); err != nil {
		t.Fatal(err)
	}
	return top
}

// Lookup implements engine.Agents.
func (b *bench) Lookup(name string) (agent.Definition, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d, ok := b.agents[name]; ok {
		return d, nil
	}
	return agent.Definition{}, run.Errorf(run.NotFound, "there is no agent %q; there are: %s", name, strings.Join(slices.Sorted(maps.Keys(b.agents)), ", "))
}

// Name and Run make the bench a driver that does what the agent's work says.
func (b *bench) Name() string { return "test" }

func (b *bench) Run(ctx context.Context, t agent.Task, h agent.Host) (string, error) {
	b.mu.Lock()
	w := b.works[t.Definition.Name]
	b.mu.Unlock()
	return w(ctx, t, h)
}

// agent defines one.
func (b *bench) agent(name string, w work, change ...func(*agent.Definition)) {
	d := agent.Definition{Name: name, Driver: "test"}
	for _, c := range change {
		c(&d)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.agents[name], b.works[name] = d, w
}

// running is a started engine.
type running struct {
	*engine.Engine
	b    *bench
	stop func() // waits for the end; may be called twice
}

// engine starts one; it is stopped with the test.
func (b *bench) engine(change ...func(*engine.Options)) *running {
	b.t.Helper()
	o := engine.Options{
		Store: b.store, Agents: b, Drivers: map[string]agent.Driver{"test": b}, Backends: b.backends,
		DataDir: b.dir, Replica: b.replica, Tracer: b.tracer,
		Poll: time.Hour, // nothing may depend on it but what comes from other replicas
	}
	if b.tweak != nil {
		b.tweak(&o)
	}
	for _, c := range change {
		c(&o)
	}
	e, err := engine.New(o)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(b.t.Context()))
	done := make(chan struct{})
	go func() { // stop waits for it
		defer close(done)
		if err := e.Run(ctx); err != nil {
			b.t.Errorf("running the engine: %v", err)
		}
	}()
	r := &running{Engine: e, b: b, stop: func() { cancel(nil); <-done }}
	b.t.Cleanup(r.stop)
	select {
	case <-e.Ready():
	case <-done:
		b.t.Fatal("the engine ended before it was ready")
	case <-time.After(patience):
		b.t.Fatal("the engine is not ready")
	}
	return r
}

// start starts a run of an agent in a new session.
func (r *running) start(name string, change ...func(*run.StartRequest)) run.Run {
	r.b.t.Helper()
	q := run.StartRequest{Input: run.Input{Agent: name, Prompt: "go"}}
	for _, c := range change {
		c(&q)
	}
	got, err := r.Start(r.b.t.Context(), q)
	if err != nil {
		r.b.t.Fatalf("starting %s: %v", name, err)
	}
	return got
}

func inSession(id run.SessionID, busy run.OnBusy) func(*run.StartRequest) {
	return func(q *run.StartRequest) { q.Session, q.OnBusy = id, busy }
}

// changes wakes those who wait whenever something was committed.
type changes struct {
	mu  sync.Mutex
	now chan struct{}
}

func newChanges() *changes { return &changes{now: make(chan struct{})} }

// Committed implements store.Listener.
func (c *changes) Committed([]*run.Event, []run.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.now)
	c.now = make(chan struct{})
}

func (c *changes) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// until waits until ok holds after some commit.
func (b *bench) until(what string, ok func() bool) {
	b.t.Helper()
	late := time.After(patience)
	for {
		next := b.changes.next()
		if ok() {
			return
		}
		select {
		case <-next:
		case <-late:
			b.t.Fatalf("waited in vain: %s", what)
		}
	}
}

func (b *bench) get(id run.ID) run.Run {
	b.t.Helper()
	r, err := b.store.Run(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) session(id run.SessionID) run.Session {
	b.t.Helper()
	s, err := b.store.Session(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// ended waits for the end of a run.
func (b *bench) ended(id run.ID) run.Run {
	b.t.Helper()
	var r run.Run
	b.until("the end of run "+string(id), func() bool {
		r = b.get(id)
		return r.State.Status.Final()
	})
	return r
}

func (b *bench) inStatus(id run.ID, s run.Status) run.Run {
	b.t.Helper()
	var r run.Run
	b.until(fmt.Sprintf("run %s is %s", id, s), func() bool {
		r = b.get(id)
		return r.State.Status == s
	})
	return r
}

// events gives a session's whole log, and checks that its seqs have no gap.
func (b *bench) events(id run.SessionID) []*run.Event {
	b.t.Helper()
	var all []*run.Event
	for after := int64(0); ; {
		p, err := b.store.Events(b.t.Context(), run.EventQuery{Session: id, After: after, First: 1000})
		if err != nil {
			b.t.Fatal(err)
		}
		for _, e := range p.Events {
			if e.Seq != after+1 {
				b.t.Fatalf("seq %d follows %d", e.Seq, after)
			}
			after = e.Seq
		}
		all = append(all, p.Events...)
		if !p.HasMore {
			return all
		}
	}
}

// told gives one line per event of a run: its type and what matters of it.
func (b *bench) told(r run.Run) []string {
	b.t.Helper()
	var out []string
	for _, e := range b.events(r.Session) {
		if e.Run == r.ID {
			out = append(out, tell(b.t, e))
		}
	}
	return out
}

func tell(t *testing.T, e *run.Event) string {
	t.Helper()
	p, err := e.Payload()
	if err != nil {
		t.Fatal(err)
	}
	line := string(e.Type)
	switch p := p.(type) {
	case *run.StateChanged:
		line += " " + p.State
	case *run.RunEnded:
		line += fmt.Sprintf(" %s %s", p.Status, p.ExitReason)
	case *run.AgentErrored:
		line += " " + p.Text
	case *run.AgentTimedOut:
		line += " " + p.Text
	case *run.AgentAborted:
		line += " " + p.Reason
	case *run.AbortRequested:
		line += " " + p.Reason
	case *run.HookFinished:
		line += fmt.Sprintf(" %s %v", p.Name, p.IsError)
	case *run.FilesReady:
		for _, f := range p.Files {
			line += " " + f.Path
		}
	case *run.ReportReady:
		line += " " + p.Path
	case *run.AgentMessage:
		line += " " + p.Text
	case *run.Warning:
		line += " " + p.Text
	case *run.ExecutionFinished:
		line += " " + string(p.ExitClass)
	case *run.QuestionAnswered:
		line += " " + string(p.Outcome)
	}
	return line
}

func sameLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func has(lines []string, prefix string) bool {
	return slices.ContainsFunc(lines, func(s string) bool { return strings.HasPrefix(s, prefix) })
}

func wantState(t *testing.T, r run.Run, s run.Status, why run.ExitReason) {
	t.Helper()
	if r.State != (run.State{Status: s, Reason: why}) {
		t.Errorf("run %s of %s is %s %s (%s), want %s %s", r.ID, r.Agent, r.State.Status, r.State.Reason, r.Error, s, why)
	}
	if r.State.Status.Final() && r.EndedAt.IsZero() {
		t.Errorf("run %s ended at no time", r.ID)
	}
}

// receive takes from a channel, or fails the test.
func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain: %s", what)
		panic("unreachable")
	}
}

// blocked is work that tells when it began and goes on until it is cancelled.
func blocked(began chan<- run.ID) work {
	return func(ctx context.Context, t agent.Task, _ agent.Host) (string, error) {
		began <- t.Run.ID
		<-ctx.Done()
		return "", ctx.Err()
	}
}

// says is work that returns a text.
func says(text string) work {
	return func(context.Context, agent.Task, agent.Host) (string, error) { return text, nil }
}

func writeFile(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		t.Error(err)
	}
}
