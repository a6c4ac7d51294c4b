package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
)

// alive gives the processes whose command line holds the marker.
func alive(t *testing.T, marker string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		pgtest.Need(t, "there is no /proc to look for processes in")
	}
	var found []string
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err == nil && bytes.Contains(line, []byte(marker)) {
			found = append(found, f+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// printed waits until a run has printed a text.
func (b *bench) printed(r run.Run, text string) {
	b.t.Helper()
	b.until("run "+string(r.ID)+" prints "+text, func() bool {
		for _, e := range b.events(r.Session) {
			if e.Type == run.TypeOutputWritten && e.Run == r.ID && bytes.Contains(e.Body, []byte(text)) {
				return true
			}
		}
		return false
	})
}

const grace = 200 * time.Millisecond

func withGrace(q *run.StartRequest) { q.Input.Sandbox.GraceSeconds = grace.Seconds() }

// marker is a number of seconds that no other process sleeps for.
var marker = struct {
	sync.Mutex
	n int
}{n: 700000}

func newMarker() string {
	marker.Lock()
	defer marker.Unlock()
	marker.n++
	return fmt.Sprintf("%d.%d", marker.n, os.Getpid())
}

// TestAbortLeavesNoProcess aborts scripts that do not want to go (P4).
func TestAbortLeavesNoProcess(t *testing.T) {
	scripts := map[string]string{
		"Willing":      "echo up; exec sleep MARK",
		"IgnoresTERM":  "trap '' TERM; echo up; while :; do sleep MARK; done",
		"DoubleForks":  "(setsid sh -c 'trap \"\" TERM; sleep MARK & sleep MARK' >/dev/null 2>&1 &) ; echo up; exec sleep MARK",
		"HoldsThePipe": "(setsid sh -c 'trap \"\" TERM; while :; do sleep MARK; done' &) ; echo up; exec sleep MARK",
	}
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			onStores(t, func(t *testing.T, b *bench) {
				b.really()
				mark := newMarker()
				b.agent("train", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
					_, _, err := h.Execute(ctx, sh(strings.ReplaceAll(script, "MARK", mark)))
					return "", err
				})
				e := b.engine()
				r := e.start("train", withGrace)
				b.printed(r, "up")
				began := time.Now()
				rec, live, err := e.Abort(t.Context(), run.AbortOrder{Run: r.ID, Wait: true})
				took := time.Since(began)
				if left := alive(t, mark); len(left) > 0 {
					t.Errorf("still alive: %q", left)
				}
				if err != nil || !live || rec.Outcome != run.AbortStopped || len(rec.Survivors) > 0 {
					t.Fatalf("got %+v, %v, %v", rec, live, err)
				}
				if took > grace+4*time.Second { // 1 s is promised; the machine of the tests is busy
					t.Errorf("it took %s", took)
				}
				for what, at := range map[string]time.Time{"signalled": rec.SignalledAt, "process gone": rec.ProcessGoneAt, "sandbox gone": rec.SandboxGoneAt} {
					if at.Before(rec.RequestedAt) {
						t.Errorf("%s at %v, which is before the request at %v", what, at, rec.RequestedAt)
					}
				}
				if rec.ProcessGoneAt.Before(rec.SignalledAt) || rec.SandboxGoneAt.Before(rec.ProcessGoneAt) {
					t.Errorf("the times are out of order: %+v", rec)
				}
				if again, live, err := e.Abort(t.Context(), run.AbortOrder{Run: r.ID}); err != nil || live || again.Outcome != run.AbortAlready {
					t.Errorf("aborting it again: %+v, %v, %v", again, live, err)
				}
			})
		})
	}
}

