//go:build linux

package llm_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/run"
)

// onWires runs a test with each provider's API.
func onWires(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Parallel()
	for _, w := range wires {
		t.Run(w.name(), func(t *testing.T) {
			t.Parallel()
			test(t, newBench(t, w))
		})
	}
}

var few = run.Tokens{Input: 100, Output: 20}

// wantBill compares the records, in order.
func wantBill(t *testing.T, b *bench, r run.Run, want ...run.Tokens) {
	t.Helper()
	got := b.bill(r)
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d: %+v", len(got), len(want), got)
	}
	for i, u := range got {
		if u.Tokens != b.wire.billed(want[i]) || u.Provenance != run.Measured || u.Model != testModel || u.Provider != b.wire.provider() {
			t.Errorf("record %d is %s %s %s %+v, want %+v", i, u.Provider, u.Model, u.Provenance, u.Tokens, b.wire.billed(want[i]))
		}
	}
}

func TestPlainText(t *testing.T) {
	onWires(t, func(t *testing.T, b *bench) {
		p := newProvider(t, b.wire, answers(b.wire, said{id: "a1", pieces: []string{"Hel", "lo, ", "wörld"}, tokens: few}))
		b.define(p, "talker", nil)
		r := b.play("talker", "Say hello")
		wantState(t, r, run.Done, run.Completed)
		if r.Result != "Hello, wörld" || b.deltas(r) != "Hello, wörld" {
			t.Errorf("the result is %q, shown was %q", r.Result, b.deltas(r))
		}
		wantLines(t, b.story(r), "says: Hello, wörld", "used MEASURED")
		wantBill(t, b, r, few)
		q := p.requests()[0]
		if q.key != testKey || q.model != testModel || q.instructions != "You are talker." || strings.Join(q.tools, " ") != "execute_code read_file write_file list_files" {
			t.Errorf("asked was %+v", q)
		}
		wantLines(t, q.messages, "user: Say hello")
	})
}

func TestToolsInParallel(t *testing.T) {
	onWires(t, func(t *testing.T, b *bench) {
		p := newProvider(
			t, b.wire,
			answers(b.wire, said{id: "a1", pieces: []string{"I look."}, stop: chat.Calls, tokens: few, calls: []call{
				{"c1", "write_file", `{"path":"notes/a.txt","content":"alpha"}`},
				{"c2", "read_file", `{"path":"notes/a.txt"}`},
				{"c3", "list_files", `{"path":"notes"}`},
				{"c4", "execute_code", `{"code":"print(open('notes/a.txt').read() + '!')"}`},
				{"c5", "execute_code", `{"command":"echo oops >&2; exit 3"}`},
				{"c6", "read_file", `{"path":"../../etc/passwd"}`},
				{"c7", "no_such_tool", `{}`},
			}}),
			answers(b.wire, said{id: "a2", pieces: []string{"Done."}, tokens: run.Tokens{Input: 7, CacheRead: 120, CacheWriteShort: 33, Output: 4}}),
		)
		b.define(p, "worker", nil)
		r := b.play("worker", "Work")
		wantState(t, r, run.Done, run.Completed)
		results := []string{
			"result c1 5 bytes written to notes/a.txt", "result c2 alpha", "result c3 a.txt\t5 bytes\n", "result c4 alpha!\n",
			"error c5 stderr:\noops\nexit code 3\n", `error c6 the path "../../etc/passwd" leads out of...`,
			`error c7 There is no tool "no_such_tool"...`,
		}
		wantLines(t, p.requests()[1].messages, append([]string{
			"user: Work", "assistant: I look.",
			`call c1 write_file {"path":"notes/a.txt","content":"alpha"}`, `call c2 read_file {"path":"notes/a.txt"}`,
			`call c3 list_files {"path":"notes"}`, `call c4 execute_code {"code":"print(open('notes/a.txt').read() + '!')"}`,
			`call c5 execute_code {"command":"echo oops >&2; exit 3"}`, `call c6 read_file {"path":"../../etc/passwd"}`, `call c7 no_such_tool {}`,
		}, results...)...)
		if got := b.file(r, "notes/a.txt"); got != "alpha" {
			t.Errorf("the file holds %q", got)
		}
		wantBill(t, b, r, few, run.Tokens{Input: 7, CacheRead: 120, CacheWriteShort: 33, Output: 4})
	})
}

