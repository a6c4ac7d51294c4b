package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bigSpender is an agent that would spend 5 USD in steps of 0.004.
func bigSpender() string {
	return "name: spender\ndriver: replay\nmodel: m\nturns:\n" + strings.Repeat("  - usage: {input: 100, output: 20, costUsd: \"0.004\"}\n", 1250)
}

const frugal = `name: frugal
driver: replay
model: m
turns:
  - usage: {input: 100, costUsd: "0.004"}
  - usage: {input: 100, costUsd: "0.004"}
  - usage: {input: 100, costUsd: "0.004"}
  - text: {say: "behind the third call"}
  - usage: {input: 100, costUsd: "0.004"}
  - text: {say: "done"}
`

func budgetAgents(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"spender.yaml": bigSpender(), "frugal.yaml": frugal,
		"capped.yaml": "name: capped\ndriver: replay\nmodel: m\nbudget:\n  day: {usd: 0.006}\nturns:\n" + strings.Repeat("  - usage: {input: 1, costUsd: \"0.004\"}\n", 9),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

type budgetReached struct {
	Scope, Action                                      string
	Day, BudgetAgent                                   *string
	LimitNanoUsd, LimitTokens, UsedNanoUsd, UsedTokens json.Number
}

func (b budgetReached) String() string {
	return fmt.Sprintf("%s %s %s/%s %s/%s", b.Scope, b.Action, b.UsedNanoUsd, b.LimitNanoUsd, b.UsedTokens, b.LimitTokens)
}

// told gives what a session's log says of budgets.
func (s *server) told(session string) []string {
	s.t.Helper()
	var out struct {
		Events struct{ Nodes []budgetReached }
	}
	s.must(`query($s: ID!) { events(sessionId: $s, types: [BUDGET_REACHED]) { nodes { ... on BudgetReached { scope action day budgetAgent limitNanoUsd limitTokens usedNanoUsd usedTokens } } } }`,
		map[string]any{"s": session}, &out)
	var lines []string
	for _, b := range out.Events.Nodes {
		lines = append(lines, b.String())
	}
	return lines
}

func (s *server) over(r startedRun, want ...string) runInfo {
	s.t.Helper()
	got := s.waitStatus(r.ID, time.Minute, "DONE", "FAILED", "CANCELLED", "TIMED_OUT")
	if got.Status != "CANCELLED" || word(got.ExitReason) != "BUDGET" {
		s.t.Errorf("the run ended %s %s: %s", got.Status, word(got.ExitReason), word(got.Error))
	}
	if told := s.told(r.Session.ID); strings.Join(told, "\n") != strings.Join(want, "\n") {
		s.t.Errorf("the log says %q, want %q", told, want)
	}
	return got
}

func (s *server) openQuestion(r startedRun) string {
	s.t.Helper()
	s.waitStatus(r.ID, time.Minute, "WAITING")
	var out struct {
		Run struct{ Questions []struct{ ID, State string } }
	}
	s.must(`query($id: ID!) { run(id: $id) { questions { id state } } }`, map[string]any{"id": r.ID}, &out)
	for _, q := range out.Run.Questions {
		if q.State == "OPEN" {
			return q.ID
		}
	}
	s.t.Fatalf("run %s waits and has no open question: %+v", r.ID, out)
	return ""
}

func (s *server) answer(question string, answer any) {
	s.t.Helper()
	s.must(`mutation($i: AnswerQuestionInput!) { answerQuestion(input: $i) { state } }`, map[string]any{"i": map[string]any{"id": question, "answer": answer}}, nil)
}

// TestBudgets: through whole servers, with real agents, on both stores.
func TestBudgets(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, url string) {
		t.Parallel()
		s := newServer(t, url, "--agents", budgetAgents(t), "--budget-session-usd", "0.1")
		s.start()

		// 5 USD under a budget of 0.01 end with the request that reaches it. The event
		// comes to a subscriber.
		r := s.startRun(map[string]any{"agent": "spender", "prompt": "go", "budget": map[string]any{"usd": 0.01}})
		ctx := background(t, time.Minute)
		sub, err := s.subscribe(ctx, r.Session.ID, 0, filter{})
		if err != nil {
			t.Fatal(err)
		}
		for live := false; !live; {
			batch, err := sub.next(ctx)
			if err != nil {
				t.Fatalf("waiting for BUDGET_REACHED: %v", err)
			}
			for _, raw := range batch {
				live = live || headOf(raw).Type == "BUDGET_REACHED"
			}
		}
		sub.close()
		got := s.over(r, "RUN ABORT 12000000/10000000 360/")
		if got.Abort == nil || got.Abort.Outcome != "STOPPED" {
			t.Errorf("the receipt is %+v", got.Abort)
		}
		var out struct {
			Run struct {
				UsageInclusive struct{ CostNanoUsd json.Number }
				Input          struct {
					Budget struct {
						Usd, Action string
						Tokens      *json.Number
					}
				}
			}
		}
		s.must(`query($id: ID!) { run(id: $id) { usageInclusive { costNanoUsd } input { budget { usd tokens action } } } }`, map[string]any{"id": r.ID}, &out)
		if b := out.Run.Input.Budget; out.Run.UsageInclusive.CostNanoUsd != "12000000" || b.Usd != "0.01" || b.Action != "ABORT" || b.Tokens != nil {
			t.Errorf("the run shows %+v", out.Run)
		}

		s.over(s.startRun(map[string]any{"agent": "spender", "prompt": "go", "budget": map[string]any{"tokens": 500, "action": "ABORT"}}), "RUN ABORT 20000000/ 600/500")
		// What a request sets is not looser than what the operator has set.
		s.over(s.startRun(map[string]any{"agent": "spender", "prompt": "go", "budget": map[string]any{"usd": "4"}}), "SESSION ABORT 100000000/100000000 3000/")

		s.over(s.startRun(map[string]any{"agent": "capped", "prompt": "go"}), "AGENT_DAY ABORT 8000000/6000000 2/")
		err = s.try(`mutation { startRun(input: {agent: "capped", prompt: "go"}) { id } }`, nil, nil)
		if err == nil || !strings.Contains(err.Error(), "FORBIDDEN: today's budget of agent capped is used up: 0.008 of 0.006 USD; the next one begins at ") {
			t.Errorf("a run without any budget left: %v", err)
		}
		var states struct {
			Budgets []struct {
				Scope, Agent, Action string
				UsedNanoUsd          json.Number
			}
		}
		s.must(`{ budgets { scope agent action usedNanoUsd } }`, nil, &states)
		if b := states.Budgets; len(b) != 1 || b[0].Scope != "AGENT_DAY" || b[0].Agent != "capped" || b[0].UsedNanoUsd != "8000000" {
			t.Errorf("the budgets are %+v", b)
		}

		warned := s.startRun(map[string]any{"agent": "frugal", "prompt": "go", "budget": map[string]any{"usd": "0.01", "action": "WARN"}})
		if got := s.waitStatus(warned.ID, time.Minute, "DONE", "FAILED", "CANCELLED"); got.Status != "DONE" || len(s.told(warned.Session.ID)) != 1 {
			t.Errorf("after a warning it is %s, %q", got.Status, s.told(warned.Session.ID))
		}
		for _, bad := range []string{`{}`, `{usd: "0"}`, `{usd: -1}`, `{usd: "1e3"}`, `{usd: 0.0000000001}`, `{tokens: 0}`, `{tokens: 5, action: STOP}`} {
			if err := s.try(`mutation { startRun(input: {agent: "frugal", prompt: "go", budget: `+bad+`}) { id } }`, nil, nil); err == nil {
				t.Errorf("the budget %s was taken", bad)
			}
		}
	})
}