func TestAbortReachesTwoLevelsOfChildren(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.really()
		mark := newMarker()
		level := func(child string) work {
			return func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
				var side sync.WaitGroup
				defer side.Wait()
				side.Go(func() { _, _, _ = h.Execute(ctx, sh("trap '' TERM; echo up; while :; do sleep "+mark+"; done")) })
				if child == "" {
					<-ctx.Done()
					return "", ctx.Err()
				}
				_, err := h.Delegate(ctx, agent.Delegation{Agent: child, Prompt: "x"})
				return "", err
			}
		}
		b.agent("top", level("middle"))
		b.agent("middle", level("bottom"))
		b.agent("bottom", level(""))
		e := b.engine()
		top := e.start("top", withGrace)
		tree := []run.Run{top}
		for range 2 {
			b.until("a child", func() bool {
				children, err := b.store.Children(t.Context(), tree[len(tree)-1].ID)
				if err != nil {
					t.Fatal(err)
				}
				if len(children) == 0 {
					return false
				}
				tree = append(tree, children[0])
				return true
			})
		}
		for _, r := range tree {
			b.printed(r, "up")
		}
		rec, live, err := e.Abort(t.Context(), run.AbortOrder{Run: top.ID, Wait: true, Reason: "enough"})
		if err != nil || !live || rec.Outcome != run.AbortStopped || rec.SignalledAt.IsZero() {
			t.Errorf("got %+v, %v, %v", rec, live, err)
		}
		if left := alive(t, mark); len(left) > 0 {
			t.Errorf("still alive: %q", left)
		}
		for _, r := range tree {
			now := b.get(r.ID)
			wantState(t, now, run.Cancelled, run.Aborted)
			if now.Abort == nil || now.Abort.Outcome != run.AbortStopped || now.Abort.SignalledAt.IsZero() {
				t.Errorf("the receipt of %s is %+v", now.Agent, now.Abort)
			}
			if lines := b.told(r); !has(lines, "AGENT_ABORTED enough") || lines[len(lines)-1] != "RUN_ENDED CANCELLED ABORTED" {
				t.Errorf("%s: got %q", r.Agent, lines)
			}
			if now.Abort != nil && now.Abort.SandboxGoneAt.After(rec.SandboxGoneAt) {
				t.Errorf("the sandbox of %s was gone after the receipt said so", now.Agent)
			}
		}
		ends := 0
		for _, line := range b.told(top) {
			if strings.HasPrefix(line, "STATE_CHANGED cancelled") {
				ends++
			}
		}
		if ends != 1 {
			t.Errorf("the session was cancelled %d times", ends)
		}
	})
}

func TestAbortOfAChildIsItsParentsError(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began := make(chan run.ID, 1)
		b.agent("helper", blocked(began))
		b.agent("lead", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			_, err := h.Delegate(ctx, agent.Delegation{Agent: "helper", Prompt: "x"})
			return fmt.Sprintf("went on without: %v", err), nil
		})
		e := b.engine()
		r := e.start("lead")
		child := receive(t, "the child's start", began)
		if _, live, err := e.Abort(t.Context(), run.AbortOrder{Run: child, Wait: true}); err != nil || !live {
			t.Fatal(live, err)
		}
		r = b.ended(r.ID)
		wantState(t, r, run.Done, run.Completed)
		if want := "went on without: agent helper ended CANCELLED (ABORTED)"; r.Result != want {
			t.Errorf("the result is %q, want %q", r.Result, want)
		}
	})
}

func TestAbortWhileQueued(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began := make(chan run.ID, 1)
		b.agent("train", blocked(began))
		e := b.engine()
		first := e.start("train")
		receive(t, "the driver's start", began)
		queued := e.start("train", inSession(first.Session, run.QueueBehind))
		rec, live, err := e.Abort(t.Context(), run.AbortOrder{Run: queued.ID, Wait: true, Reason: "changed my mind"})
		if err != nil || !live || rec.Outcome != run.AbortStopped || !rec.SignalledAt.IsZero() {
			t.Errorf("got %+v, %v, %v; want it stopped and never signalled", rec, live, err)
		}
		wantState(t, b.get(queued.ID), run.Cancelled, run.Aborted)
		if s := b.session(first.Session); s.State != "train_running" || s.ActiveRun != first.ID {
			t.Errorf("the session is %q, its slot %q", s.State, s.ActiveRun)
		}
		if lines := b.told(queued); lines[len(lines)-1] != "RUN_ENDED CANCELLED ABORTED" || has(lines, "RUN_STARTED") {
			t.Errorf("got %q", lines)
		}
	})
}

func TestAbortTwiceWhileItStops(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began, release := make(chan run.ID, 1), make(chan struct{})
		b.agent("train", func(ctx context.Context, task agent.Task, _ agent.Host) (string, error) {
			began <- task.Run.ID
			<-ctx.Done()
			<-release
			return "a result after all", nil
		})
		e := b.engine()
		id := e.start("train").ID
		receive(t, "the driver's start", began)
		for _, reason := range []string{"first", "second"} {
			rec, live, err := e.Abort(t.Context(), run.AbortOrder{Run: id, Reason: reason})
			if err != nil || !live || rec.Outcome != run.AbortPending || rec.Reason != "first" {
				t.Errorf("%s: got %+v, %v, %v", reason, rec, live, err)
			}
		}
		close(release)
		r := b.ended(id)
		wantState(t, r, run.Cancelled, run.Aborted) // the cancel wins over what the driver says
		lines := b.told(r)
		if n := slices.Index(lines, "AGENT_ABORTED first"); n < 0 || has(lines, "ABORT_REQUESTED second") || r.Result != "" {
			t.Errorf("got %q with the result %q", lines, r.Result)
		}
	})
}

