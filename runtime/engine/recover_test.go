package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
)

func gone(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// leave writes the row of a run as a server that died would have left it:
// accepted, and claimed by the replica unless it is to stay queued.
func (b *bench) leave(name string, claim bool) run.Run {
	b.t.Helper()
	def, err := b.Lookup(name)
	if err != nil {
		b.t.Fatal(err)
	}
	definition, err := json.Marshal(def)
	if err != nil {
		b.t.Fatal(err)
	}
	now := time.Now()
	r := run.Run{
		ID: run.NewID(), Session: run.NewSessionID(), Agent: name, Stage: name, Driver: def.Driver, Attempt: 1,
		State: run.State{Status: run.Queued}, CreatedAt: now, Input: run.Input{Agent: name, Prompt: "x"}, Definition: definition,
	}
	a, err := b.store.Accept(b.t.Context(), run.NewRun{Run: r, NewSession: &run.Session{ID: r.Session, CreatedAt: now}, OnBusy: run.Reject})
	if err != nil {
		b.t.Fatal(err)
	}
	if !claim {
		return a.Run
	}
	got, err := b.store.Claim(b.t.Context(), b.replica, 1)
	if err != nil || len(got) != 1 || got[0].ID != r.ID {
		b.t.Fatalf("claiming: %v, %v", got, err)
	}
	return got[0]
}

// leaveChild writes the row of a live child run.
func (b *bench) leaveChild(parent run.Run, name string) run.Run {
	b.t.Helper()
	def, err := b.Lookup(name)
	if err != nil {
		b.t.Fatal(err)
	}
	definition, err := json.Marshal(def)
	if err != nil {
		b.t.Fatal(err)
	}
	a, err := b.store.Accept(b.t.Context(), run.NewRun{Run: run.Run{
		ID: run.NewID(), Session: parent.Session, Parent: parent.ID, Agent: name, Stage: name, Driver: def.Driver, Attempt: 1,
		State: run.State{Status: run.Running}, Owner: b.replica, CreatedAt: time.Now(), Input: run.Input{Agent: name, Prompt: "x"}, Definition: definition,
	}})
	if err != nil {
		b.t.Fatal(err)
	}
	return a.Run
}

func (b *bench) append(batch run.Batch) {
	b.t.Helper()
	if _, err := b.store.Append(b.t.Context(), batch); err != nil {
		b.t.Fatal(err)
	}
}

// ask leaves a run waiting for an answer.
func (b *bench) ask(r run.Run, key string) run.Question {
	q := run.Question{ID: run.NewKey("qst"), Run: r.ID, Session: r.Session, Key: key, Text: "go on?", AskedAt: time.Now(), State: run.QuestionOpen}
	b.append(run.Batch{
		Session: r.Session, Fence: run.Fence{Run: r.ID, Token: r.Token}, Questions: []run.Question{q},
		Drafts: []run.Draft{run.DraftOf(r, time.Now(), &run.QuestionAsked{QuestionID: q.ID, Text: q.Text})},
		Update: &run.Update{Run: r.ID, From: []run.Status{run.Running}, To: &run.State{Status: run.Waiting}},
	})
	return q
}

func TestRecoveryOfQueued(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("train", says("ran"))
		r := b.leave("train", false)
		b.engine()
		wantState(t, b.ended(r.ID), run.Done, run.Completed)
	})
}