func TestReasoningGoesBack(t *testing.T) {
	onWires(t, func(t *testing.T, b *bench) {
		tokens := run.Tokens{Input: 50, Output: 40, Reasoning: 30}
		p := newProvider(
			t, b.wire,
			answers(b.wire, said{id: "a1", reasoning: "First I list.", stop: chat.Calls, tokens: tokens, calls: []call{{"c1", "list_files", `{}`}}}),
			answers(b.wire, said{id: "a2", pieces: []string{"Nothing there."}, tokens: few}),
			answers(b.wire, said{id: "a3", pieces: []string{"As I said."}, tokens: few}),
		)
		b.define(p, "thinker", func(d *agent.Definition) { d.LLM.Reasoning = "high" })
		r := b.play("thinker", "Think")
		wantState(t, r, run.Done, run.Completed)
		wantLines(t, b.story(r), "thinks: First I list.", "calls c1 list_files {}", "used MEASURED", "result c1: (empty)", "says: Nothing there.", "used MEASURED")
		wantBill(t, b, r, tokens, few)
		if q := p.requests()[0]; q.reasoning != "high" {
			t.Errorf("the level is %q", q.reasoning)
		}
		if m := p.requests()[1].messages; len(m) != 4 || !strings.HasPrefix(m[1], "thinking sig-of-a1 ") {
			t.Errorf("the reasoning did not go back: %q", m)
		}
		// A follow-up knows what was said.
		next, err := b.engine.Message(t.Context(), run.MessageRequest{Session: r.Session, Text: "And now?"})
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, b.ended(next.ID), run.Done, run.Completed)
		m := p.requests()[2].messages
		wantLines(t, m[len(m)-3:], "result c1 (empty)", "assistant: Nothing there.", "user: And now?")
	})
}

func TestRefusalAndLimits(t *testing.T) {
	onWires(t, func(t *testing.T, b *bench) {
		p := newProvider(
			t, b.wire,
			answers(b.wire, said{id: "a1", stop: chat.Refused, why: "not about that", tokens: few}),
			answers(b.wire, said{id: "a2", pieces: []string{"It is lo"}, stop: chat.MaxOutput, tokens: few}),
		)
		b.define(p, "talker", nil)
		r := b.play("talker", "Say something bad")
		wantState(t, r, run.Failed, run.ExitError)
		if !strings.Contains(r.Error, "refused to answer") || !strings.Contains(r.Error, "not about that") {
			t.Errorf("the error is %q", r.Error)
		}
		wantBill(t, b, r, few)
		r = b.play("talker", "Say something long")
		wantState(t, r, run.Done, run.Completed)
		wantLines(t, b.story(r), "says: It is lo", "used MEASURED", "warning: The answer was cut...")
		wantBill(t, b, r, few)
	})
}

// A stream that ends before it says so is no answer, whatever it was.
func TestBrokenStreams(t *testing.T) {
	onWires(t, func(t *testing.T, b *bench) {
		half := said{id: "a1", pieces: []string{"One ", "two ", "three"}, tokens: few}
		frames := b.wire.frames(testModel, half)
		last := len(frames) - 1
		shown := slices.IndexFunc(frames, func(f string) bool { return strings.Contains(f, "two ") })
		p := newProvider(
			t, b.wire,
			breaks(b.wire, half, shown),
			stops(b.wire, half, last),
			garbles(b.wire, half, shown),
			answers(b.wire, said{id: "a2", pieces: []string{"One two three"}, tokens: few}),
		)
		b.define(p, "talker", nil)
		r := b.play("talker", "Count")
		wantState(t, r, run.Done, run.Completed)
		if r.Result != "One two three" {
			t.Errorf("the result is %q", r.Result)
		}
		warned, partial, whole := 0, 0, 0
		for _, s := range b.story(r) {
			switch {
			case strings.HasPrefix(s, "warning: No whole answer came"):
				warned++
			case strings.HasPrefix(s, "partial: One"):
				partial++
			case strings.HasPrefix(s, "says:"):
				whole++
			}
		}
		if warned != 3 || partial != 3 || whole != 1 {
			t.Errorf("%d warnings, %d partial and %d whole messages, want 3, 3, 1:\n%s", warned, partial, whole, strings.Join(b.story(r), "\n"))
		}
		for _, q := range p.requests() {
			wantLines(t, q.messages, "user: Count")
		}
		bill := b.bill(r)
		if len(bill) != 4 {
			t.Fatalf("%d records: %+v", len(bill), bill)
		}
		exact := 0
		for _, u := range bill {
			if u.Provenance == run.Measured {
				exact++
			}
		}
		if bill[3].Provenance != run.Measured || bill[3].Tokens != b.wire.billed(few) || bill[0].Provenance == run.Measured {
			t.Errorf("the bill is %+v", bill)
		}
	})
}

