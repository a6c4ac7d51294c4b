package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// sink turns one execution's output into events. Its context outlives the
// run's: what a process prints while it is being stopped is kept.
type sink struct {
	h      *host
	callID string
	exec   run.Execution
	open   bool // ExecutionStarted is written

	stdout, stderr strings.Builder // the heads; each written by its stream's goroutine only

	mu        sync.Mutex
	lost      int // metric lines that the store refused
	lostCause error
}

var _ sandbox.Sink = (*sink)(nil)

// Write implements sandbox.Sink. It returns when the chunk is queued, and
// waits while too much is.
func (k *sink) Write(ctx context.Context, c sandbox.Chunk) error {
	s := k.h.s
	head := &k.stdout
	if c.Stream == run.Stderr {
		head = &k.stderr
	}
	if room := agent.OutputHead - head.Len(); room > 0 {
		head.WriteString(clip(c.Text, room))
	}
	key := string(k.exec.ID) + "/" + string(c.Stream)
	stream, id := c.Stream, k.exec.ID
	draft := func(text string, offset int64) run.Draft {
		return s.draft(&run.OutputWritten{ExecutionID: id, Stream: stream, Text: text, Offset: offset})
	}
	x := k.meaning(c)
	if len(x.drafts) == 0 {
		return s.emit.piece(ctx, key, c.Text, c.Offset, draft)
	}
	return s.emit.line(ctx, key, c.Text, c.Offset, draft, x)
}

// meaning gives the events that a chunk's lines stand for, in the order of the lines.
func (k *sink) meaning(c sandbox.Chunk) entry {
	s := k.h.s
	x := entry{lost: k.refused}
	var points []run.Point
	flush := func() {
		for len(points) > 0 {
			n := min(len(points), maxPoints)
			x.drafts = append(x.drafts, run.DraftOf(s.run, c.At, &run.MetricsLogged{ExecutionID: k.exec.ID, Points: points[:n:n]}))
			points = points[n:]
		}
		points = nil
	}
	for _, r := range c.Records {
		switch {
		case len(r.Points) > 0:
			x.lines++
			for _, p := range r.Points {
				p.Stage, p.At = s.run.Stage, c.At
				points = append(points, p)
			}
		case r.Chart != nil:
			flush()
			x.drafts = append(x.drafts, run.DraftOf(s.run, c.At, &run.ChartConfigured{Config: r.Chart}))
		case r.Media != nil:
			flush()
			x.drafts = append(x.drafts, run.DraftOf(s.run, c.At, r.Media))
		}
	}
	flush()
	return x
}

func (k *sink) refused(lines int, cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lost += lines
	k.lostCause = cause
}

// account gives the execution's loss with the lines that the store refused
// (S9), and a warning about them. It waits for the commits under way.
func (k *sink) account(loss run.Loss) (run.Loss, []string) {
	s := k.h.s
	if err := s.emit.commit(s.e.write, entry{}); err != nil {
		s.e.log.Debug("Waiting for an execution's output failed", "run", s.run.ID, "error", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lost == 0 {
		return loss, nil
	}
	loss.LinesParsed -= int64(k.lost)
	loss.LinesRejected += int64(k.lost)
	if len(loss.RejectedSamples) < 5 {
		loss.RejectedSamples = append(loss.RejectedSamples, clip("not stored: "+clean(k.lostCause.Error(), maxText), 200))
	}
	return loss, []string{fmt.Sprintf("%d metric lines could not be stored; their text is in the output", k.lost)}
}

// output gives the beginning of what was printed.
func (k *sink) output() agent.Output {
	return agent.Output{Stdout: k.stdout.String(), Stderr: k.stderr.String()}
}
