//go:build linux

package service_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
)

func TestU11AnExitWithZeroCompletes(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine()
		r := b.start(e, answers(some))
		b.until("the poll is booked", func() bool { return b.get(r.ID).Usage.Tokens == someTokens })
		b.put(r, "exit", "0")
		r = b.ended(r.ID)
		wantState(t, r, run.Done, run.Completed)
		wantUsage(t, r, someTokens, &someCost, run.Partial) // what came after the poll is not known
		if all := b.runs(r.Session); len(all) != 1 {
			t.Errorf("%d runs, want one", len(all))
		}
		if !strings.Contains(r.Result, "ended by itself") {
			t.Errorf("the result is %q", r.Result)
		}
	})
}

func escalations(events []run.Payload) (out []*run.AgentEscalated) {
	for _, p := range events {
		if e, ok := p.(*run.AgentEscalated); ok {
			out = append(out, e)
		}
	}
	return out
}

func TestU12ThreeCrashesEscalate(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine()
		b.def.Service.RestartDelay = 0.2
		r := b.start(e, map[string]string{"answer": some})
		b.until("the poll is booked", func() bool { return b.get(r.ID).Usage.Tokens == someTokens })
		b.put(r, "exit-at-once", "3") // the next ones
		b.put(r, "exit", "3")
		b.until("three crashes", func() bool {
			all := b.runs(r.Session)
			return len(all) == 3 && all[2].State.Status.Final()
		})
		all := b.runs(r.Session)
		for i, x := range all {
			wantState(t, x, run.Failed, run.Crashed)
			if x.Attempt != i+1 || i > 0 && x.RestartOf != all[i-1].ID || x.Input.Agent != "helper" {
				t.Errorf("run %d is attempt %d of %q", i+1, x.Attempt, x.RestartOf)
			}
			if !strings.Contains(x.Error, "giving up\nthe service ended with exit code 3") {
				t.Errorf("run %d failed with %q", i+1, x.Error)
			}
			if n, want := len(escalations(b.events(x))), i/2; n != want {
				t.Errorf("run %d escalated %d times, want %d", i+1, n, want)
			}
			if i > 0 {
				wait := 200 * time.Millisecond * time.Duration(1+3*(i-1)) // 0.2 s, then 0.8 s
				if got := x.NotBefore.Sub(x.CreatedAt); got != wait {
					t.Errorf("run %d waits for %s, want %s", i+1, got, wait)
				}
				if x.StartedAt.Before(x.NotBefore) {
					t.Errorf("run %d started at %s, not from %s on", i+1, x.StartedAt, x.NotBefore)
				}
				b.unknown(x)
			}
		}
		wantUsage(t, all[0], someTokens, &someCost, run.Partial)
		last := b.events(all[2])
		if x := escalations(last)[0]; x.Crashes != 3 || !strings.Contains(x.Text, "crashed 3 times in a row") {
			t.Errorf("escalated with %+v", x)
		}
		if last[len(last)-1].Type() != run.TypeRunEnded {
			t.Errorf("the last event is %s", last[len(last)-1].Type())
		}
		// Finalised first, then restarted.
		page, err := b.store.Events(t.Context(), run.EventQuery{Session: r.Session, First: 1000})
		if err != nil {
			t.Fatal(err)
		}
		ends, starts := int64(0), int64(0)
		for _, x := range page.Events {
			if x.Run == all[0].ID && x.Type == run.TypeRunEnded {
				ends = x.Seq
			}
			if x.Run == all[1].ID && x.Type == run.TypeRunStarted {
				starts = x.Seq
			}
		}
		if ends == 0 || ends > starts {
			t.Errorf("the first attempt ends with event %d, the second starts with %d", ends, starts)
		}
		// Who starts it again starts to count again.
		again, err := e.Start(t.Context(), run.StartRequest{Input: run.Input{Agent: "helper"}, Session: r.Session})
		if err != nil || again.Attempt != 1 {
			t.Errorf("started again as attempt %d, %v", again.Attempt, err)
		}
		b.abort(e, again)
	})
}

