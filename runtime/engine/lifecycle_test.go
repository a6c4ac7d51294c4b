package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
)

func withHook(d *agent.Definition) {
	d.Hooks = []agent.Hook{{Name: "publish", Command: []string{"publish-it"}}}
}

func TestR1_SuccessIsAnnouncedInOrder(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("train", func(ctx context.Context, task agent.Task, h agent.Host) (string, error) {
			writeFile(t, task.Workspace, "report.md", "# done")
			return "all done", h.Emit(ctx, &run.AgentMessage{MessageID: "m", Text: "hello"})
		}, withHook)
		e := b.engine()
		r := b.ended(e.start("train").ID)
		wantState(t, r, run.Done, run.Completed)
		if r.Result != "all done" {
			t.Errorf("the result is %q", r.Result)
		}
		sameLines(
			t, b.told(r), "RUN_STARTED", "STATE_CHANGED train_running", "AGENT_MESSAGE hello",
			"REPORT_READY report.md", "FILES_READY report.md",
			"EXECUTION_STARTED", "EXECUTION_FINISHED OK", "USAGE_RECORDED", "HOOK_FINISHED publish false",
			"STATE_CHANGED train_done", "RUN_ENDED DONE COMPLETED",
		)
		if s := b.session(r.Session); s.State != "train_done" || s.ActiveRun != "" {
			t.Errorf("the session's state is %q with the active run %q", s.State, s.ActiveRun)
		}
		files, err := b.store.Artifacts(t.Context(), r.ID)
		if err != nil || len(files) != 1 || files[0].Kind != "report" {
			t.Errorf("the artifacts are %v, %v", files, err)
		}
	})
}

func TestR1_FailingHookChangesNothing(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.backends["local"].(*scriptedBackend).play = func(*scriptedProcess) int { return 3 }
		b.agent("train", says("fine"), withHook)
		r := b.ended(b.engine().start("train").ID)
		wantState(t, r, run.Done, run.Completed)
		if lines := b.told(r); !slices.Contains(lines, "HOOK_FINISHED publish true") {
			t.Errorf("got %q", lines)
		}
	})
}

func TestR2_TimeoutIsContained(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		late := fmt.Errorf("no answer in 5 s: %w", agent.ErrTimeout)
		b.agent("train", func(_ context.Context, task agent.Task, _ agent.Host) (string, error) {
			writeFile(t, task.Workspace, "half.csv", "1")
			return "", late
		}, withHook)
		r := b.ended(b.engine().start("train").ID)
		wantState(t, r, run.TimedOut, run.Timeout)
		sameLines(
			t, b.told(r), "RUN_STARTED", "STATE_CHANGED train_running",
			"AGENT_TIMED_OUT "+late.Error(), "STATE_CHANGED timed_out", "RUN_ENDED TIMED_OUT TIMEOUT",
		)
		// The list of files is made at any end; nothing is announced.
		if files, err := b.store.Artifacts(t.Context(), r.ID); err != nil || len(files) != 1 {
			t.Errorf("the artifacts are %v, %v", files, err)
		}
		if n := len(b.backends["local"].(*scriptedBackend).started()); n != 0 {
			t.Errorf("%d hooks ran", n)
		}
	})
}

func TestR2_RunTimeoutStopsTheDriver(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("slow", blocked(make(chan run.ID, 1)))
		r := b.ended(b.engine().start("slow", func(q *run.StartRequest) { q.Input.TimeoutSeconds = 0.05 }).ID)
		wantState(t, r, run.TimedOut, run.Timeout)
		if !strings.Contains(r.Error, "0.05 s") {
			t.Errorf("the error is %q", r.Error)
		}
	})
}

