package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
)

func TestQueueOfASessionKeepsItsOrder(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began, next := make(chan run.ID, 4), make(chan struct{})
		b.agent("train", func(_ context.Context, task agent.Task, _ agent.Host) (string, error) {
			began <- task.Run.ID
			<-next
			return "", nil
		})
		e := b.engine()
		first := e.start("train")
		want := []run.ID{first.ID}
		for range 3 {
			want = append(want, e.start("train", inSession(first.Session, run.QueueBehind)).ID)
		}
		for i, id := range want {
			if got := receive(t, "the next run's start", began); got != id {
				t.Errorf("place %d: run %s started, want %s", i, got, id)
			}
			next <- struct{}{}
		}
		for _, id := range want {
			wantState(t, b.ended(id), run.Done, run.Completed)
		}
	})
}

func TestConcurrencyIsLimitedForRootRuns(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		const limit = 3
		var now atomic.Int32
		var mu sync.Mutex
		var most int32
		began, end := make(chan run.ID, 16), make(chan struct{})
		b.agent("helper", says("ok"))
		b.agent("train", func(ctx context.Context, task agent.Task, h agent.Host) (string, error) {
			n := now.Add(1)
			defer now.Add(-1)
			mu.Lock()
			most = max(most, n)
			mu.Unlock()
			if _, err := h.Delegate(ctx, agent.Delegation{Agent: "helper", Prompt: "x"}); err != nil {
				return "", err // a child needs no room, else all would wait for each other
			}
			began <- task.Run.ID
			<-end
			return "", nil
		})
		e := b.engine(func(o *engine.Options) { o.Concurrency = limit })
		var ids []run.ID
		for range 8 {
			ids = append(ids, e.start("train").ID)
		}
		for range limit {
			receive(t, "as many runs as are allowed", began)
		}
		p, err := b.store.Runs(t.Context(), run.RunFilter{RootOnly: true, Statuses: []run.Status{run.Queued}}, run.PageQuery{First: 10})
		if err != nil || len(p.Nodes) != len(ids)-limit {
			t.Errorf("%d runs are queued, %v; want %d", len(p.Nodes), err, len(ids)-limit)
		}
		close(end)
		for _, id := range ids {
			wantState(t, b.ended(id), run.Done, run.Completed)
		}
		if most != limit {
			t.Errorf("%d runs were live at once, want %d", most, limit)
		}
	})
}

func TestWaitingRunsLeaveRoomForOthers(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("chat", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			_, err := h.Ask(ctx, "k", "well?", nil)
			return "", err
		})
		b.agent("quick", says("done"))
		e := b.engine(func(o *engine.Options) { o.Concurrency = 1 })
		waiting := e.start("chat")
		wantState(t, b.ended(e.start("quick").ID), run.Done, run.Completed)
		wantState(t, b.get(waiting.ID), run.Waiting, run.NoReason)
	})
}

func TestIdempotencyKey(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began := make(chan run.ID, 4)
		b.agent("train", blocked(began))
		e := b.engine()
		start := func(prompt string) (run.Run, error) {
			return e.Start(t.Context(), run.StartRequest{
				Input:          run.Input{Agent: "train", Prompt: prompt, Labels: json.RawMessage(`{"a":1}`)},
				IdempotencyKey: "key-1",
			})
		}
		ids := make(map[run.ID]bool)
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				r, err := start("same")
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ids[r.ID] = true
			})
		}
		all.Wait()
		if len(ids) != 1 {
			t.Errorf("one key gave %d runs", len(ids))
		}
		if _, err := start("other"); run.CodeOf(err) != run.Conflict {
			t.Errorf("another input under the same key: %v, want CONFLICT", err)
		}
	})
}

func TestPanicEndsOnlyItsRun(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("bad", func(context.Context, agent.Task, agent.Host) (string, error) { panic("oh no") })
		b.agent("good", says("fine"))
		e := b.engine()
		bad := b.ended(e.start("bad").ID)
		wantState(t, bad, run.Failed, run.ExitError)
		if !strings.Contains(bad.Error, "panicked: oh no") {
			t.Errorf("the error is %q", bad.Error)
		}
		wantState(t, b.ended(e.start("good").ID), run.Done, run.Completed)
	})
}

