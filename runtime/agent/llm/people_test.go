//go:build linux

package llm_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/run"
)

// question waits for the n-th question of a run and gives its id.
func (b *bench) question(id run.ID, n int) run.Question {
	b.t.Helper()
	var q run.Question
	b.until("a question of run "+string(id), func() bool {
		list, err := b.store.Questions(b.t.Context(), id)
		if err != nil {
			b.t.Fatal(err)
		}
		if len(list) < n || b.get(id).State.Status != run.Waiting {
			return false
		}
		q = list[n-1]
		return true
	})
	return q
}

func (b *bench) answer(id, json string) {
	b.t.Helper()
	if _, err := b.engine.Answer(b.t.Context(), id, []byte(json)); err != nil {
		b.t.Fatal(err)
	}
}

var asksWhich = call{"c2", "ask_user", `{"question":"Which?","schema":{"type":"string","enum":["a","b"]}}`}

// A question outlives the server: the run goes on from the answer, and knows
// what it knew.
func TestAQuestionOutlivesTheServer(t *testing.T) {
	t.Parallel()
	b := newBench(t, messages{})
	p := newProvider(
		t, b.wire,
		answers(b.wire, said{id: "a1", pieces: []string{"I look first."}, reasoning: "Hm.", stop: chat.Calls, tokens: few, calls: []call{{"c1", "list_files", `{}`}}}),
		answers(b.wire, said{id: "a2", pieces: []string{"I must ask."}, stop: chat.Calls, tokens: few, calls: []call{
			asksWhich, {"c3", "execute_code", `{"command":"echo ran >> runs; cat runs"}`},
		}}),
		answers(b.wire, said{id: "a3", pieces: []string{"It is b."}, tokens: few}),
	)
	b.define(p, "asker", func(d *agent.Definition) {
		d.LLM.Tools = []agent.Tool{{Name: agent.ToolAsk}, {Name: agent.ToolList}, {Name: agent.ToolExecute}}
	})
	r := b.begin("asker", "Choose")
	q := b.question(r.ID, 1)
	if q.Text != "Which?" || string(q.Schema) != `{"type":"string","enum":["a","b"]}` {
		t.Errorf("the question is %+v", q)
	}
	b.crash()
	b.start()
	b.answer(q.ID, `"b"`)
	r = b.ended(r.ID)
	wantState(t, r, run.Done, run.Completed)
	wantLines(
		t, p.requests()[2].messages,
		"user: Choose", "thinking sig-of-a1 Hm.", "assistant: I look first.", "call c1 list_files {}", "result c1 (empty)",
		"assistant: I must ask.", `call c2 ask_user {"question":"Which?","schema":{"type":"string","enum":["a","b"]}}`,
		`call c3 execute_code {"command":"echo ran >> runs; cat runs"}`, "result c2 b", "result c3 ran\n",
	)
	wantBill(t, b, r, few, few, few)
}