// TestBudgetQuestionOutlivesTheServer: the run waits on over a stop in good order
// and over a kill, and its answer raises the budget or ends it; no call is booked
// twice. So does a run that asks for something else, and neither is waited for.
func TestBudgetQuestionOutlivesTheServer(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, url string) {
		t.Parallel()
		agents := budgetAgents(t)
		if err := os.WriteFile(filepath.Join(agents, "asker.yaml"), []byte("name: asker\ndriver: replay\nturns:\n  - ask: {text: Go on?}\n  - text: {say: \"You said {{answer}}\"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := newServer(t, url, "--agents", agents, "--stop-timeout", "10m")
		s.start()
		own := s.startRun(map[string]any{"agent": "asker", "prompt": "go"})
		input := map[string]any{"agent": "frugal", "prompt": "go", "budget": map[string]any{"usd": "0.004", "action": "PAUSE"}}
		more, stop := s.startRun(input), s.startRun(input)
		s.answer(s.openQuestion(more), map[string]any{"extraUsd": "0.008"})
		eventually(t, time.Minute, "the second question", func() error {
			if n := len(s.told(more.Session.ID)); n != 2 {
				return fmt.Errorf("it was told %d times", n)
			}
			return nil
		})
		s.openQuestion(more)
		s.openQuestion(stop)
		s.openQuestion(own)
		for _, end := range []func(){func() { s.stop(time.Minute) }, s.kill} {
			end()
			s.launch()
			s.waitReady(time.Minute)
			for _, r := range []startedRun{more, stop, own} {
				s.openQuestion(r)
			}
		}

		s.answer(s.openQuestion(own), "yes")
		if got := s.waitStatus(own.ID, time.Minute, "DONE", "FAILED", "CANCELLED"); word(got.Result) != "You said yes" {
			t.Errorf("it ended %s: %s%s", got.Status, word(got.Result), word(got.Error))
		}
		s.answer(s.openQuestion(stop), map[string]any{"stop": true})
		s.over(stop, "RUN PAUSE 4000000/4000000 100/")
		s.answer(s.openQuestion(more), map[string]any{"extraUsd": 1, "extraTokens": 5})
		got := s.waitStatus(more.ID, time.Minute, "DONE", "FAILED", "CANCELLED")
		if got.Status != "DONE" || word(got.Result) != "done" {
			t.Errorf("it ended %s: %s%s", got.Status, word(got.Result), word(got.Error))
		}
		if told := s.told(more.Session.ID); strings.Join(told, ", ") != "RUN PAUSE 4000000/4000000 100/, RUN PAUSE 12000000/12000000 300/" {
			t.Errorf("the log says %q", told)
		}
		var out struct {
			Run struct {
				Usage struct{ CostNanoUsd json.Number }
			}
		}
		s.must(`query($id: ID!) { run(id: $id) { usage { costNanoUsd } } }`, map[string]any{"id": more.ID}, &out)
		if got := out.Run.Usage.CostNanoUsd; got != "16000000" {
			t.Errorf("it used %s, want 4 calls of 4000000", got)
		}
	})
}