// What waits for its restart is queued: it outlives the server, and can be aborted.
func TestU12ARestartOutlivesTheServer(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine()
		b.def.Service.RestartDelay = 2
		r := b.start(e, map[string]string{"answer": zeros, "exit": "7"})
		wantState(t, b.ended(r.ID), run.Failed, run.Crashed)
		b.stop()
		all := b.runs(r.Session)
		if len(all) != 2 || all[1].State.Status != run.Queued {
			t.Fatalf("the runs are %+v", all)
		}
		b.engine(func(o *engine.Options) { o.Poll = 20 * time.Millisecond })
		next := b.ended(all[1].ID)
		wantState(t, next, run.Failed, run.Crashed)
		if next.StartedAt.Before(next.NotBefore) {
			t.Errorf("started at %s, not from %s on", next.StartedAt, next.NotBefore)
		}
	})
}

func TestU12ARestartCanBeAborted(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine()
		b.def.Service.RestartDelay = 300
		r := b.start(e, map[string]string{"answer": zeros, "exit": "7"})
		b.ended(r.ID)
		all := b.runs(r.Session)
		if len(all) != 2 {
			t.Fatalf("%d runs, want two", len(all))
		}
		if _, err := e.Start(t.Context(), run.StartRequest{Input: run.Input{Agent: "helper"}, Session: r.Session}); run.CodeOf(err) != run.Busy {
			t.Errorf("the session takes another run: %v", err)
		}
		next := b.abort(e, all[1])
		wantState(t, next, run.Cancelled, run.Aborted)
		if all := b.runs(r.Session); len(all) != 2 {
			t.Errorf("%d runs, want two", len(all))
		}
	})
}

// TestU13TheOpenRowOfADeadServer: whoever finds no process to ask closes the row
// that is open, with what was polled last; where none is open, nothing fails.
func TestU13TheOpenRowOfADeadServer(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.engine() // nothing is open
		b.stop()
		now := time.Now()
		r := run.Run{
			ID: run.NewID(), Session: run.NewSessionID(), Agent: "helper", Stage: "helper", Driver: agent.DriverService, Model: "sonnet", Provider: "anthropic",
			Attempt: 1, CreatedAt: now, Input: run.Input{Agent: "helper"}, Definition: []byte(`{"name":"helper","driver":"service"}`),
		}
		if _, err := b.store.Accept(t.Context(), run.NewRun{Run: r, NewSession: &run.Session{ID: r.Session, CreatedAt: now}}); err != nil {
			t.Fatal(err)
		}
		claimed, err := b.store.Claim(t.Context(), b.replica, 1)
		if err != nil || len(claimed) != 1 {
			t.Fatalf("claimed %v, %v", claimed, err)
		}
		u := msg("status/exe", someTokens)
		u.Run, u.At, u.Stream, u.Rank, u.Provenance = r.ID, now, "service/exe", run.FromStatusPoll, run.Partial
		if _, err := b.store.Append(t.Context(), run.Batch{Session: r.Session, Fence: run.Fence{Run: r.ID, Token: claimed[0].Token}, Usage: []run.UsageRecord{u}}); err != nil {
			t.Fatal(err)
		}
		b.engine()
		got := b.get(r.ID)
		wantState(t, got, run.Failed, run.Lost)
		wantUsage(t, got, someTokens, &someCost, run.Partial)
		if all := b.runs(r.Session); len(all) != 1 {
			t.Errorf("a lost run was started again: %d runs", len(all))
		}
	})
}

func TestAServiceThatIsNotReadyInTime(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine()
		b.def.Service.HealthPath = "/health"
		b.def.Service.StartSeconds = 60
		ready := b.start(e, map[string]string{"answer": some, "healthy": ""})
		b.until("it is ready", func() bool {
			return slices.ContainsFunc(b.events(ready), func(p run.Payload) bool {
				m, ok := p.(*run.AgentMessage)
				return ok && strings.HasPrefix(m.Text, "The service is ready after")
			})
		})
		b.abort(e, ready)
		b.def.Service = &agent.Service{HealthPath: "/health", StartSeconds: 2}
		late := b.ended(b.start(e, answers(some)).ID)
		wantState(t, late, run.Failed, run.ExitError)
		if !strings.Contains(late.Error, "was not ready after service.startSeconds, 2 s: status 503 came") {
			t.Errorf("it failed with %q", late.Error)
		}
		if all := b.runs(late.Session); len(all) != 1 {
			t.Errorf("it was started again: %d runs", len(all))
		}
		wantUsage(t, late, someTokens, &someCost, run.Measured)
	})
}
