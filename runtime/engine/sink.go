package engine

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

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
	// running is what the execution counts as while it runs, from At on.
	running atomic.Pointer[run.UsageRecord]

	stdout, stderr strings.Builder // the heads; each written by its stream's goroutine only
	raw            rawFiles

	mu        sync.Mutex
	soFar     [2]run.Loss // of stdout and stderr
	lost      int         // metric lines that the store refused
	lostCause error
}

var _ sandbox.Sink = (*sink)(nil)

func newSink(h *host, callID string, spec sandbox.Spec) *sink {
	k := &sink{h: h, callID: callID, exec: run.Execution{ID: spec.Execution, Run: spec.Run, GPU: spec.GPU}}
	k.raw = rawFiles{
		id:   spec.Execution,
		make: func() (*os.Root, error) { return h.s.e.makeOutputs(h.s.run.Session) },
		tell: func(err error) {
			h.s.warn(fmt.Sprintf("The raw output of execution %s cannot be written to its file any more: %v. What it prints from here on is in the events alone; "+
				"make room in the folder outputs of the server's data", spec.Execution, err))
		},
	}
	return k
}

// Write implements sandbox.Sink. It returns when the chunk is queued, and
// waits while too much is.
func (k *sink) Write(ctx context.Context, c sandbox.Chunk) error {
	s := k.h.s
	head, soFar := &k.stdout, &k.soFar[0]
	if c.Stream == run.Stderr {
		head, soFar = &k.stderr, &k.soFar[1]
	}
	k.raw.write(c) // before the events: the file has at least what they show
	c.Loss.BytesNotKept = k.raw.notKept(c.Stream)
	k.mu.Lock()
	*soFar = c.Loss
	k.mu.Unlock()
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

// live is the account of the execution so far.
func (k *sink) live() run.Loss {
	k.mu.Lock()
	defer k.mu.Unlock()
	loss := k.soFar[0].Add(k.soFar[1])
	loss.LinesParsed -= int64(k.lost)
	loss.LinesRejected += int64(k.lost)
	return loss
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
	loss.BytesNotKept = k.raw.notKept(run.Stdout) + k.raw.notKept(run.Stderr)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lost == 0 {
		return loss, nil
	}
	loss.LinesParsed -= int64(k.lost)
	loss.LinesRejected += int64(k.lost)
	if len(loss.RejectedSamples) < run.MaxSamples {
		loss.RejectedSamples = append(loss.RejectedSamples, clip("not stored: "+clean(k.lostCause.Error(), maxText), 200))
	}
	return loss, []string{fmt.Sprintf("%d metric lines could not be stored; their text is in the output", k.lost)}
}

// output gives the beginning of what was printed.
func (k *sink) output() agent.Output {
	return agent.Output{Stdout: k.stdout.String(), Stderr: k.stderr.String()}
}
