package cli

import (
	"context"

	"github.com/weirhq/weir/runtime/run"
)

// View shows a run while it is watched. Its methods are called from one
// goroutine, in the order of the log; they may block, which makes nobody else
// wait. What programs and agents wrote comes as it is: a view that prints to a
// terminal passes it through a Filter first.
type View interface {
	// Output is a piece of stdout or stderr: Text, Stream, ExecutionID.
	Output(e *Event)
	// Points is a batch of metric points.
	Points(e *Event)
	// State is a new state (State, Status), or the run's end (RUN_ENDED: Status,
	// ExitReason, Error), which comes last.
	State(e *Event)
	// Warning is a warning, or a gap that retention has cut (GAP_EVENT).
	Warning(e *Event)
	// Question is one that a person has to answer, or the end of it.
	Question(e *Event)
	// Other is everything else: messages, tool calls, executions, charts, media, files.
	Other(e *Event)
}

// Outcome is how a watched run ended.
type Outcome struct {
	Run *Run
	// LastSeq is the last event that was seen.
	LastSeq int64
}

// Code is the exit code that a program which watched the run should end with.
func (o Outcome) Code() int { return CodeOf(o.Run.Status, o.Run.ExitReason) }

// Watch feeds a view with a run and its child runs until the run has ended, and
// gives the run as it is then. It begins with the run's first event, so a run
// that ended long ago is shown whole. Connections are made again as by Follow.
// When it fails, the outcome's LastSeq says up to where the view was fed.
func Watch(ctx context.Context, c *Client, runID string, view View) (Outcome, error) {
	var o Outcome
	var session string
	err := c.patiently(ctx, func() error {
		r, err := c.Run(ctx, runID)
		if err != nil {
			return err
		}
		session = r.Session.ID
		o.LastSeq, err = begin(ctx, c, r)
		return err
	})
	if err != nil {
		return o, err
	}
	err = c.Follow(ctx, Query{Session: session, After: o.LastSeq}, family(runID, func(e *Event) error {
		o.LastSeq = int64(e.Seq)
		show(view, e)
		if e.Type == run.TypeRunEnded && e.RunID == runID {
			return ErrStop
		}
		return nil
	}))
	if err != nil {
		return o, err
	}
	err = c.patiently(ctx, func() (err error) {
		o.Run, err = c.Run(ctx, runID)
		return err
	})
	return o, err
}

// begin gives the seq before a run's first event.
func begin(ctx context.Context, c *Client, r *Run) (int64, error) {
	page, err := c.Events(ctx, Query{Session: r.Session.ID, Run: r.ID}, 1)
	if err != nil {
		return 0, err
	}
	switch {
	case len(page.Nodes) == 0:
		return int64(page.LastSeq), nil
	case page.Nodes[0].Type == run.TypeGapEvent:
		return int64(page.Nodes[0].FromSeq) - 1, nil
	}
	return int64(page.Nodes[0].Seq) - 1, nil
}

// family passes on the events of a run and of its descendants, which a log
// names before their first event.
func family(root string, take func(*Event) error) func(*Event) error {
	members := map[string]bool{root: true}
	return func(e *Event) error {
		if e.Type == run.TypeRunStarted && members[e.ParentID] {
			members[e.RunID] = true
		}
		if !members[e.RunID] && e.Type != run.TypeGapEvent {
			return nil
		}
		return take(e)
	}
}

func show(view View, e *Event) {
	switch e.Type {
	case run.TypeOutputWritten:
		view.Output(e)
	case run.TypeMetricsLogged:
		view.Points(e)
	case run.TypeStateChanged, run.TypeRunEnded:
		view.State(e)
	case run.TypeWarning, run.TypeGapEvent, run.TypeAgentEscalated:
		view.Warning(e)
	case run.TypeQuestionAsked, run.TypeQuestionAnswered:
		view.Question(e)
	default:
		view.Other(e)
	}
}