// TestBudgetOfAnExecution: compute time has a price, and its end is proved.
func TestBudgetOfAnExecution(t *testing.T) {
	t.Parallel()
	prices := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(prices, []byte("compute:\n  - {backend: local, usdPerSecond: 0.01}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, "", "--prices", prices)
	s.start()
	s.label() // skips or fails where no sandbox works
	began := time.Now()
	r := s.startRun(map[string]any{"agent": "script", "command": []string{"sleep", "600"}, "budget": map[string]any{"usd": "0.01"}})
	got := s.waitStatus(r.ID, time.Minute, "DONE", "FAILED", "CANCELLED")
	if word(got.ExitReason) != "BUDGET" || got.Abort == nil || got.Abort.Outcome != "STOPPED" || len(got.Abort.Survivors) > 0 {
		t.Errorf("after %s it is %s %s, %+v", time.Since(began), got.Status, word(got.ExitReason), got.Abort)
	}
	var used, limit int64
	told := s.told(r.Session.ID)
	if len(told) == 1 {
		_, _ = fmt.Sscanf(told[0], "RUN ABORT %d/%d", &used, &limit)
	}
	if used < 10_000_000 || used > 50_000_000 { // one second is 10_000_000; the rest is for a loaded machine
		t.Errorf("the log says %q", told)
	}
}