func TestRecoveryOfRunning(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("train", says("never"))
		r := b.leave("train", true)
		x := run.Execution{ID: run.NewExecutionID(), Run: r.ID, Backend: "local", Command: []string{"sleep"}, StartedAt: time.Now()}
		out := func(stream run.OutputStream, offset int64, text string) run.Draft {
			return run.DraftOf(r, time.Now(), &run.OutputWritten{ExecutionID: x.ID, Stream: stream, Offset: offset, Text: text})
		}
		b.append(run.Batch{Session: r.Session, Executions: []run.Execution{x}, Drafts: []run.Draft{
			out(run.Stdout, 0, "hello\n{\"step\":1,"), out(run.Stderr, 0, "oh\n"), out(run.Stdout, 16, "\"metrics\":{\"loss\":1}}\nhalf"),
		}})
		place := filepath.Join(b.dir, "workspaces", string(r.Session))
		if err := os.MkdirAll(place, 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, place, "half.csv", "1")
		b.engine()
		r = b.get(r.ID) // closed before the engine is ready
		wantState(t, r, run.Failed, run.Lost)
		lines := b.told(r)
		if !has(lines, "AGENT_ERRORED") || !slices.Contains(lines, "STATE_CHANGED failed") || lines[len(lines)-1] != "RUN_ENDED FAILED LOST" {
			t.Errorf("got %q", lines)
		}
		rows, err := b.store.Executions(t.Context(), r.ID)
		if err != nil || len(rows) != 1 || rows[0].EndedAt.IsZero() || rows[0].Class != run.ClassInfrastructure {
			t.Errorf("the executions are %+v, %v", rows, err)
		}
		if l := rows[0].Loss; l.BytesRead != 45 || l.LinesRead != 4 || l.LinesParsed != 1 || l.LinesRejected != 0 {
			t.Errorf("what was kept is counted as %+v", l)
		}
		if files, err := b.store.Artifacts(t.Context(), r.ID); err != nil || len(files) != 1 {
			t.Errorf("the artifacts are %v, %v", files, err)
		}
		if reaped := b.backends["local"].(*scriptedBackend).reaped; len(reaped) == 0 || reaped[0] != b.replica {
			t.Errorf("what was left behind was looked for under %q", reaped)
		}
		if s := b.session(r.Session); s.ActiveRun != "" || s.State != "failed" {
			t.Errorf("the session is %q, its slot %q", s.State, s.ActiveRun)
		}
	})
}

func TestRecoveryOfAborted(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("train", says("never"))
		loud, quiet := b.leave("train", true), b.leave("train", true)
		for _, a := range []run.AbortRequest{
			{Run: loud.ID, Trigger: run.Abort, Reason: "stop it", At: time.Now()},
			{Run: quiet.ID, Trigger: run.Replace, Silent: true, At: time.Now()},
		} {
			if _, err := b.store.RequestAbort(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		b.engine()
		r := b.get(loud.ID)
		wantState(t, r, run.Cancelled, run.Aborted)
		if r.Abort == nil || r.Abort.Outcome != run.AbortStopped {
			t.Errorf("the receipt is %+v", r.Abort)
		}
		if lines := b.told(r); !slices.Contains(lines, "AGENT_ABORTED stop it") {
			t.Errorf("got %q", lines)
		}
		wantState(t, b.get(quiet.ID), run.Cancelled, run.ReplacedReason)
		sameLines(t, b.told(quiet), "RUN_STARTED", "RUN_ENDED CANCELLED REPLACED")
	})
}

func TestRecoveryClosesChildrenBeforeParents(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("lead", says("never"))
		b.agent("helper", says("never"))
		root := b.leave("lead", true)
		child := b.leaveChild(root, "helper")
		asking := b.leaveChild(child, "helper")
		q := b.ask(asking, "k") // its parent's driver is gone, so it cannot go on
		b.engine()
		for _, r := range []run.Run{root, child, asking} {
			wantState(t, b.get(r.ID), run.Failed, run.Lost)
		}
		var order []run.ID
		for _, e := range b.events(root.Session) {
			if e.Type == run.TypeRunEnded {
				order = append(order, e.Run)
			}
		}
		if !slices.Equal(order, []run.ID{asking.ID, child.ID, root.ID}) {
			t.Errorf("the order of the ends is %v", order)
		}
		list, err := b.store.Questions(t.Context(), asking.ID)
		if err != nil || list[0].ID != q.ID || list[0].State != run.QuestionCancelled {
			t.Errorf("the question is %+v, %v", list, err)
		}
	})
}

