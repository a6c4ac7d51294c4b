//go:build linux

package service_test

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/agent/service"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local"
)

// patience bounds every wait of these tests; it passes only when one fails.
const patience = 60 * time.Second

//go:embed testdata/service.py
var program string

// bench is a store and a sandbox; its engines are started by the test.
type bench struct {
	t       *testing.T
	store   *store.Store
	dir     string
	replica string
	sandbox sandbox.Backend
	def     agent.Definition
	behind  atomic.Int64 // nanoseconds by which the driver's clock is late

	mu        sync.Mutex
	committed chan struct{} // closed and made anew at each commit
	stop      func()
}

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

func newBench(t *testing.T, kind string) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-service-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil { // a sandbox's user passes through
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := local.NewBubblewrap(local.Options{})
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("closing the sandboxes: %v", err)
		}
	})
	if st := w.Probe(t.Context()); !st.Available {
		pgtest.Need(t, "no sandbox works here: "+st.Reason)
	}
	o := store.Options{Path: dir, Pricer: perToken{}}
	if kind == "postgres" {
		o = store.Options{URL: pgtest.Reused(t), Pricer: perToken{}}
	}
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	b := &bench{
		t: t, store: s, dir: dir, replica: run.NewKey("replica"), sandbox: w, committed: make(chan struct{}), stop: func() {},
		def: agent.Definition{
			Name: "helper", Driver: agent.DriverService, Model: "sonnet", Provider: "anthropic", Code: program,
			Service: &agent.Service{PollSeconds: 0.25, RestartDelay: 0.01, StartSeconds: 60},
		},
	}
	s.Listen(b)
	return b
}

// perToken prices sonnet: each bucket has a price of its own, in nano-USD.
type perToken struct{}

func (perToken) Price(u run.UsageRecord, _ *run.Price) (run.Pricing, error) {
	if u.Kind == run.ComputeUsage {
		zero := int64(0)
		return run.Pricing{Price: &run.Price{ID: "own machine", Body: []byte("{}")}, NanoUSD: &zero}, nil
	}
	if u.Model != "sonnet" || u.Provenance == run.UnknownProvenance {
		return run.Pricing{}, nil
	}
	t := u.Tokens
	n := 3000*t.Input + 15000*t.Output + 300*t.CacheRead + 3750*t.CacheWriteShort + 6000*t.CacheWriteLong
	return run.Pricing{Price: &run.Price{ID: "sonnet", Body: []byte("{}")}, NanoUSD: &n}, nil
}

// Committed implements store.Listener.
func (b *bench) Committed([]*run.Event, []run.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.committed)
	b.committed = make(chan struct{})
}

func (b *bench) now() time.Time { return time.Now().Add(-time.Duration(b.behind.Load())) }

// Lookup implements engine.Agents.
func (b *bench) Lookup(string) (agent.Definition, error) { return b.def, nil }

// written is a transcript that a test keeps in the workspace: a JSON list of
// records, as they come out of a reader. What stands behind it could not be read.
type written struct{}

func (w written) Open(agent.Transcript, time.Time) (service.Reading, error) { return w, nil }

func (written) Read(_ context.Context, root *os.Root, _ bool) (list []run.UsageRecord, err error) {
	data, err := root.ReadFile("transcript")
	if err != nil {
		return nil, nil //nolint:nilerr // there is none
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&list); err != nil {
		return nil, err
	}
	if d.More() {
		return list, errors.New("1 of its lines could not be read")
	}
	return list, nil
}