// A call that needs a person's word is done as that person says.
func TestApproval(t *testing.T) {
	t.Parallel()
	b := newBench(t, messages{})
	write := func(id, text string) call {
		return call{id, "write_file", `{"path":"f","content":"` + text + `"}`}
	}
	p := newProvider(
		t, b.wire,
		answers(b.wire, said{id: "a1", stop: chat.Calls, tokens: few, calls: []call{write("c1", "one")}}),
		answers(b.wire, said{id: "a2", stop: chat.Calls, tokens: few, calls: []call{write("c2", "two")}}),
		answers(b.wire, said{id: "a3", stop: chat.Calls, tokens: few, calls: []call{write("c3", "three"), {"c4", "execute_code", `{"command":"id"}`}}}),
		answers(b.wire, said{id: "a4", pieces: []string{"Well."}, tokens: few}),
	)
	b.define(p, "writer", func(d *agent.Definition) {
		d.LLM.Tools = []agent.Tool{{Name: agent.ToolWrite, Policy: agent.PolicyAsk}, {Name: agent.ToolExecute, Policy: agent.PolicyDeny}}
	})
	r := b.begin("writer", "Write")
	q := b.question(r.ID, 1)
	if !strings.Contains(q.Text, `"content":"one"`) || !json.Valid(q.Schema) {
		t.Errorf("the question is %+v", q)
	}
	b.answer(q.ID, `{"decision":"deny","reason":"not yet"}`)
	b.answer(b.question(r.ID, 2).ID, `{"decision":"approve","arguments":{"path":"f","content":"edited"}}`)
	b.answer(b.question(r.ID, 3).ID, `"yes"`)
	r = b.ended(r.ID)
	wantState(t, r, run.Done, run.Completed)
	var results []string
	for _, m := range p.requests()[3].messages {
		if strings.HasPrefix(m, "result") || strings.HasPrefix(m, "error") {
			results = append(results, m)
		}
	}
	wantLines(
		t, results, "error c1 A person denied this call: not yet.", "result c2 6 bytes written to f",
		"error c3 A person denied this call: the answer was neither approve nor deny.", "error c4 The tool execute_code may not be used here.",
	)
	if got := b.file(r, "f"); got != "edited" {
		t.Errorf("the file holds %q", got)
	}
}

// Three levels, two children at once: text and failures come back as results,
// sums include everyone.
func TestDelegation(t *testing.T) {
	t.Parallel()
	b := newBench(t, messages{})
	tokens := func(n int64) run.Tokens { return run.Tokens{Input: n, Output: 1} }
	to := func(id, name string) call {
		return call{id, "delegate_task", `{"agent":"` + name + `","prompt":"Go, ` + name + `"}`}
	}
	chief := newProvider(
		t, b.wire,
		answers(b.wire, said{id: "a1", stop: chat.Calls, tokens: tokens(1000), calls: []call{to("c1", "middle"), to("c2", "broken"), to("c3", "stranger")}}),
		answers(b.wire, said{id: "a2", pieces: []string{"All done."}, tokens: tokens(2000)}),
	)
	middle := newProvider(
		t, b.wire,
		answers(b.wire, said{id: "b1", stop: chat.Calls, tokens: tokens(100), calls: []call{to("d1", "leaf")}}),
		answers(b.wire, said{id: "b2", pieces: []string{"The leaf is green."}, tokens: tokens(200)}),
	)
	leaf := newProvider(t, b.wire, answers(b.wire, said{id: "l1", pieces: []string{"Green."}, tokens: tokens(10)}))
	broken := newProvider(t, b.wire, fails(b.wire, 400, "no such thing"))
	may := func(names ...string) func(*agent.Definition) {
		return func(d *agent.Definition) { d.LLM.Tools = []agent.Tool{{Name: agent.ToolDelegate, Agents: names}} }
	}
	b.define(chief, "chief", may("middle", "broken"))
	b.define(middle, "middle", may("leaf"))
	b.define(leaf, "leaf", nil)
	b.define(broken, "broken", nil)
	r := b.play("chief", "Do it all")
	wantState(t, r, run.Done, run.Completed)
	var results []string
	for _, m := range chief.requests()[1].messages {
		if strings.HasPrefix(m, "result") || strings.HasPrefix(m, "error") {
			results = append(results, m)
		}
	}
	wantLines(
		t, results, "result c1 The leaf is green.", "error c2 agent broken ended FAILED (ERROR): "+b.wire.provider()+" does not take the request: no such thing (HTTP 400)",
		`error c3 There is no agent "stranger" for you. There are: middle, broken.`,
	)
	wantLines(t, leaf.requests()[0].messages, "user: Go, leaf")
	usage, err := b.store.InclusiveUsage(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	self, all := b.get(r.ID).Usage.Tokens, usage.Tokens
	if self.Input != 3000 || all.Input != 3310 || all.Output != 5 {
		t.Errorf("self %+v, inclusive %+v", self, all)
	}
}

// An agent that does the same over and over is told, then stopped.
func TestAStuckAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t, messages{})
	var steps []step
	for _, id := range []string{"a1", "a2", "a3", "a4", "a5", "a6"} {
		steps = append(steps, answers(b.wire, said{id: id, stop: chat.Calls, tokens: few, calls: []call{{"c" + id, "read_file", `{"path":"none"}`}}}))
	}
	p := newProvider(t, b.wire, steps...)
	b.define(p, "looper", nil)
	r := b.play("looper", "Loop")
	wantState(t, r, run.Failed, run.ExitError)
	if !strings.Contains(r.Error, "the agent is stuck: it called read_file 6 times") {
		t.Errorf("the error is %q", r.Error)
	}
	warned := 0
	for _, s := range b.story(r) {
		if strings.HasPrefix(s, "warning: The agent repeats itself: read_file was called 3 times") {
			warned++
		}
	}
	if warned != 1 {
		t.Errorf("%d warnings", warned)
	}
}