func TestShutdownCancelsTheLiveAndKeepsTheQueued(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began := make(chan run.ID, 2)
		b.agent("train", blocked(began))
		e := b.engine()
		live := e.start("train")
		receive(t, "the driver's start", began)
		queued := e.start("train", inSession(live.Session, run.QueueBehind))
		e.stop()
		r := b.get(live.ID)
		wantState(t, r, run.Cancelled, run.Shutdown)
		if lines := b.told(r); lines[len(lines)-1] != "RUN_ENDED CANCELLED SHUTDOWN" {
			t.Errorf("got %q", lines)
		}
		wantState(t, b.get(queued.ID), run.Queued, run.NoReason)
		if _, err := e.Start(t.Context(), run.StartRequest{Input: run.Input{Agent: "train", Prompt: "x"}}); run.CodeOf(err) != run.Unavailable {
			t.Errorf("a start after the stop: %v, want UNAVAILABLE", err)
		}
		b.engine() // the next one takes the queued run
		if id := receive(t, "the queued run's start", began); id != queued.ID {
			t.Errorf("run %s started", id)
		}
	})
}

func TestShutdownLetsRunsDrain(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began, end := make(chan run.ID, 1), make(chan struct{})
		b.agent("train", func(context.Context, agent.Task, agent.Host) (string, error) {
			began <- ""
			<-end
			return "in time", nil
		})
		e := b.engine(func(o *engine.Options) { o.Drain = patience })
		r := e.start("train")
		receive(t, "the driver's start", began)
		stopped := make(chan struct{})
		go func() { // waited for below
			e.stop()
			close(stopped)
		}()
		b.refusing(e)
		close(end)
		<-stopped
		wantState(t, b.get(r.ID), run.Done, run.Completed)
	})
}

// refusing waits until an engine takes no new runs.
func (b *bench) refusing(e *running) {
	b.t.Helper()
	late := time.Now().Add(patience)
	for time.Now().Before(late) {
		if _, err := e.CreateSession(b.t.Context(), "x"); run.CodeOf(err) == run.Unavailable {
			return
		}
	}
	b.t.Fatal("the engine goes on taking runs")
}

// outage is a store that is not there for a while.
type outage struct {
	*store.Store
	down atomic.Bool
	hit  chan struct{} // told that a write was refused
}

func (o *outage) Append(ctx context.Context, b run.Batch) ([]*run.Event, error) {
	if o.down.Load() {
		select {
		case o.hit <- struct{}{}:
		default:
		}
		return nil, run.Errorf(run.Unavailable, "the database is gone")
	}
	return o.Store.Append(ctx, b)
}

func TestStoreOutageLosesNoLastWord(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		o := &outage{Store: b.store, hit: make(chan struct{}, 1)}
		b.tweak = func(opts *engine.Options) { opts.Store = o }
		b.agent("train", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			o.down.Store(true)
			return "made it", h.Emit(ctx, &run.AgentMessage{MessageID: "m", Text: "during the outage"})
		})
		e := b.engine()
		r := e.start("train")
		receive(t, "a refused write", o.hit)
		receive(t, "another try", o.hit)
		o.down.Store(false)
		r = b.ended(r.ID)
		wantState(t, r, run.Done, run.Completed)
		if lines := b.told(r); !has(lines, "AGENT_MESSAGE during the outage") {
			t.Errorf("got %q", lines)
		}
	})
}

// TestDatabaseOutageInMidRun stops and starts a real PostgreSQL under a live run.
func TestDatabaseOutageInMidRun(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Start(t)
	b := emptyBench(t)
	b.open(store.Options{URL: cluster.Database(t)})
	const messages = 40
	halfway, goOn := make(chan struct{}), make(chan struct{})
	b.agent("talk", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
		for i := range messages {
			if i == messages/2 {
				close(halfway)
				<-goOn
			}
			if err := h.Emit(ctx, &run.AgentMessage{MessageID: "m", Text: strconv.Itoa(i)}); err != nil {
				return "", err
			}
		}
		return "all said", nil
	})
	e := b.engine()
	r := e.start("talk")
	receive(t, "half of the run", halfway)
	cluster.Stop(t)
	close(goOn)
	if _, err := e.Start(t.Context(), run.StartRequest{Input: run.Input{Agent: "talk", Prompt: "x"}}); run.CodeOf(err) != run.Unavailable {
		t.Errorf("a start during the outage: %v, want UNAVAILABLE", err)
	}
	cluster.Start(t)
	b.until("the run has ended", func() bool {
		got, err := b.store.Run(t.Context(), r.ID)
		r = got
		return err == nil && got.State.Status.Final()
	})
	wantState(t, r, run.Done, run.Completed)
	want := []string{"RUN_STARTED", "STATE_CHANGED talk_running"}
	for i := range messages {
		want = append(want, "AGENT_MESSAGE "+strconv.Itoa(i))
	}
	sameLines(t, b.told(r), append(want, "STATE_CHANGED talk_done", "RUN_ENDED DONE COMPLETED")...)
}

