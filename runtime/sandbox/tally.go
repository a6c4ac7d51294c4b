package sandbox

import (
	"context"

	"github.com/weirhq/weir/runtime/run"
)

// Tally counts again what an execution printed, from the pieces of output that
// were kept, for one whose own count was lost with the server. Bytes that were
// replaced because they were no UTF-8 count with their replacement.
type Tally struct{ out, err stream }

// NewTally makes an empty tally; with a stage, lines of stdout are parsed.
func NewTally(stage string) *Tally {
	x := &execution{spec: Spec{Stage: stage}, budget: budget{unlimited: true}}
	return &Tally{
		out: stream{name: run.Stdout, parse: stage != "", x: x, sink: discard{}},
		err: stream{name: run.Stderr, x: x, sink: discard{}},
	}
}

type discard struct{}

func (discard) Write(context.Context, Chunk) error { return nil }

// Add counts the next piece of a stream.
func (t *Tally) Add(ctx context.Context, name run.OutputStream, text string) error {
	s := &t.out
	if name == run.Stderr {
		s = &t.err
	}
	return s.take(ctx, []byte(text))
}

// Loss ends the tally.
func (t *Tally) Loss(ctx context.Context) (run.Loss, error) {
	sum := run.Loss{RejectedSamples: []string{}}
	for _, s := range []*stream{&t.out, &t.err} {
		if err := s.finish(ctx); err != nil {
			return run.Loss{}, err
		}
		sum.BytesRead += s.loss.BytesRead
		sum.LinesRead += s.loss.LinesRead
		sum.LinesParsed += s.loss.LinesParsed
		sum.LinesRejected += s.loss.LinesRejected
		sum.RejectedSamples = append(sum.RejectedSamples, s.loss.RejectedSamples...)
	}
	return sum, nil
}