// engine starts one; it is stopped with the test.
func (b *bench) engine(change ...func(*engine.Options)) *engine.Engine {
	b.t.Helper()
	o := engine.Options{
		Store: b.store, Agents: b, Drivers: map[string]agent.Driver{agent.DriverService: service.New(written{}).At(b.now)},
		Backends: map[string]sandbox.Backend{"local": b.sandbox}, DataDir: b.dir, Replica: b.replica, Poll: time.Hour,
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
	b.stop = func() { cancel(nil); <-done }
	b.t.Cleanup(b.stop)
	select {
	case <-e.Ready():
	case <-time.After(patience):
		b.t.Fatal("the engine is not ready")
	}
	return e
}

// start starts the service in a session whose workspace holds files, and waits
// until it is ready and has been looked at, unless it is to end before.
func (b *bench) start(e *engine.Engine, files map[string]string) run.Run {
	b.t.Helper()
	b.def.Files = files
	r, err := e.Start(b.t.Context(), run.StartRequest{Input: run.Input{Agent: b.def.Name}})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// looked waits until the service has been asked n times.
func (b *bench) looked(r run.Run, n int) {
	b.t.Helper()
	b.until("the service is asked", func() bool { return strings.Count(b.file(r, "seen"), "asked\n") >= n })
}

func (b *bench) path(r run.Run, name string) string {
	return filepath.Join(b.dir, "workspaces", string(r.Session), name)
}

func (b *bench) file(r run.Run, name string) string {
	data, err := os.ReadFile(b.path(r, name))
	if err != nil {
		return ""
	}
	return string(data)
}

// put replaces a file in the workspace at once.
func (b *bench) put(r run.Run, name, content string) {
	b.t.Helper()
	if err := os.WriteFile(b.path(r, name+".new"), []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(b.path(r, name+".new"), b.path(r, name)); err != nil {
		b.t.Fatal(err)
	}
}

// until waits until ok holds; it looks at each commit, and often, since not
// everything that a service does is one.
func (b *bench) until(what string, ok func() bool) {
	b.t.Helper()
	late := time.After(patience)
	often := time.NewTicker(20 * time.Millisecond)
	defer often.Stop()
	for {
		b.mu.Lock()
		next := b.committed
		b.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-next:
		case <-often.C:
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

func (b *bench) ended(id run.ID) run.Run {
	b.t.Helper()
	var r run.Run
	b.until("the end of run "+string(id), func() bool {
		r = b.get(id)
		return r.State.Status.Final()
	})
	return r
}

// abort stops a run and waits for its end.
func (b *bench) abort(e *engine.Engine, r run.Run) run.Run {
	b.t.Helper()
	rec, _, err := e.Abort(b.t.Context(), run.AbortOrder{Run: r.ID, Wait: true})
	if err != nil || rec.Outcome != run.AbortStopped || len(rec.Survivors) != 0 {
		b.t.Errorf("the abort came to %+v, %v", rec, err)
	}
	return b.get(r.ID)
}

// events gives the payloads of a run's events.
func (b *bench) events(r run.Run) []run.Payload {
	b.t.Helper()
	page, err := b.store.Events(b.t.Context(), run.EventQuery{Session: r.Session, First: 1000, Filter: run.EventFilter{Run: r.ID}})
	if err != nil {
		b.t.Fatal(err)
	}
	var out []run.Payload
	for _, e := range page.Events {
		p, err := e.Payload()
		if err != nil {
			b.t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func (b *bench) warnings(r run.Run) []string {
	b.t.Helper()
	var out []string
	for _, p := range b.events(r) {
		if w, ok := p.(*run.Warning); ok {
			out = append(out, w.Text)
		}
	}
	return out
}

// records gives the model records of a run by key, without the id in it.
func (b *bench) records(r run.Run) map[string]run.UsageRecord {
	b.t.Helper()
	list, err := b.store.UsageRecords(b.t.Context(), r.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	out := map[string]run.UsageRecord{}
	for _, u := range list {
		if u.Kind != run.ModelCall {
			continue
		}
		key := u.RequestKey
		if parts := strings.Split(key, "/"); parts[0] == "status" {
			key = strings.Join(slices.Delete(parts, 1, 2), "/")
		}
		out[key] = u
	}
	return out
}

func (b *bench) runs(session run.SessionID) []run.Run {
	b.t.Helper()
	page, err := b.store.Runs(b.t.Context(), run.RunFilter{Session: session}, run.PageQuery{First: 50})
	if err != nil {
		b.t.Fatal(err)
	}
	slices.Reverse(page.Nodes)
	return page.Nodes
}

func wantState(t *testing.T, r run.Run, s run.Status, why run.ExitReason) {
	t.Helper()
	if r.State != (run.State{Status: s, Reason: why}) || r.EndedAt.IsZero() {
		t.Errorf("run %s is %s %s at %s (%s), want %s %s", r.ID, r.State.Status, r.State.Reason, r.EndedAt, r.Error, s, why)
	}
}

func keys[T any](m map[string]T) string { return strings.Join(slices.Sorted(maps.Keys(m)), " ") }
