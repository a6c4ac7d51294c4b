package cli

import (
	"testing"

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
	v.State(&Event{Type: run.TypeRunEnded, RunID: "run_1", Agent: "script", Status: run.Failed, ExitReason: run.ExitError, Error: "exit\ncode 3"})
	v.Settle()
	if got, want := stdout.String(), "a\x1b[2Jb"; got != want {
		t.Errorf("stdout is %q, want %q", got, want)
	}
	if got, want := stderr.String(), "warn\nweir: train_running\nweir: run run_1 ended: FAILED ERROR: exit code 3\n"; got != want {
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
	} {
		e.Agent = "writer"
		v.Other(e)
	}
	v.Question(&Event{Type: run.TypeQuestionAsked, Agent: "writer", QuestionID: "qst_1", Text: "go on?"})
	if got := stdout.String(); got != "Hello you\nwhole\n" {
		t.Errorf("got %q", got)
	}
	if got := stderr.String(); got != "writer: question qst_1: go on?\n" {
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
