package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/agent/replay"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host writes down what the driver does, with the second it did it in.
type host struct {
	began time.Time
	log   []string
	texts []string // pieces of Text
	usage []run.UsageRecord
	calls []string // ids of tool calls

	exec     func(agent.Exec) (sandbox.Result, agent.Output, error)
	delegate func(agent.Delegation) (run.Run, error)
	answer   string
}

func newHost() *host { return &host{began: time.Now()} }

func (h *host) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%.1f ", time.Since(h.began).Seconds())+fmt.Sprintf(format, args...))
}

func (h *host) Emit(ctx context.Context, ps ...run.Payload) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, p := range ps {
		switch p := p.(type) {
		case *run.AgentMessage:
			h.note("message %s", p.Text)
		case *run.AgentThought:
			h.note("thought %s", p.Text)
		case *run.Warning:
			h.note("warning %s", p.Text)
		case *run.ToolCallStarted:
			h.calls = append(h.calls, p.CallID)
			h.note("call %s %s", p.Name, p.Arguments)
		case *run.ToolCallFinished:
			if p.CallID != h.calls[len(h.calls)-1] {
				return errors.New("the end of a call has another id than its start")
			}
			h.note("result %s error=%v %s", p.Name, p.IsError, strings.TrimSpace(p.Text))
		default:
			h.note("%T", p)
		}
	}
	return nil
}

func (h *host) Text(_ context.Context, _, text string) error {
	h.texts = append(h.texts, text)
	return nil
}

func (h *host) Log(context.Context, []run.EventType, func(*run.Event) error) error { return nil }

func (h *host) Said(ctx context.Context, records []run.UsageRecord, _ ...run.Payload) error {
	return h.Usage(ctx, records...)
}

func (h *host) Usage(_ context.Context, records ...run.UsageRecord) error {
	h.usage = append(h.usage, records...)
	return nil
}

func (h *host) Execute(_ context.Context, e agent.Exec) (sandbox.Result, agent.Output, error) {
	if e.CallID != h.calls[len(h.calls)-1] {
		return sandbox.Result{}, agent.Output{}, errors.New("the execution does not name its call")
	}
	return h.exec(e)
}

func (h *host) Delegate(_ context.Context, d agent.Delegation) (run.Run, error) { return h.delegate(d) }

func (h *host) Sample(func(context.Context) error) (stop func()) { return func() {} }

func (h *host) Ask(_ context.Context, key, text string, schema json.RawMessage) (json.RawMessage, error) {
	h.note("ask %s %s %s", key, text, schema)
	return json.RawMessage(h.answer), nil
}

// play runs turns inside a bubble, so that time is exact.
func play(ctx context.Context, h *host, prompt, resume string, turns ...agent.Turn) (string, error) {
	return replay.New().Run(ctx, agent.Task{
		Run:        run.Run{ID: "run_1", Provider: "p", Model: "m", Input: run.Input{Prompt: prompt}},
		Definition: agent.Definition{Turns: turns}, ResumeKey: resume,
	}, h)
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTurnsInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		got, err := play(t.Context(), h, "the tide", "",
			agent.Turn{Thought: "about {{prompt}}"}, agent.Turn{Delay: 1.5},
			agent.Turn{Text: &agent.TextTurn{Say: "You asked about {{prompt}}."}}, agent.Turn{Warning: "careful"},
		)
		if err != nil || got != "You asked about the tide." {
			t.Errorf("got %q, %v", got, err)
		}
		want(t, h.log, "0.0 thought about the tide", "1.5 message You asked about the tide.", "1.5 warning careful")
		if len(h.texts) != 0 {
			t.Errorf("text without a pace came in %d pieces", len(h.texts))
		}
	})
}

func TestPacedText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		say := strings.Repeat("wörter ", 20) // 140 characters
		if _, err := play(t.Context(), h, "", "", agent.Turn{Text: &agent.TextTurn{Say: say, Pace: 70}}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(h.texts, ""); got != say {
			t.Errorf("the pieces give %q", got)
		}
		for _, p := range h.texts {
			if n := len([]rune(p)); n < 1 || n > 4 {
				t.Errorf("a piece of %d characters at 70 a second, want 3 or 4: %q", n, p)
			}
		}
		want(t, h.log, "2.0 message "+say)
	})
}

func TestToolCallsReallyRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		three := 3
		h.exec = func(e agent.Exec) (sandbox.Result, agent.Output, error) {
			switch {
			case e.Code == "print(1)":
				return sandbox.Result{Class: run.ClassOK}, agent.Output{Stdout: "1\n"}, nil
			case e.Command[0] == "bad":
				return sandbox.Result{Class: run.ClassError, ExitCode: &three}, agent.Output{Stderr: "oops\n"}, nil
			case e.Command[0] == "slow":
				return sandbox.Result{Class: run.ClassTimeout, Elapsed: e.Timeout, Signal: "SIGKILL"}, agent.Output{}, nil
			}
			return sandbox.Result{}, agent.Output{}, errors.New("no sandbox")
		}
		_, err := play(t.Context(), h, "", "",
			agent.Turn{Tool: &agent.ToolTurn{Code: "print(1)"}},
			agent.Turn{Tool: &agent.ToolTurn{Name: "shell", Command: []string{"bad"}}},
			agent.Turn{Tool: &agent.ToolTurn{Command: []string{"slow"}, Timeout: 2}},
			agent.Turn{Tool: &agent.ToolTurn{Command: []string{"missing"}}},
		)
		if err != nil {
			t.Fatal(err)
		}
		want(t, h.log,
			`0.0 call execute_code {"code":"print(1)"}`, "0.0 result execute_code error=false 1",
			`0.0 call shell {"command":["bad"]}`, "0.0 result shell error=true stderr:\noops\nexit code 3",
			`0.0 call execute_code {"command":["slow"]}`, "0.0 result execute_code error=true stopped after 2s: out of time",
			`0.0 call execute_code {"command":["missing"]}`, "0.0 result execute_code error=true no sandbox",
		)
	})
}

