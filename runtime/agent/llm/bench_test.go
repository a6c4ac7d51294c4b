//go:build linux

package llm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/agent/llm"
	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local"
)

const (
	// patience bounds every wait of these tests; it passes only when one fails.
	patience  = 60 * time.Second
	testModel = "model-1"
	testKey   = "key-0123456789"
)

// bench is an engine on a store whose agents ask a loopback provider.
type bench struct {
	t       *testing.T
	store   *store.Store
	dir     string
	replica string
	sandbox sandbox.Backend
	engine  *engine.Engine
	stop    func()
	wire    wire
	retry   llm.Retry
	agents  map[string]agent.Definition

	mu        sync.Mutex
	committed chan struct{} // closed and made anew at each commit
}

func newBench(t *testing.T, w wire) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-llm-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil { // a sandbox's user passes through
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	box := local.NewBubblewrap(local.Options{})
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Errorf("closing the sandboxes: %v", err)
		}
	})
	if st := box.Probe(t.Context()); !st.Available {
		pgtest.Need(t, "no sandbox works here: "+st.Reason)
	}
	b := &bench{
		t: t, dir: dir, replica: run.NewKey("replica"), sandbox: box, wire: w, agents: map[string]agent.Definition{}, committed: make(chan struct{}),
		retry: llm.Retry{Tries: 4, Delay: time.Millisecond, Max: 4 * time.Millisecond},
	}
	b.open()
	b.start()
	return b
}

// start starts an engine; a second call is a restart.
func (b *bench) start() {
	b.t.Helper()
	driver := llm.New(llm.Options{
		Open:   func(t llm.Target) chat.Model { return b.wire.model(t) },
		Getenv: func(name string) string { return map[string]string{"TEST_KEY": testKey}[name] },
		Retry:  b.retry,
	})
	e, err := engine.New(engine.Options{
		Store: b.store, Agents: b, Drivers: map[string]agent.Driver{agent.DriverLLM: driver},
		Backends: map[string]sandbox.Backend{"local": b.sandbox}, DataDir: b.dir, Replica: b.replica, Poll: time.Hour, StopTimeout: 2 * time.Second,
	})
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
	b.stop = sync.OnceFunc(func() {
		cancel(nil)
		<-done
		driver.Close()
	})
	b.t.Cleanup(b.stop)
	select {
	case <-e.Ready():
	case <-time.After(patience):
		b.t.Fatal("the engine is not ready")
	}
	b.engine = e
}

// crash ends the engine as a killed server leaves the store: nothing that was
// open is closed.
func (b *bench) crash() {
	b.t.Helper()
	if err := b.store.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.stop()
	b.open()
}

func (b *bench) open() {
	b.t.Helper()
	s, err := store.Open(b.t.Context(), store.Options{Path: b.dir})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.t.Errorf("closing the store: %v", err)
		}
	})
	b.store = s
	s.Listen(b)
}

// Lookup implements engine.Agents.
func (b *bench) Lookup(name string) (agent.Definition, error) {
	d, ok := b.agents[name]
	if !ok {
		return d, errors.New("it is not defined")
	}
	return d, nil
}

// define makes an agent whose model is at p.
func (b *bench) define(p *provider, name string, change func(*agent.Definition)) {
	d := agent.Definition{
		Name: name, Driver: agent.DriverLLM, Provider: b.wire.provider(), Model: testModel,
		LLM: &agent.LLM{BaseURL: p.url, KeyEnv: "TEST_KEY", Instructions: "You are " + name + "."},
	}
	if change != nil {
		change(&d)
	}
	b.agents[name] = d
}

// Committed implements store.Listener.
func (b *bench) Committed([]*run.Event, []run.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.committed)
	b.committed = make(chan struct{})
}

