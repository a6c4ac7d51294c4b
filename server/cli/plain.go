package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/weirhq/weir/runtime/run"
)

// PlainView shows a run as lines that stay: the program's stdout and the agent's
// messages on Out, its stderr and what happens to the run on Err. Colours and
// other attributes pass where the screen has them; see Filter.
type PlainView struct {
	Out, Err *Screen
	// Quiet: only what the program wrote.
	Quiet bool
	// KnownIsolation: what it says has been told already.
	KnownIsolation bool
	// Fold leaves out of stdout, where a person looks at it, the lines of media:
	// of each there is a line of ours. Curves: those of metrics as well.
	Fold, Curves bool

	fail     error              // the first of writing; what follows is not written
	filters  map[string]*stream // by execution and stream
	messages map[string]int     // bytes of a message that were shown already
	open     [2]bool            // Out and Err are within a line
}

// Output implements View.
func (v *PlainView) Output(e *Event) {
	on := 0
	if e.Stream == string(run.Stderr) {
		on = 1
	}
	f := v.filter(e.ExecutionID+e.Stream, on)
	if on == 0 && f.fold == nil && v.Fold && e.Stage != "" && v.Out.Terminal && v.Err.Terminal {
		f.fold = &fold{curves: v.Curves}
	}
	text := e.Text
	if f.fold != nil {
		text = f.fold.take(text)
	}
	v.write(on, f.piece(text))
}

// release shows what is held of lines that may never end: of an execution, or
// with "" of all.
func (v *PlainView) release(execution string) {
	for key, f := range v.filters {
		if f.fold != nil && strings.HasPrefix(key, execution) {
			v.write(0, f.piece(f.fold.rest()))
		}
	}
}

// Close ends the view.
func (v *PlainView) Close() {
	v.release("")
	v.Settle()
}

// Points implements View: the lines are in the output already.
func (v *PlainView) Points(*Event) {}

// State implements View.
func (v *PlainView) State(e *Event) {
	if e.Type == run.TypeStateChanged {
		if !e.Status.Final() { // the run's end says the rest
			v.line(e, e.State)
		}
		return
	}
	v.release("")
	text := "run " + e.RunID + " ended: " + string(e.Status)
	if e.ExitReason != "" {
		text += " " + string(e.ExitReason)
	}
	if e.Error != "" {
		text += ": " + headline(e.Error)
	}
	v.line(e, text)
}

// Warning implements View.
func (v *PlainView) Warning(e *Event) {
	if e.Type == run.TypeGapEvent {
		v.line(e, fmt.Sprintf("events %d to %d were removed by retention", e.FromSeq, e.ToSeq))
		return
	}
	v.line(e, "warning: "+e.Text)
}

// Question implements View.
func (v *PlainView) Question(e *Event) {
	if e.Type == run.TypeQuestionAsked {
		v.line(e, "question "+e.QuestionID+": "+e.Text)
		return
	}
	v.line(e, "question "+e.QuestionID+" "+strings.ToLower(e.Outcome))
}

// Other implements View.
func (v *PlainView) Other(e *Event) {
	switch e.Type { //nolint:exhaustive // the rest is not for people, or comes again as a state
	case run.TypeMessageDelta, run.TypeAgentMessage:
		v.message(e)
	case run.TypeAgentThought:
		v.line(e, "thought: "+e.Text)
	case run.TypeToolCallStarted:
		v.line(e, "tool "+e.Name+" "+string(e.Arguments))
	case run.TypeToolCallFinished:
		end := "ended"
		if e.IsError {
			end = "failed: " + e.Text
		}
		v.line(e, fmt.Sprintf("tool %s %s after %.1f s", e.Name, end, e.Seconds))
	case run.TypeExecutionStarted:
		if e.Isolation != "" && !v.KnownIsolation {
			v.line(e, e.Isolation+": the command runs as a plain process")
		}
	case run.TypeExecutionFinished:
		v.finished(e)
	case run.TypeMediaLogged:
		v.line(e, fmt.Sprintf("logged %s %s at step %d%s", strings.ToLower(e.Kind), e.Key, e.Step, extent(e.Data)))
	case run.TypeBudgetReached:
		v.line(e, budgetLine(e))
	case run.TypeReportReady:
		v.line(e, "report: "+e.Path)
	case run.TypeFilesReady:
		for _, f := range e.Files {
			v.line(e, "file "+f.Path+", "+size(int64(f.Size)))
		}
	case run.TypeHookFinished:
		if e.IsError {
			v.line(e, "hook "+e.Name+" failed: "+e.Problem)
		}
	case run.TypeAbortRequested:
		v.line(e, strings.TrimSpace("abort requested "+e.Reason))
	}
}

