package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/run"
)

func output(stream, text string) *Event {
	return &Event{Type: run.TypeOutputWritten, Agent: "script", RunID: "run_1", ExecutionID: "e", Stream: stream, Text: text}
}

// In a pipe the bytes are the program's; what happens to the run is on stderr.
func TestPlainViewInAPipe(t *testing.T) {
	t.Parallel()
	out, stdout := pipe()
	err, stderr := pipe()
	v := &PlainView{Out: out, Err: err}
	v.Output(output("STDOUT", "a\x1b[2Jb"))
	v.Output(output("STDERR", "warn\n"))
	v.State(&Event{Type: run.TypeStateChanged, Agent: "script", State: "train_running", Status: run.Running})
	v.State(&Event{Type: run.TypeStateChanged, Agent: "script", State: "failed", Status: run.Failed})
	v.State(&Event{Type: run.TypeRunEnded, RunID: "run_1", Agent: "script", Status: run.Failed, ExitReason: run.ExitError, Error: "the command ended with exit code 3:\nTraceback (most recent call last):\n  File x\nValueError: bad"})
	v.Settle()
	if got, want := stdout.String(), "a\x1b[2Jb"; got != want {
		t.Errorf("stdout is %q, want %q", got, want)
	}
	if got, want := stderr.String(), "warn\nweir: train_running\nweir: run run_1 ended: FAILED ERROR: the command ended with exit code 3: ValueError: bad\n"; got != want {
		t.Errorf("stderr is %q, want %q", got, want)
	}
}

// On a terminal nothing that a program left open reaches a line of ours.
func TestPlainViewOnATerminal(t *testing.T) {
	t.Parallel()
	screen, got := terminal(80)
	v := &PlainView{Out: screen, Err: screen}
	v.Output(output("STDOUT", "half \x1b[31mred\x1b]0;ti"))
	v.Output(output("STDOUT", "tle\x07!"))
	v.Warning(&Event{Type: run.TypeWarning, Agent: "script", Text: "careful\x1b[2J\nhere"})
	v.Output(output("STDOUT", "\nnext\n"))
	want := "half \x1b[31mred!\x1b[0m\n\x1b[2mweir: warning: careful here\x1b[0m\n\nnext\n"
	if got.String() != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Where both go to one pipe, a line of ours does not stand in one of the program's.
func TestPlainViewInOnePipe(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "both"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	v := &PlainView{Out: &Screen{Writer: file}, Err: &Screen{Writer: file}}
	v.Output(output("STDOUT", "hell"))
	v.Other(&Event{Type: run.TypeExecutionFinished, ExitClass: run.ClassOK, Loss: Loss{LinesRejected: 1}})
	v.Output(output("STDOUT", "next\n"))
	v.Other(&Event{Type: run.TypeExecutionFinished, ExitClass: run.ClassOK, Loss: Loss{LinesRejected: 2}})
	got, err := os.ReadFile(file.Name())
	if want := "hell\nweir: warning: 1 line looks like metrics and is not\nnext\nweir: warning: 2 lines look like metrics and are not\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// A list says what runs were for; why one failed is said by weir show, in a line.
func TestErrorsInOneLine(t *testing.T) {
	t.Parallel()
	failed := func(text string) *Run {
		return &Run{ID: "run_1", Status: run.Failed, Error: text, Input: Input{Command: []string{"python3", strings.Repeat("x", 500), "\n", "end"}}}
	}
	out, stdout := pipe()
	errs, _ := pipe()
	i := &IO{Out: out, Err: errs}
	if err := i.runs(Page[Run]{Nodes: []Run{*failed("Traceback\n  File x\nValueError: bad")}}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if len(lines) != 2 || utf8.RuneCountInString(lines[1]) > 200 || !strings.Contains(lines[1], " python3 xxx") || strings.Contains(lines[1], "Traceback") || !strings.Contains(lines[1], "FAILED") {
		t.Errorf("got %q", lines)
	}
	c, err := NewClient(Options{Server: "http://127.0.0.1:9"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for text, want := range map[string]string{
		"one":                               "one",
		"RuntimeError: x\nthe limit is 3\n": "the limit is 3",
		"the command ended with exit code 1:\nTraceback:\nValueError: bad": "the command ended with exit code 1: ValueError: bad",
	} {
		if got := headline(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if got := failed(text).text(c); !strings.Contains(got, "error       "+want+"\n") {
			t.Errorf("%q: shown as %s", text, got)
		}
	}
}

// A message is shown once, also when its pieces came before it.
func TestPlainViewShowsAMessageOnce(t *testing.T) {
	t.Parallel()
	out, stdout := pipe()
	err, stderr := pipe()
	v := &PlainView{Out: out, Err: err}
	for _, e := range []*Event{
		{Type: run.TypeMessageDelta, MessageID: "m1", Text: "Hel"},
		{Type: run.TypeMessageDelta, MessageID: "m1", Text: "lo"},
		{Type: run.TypeAgentMessage, MessageID: "m1", Text: "Hello you"},
		{Type: run.TypeAgentMessage, MessageID: "m2", Text: "whole\n"},
		{Type: run.TypeMessageDelta, MessageID: "m3", Text: "ha"},
		{Type: run.TypeAgentMessage, MessageID: "m3", Text: "half", Partial: true},
	} {
		e.Agent = "writer"
		v.Other(e)
	}
	v.Question(&Event{Type: run.TypeQuestionAsked, Agent: "writer", QuestionID: "qst_1", Text: "go on?"})
	if got := stdout.String(); got != "Hello you\nwhole\nhalf\n" {
		t.Errorf("got %q", got)
	}
	if got := stderr.String(); got != "writer: this answer broke off; the model is asked again\nwriter: question qst_1: go on?\n" {
		t.Errorf("got %q", got)
	}
}

// A view that cannot write any more says so once.
func TestPlainViewFails(t *testing.T) {
	t.Parallel()
	v := &PlainView{Out: &Screen{Writer: broken{}}, Err: &Screen{Writer: broken{}}}
	v.Output(output("STDOUT", "x"))
	if v.Failed() == nil {
		t.Error("the loss went unnoticed")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errInterrupted }