func TestRecoveryOfWaiting(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		resumed := make(chan string, 2)
		b.agent("chat", func(ctx context.Context, task agent.Task, h agent.Host) (string, error) {
			resumed <- task.ResumeKey
			a, err := h.Ask(ctx, task.ResumeKey, "go on?", nil)
			return "the answer is " + string(a), err
		})
		b.agent("other", says("ok"))
		open, answered := b.leave("chat", true), b.leave("chat", true)
		q := b.ask(open, "turn-3")
		late := b.ask(answered, "turn-4")
		if _, err := b.store.Answer(t.Context(), late.ID, []byte(`"yes"`)); err != nil {
			t.Fatal(err) // answered, and then the server died
		}
		e := b.engine()
		keys := []string{receive(t, "a resumed run", resumed), receive(t, "another", resumed)}
		slices.Sort(keys)
		sameLines(t, keys, "turn-3", "turn-4")
		if r := b.ended(answered.ID); r.Result != `the answer is "yes"` {
			t.Errorf("the result is %q", r.Result)
		}
		wantState(t, b.get(open.ID), run.Waiting, run.NoReason)
		if s := b.session(open.Session); s.ActiveRun != open.ID {
			t.Errorf("the slot holds %q", s.ActiveRun)
		}
		if _, err := e.Answer(t.Context(), q.ID, json.RawMessage(`{"go":true}`)); err != nil {
			t.Fatal(err)
		}
		r := b.ended(open.ID)
		wantState(t, r, run.Done, run.Completed)
		if r.Result != `the answer is {"go":true}` {
			t.Errorf("the result is %q", r.Result)
		}
		if n := strings.Count(strings.Join(b.told(r), "\n"), "QUESTION_ASKED"); n != 1 {
			t.Errorf("it was asked %d times", n)
		}
		if _, err := e.Answer(t.Context(), q.ID, json.RawMessage(`1`)); run.CodeOf(err) != run.Conflict {
			t.Errorf("a second answer: %v, want CONFLICT", err)
		}
	})
}

func TestAskWaitsForItsAnswer(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		inside := make(chan run.Status, 1)
		b.agent("chat", func(ctx context.Context, task agent.Task, h agent.Host) (string, error) {
			a, err := h.Ask(ctx, "k", "which one?", json.RawMessage(`{"type":"string"}`))
			inside <- b.get(task.Run.ID).State.Status
			return string(a), err
		})
		e := b.engine()
		r := e.start("chat")
		b.inStatus(r.ID, run.Waiting)
		list, err := b.store.Questions(t.Context(), r.ID)
		if err != nil || len(list) != 1 || list[0].Text != "which one?" {
			t.Fatalf("the questions are %+v, %v", list, err)
		}
		if _, err := e.Answer(t.Context(), list[0].ID, json.RawMessage(`"this"`)); err != nil {
			t.Fatal(err)
		}
		if s := receive(t, "the answer", inside); s != run.Running {
			t.Errorf("with its answer the run is %s", s)
		}
		r = b.ended(r.ID)
		if r.Result != `"this"` {
			t.Errorf("the result is %q", r.Result)
		}
		sameLines(
			t, b.told(r), "RUN_STARTED", "STATE_CHANGED chat_running", "QUESTION_ASKED", "QUESTION_ANSWERED ANSWERED",
			"STATE_CHANGED chat_done", "RUN_ENDED DONE COMPLETED",
		)
	})
}

func TestAbortOfAWaitingRun(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("chat", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			_, err := h.Ask(ctx, "k", "well?", nil)
			return "", err
		})
		e := b.engine()
		r := e.start("chat")
		b.inStatus(r.ID, run.Waiting)
		if rec, live, err := e.Abort(t.Context(), run.AbortOrder{Run: r.ID, Wait: true}); err != nil || !live || rec.Outcome != run.AbortStopped {
			t.Errorf("got %+v, %v, %v", rec, live, err)
		}
		wantState(t, b.get(r.ID), run.Cancelled, run.Aborted)
		if lines := b.told(r); !slices.Contains(lines, "QUESTION_ANSWERED CANCELLED") {
			t.Errorf("got %q", lines)
		}
	})
}

// doubtful is a store whose first claim is committed though its answer is lost.
type doubtful struct {
	engine.Store
	lost bool
}

func (d *doubtful) Claim(ctx context.Context, owner string, n int) ([]run.Run, error) {
	got, err := d.Store.Claim(ctx, owner, n)
	if len(got) > 0 && !d.lost {
		d.lost = true
		return nil, run.Errorf(run.Unavailable, "the connection broke")
	}
	return got, err
}

func TestClaimInDoubtIsLaunched(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("train", says("ran"))
		d := &doubtful{Store: b.store}
		b.tweak = func(o *engine.Options) { o.Store, o.Poll = d, 10*time.Millisecond }
		r := b.ended(b.engine().start("train").ID)
		wantState(t, r, run.Done, run.Completed)
		if !d.lost {
			t.Error("no claim was lost")
		}
	})
}