func TestR3_ErrorReachesTheCaller(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("child", func(context.Context, agent.Task, agent.Host) (string, error) {
			return "", errors.New("the disk is full")
		})
		b.agent("train", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			_, err := h.Delegate(ctx, agent.Delegation{Agent: "child", Prompt: "x"})
			return "", fmt.Errorf("my helper failed: %w", err)
		}, withHook)
		r := b.ended(b.engine().start("train").ID)
		wantState(t, r, run.Failed, run.ExitError)
		want := "my helper failed: agent child ended FAILED (ERROR): the disk is full"
		if r.Error != want {
			t.Errorf("the error is %q, want %q", r.Error, want)
		}
		sameLines(
			t, b.told(r), "RUN_STARTED", "STATE_CHANGED train_running",
			"AGENT_ERRORED "+want, "STATE_CHANGED failed", "RUN_ENDED FAILED ERROR",
		)
		children, err := b.store.Children(t.Context(), r.ID)
		if err != nil || len(children) != 1 {
			t.Fatalf("the children are %v, %v", children, err)
		}
		sameLines(t, b.told(children[0]), "RUN_STARTED", "AGENT_ERRORED the disk is full", "RUN_ENDED FAILED ERROR")
	})
}

func TestR4_AbortIsContained(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began := make(chan run.ID, 1)
		b.agent("train", blocked(began), withHook)
		e := b.engine()
		id := e.start("train").ID
		receive(t, "the driver's start", began)
		if _, _, err := e.Abort(t.Context(), run.AbortOrder{Run: id, Reason: "wrong data"}); err != nil {
			t.Fatal(err)
		}
		r := b.ended(id)
		wantState(t, r, run.Cancelled, run.Aborted)
		sameLines(
			t, b.told(r), "RUN_STARTED", "STATE_CHANGED train_running", "ABORT_REQUESTED wrong data",
			"AGENT_ABORTED wrong data", "STATE_CHANGED cancelled", "RUN_ENDED CANCELLED ABORTED",
		)
		for _, ev := range b.events(r.Session) {
			if ev.Type == run.TypeAgentAborted && ev.Stage != "train" {
				t.Errorf("AgentAborted has the stage %q", ev.Stage)
			}
		}
	})
}

func TestR5_SilentAbortSaysOnlyRunEnded(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began := make(chan run.ID, 1)
		b.agent("train", blocked(began))
		e := b.engine()
		abort := func(id run.ID, silent bool) (run.Receipt, bool) {
			t.Helper()
			rec, live, err := e.Abort(t.Context(), run.AbortOrder{Run: id, Silent: silent, Wait: true})
			if err != nil {
				t.Fatal(err)
			}
			return rec, live
		}
		first := e.start("train")
		receive(t, "the driver's start", began)
		abort(first.ID, true)
		r := b.ended(first.ID)
		wantState(t, r, run.Cancelled, run.ReplacedReason)
		sameLines(t, b.told(r), "RUN_STARTED", "STATE_CHANGED train_running", "RUN_ENDED CANCELLED REPLACED")
		if s := b.session(r.Session); s.State != "" {
			t.Errorf("the session's state is %q, want none: nothing is said, but nothing runs", s.State)
		}
		// A silent abort of nothing, then an abort of the next run: that one speaks.
		if rec, live := abort(first.ID, true); live || rec.Outcome != run.AbortAlready {
			t.Errorf("aborting an ended run: %v, %v", rec, live)
		}
		second := e.start("train", inSession(first.Session, run.Reject))
		receive(t, "the second driver's start", began)
		abort(second.ID, false)
		sameLines(
			t, b.told(b.ended(second.ID)), "RUN_STARTED", "STATE_CHANGED train_running", "ABORT_REQUESTED ",
			"AGENT_ABORTED ", "STATE_CHANGED cancelled", "RUN_ENDED CANCELLED ABORTED",
		)
	})
}

func TestR6_SlotIsTakenWhileItRuns(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began, end := make(chan run.ID, 1), make(chan struct{})
		b.agent("train", func(context.Context, agent.Task, agent.Host) (string, error) {
			began <- ""
			<-end
			return "", nil
		})
		e := b.engine()
		r := e.start("train")
		receive(t, "the driver's start", began)
		if s := b.session(r.Session); s.ActiveRun != r.ID {
			t.Errorf("while it runs the slot holds %q", s.ActiveRun)
		}
		wantState(t, b.get(r.ID), run.Running, run.NoReason)
		_, err := e.Start(t.Context(), run.StartRequest{Input: run.Input{Agent: "train", Prompt: "x"}, Session: r.Session})
		if run.CodeOf(err) != run.Busy {
			t.Errorf("a second run in the session: %v, want BUSY", err)
		}
		close(end)
		b.ended(r.ID)
		if s := b.session(r.Session); s.ActiveRun != "" {
			t.Errorf("afterwards the slot holds %q", s.ActiveRun)
		}
		b.ended(e.start("train", inSession(r.Session, run.Reject)).ID)
	})
}