func (v *PlainView) finished(e *Event) {
	v.release(e.ExecutionID)
	switch e.ExitClass {
	case run.ClassOK, run.ClassError, run.ClassTimeout, run.ClassCancelled, run.ClassInfrastructure: // the run's end or the tool call's says so
	default:
		text := "execution ended: " + string(e.ExitClass)
		if e.ExitCode != nil {
			text += fmt.Sprintf(", exit code %d", *e.ExitCode)
		}
		if e.Signal != "" {
			text += ", " + e.Signal
		}
		v.line(e, fmt.Sprintf("%s, after %.1f s", text, e.Seconds))
	}
	if e.Loss.BytesTruncated > 0 {
		v.line(e, fmt.Sprintf("warning: %s of output were dropped", size(int64(e.Loss.BytesTruncated))))
	}
	if n := e.Loss.LinesRejected; n > 0 {
		text := "warning: 1 line looks like metrics and is not"
		if n > 1 {
			text = fmt.Sprintf("warning: %d lines look like metrics and are not", n)
		}
		if len(e.Loss.RejectedSamples) > 0 {
			text += ", such as " + e.Loss.RejectedSamples[0]
		}
		v.line(e, text)
	}
}

// message shows a message once: its pieces as they come, and of the whole that
// follows what they did not hold.
func (v *PlainView) message(e *Event) {
	f := v.filter("message"+e.MessageID, 0)
	if e.Type == run.TypeMessageDelta {
		if v.messages == nil {
			v.messages = map[string]int{}
		}
		v.messages[e.MessageID] += len(e.Text)
		v.write(0, f.piece(e.Text))
		return
	}
	rest := e.Text[min(v.messages[e.MessageID], len(e.Text)):]
	delete(v.messages, e.MessageID)
	v.write(0, f.piece(rest))
	if v.open[0] {
		v.write(0, "\n")
	}
	if e.Partial {
		v.line(e, "this answer broke off; the model is asked again")
	}
}

// line is one of ours, about a run.
func (v *PlainView) line(e *Event, text string) {
	if v.Quiet {
		return
	}
	v.Settle()
	who := "weir"
	if e.Agent != "" && e.Agent != "script" {
		who = e.Agent
	}
	v.write(1, v.Err.dim(oneLine(who)+": "+clip(oneLine(text), 2000))+"\n")
}

// Failed implements Shown.
func (v *PlainView) Failed() error { return v.fail }

// Settle ends what a program left open on the screens: a line without an end, a
// colour. Call it before writing to the same screens.
func (v *PlainView) Settle() {
	for on, s := range []*Screen{v.Out, v.Err} {
		for _, f := range v.filters {
			if f.Screen == s && f.Dyed() {
				v.write(on, "\x1b[0m")
				f.dyed = false
			}
		}
		if s.Terminal && v.open[on] {
			v.write(on, "\n")
		}
	}
	if v.open[0] && v.Out.same(v.Err) { // 2>&1: the bytes of stdout are not alone anyway
		v.write(1, "\n")
		v.open[0] = false
	}
}

// stream is a filter for what goes to one screen.
type stream struct {
	Filter
	*Screen
	fold *fold // nil: every line is shown
}

// piece gives what may be written of the next piece.
func (f *stream) piece(text string) string {
	if !f.Terminal {
		return text
	}
	return f.Clean(text)
}

func (v *PlainView) filter(key string, on int) *stream {
	f := v.filters[key]
	if f == nil {
		f = &stream{Screen: v.Out}
		if on == 1 {
			f.Screen = v.Err
		}
		f.Plain = !f.Color
		if v.filters == nil {
			v.filters = map[string]*stream{}
		}
		v.filters[key] = f
	}
	return f
}

func (v *PlainView) write(on int, text string) {
	if text == "" || v.fail != nil {
		return
	}
	s := v.Out
	if on == 1 {
		s = v.Err
	}
	if _, err := io.WriteString(s, text); err != nil {
		v.fail = err
		return
	}
	v.open[on] = !strings.HasSuffix(text, "\n")
}

func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// size is a number of bytes for people.
func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	f := float64(n)
	i := 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