func TestErrorsOfTheProvider(t *testing.T) {
	t.Parallel()
	ok := said{id: "a1", pieces: []string{"Hello"}, tokens: few}
	for name, c := range map[string]struct {
		steps func(w wire) []step
		tries int
		fails []string // what the error says; none: it goes well
	}{
		"429 then success": {func(w wire) []step {
			return []step{fails(w, 429, "slow down", "Retry-After", "0.01"), answers(w, ok)}
		}, 2, nil},
		"529 three times": {func(w wire) []step {
			return []step{fails(w, 529, "Overloaded"), fails(w, 529, "Overloaded"), fails(w, 529, "Overloaded"), answers(w, ok)}
		}, 4, nil},
		"503 for ever": {func(w wire) []step {
			return []step{fails(w, 503, "down"), fails(w, 503, "down"), fails(w, 503, "down"), fails(w, 503, "down")}
		}, 4, []string{"could not be asked, in 4 tries", "down (HTTP 503)"}},
		"400 is not repeated": {func(w wire) []step {
			return []step{fails(w, 400, "messages: text is wrong")}
		}, 1, []string{"does not take the request", "messages: text is wrong (HTTP 400)"}},
		"a wrong key": {func(w wire) []step {
			return []step{fails(w, 401, "invalid key")}
		}, 1, []string{"refused the key", "check the key in TEST_KEY"}},
		"a wait that is too long": {func(w wire) []step {
			return []step{fails(w, 429, "come back tomorrow", "Retry-After", "86400")}
		}, 1, []string{"come back tomorrow (HTTP 429)", "24h0m0s", "5m0s"}},
		"a redirect": {func(wire) []step {
			return []step{func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://127.0.0.1:1/elsewhere", http.StatusTemporaryRedirect)
			}}
		}, 4, []string{"is not followed"}},
	} {
		t.Run(name, func(t *testing.T) {
			onWires(t, func(t *testing.T, b *bench) {
				steps := c.steps(b.wire)
				for len(steps) < c.tries {
					steps = append(steps, steps[0])
				}
				p := newProvider(t, b.wire, steps...)
				b.define(p, "talker", nil)
				r := b.play("talker", "Hello?")
				if n := len(p.requests()); n != c.tries {
					t.Errorf("%d requests, want %d", n, c.tries)
				}
				if c.fails == nil {
					wantState(t, r, run.Done, run.Completed)
					wantBill(t, b, r, few)
					return
				}
				wantState(t, r, run.Failed, run.ExitError)
				for _, want := range c.fails {
					if !strings.Contains(r.Error, want) {
						t.Errorf("the error %q does not say %q", r.Error, want)
					}
				}
				wantBill(t, b, r)
				if strings.Contains(r.Error, testKey) {
					t.Errorf("the error tells the key: %s", r.Error)
				}
			})
		})
	}
}

// An abort ends the request, wherever it is, and what was used is booked.
func TestAbortAtEachStage(t *testing.T) {
	t.Parallel()
	answer := said{id: "a1", reasoning: "Hm.", pieces: []string{"One ", "two "}, stop: chat.Calls, tokens: few, calls: []call{{"c1", "list_files", `{"path":"."}`}}}
	for _, n := range []int{-1, 0, 1, 3, 6, 9} {
		t.Run(map[bool]string{true: "before the headers", false: "after " + string(rune('0'+max(n, 0))) + " events"}[n < 0], func(t *testing.T) {
			onWires(t, func(t *testing.T, b *bench) {
				n := min(n, len(b.wire.frames(testModel, answer))-1)
				reached := make(chan struct{})
				p := newProvider(t, b.wire)
				p.steps = []step{hangs(p, b.wire, answer, n, reached)}
				b.define(p, "talker", nil)
				r := b.begin("talker", "Go on")
				<-reached
				receipt, _, err := b.engine.Abort(t.Context(), run.AbortOrder{Run: r.ID, Wait: true})
				if err != nil || receipt.Outcome != run.AbortStopped {
					t.Fatalf("the abort came to %+v, %v", receipt, err)
				}
				r = b.get(r.ID)
				wantState(t, r, run.Cancelled, run.Aborted)
				for _, u := range b.bill(r) {
					if u.Provenance == run.Measured {
						t.Errorf("an aborted request is booked as measured: %+v", u)
					}
				}
			})
		})
	}
}