func TestR7_AbortAnswersWhetherItWasLive(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began := make(chan run.ID, 1)
		b.agent("train", blocked(began))
		e := b.engine()
		id := e.start("train").ID
		receive(t, "the driver's start", began)
		rec, live, err := e.Abort(t.Context(), run.AbortOrder{Run: id, Wait: true})
		if err != nil || !live || rec.Outcome != run.AbortStopped || rec.RequestedAt.IsZero() || rec.Run != id {
			t.Errorf("a live run: %+v, %v, %v", rec, live, err)
		}
		wantState(t, b.get(id), run.Cancelled, run.Aborted) // it has ended when the call returns
		rec, live, err = e.Abort(t.Context(), run.AbortOrder{Run: id, Wait: true})
		if err != nil || live || rec.Outcome != run.AbortAlready {
			t.Errorf("an ended run: %+v, %v, %v", rec, live, err)
		}
		for _, unknown := range []run.ID{run.NewID(), "", "run_x", "../../etc", "run_\x00"} {
			if _, _, err := e.Abort(t.Context(), run.AbortOrder{Run: unknown}); run.CodeOf(err) != run.NotFound {
				t.Errorf("the unknown run %q: %v, want NOT_FOUND", unknown, err)
			}
		}
	})
}

func TestR8_FollowUpReplacesTheStaleRun(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began := make(chan run.ID, 2)
		cleaned := make(chan struct{})
		first := true
		b.agent("chat", func(ctx context.Context, task agent.Task, _ agent.Host) (string, error) {
			stale := first // the second starts after the first is gone
			first = false
			began <- task.Run.ID
			<-ctx.Done()
			if stale {
				<-cleaned
			}
			return "", ctx.Err()
		})
		e := b.engine()
		stale := e.start("chat")
		receive(t, "the stale run's start", began)
		next, err := e.Message(t.Context(), run.MessageRequest{Session: stale.Session, Text: "again", OnBusy: run.ReplaceCurrent})
		if err != nil {
			t.Fatal(err)
		}
		// The stale driver is still cleaning up, so the new run must wait.
		wantState(t, b.get(next.ID), run.Queued, run.NoReason)
		if s := b.session(stale.Session); s.ActiveRun != stale.ID {
			t.Errorf("the slot holds %q before the stale run is gone", s.ActiveRun)
		}
		close(cleaned)
		if id := receive(t, "the new run's start", began); id != next.ID {
			t.Errorf("run %s started, want %s", id, next.ID)
		}
		wantState(t, b.ended(stale.ID), run.Cancelled, run.ReplacedReason)
		if s := b.session(stale.Session); s.ActiveRun != next.ID {
			t.Errorf("the slot holds %q, want the new run", s.ActiveRun)
		}
		if _, live, err := e.Abort(t.Context(), run.AbortOrder{Run: next.ID, Wait: true}); err != nil || !live {
			t.Errorf("the new run cannot be reached: %v, %v", live, err)
		}
	})
}

func TestR9_TwoFollowUpsLeaveOneRun(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began := make(chan run.ID, 8)
		b.agent("chat", blocked(began))
		e := b.engine()
		stale := e.start("chat")
		receive(t, "the stale run's start", began)
		ids := make([]run.ID, 2)
		var both sync.WaitGroup
		for i := range ids {
			both.Go(func() {
				r, err := e.Message(t.Context(), run.MessageRequest{Session: stale.Session, Text: "again", OnBusy: run.ReplaceCurrent})
				if err != nil {
					t.Error(err)
				}
				ids[i] = r.ID
			})
		}
		both.Wait()
		wantState(t, b.ended(stale.ID), run.Cancelled, run.ReplacedReason)
		var winner run.ID
		b.until("one follow-up is live and the other ended", func() bool {
			s := b.session(stale.Session)
			other := ids[0]
			if s.ActiveRun == ids[0] {
				other = ids[1]
			}
			winner = s.ActiveRun
			return slices.Contains(ids, winner) && b.get(winner).State.Status == run.Running && b.get(other).State.Status.Final()
		})
		for _, id := range ids {
			if id != winner {
				wantState(t, b.get(id), run.Cancelled, run.ReplacedReason)
			}
		}
		if _, _, err := e.Abort(t.Context(), run.AbortOrder{Run: winner, Wait: true}); err != nil {
			t.Fatal(err)
		}
		p, err := b.store.Runs(t.Context(), run.RunFilter{Session: stale.Session}, run.PageQuery{First: 10})
		if err != nil || len(p.Nodes) != 3 {
			t.Fatalf("the runs are %v, %v", p.Nodes, err)
		}
		for _, r := range p.Nodes {
			if !r.State.Status.Final() {
				t.Errorf("run %s is left %s", r.ID, r.State.Status)
			}
		}
	})
}