// noArtifacts is a store that takes no batch with artifacts.
type noArtifacts struct{ *store.Store }

func (n noArtifacts) Append(ctx context.Context, b run.Batch) ([]*run.Event, error) {
	if len(b.Artifacts) > 0 {
		return nil, errors.New("no such table: artifacts")
	}
	return n.Store.Append(ctx, b)
}

func TestRowIsClosedWhateverTheStoreRefuses(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.tweak = func(o *engine.Options) { o.Store = noArtifacts{b.store} }
		b.agent("train", func(_ context.Context, task agent.Task, _ agent.Host) (string, error) {
			writeFile(t, task.Workspace, "x.csv", "1")
			return "", errors.New("boom")
		})
		r := b.ended(b.engine().start("train").ID)
		wantState(t, r, run.Failed, run.ExitError)
		if lines := b.told(r); lines[len(lines)-1] != "RUN_ENDED FAILED ERROR" {
			t.Errorf("got %q", lines)
		}
	})
}

// fencing is a store in which another replica takes the run over.
type fencing struct {
	*store.Store
	lost atomic.Bool
}

func (f *fencing) Append(ctx context.Context, b run.Batch) ([]*run.Event, error) {
	if f.lost.Load() {
		return nil, run.ErrFenced
	}
	return f.Store.Append(ctx, b)
}

func TestFencedRunIsStoppedAndWritesNothing(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		f := &fencing{Store: b.store}
		b.tweak = func(o *engine.Options) { o.Store = f }
		stopped := make(chan error, 1)
		b.agent("train", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			f.lost.Store(true)
			err := h.Emit(ctx, &run.Warning{Text: "too late"})
			<-ctx.Done()
			stopped <- err
			return "", err
		})
		e := b.engine()
		r := e.start("train")
		if err := receive(t, "the driver's stop", stopped); err == nil {
			t.Error("a fenced run could write")
		}
		e.stop()
		wantState(t, b.get(r.ID), run.Running, run.NoReason) // it is the other replica's now
		sameLines(t, b.told(r), "RUN_STARTED", "STATE_CHANGED train_running")
	})
}

func TestDelegationHasALimit(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("russian", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			r, err := h.Delegate(ctx, agent.Delegation{Agent: "russian", Prompt: "x"})
			if run.CodeOf(err) == run.Invalid {
				return "innermost", nil
			}
			return r.Result, err
		})
		r := b.ended(b.engine(func(o *engine.Options) { o.MaxDepth = 2 }).start("russian").ID)
		wantState(t, r, run.Done, run.Completed)
		p, err := b.store.Runs(t.Context(), run.RunFilter{Session: r.Session}, run.PageQuery{First: 10})
		if err != nil || len(p.Nodes) != 3 || r.Result != "innermost" {
			t.Errorf("there are %d runs, %v, with the result %q; want 3", len(p.Nodes), err, r.Result)
		}
	})
}

func TestDeleteSessionTakesItsWorkspace(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began, end := make(chan string, 1), make(chan struct{})
		b.agent("train", func(_ context.Context, task agent.Task, _ agent.Host) (string, error) {
			writeFile(t, task.Workspace, "x.txt", "x")
			began <- task.Workspace
			<-end
			return "", nil
		})
		e := b.engine()
		r := e.start("train")
		place := receive(t, "the driver's start", began)
		if err := e.DeleteSession(t.Context(), r.Session); run.CodeOf(err) != run.Busy {
			t.Errorf("deleting a live session: %v, want BUSY", err)
		}
		close(end)
		b.ended(r.ID)
		if err := e.DeleteSession(t.Context(), r.Session); err != nil {
			t.Fatal(err)
		}
		if !gone(t, place) {
			t.Errorf("the workspace %s is still there", place)
		}
		for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) { // a file system tells nobody
			left, err := filepath.Glob(filepath.Join(b.dir, "trash", "*", "*"))
			if err != nil || time.Now().After(end) {
				t.Fatalf("left in the trash: %v, %v", left, err)
			}
			if len(left) == 0 {
				break
			}
		}
		for _, id := range []run.SessionID{r.Session, "", "../..", run.NewSessionID()} {
			if err := e.DeleteSession(t.Context(), id); run.CodeOf(err) != run.NotFound {
				t.Errorf("deleting %q: %v, want NOT_FOUND", id, err)
			}
		}
	})
}

