package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
)

// asks is work that asks a question of its own and gives the answer.
func asks(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
	answer, err := h.Ask(ctx, "own", "go on?", nil)
	return string(answer), err
}

// A stop in good order leaves runs waiting as a crash does: whoever asks for an
// answer of its own, and who asks about a budget if its driver can go on. They
// are not waited for.
func TestRunsWaitOverAStop(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("chat", asks)
		b.agent("lead", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			child, err := h.Delegate(ctx, agent.Delegation{Agent: "chat", Prompt: "x"})
			return child.Result, err
		})
		b.agent("spender", func(ctx context.Context, task agent.Task, h agent.Host) (string, error) {
			if task.ResumeKey != "" {
				return "went on", nil
			}
			return "", errors.Join(spend(ctx, h, step), errors.New("the budget let it pass"))
		})
		drivers := func(d agent.Driver) func(*engine.Options) {
			return func(o *engine.Options) { o.Drivers = map[string]agent.Driver{"test": d} }
		}
		drain := func(o *engine.Options) { o.Drain = time.Hour }

		e := b.engine(drivers(continuing{b}), drain)
		own, budget := e.start("chat"), e.start("spender", within(0, 100, run.BudgetPause))
		questions := map[run.ID]run.Question{own.ID: b.asked(own.ID, 1), budget.ID: b.asked(budget.ID, 1)}
		for id := range questions {
			b.inStatus(id, run.Waiting)
		}
		e.stop() // an hour, if it waited for them
		for id, q := range questions {
			wantState(t, b.get(id), run.Waiting, run.NoReason)
			if got := b.asked(id, 1); got.State != run.QuestionOpen || got.ID != q.ID {
				t.Errorf("after the stop the question is %+v", got)
			}
			if lines := b.told(b.get(id)); has(lines, "RUN_ENDED") {
				t.Errorf("the run that waits told %q", lines)
			}
		}
		e = b.engine(drivers(continuing{b}), drain)
		e.answer(questions[own.ID], `"yes"`)
		e.answer(questions[budget.ID], `{"extraTokens":1000}`)
		for id, want := range map[run.ID]string{own.ID: `"yes"`, budget.ID: "went on"} {
			end := b.ended(id)
			wantState(t, end, run.Done, run.Completed)
			if end.Result != want {
				t.Errorf("the result is %q, want %q", end.Result, want)
			}
			if n := len(slices.DeleteFunc(b.told(end), func(s string) bool { return s != "QUESTION_ASKED" })); n != 1 {
				t.Errorf("it asked %d times", n)
			}
		}
		e.stop()

		// Nobody could go on with these.
		e = b.engine()
		plain, lead := e.start("spender", within(0, 100, run.BudgetPause)), e.start("lead")
		b.asked(plain.ID, 1)
		b.inStatus(plain.ID, run.Waiting)
		var child run.Run
		b.until("the child waits", func() bool {
			list, err := b.store.Children(t.Context(), lead.ID)
			if err != nil || len(list) == 0 {
				return false
			}
			child = list[0]
			return child.State.Status == run.Waiting
		})
		e.stop()
		for _, id := range []run.ID{plain.ID, lead.ID, child.ID} {
			wantState(t, b.get(id), run.Cancelled, run.Shutdown)
		}
		for _, id := range []run.ID{plain.ID, child.ID} {
			if q := b.asked(id, 1); q.State != run.QuestionCancelled {
				t.Errorf("the question of an ended run is %s", q.State)
			}
		}
	})
}

// A command that was typed has nobody who would answer later.
func TestATypedRunDoesNotWaitOverAStop(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("chat", asks)
		e := b.engine(func(o *engine.Options) { o.Places = true })
		r := e.start("chat")
		b.inStatus(r.ID, run.Waiting)
		e.stop()
		wantState(t, b.get(r.ID), run.Cancelled, run.Shutdown)
	})
}

// An abort that was asked for is not lost in a stop.
func TestAnAbortedRunDoesNotWaitOverAStop(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("chat", asks)
		e := b.engine()
		r := e.start("chat")
		b.inStatus(r.ID, run.Waiting)
		if _, err := b.store.RequestAbort(t.Context(), abortOf(r)); err != nil { // on another replica, unseen here
			t.Fatal(err)
		}
		e.stop()
		if got := b.get(r.ID); got.State.Status != run.Cancelled {
			t.Errorf("it is %s %s", got.State.Status, got.State.Reason)
		}
	})
}

func abortOf(r run.Run) engine.AbortRequest {
	return engine.AbortRequest{Run: r.ID, Trigger: run.Abort, Reason: "stop it", At: time.Now()}
}

// Commands go on while a budget asks. Their rows do not stay open over a crash,
// nor over a stop.
func TestNoExecutionStaysOpenBesideAQuestion(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.backends["local"] = &scriptedBackend{play: func(p *scriptedProcess) int {
			<-p.term
			return 143
		}}
		b.agent("cruncher", func(ctx context.Context, task agent.Task, h agent.Host) (string, error) {
			if task.ResumeKey != "" {
				return "went on", nil
			}
			_, _, err := h.Execute(ctx, agent.Exec{Command: []string{"crunch"}})
			return "", err
		})
		options := func(o *engine.Options) {
			o.Pricer, o.Drivers = perSecond{}, map[string]agent.Driver{"test": continuing{b}}
		}
		crashed := b.leave("cruncher", true)
		x := run.Execution{ID: run.NewExecutionID(), Run: crashed.ID, Backend: "local", Command: []string{"crunch"}, StartedAt: time.Now()}
		b.append(run.Batch{Session: crashed.Session, Executions: []run.Execution{x}})
		b.ask(crashed, "budget/1/request/RUN;req_1")
		e := b.engine(options)
		b.inStatus(crashed.ID, run.Waiting)
		rows, err := b.store.Executions(t.Context(), crashed.ID)
		if err != nil || len(rows) != 1 || rows[0].EndedAt.IsZero() || rows[0].Class != run.ClassInfrastructure {
			t.Errorf("after a crash the executions are %+v, %v", rows, err)
		}

		stopped := e.start("cruncher", within(usd("0.1"), 0, run.BudgetPause))
		b.asked(stopped.ID, 1)
		b.inStatus(stopped.ID, run.Waiting)
		e.stop()
		wantState(t, b.get(stopped.ID), run.Waiting, run.NoReason)
		rows, err = b.store.Executions(t.Context(), stopped.ID)
		if err != nil || len(rows) != 1 || rows[0].EndedAt.IsZero() || rows[0].Class != run.ClassCancelled {
			t.Errorf("after a stop the executions are %+v, %v", rows, err)
		}
	})
}