func TestR10_ChildEndLeavesTheSessionAlone(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("helper", says("helped"))
		childEnded, checked := make(chan string, 1), make(chan struct{})
		b.agent("lead", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			var asking sync.WaitGroup
			ctx, give := context.WithCancelCause(ctx)
			asking.Go(func() { _, _ = h.Ask(ctx, "q", "go on?", nil) })
			defer asking.Wait()
			defer give(nil)
			child, err := h.Delegate(ctx, agent.Delegation{Agent: "helper", Prompt: "x"})
			childEnded <- child.Result
			<-checked
			return "led", err
		})
		e := b.engine()
		r := e.start("lead")
		b.inStatus(r.ID, run.Waiting)
		if got := receive(t, "the child's end", childEnded); got != "helped" {
			t.Errorf("the child's result is %q", got)
		}
		s := b.session(r.Session)
		if s.State != "lead_running" || s.ActiveRun != r.ID {
			t.Errorf("after the child's end the session is %q, its slot %q", s.State, s.ActiveRun)
		}
		questions, err := b.store.Questions(t.Context(), r.ID)
		if err != nil || len(questions) != 1 || questions[0].State != run.QuestionOpen {
			t.Errorf("the questions are %v, %v; want one open", questions, err)
		}
		close(checked)
		r = b.ended(r.ID)
		wantState(t, r, run.Done, run.Completed)
		if s := b.session(r.Session); s.State != "lead_done" || s.ActiveRun != "" {
			t.Errorf("after the root's end the session is %q, its slot %q", s.State, s.ActiveRun)
		}
		questions, err = b.store.Questions(t.Context(), r.ID)
		if err != nil || questions[0].State != run.QuestionCancelled {
			t.Errorf("the questions are %v, %v; want it cancelled", questions, err)
		}
		if lines := b.told(r); !slices.Contains(lines, "QUESTION_ANSWERED CANCELLED") {
			t.Errorf("got %q", lines)
		}
	})
}

// TestR11_NothingIsLeftBehind dies in the middle of a run. The goroutines that
// it might leave are looked for by TestMain.
func TestR11_NothingIsLeftBehind(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began := make(chan run.ID, 1)
		b.agent("train", blocked(began))
		dying := b.engine()
		first := dying.start("train")
		receive(t, "the driver's start", began)
		dying.stop()
		wantState(t, b.get(first.ID), run.Cancelled, run.Shutdown)
		next := b.engine()
		second := next.start("train", inSession(first.Session, run.Reject))
		receive(t, "the next driver's start", began)
		if _, live, err := next.Abort(t.Context(), run.AbortOrder{Run: second.ID, Wait: true}); err != nil || !live {
			t.Errorf("the next run: %v, %v", live, err)
		}
	})
}

func TestAbortOfAnotherReplicasRun(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		began := make(chan run.ID, 1)
		b.agent("train", blocked(began))
		owner := b.engine(func(o *engine.Options) { o.Poll = 20 * time.Millisecond })
		id := owner.start("train").ID
		receive(t, "the driver's start", began)
		other := b.engine(func(o *engine.Options) { o.Replica = b.replica + "-2" })
		rec, live, err := other.Abort(t.Context(), run.AbortOrder{Run: id, Wait: true})
		if err != nil || !live || rec.Outcome != run.AbortStopped {
			t.Errorf("got %+v, %v, %v", rec, live, err)
		}
	})
}
