package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
)

// While one budget asks, another one still ends what goes on.
func TestABudgetEndsARunThatAsks(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.backends["local"] = &scriptedBackend{play: func(p *scriptedProcess) int {
			<-p.term
			return 143
		}}
		b.agent("cruncher", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			_, _, err := h.Execute(ctx, agent.Exec{Command: []string{"crunch"}})
			return "", err
		})
		e := b.engine(func(o *engine.Options) {
			o.Pricer, o.Budgets = perSecond{}, engine.Budgets{Run: &run.Budget{USD: usd("1.5")}}
		})
		r := e.start("cruncher", within(usd("0.1"), 0, run.BudgetPause))
		b.asked(r.ID, 1)
		end := b.ended(r.ID)
		wantState(t, end, run.Cancelled, run.BudgetReason)
		got := b.reached(r.Session)
		if len(got) != 2 || got[0].Action != run.BudgetPause || got[1].Action != run.BudgetAbort {
			t.Errorf("it told %+v", got)
		}
		if q := b.asked(r.ID, 1); q.State != run.QuestionCancelled {
			t.Errorf("the question is %s", q.State)
		}
	})
}

// A question about the budget of a child's agent goes with the child.
func TestQuestionOfAChildThatIsAborted(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		var made atomic.Int64
		goOn := make(chan struct{})
		b.agent("spender", spends(1000, &made), func(d *agent.Definition) {
			d.Budget = &agent.Budgets{Run: &run.Budget{Tokens: 100, Action: run.BudgetPause}}
		})
		b.agent("boss", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			_, err := h.Delegate(ctx, agent.Delegation{Agent: "spender", Prompt: "spend"})
			if err == nil {
				return "", errors.New("the child was not ended")
			}
			select {
			case <-goOn:
				return "went on", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})
		e := b.engine()
		r := e.start("boss")
		b.asked(r.ID, 1)
		children, err := b.store.Children(t.Context(), r.ID)
		if err != nil || len(children) != 1 {
			t.Fatalf("the children are %v, %v", children, err)
		}
		if _, _, err := e.Abort(t.Context(), run.AbortOrder{Run: children[0].ID, Wait: true}); err != nil {
			t.Fatal(err)
		}
		b.until("the question is cancelled", func() bool { return b.asked(r.ID, 1).State == run.QuestionCancelled })
		b.inStatus(r.ID, run.Running)
		close(goOn)
		end := b.ended(r.ID)
		wantState(t, end, run.Done, run.Completed)
		if n := strings.Count(strings.Join(b.told(end), "\n"), string(run.TypeQuestionAnswered)); n != 1 {
			t.Errorf("the end of the question is told %d times", n)
		}
	})
}

// budgetKey is the key of a question about the first budget of an agent's day.
const budgetKey = "budget/1/server/AGENT_DAY;"

// A run that was waiting for an answer of its own and for one about a budget when
// the server died waits for the same two.
func TestTwoQuestionsOverACrash(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("both", func(ctx context.Context, task agent.Task, h agent.Host) (string, error) {
			answer, err := h.Ask(ctx, task.ResumeKey, "What?", nil)
			if err != nil {
				return "", err
			}
			return string(answer), errors.Join(spend(ctx, h, step), spend(ctx, h, step))
		})
		r := b.leave("both", true)
		own := b.ask(r, "own")
		about := own
		about.ID, about.Key = run.NewKey("qst"), budgetKey
		b.append(run.Batch{Session: r.Session, Questions: []run.Question{about}})
		e := b.engine(func(o *engine.Options) {
			o.Budgets = engine.Budgets{AgentDay: &run.Budget{Tokens: 150, Action: run.BudgetPause}}
		})
		e.answer(own, `"this"`)
		e.answer(about, `{"extraTokens":100}`)
		end := b.ended(r.ID)
		wantState(t, end, run.Done, run.Completed)
		list, err := b.store.Questions(t.Context(), r.ID)
		if err != nil || len(list) != 2 || end.Result != `"this"` {
			t.Errorf("%d questions (%v), the result is %q", len(list), err, end.Result)
		}
	})
}

// continuing is the bench as a driver that can go on behind a model call.
type continuing struct{ *bench }

func (continuing) ContinuesBehindUsage() {}

// A question about the budget of a day that was over when the server came back
// is given up.
func TestQuestionOfYesterday(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.agent("spender", says("went on"))
		r := b.leave("spender", true)
		q := b.ask(r, budgetKey+"req_1")
		q.AskedAt = q.AskedAt.Add(-24 * time.Hour)
		b.append(run.Batch{Session: r.Session, Questions: []run.Question{q}})
		b.engine(func(o *engine.Options) {
			o.Drivers = map[string]agent.Driver{"test": continuing{b}}
			o.Budgets = engine.Budgets{AgentDay: &run.Budget{Tokens: 100, Action: run.BudgetPause}}
		})
		wantState(t, b.ended(r.ID), run.Done, run.Completed)
		if q := b.asked(r.ID, 1); q.State != run.QuestionCancelled {
			t.Errorf("the question is %s", q.State)
		}
	})
}