// What a model asks for outside of its folder, or beyond its limits, is an error
// that it is told; nothing of the server's environment reaches it.
func TestWhatAModelMayNot(t *testing.T) {
	t.Setenv("WEIR_TEST_SECRET", "s3cr3t-from-the-environment")
	b := newBench(t, messages{})
	big := strings.Repeat("x", 1<<20+1)
	p := newProvider(
		t, b.wire,
		answers(b.wire, said{id: "a1", stop: chat.Calls, tokens: few, calls: []call{
			{"c0", "execute_code", `{"command":"ln -s /etc/passwd link; ln -s / up; mkfifo pipe; mkdir d; printf '\\377\\376' > raw"}`},
			{"c1", "read_file", `{"path":"/etc/passwd"}`},
			{"c2", "read_file", `{"path":"link"}`},
			{"c3", "read_file", `{"path":"up/etc/passwd"}`},
			{"c4", "write_file", `{"path":"up/tmp/weir-escape","content":"x"}`},
			{"c5", "read_file", `{"path":"pipe"}`},
			{"c6", "read_file", `{"path":"d"}`},
			{"c7", "write_file", `{"path":"big","content":"` + big + `"}`},
			{"c8", "list_files", `{"path":"up"}`},
			{"c9", "write_file", `{"path":"d","content":"x"}`},
			{"ca", "execute_code", `{"command":"env; cat /proc/self/environ /proc/1/environ"}`},
			{"cb", "execute_code", `{"code":"x","command":"y"}`},
			{"cc", "read_file", `{"path":1}`},
			{"cd", "read_file", `["no object"]`},
			{"ce", "read_file", `{"path":"raw"}`},
			{"cf", "write_file", `{"path":"link","content":"x"}`},
			{"cg", "execute_code", `{"command":"head -c 10000000000 /dev/zero > f"}`},
		}}),
		answers(b.wire, said{id: "a2", pieces: []string{"I see."}, tokens: few}),
	)
	b.define(p, "curious", func(d *agent.Definition) { d.Sandbox.DiskMiB = 16 })
	r := b.play("curious", "Look around")
	wantState(t, r, run.Done, run.Completed)
	results := map[string]string{}
	for _, m := range p.requests()[1].messages {
		if kind, rest, ok := strings.Cut(m, " "); ok && (kind == "result" || kind == "error") {
			id, text, _ := strings.Cut(rest, " ")
			results[id] = kind + " " + text
		}
	}
	for id, want := range map[string]string{
		"c1": "error the path", "c2": "error reading link", "c3": "error reading up/etc/passwd", "c4": "error writing up/tmp", "c5": "error reading pipe",
		"c6": "error reading d", "c7": "error the content has 1048577 bytes", "c8": "error listing up", "c9": "error writing d",
		"cb": "error Set either", "cc": "error the arguments of read_file", "cd": "error The arguments are no JSON object", "ce": "result \uFFFD",
		"cf": "result 1 bytes", "cg": "error ",
	} {
		if !strings.HasPrefix(results[id], want) {
			t.Errorf("%s came to %.200q, want %q", id, results[id], want)
		}
	}
	for _, s := range append(b.story(r), p.requests()[1].messages...) {
		if strings.Contains(s, "s3cr3t-from-the-environment") || strings.Contains(s, testKey) || strings.Contains(s, "root:x:") {
			t.Errorf("it got to see %.300s", s)
		}
	}
}