func TestBadRequests(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("train", says("ok"))
		e := b.engine()
		used := b.ended(e.start("train").ID).Session
		fresh, err := e.CreateSession(t.Context(), "  title ")
		if err != nil || fresh.Title != "title" {
			t.Fatalf("got %+v, %v", fresh, err)
		}
		good := run.StartRequest{Input: run.Input{Agent: "train", Prompt: "x"}}
		for name, c := range map[string]struct {
			call func() error
			code run.Code
			says string
		}{
			"unknown agent":   {func() error { q := good; q.Input.Agent = "nobody"; _, err := e.Start(t.Context(), q); return err }, run.NotFound, `"nobody"`},
			"no agent":        {func() error { q := good; q.Input.Agent = ""; _, err := e.Start(t.Context(), q); return err }, run.Invalid, "agent"},
			"unknown session": {func() error { q := good; q.Session = run.NewSessionID(); _, err := e.Start(t.Context(), q); return err }, run.NotFound, "ses_"},
			"no session id":   {func() error { q := good; q.Session = "x"; _, err := e.Start(t.Context(), q); return err }, run.NotFound, `"x"`},
			"odd choice":      {func() error { q := good; q.OnBusy = "LATER"; _, err := e.Start(t.Context(), q); return err }, run.Invalid, "LATER"},
			"long key": {func() error {
				q := good
				q.IdempotencyKey = strings.Repeat("k", 300)
				_, err := e.Start(t.Context(), q)
				return err
			}, run.Invalid, "300"},
			"beyond a ceiling": {func() error {
				q := good
				q.Input.Sandbox.MemoryMiB = 1 << 30
				_, err := e.Start(t.Context(), q)
				return err
			}, run.Forbidden, "1073741824"},
			"blank message": {func() error {
				_, err := e.Message(t.Context(), run.MessageRequest{Session: used, Text: " "})
				return err
			}, run.Invalid, "empty"},
			"message to nobody": {func() error {
				_, err := e.Message(t.Context(), run.MessageRequest{Session: run.NewSessionID(), Text: "x"})
				return err
			}, run.NotFound, "ses_"},
			"message without any agent": {func() error {
				_, err := e.Message(t.Context(), run.MessageRequest{Session: fresh.ID, Text: "x"})
				return err
			}, run.Invalid, "no run yet"},
			"answer to nothing":      {func() error { _, err := e.Answer(t.Context(), run.NewKey("qst"), nil); return err }, run.NotFound, "qst_"},
			"answer that is no JSON": {func() error { _, err := e.Answer(t.Context(), run.NewKey("qst"), json.RawMessage("{")); return err }, run.Invalid, "JSON"},
			"title with NUL":         {func() error { _, err := e.CreateSession(t.Context(), "a\x00"); return err }, run.Invalid, "NUL"},
		} {
			if err := c.call(); run.CodeOf(err) != c.code || err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: got %v (%s), want %s with %q", name, err, run.CodeOf(err), c.code, c.says)
			}
		}
		if r, err := e.Message(t.Context(), run.MessageRequest{Session: used, Text: "more"}); err != nil || r.Agent != "train" || r.Input.Prompt != "more" {
			t.Errorf("a message without an agent: %+v, %v", r, err)
		} else {
			b.ended(r.ID)
		}
	})
}

func TestUsageOfAModelCall(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		cost := int64(1_250_000)
		refused := make(chan error, 1)
		b.agent("talk", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			refused <- h.Usage(ctx, run.UsageRecord{RequestKey: "bad", Tokens: run.Tokens{Input: -1}})
			return "", errors.Join(
				h.Usage(ctx, run.UsageRecord{RequestKey: "r1", Tokens: run.Tokens{Input: 10, Output: 5}, CostNanoUSD: &cost}),
				h.Usage(ctx, run.UsageRecord{RequestKey: "r1", Tokens: run.Tokens{Input: 10, Output: 7}, CostNanoUSD: &cost}),
				h.Usage(ctx, run.UsageRecord{Tokens: run.Tokens{Input: 1}}),
			)
		}, func(d *agent.Definition) { d.Provider, d.Model = "anthropic", "sonnet" })
		r := b.ended(b.engine().start("talk").ID)
		wantState(t, r, run.Done, run.Completed)
		if err := <-refused; run.CodeOf(err) != run.Invalid {
			t.Errorf("negative usage: %v, want INVALID", err)
		}
		u := r.Usage
		if u.Input != 11 || u.Output != 7 || u.Records != 2 || u.Unpriced != 1 || u.CostNanoUSD == nil || *u.CostNanoUSD != cost {
			t.Errorf("the usage is %+v", u)
		}
	})
}