// until waits until ok holds; it looks at each commit.
func (b *bench) until(what string, ok func() bool) {
	b.t.Helper()
	late := time.After(patience)
	for {
		b.mu.Lock()
		next := b.committed
		b.mu.Unlock()
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

func (b *bench) begin(agent, prompt string) run.Run {
	b.t.Helper()
	r, err := b.engine.Start(b.t.Context(), run.StartRequest{Input: run.Input{Agent: agent, Prompt: prompt}})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) get(id run.ID) run.Run {
	b.t.Helper()
	r, err := b.store.Run(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) ended(id run.ID) run.Run {
	b.t.Helper()
	var r run.Run
	b.until("the end of run "+string(id), func() bool {
		r = b.get(id)
		return r.State.Status.Final()
	})
	return r
}

// play starts the agent and waits for its end.
func (b *bench) play(agent, prompt string) run.Run {
	b.t.Helper()
	return b.ended(b.begin(agent, prompt).ID)
}

// story tells the events of a run in words, deltas left out.
func (b *bench) story(r run.Run) []string {
	b.t.Helper()
	page, err := b.store.Events(b.t.Context(), run.EventQuery{Session: r.Session, First: 1000, Filter: run.EventFilter{Run: r.ID}})
	if err != nil {
		b.t.Fatal(err)
	}
	var out []string
	note := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, e := range page.Events {
		p, err := e.Payload()
		if err != nil {
			b.t.Fatal(err)
		}
		switch p := p.(type) {
		case *run.AgentMessage:
			if p.Partial {
				note("partial: %s", p.Text)
			} else {
				note("says: %s", p.Text)
			}
		case *run.AgentThought:
			note("thinks: %s", p.Text)
		case *run.ToolCallStarted:
			note("calls %s %s %s", p.CallID, p.Name, p.Arguments)
		case *run.ToolCallFinished:
			kind := "result"
			if p.IsError {
				kind = "error"
			}
			note("%s %s: %s", kind, p.CallID, strings.TrimSpace(p.Text))
		case *run.UsageRecorded:
			if p.Kind == run.ModelCall {
				note("used %s", p.Provenance)
			}
		case *run.Warning:
			note("warning: %s", p.Text)
		case *run.QuestionAsked:
			note("asks: %s", p.Text)
		case *run.QuestionAnswered:
			note("answered: %s", p.Answer)
		case *run.AgentErrored:
			note("errored: %s", p.Text)
		}
	}
	return out
}

// deltas puts the pieces together that were shown as they came.
func (b *bench) deltas(r run.Run) string {
	b.t.Helper()
	page, err := b.store.Events(b.t.Context(), run.EventQuery{Session: r.Session, First: 1000, Filter: run.EventFilter{Run: r.ID, Types: []run.EventType{run.TypeMessageDelta}}})
	if err != nil {
		b.t.Fatal(err)
	}
	var s strings.Builder
	for _, e := range page.Events {
		p, err := e.Payload()
		if err != nil {
			b.t.Fatal(err)
		}
		s.WriteString(p.(*run.MessageDelta).Text)
	}
	return s.String()
}

// bill gives the records of the run's model calls.
func (b *bench) bill(r run.Run) []run.UsageRecord {
	b.t.Helper()
	list, err := b.store.UsageRecords(b.t.Context(), r.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	var out []run.UsageRecord
	for _, u := range list {
		if u.Kind == run.ModelCall {
			out = append(out, u)
		}
	}
	return out
}

func (b *bench) file(r run.Run, name string) string {
	data, err := os.ReadFile(filepath.Join(b.dir, "workspaces", string(r.Session), name))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func wantState(t *testing.T, r run.Run, s run.Status, why run.ExitReason) {
	t.Helper()
	if r.State != (run.State{Status: s, Reason: why}) {
		t.Errorf("run %s is %s %s (%s), want %s %s", r.ID, r.State.Status, r.State.Reason, r.Error, s, why)
	}
}

// wantLines compares, line by line; a want that ends with ... is a beginning.
func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	same := len(got) == len(want)
	for i := 0; same && i < len(want); i++ {
		begin, open := strings.CutSuffix(want[i], "...")
		same = got[i] == want[i] || open && strings.HasPrefix(got[i], begin)
	}
	if !same {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