// Servers that give two calls one id, or none, have each of them approved and
// answered by itself.
func TestCallsWithOneID(t *testing.T) {
	onWires(t, func(t *testing.T, b *bench) {
		write := func(id, path string) call {
			return call{id, "write_file", `{"path":"` + path + `","content":"x"}`}
		}
		question := func(text string) call { return call{"q", "ask_user", `{"question":"` + text + `"}`} }
		p := newProvider(
			t, b.wire,
			answers(b.wire, said{id: "a1", stop: chat.Calls, tokens: few, calls: []call{write("c1", "good")}}),
			answers(b.wire, said{id: "a2", stop: chat.Calls, tokens: few, calls: []call{write("c1", "evil")}}),
			answers(b.wire, said{id: "a3", stop: chat.Calls, tokens: few, calls: []call{question("one?"), write("w", strings.Repeat("y", 40_000)), question("two?")}}),
			answers(b.wire, said{id: "a4", pieces: []string{"Well."}, tokens: few}),
		)
		b.define(p, "writer", func(d *agent.Definition) {
			d.LLM.Tools = []agent.Tool{{Name: agent.ToolWrite, Policy: agent.PolicyAsk}, {Name: agent.ToolAsk}}
		})
		r := b.begin("writer", "Write")
		b.answer(b.question(r.ID, 1).ID, `{"decision":"approve"}`)
		q := b.question(r.ID, 2)
		if !strings.Contains(q.Text, "evil") {
			t.Errorf("asked was %q", q.Text)
		}
		b.answer(q.ID, `{"decision":"deny"}`)
		b.answer(b.question(r.ID, 3).ID, `"first"`)
		if q = b.question(r.ID, 4); q.Text != "two?" {
			t.Errorf("asked was %q", q.Text)
		}
		b.answer(q.ID, `"second"`)
		r = b.ended(r.ID)
		wantState(t, r, run.Done, run.Completed)
		if got := b.file(r, "evil"); got == "x" {
			t.Error("what was denied was written")
		}
		told := strings.Join(p.requests()[3].messages, "\n")
		for _, want := range []string{" first", " second", "A person has to approve this call and is shown 32768 at most"} {
			if !strings.Contains(told, want) {
				t.Errorf("the model was not told %q: %.2000s", want, told)
			}
		}
	})
}

// Answers without anything in them end the run: each costs money.
func TestEmptyAnswers(t *testing.T) {
	t.Parallel()
	b := newBench(t, messages{})
	p := newProvider(
		t, b.wire,
		answers(b.wire, said{id: "a1", pieces: []string{""}, tokens: few}),
		answers(b.wire, said{id: "a2", pieces: []string{""}, stop: chat.MaxOutput, tokens: few}),
		answers(b.wire, said{id: "a3", pieces: []string{"So"}, stop: chat.Paused, tokens: few}),
		answers(b.wire, said{id: "a4", stop: chat.Paused, tokens: few}),
		answers(b.wire, said{id: "a5", pieces: []string{"on"}, stop: chat.Paused, tokens: few}),
	)
	b.define(p, "silent", func(d *agent.Definition) { d.LLM.MaxTurns = 3 })
	for _, want := range []string{"answered nothing", "was cut before it said anything whole", "did not come to an end in 3 turns"} {
		r := b.play("silent", "Speak")
		wantState(t, r, run.Failed, run.ExitError)
		if !strings.Contains(r.Error, want) {
			t.Errorf("the error is %q, want %q", r.Error, want)
		}
	}
}