// TestAbortRacesTheEnd: whoever is first wins, and nobody is left in doubt.
func TestAbortRacesTheEnd(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("quick", says("done"))
		e := b.engine()
		var all sync.WaitGroup
		for range 24 {
			all.Go(func() {
				id := e.start("quick").ID
				rec, live, err := e.Abort(t.Context(), run.AbortOrder{Run: id, Wait: true})
				if err != nil {
					t.Error(err)
					return
				}
				r := b.ended(id)
				ends := 0
				for _, line := range b.told(r) {
					if strings.HasPrefix(line, "RUN_ENDED") {
						ends++
					}
				}
				if ends != 1 {
					t.Errorf("there are %d RunEnded events", ends)
				}
				aborted := r.State == run.State{Status: run.Cancelled, Reason: run.Aborted}
				completed := r.State == run.State{Status: run.Done, Reason: run.Completed}
				switch {
				case aborted && live && rec.Outcome == run.AbortStopped:
				case completed && !live && rec.Outcome == run.AbortAlready:
				default:
					t.Errorf("the run is %v, the abort said %v %s", r.State, live, rec.Outcome)
				}
				if r := b.get(id); r.Abort != nil && r.Abort.Outcome == run.AbortPending {
					t.Errorf("the receipt of run %s is left pending", id)
				}
			})
		}
		all.Wait()
	})
}

// abortsAt is a store in which somebody else's abort comes at the worst moment.
type abortsAt struct {
	*store.Store
	claim, end bool // between the claim and the launch; right before the end is written
	once       sync.Once
}

func (a *abortsAt) abort(ctx context.Context, id run.ID) (err error) {
	a.once.Do(func() {
		_, err = a.RequestAbort(ctx, run.AbortRequest{Run: id, Trigger: run.Abort, At: time.Now()})
	})
	return err
}

func (a *abortsAt) Claim(ctx context.Context, owner string, n int) ([]run.Run, error) {
	got, err := a.Store.Claim(ctx, owner, n)
	if a.claim && len(got) > 0 {
		err = errors.Join(err, a.abort(ctx, got[0].ID))
	}
	return got, err
}

func (a *abortsAt) Append(ctx context.Context, b run.Batch) ([]*run.Event, error) {
	if a.end && b.Update != nil && b.Update.To != nil && b.Update.To.Status.Final() {
		if err := a.abort(ctx, b.Update.Run); err != nil {
			return nil, err
		}
	}
	return a.Store.Append(ctx, b)
}

func TestAbortBetweenClaimAndLaunch(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.tweak = func(o *engine.Options) { o.Store = &abortsAt{Store: b.store, claim: true} }
		b.agent("train", blocked(make(chan run.ID, 1)))
		r := b.ended(b.engine().start("train").ID)
		wantState(t, r, run.Cancelled, run.Aborted)
		if r.Abort == nil || r.Abort.Outcome != run.AbortStopped {
			t.Errorf("the receipt is %+v", r.Abort)
		}
	})
}

func TestAbortThatComesTooLateIsSettled(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.tweak = func(o *engine.Options) { o.Store = &abortsAt{Store: b.store, end: true} }
		b.agent("train", says("done"))
		id := b.engine().start("train").ID
		wantState(t, b.ended(id), run.Done, run.Completed)
		b.until("the receipt is settled", func() bool { return b.get(id).Abort.Outcome == run.AbortAlready })
	})
}

func TestAbortWaitIsBounded(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began, release := make(chan run.ID, 1), make(chan struct{})
		b.agent("deaf", func(_ context.Context, task agent.Task, _ agent.Host) (string, error) {
			began <- task.Run.ID
			<-release
			return "", nil
		})
		e := b.engine()
		id := e.start("deaf").ID
		receive(t, "the driver's start", began)
		ctx, give := context.WithCancelCause(t.Context())
		var asking sync.WaitGroup
		asking.Go(func() {
			if _, _, err := e.Abort(ctx, run.AbortOrder{Run: id, Wait: true}); !errors.Is(err, errGaveUp) {
				t.Errorf("a caller that gave up got %v", err)
			}
		})
		b.until("the intent is written", func() bool { return b.get(id).Abort != nil })
		give(errGaveUp)
		asking.Wait()
		close(release)
		wantState(t, b.ended(id), run.Cancelled, run.Aborted)
	})
}

var errGaveUp = errors.New("the caller gave up")