func TestDelegation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		h.delegate = func(d agent.Delegation) (run.Run, error) {
			if d.Agent == "bad" {
				return run.Run{}, errors.New("the child failed")
			}
			return run.Run{Result: d.Agent + " did " + d.Prompt}, nil
		}
		_, err := play(t.Context(), h, "X", "",
			agent.Turn{Delegate: &agent.DelegateTurn{Agent: "good", Prompt: "half of {{prompt}}"}},
			agent.Turn{Delegate: &agent.DelegateTurn{Agent: "bad", Prompt: "p"}},
		)
		if err != nil {
			t.Fatal(err)
		}
		want(t, h.log,
			`0.0 call delegate_task {"agent":"good","prompt":"half of X"}`, "0.0 result delegate_task error=false good did half of X",
			`0.0 call delegate_task {"agent":"bad","prompt":"p"}`, "0.0 result delegate_task error=true the child failed",
		)
	})
}

func TestAskAndResume(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := []agent.Turn{
			{Text: &agent.TextTurn{Say: "first"}},
			{Ask: &agent.AskTurn{Text: "go on with {{prompt}}?", Schema: map[string]any{"type": "string"}}},
			{Text: &agent.TextTurn{Say: "you said {{answer}}"}},
		}
		h := newHost()
		h.answer = `"yes"`
		if got, err := play(t.Context(), h, "X", "", turns...); err != nil || got != "you said yes" {
			t.Errorf("got %q, %v", got, err)
		}
		want(t, h.log, "0.0 message first", `0.0 ask turn-2 go on with X? {"type":"string"}`, "0.0 message you said yes")

		h = newHost()
		h.answer = `{"n":1}`
		if got, err := play(t.Context(), h, "X", "turn-2", turns...); err != nil || got != `you said {"n":1}` {
			t.Errorf("resumed: got %q, %v", got, err)
		}
		want(t, h.log, `0.0 ask turn-2 go on with X? {"type":"string"}`, `0.0 message you said {"n":1}`)

		if _, err := play(t.Context(), newHost(), "X", "turn-9", turns...); err == nil {
			t.Error("resumed at a turn that is not there")
		}
	})
}

func TestUsageIsBookedExactly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		_, err := play(t.Context(), h, "", "",
			agent.Turn{Usage: &agent.UsageTurn{Input: 10, CacheRead: 20, CacheWriteShort: 30, CacheWriteLong: 40, Output: 50, Reasoning: 5, CostUSD: "0.1"}},
			agent.Turn{Usage: &agent.UsageTurn{Model: "other", Input: 1}},
		)
		if err != nil || len(h.usage) != 2 {
			t.Fatalf("%d records, %v", len(h.usage), err)
		}
		a, b := h.usage[0], h.usage[1]
		if a.Tokens != (run.Tokens{Input: 10, CacheRead: 20, CacheWriteShort: 30, CacheWriteLong: 40, Output: 50, Reasoning: 5}) ||
			*a.CostNanoUSD != 100_000_000 || a.CostSource != run.AgentReported || a.Model != "m" || a.Provider != "p" ||
			a.Run != "run_1" || a.RequestKey != "turn-1" || a.Provenance != run.Measured || a.Kind != run.ModelCall {
			t.Errorf("first record: %+v", a)
		}
		if b.CostNanoUSD != nil || b.CostSource != "" || b.Model != "other" || b.RequestKey != "turn-2" {
			t.Errorf("second record: %+v", b)
		}
	})
}

func TestErrorAndTimeout(t *testing.T) {
	t.Parallel()
	_, err := play(t.Context(), newHost(), "X", "", agent.Turn{Error: "cannot do {{prompt}}"}, agent.Turn{Thought: "never"})
	if err == nil || err.Error() != "cannot do X" || errors.Is(err, agent.ErrTimeout) {
		t.Errorf("got %v", err)
	}
	_, err = play(t.Context(), newHost(), "", "", agent.Turn{Timeout: "the model was silent"})
	if !errors.Is(err, agent.ErrTimeout) || !strings.Contains(err.Error(), "the model was silent") {
		t.Errorf("got %v", err)
	}
}

// A stop ends every kind of waiting at once, with its cause.
func TestStopEndsTheWaiting(t *testing.T) {
	t.Parallel()
	stop := errors.New("stopped by the test")
	for name, turn := range map[string]agent.Turn{
		"delay": {Delay: 3600},
		"text":  {Text: &agent.TextTurn{Say: strings.Repeat("x", 1000), Pace: 1}},
		"slow":  {Text: &agent.TextTurn{Say: "x", Pace: 0.001}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				timer := time.AfterFunc(5*time.Second, func() { cancel(stop) })
				defer timer.Stop()
				h := newHost()
				_, err := play(ctx, h, "", "", turn, agent.Turn{Thought: "never"})
				if !errors.Is(err, stop) || len(h.log) != 0 || time.Since(h.began) > 6*time.Second {
					t.Errorf("got %v after %s and %v", err, time.Since(h.began), h.log)
				}
			})
		})
	}
}
