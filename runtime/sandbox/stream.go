package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/runtime/metricline"
	"github.com/weirhq/weir/runtime/run"
)

const (
	readSize = 32 << 10
	// cutWait is how long a read may still wait for the last bytes of a pipe that
	// a survivor holds open.
	cutWait = 50 * time.Millisecond
	// cutReads bounds the reads from such a pipe: more than a pipe can hold.
	cutReads = 64
)

// budget is the output that an execution may still forward, over both streams.
type budget struct {
	unlimited bool
	left      atomic.Int64
}

// take gives how many of n bytes may be forwarded.
func (b *budget) take(n int) int {
	if b.unlimited {
		return n
	}
	left := b.left.Add(-int64(n)) + int64(n)
	return int(min(int64(n), max(left, 0)))
}

// stream reads one output of the command and gives it on. It belongs to one
// goroutine; loss may be read when that has ended.
type stream struct {
	name  run.OutputStream
	src   io.Reader
	parse bool // try each line as a metric line
	x     *execution
	sink  Sink

	decoder decoder
	lines   splitter
	parser  metricline.Parser
	offset  int64 // raw bytes that were forwarded or dropped
	cut     bool  // the output limit was reached
	loss    run.Loss
	records []metricline.Record // of the chunk at hand
	at      time.Time
}

// pump reads to the end of the stream. Its error is a broken stream.
func (s *stream) pump(ctx context.Context) error {
	buf := make([]byte, readSize)
	short := 0 // reads after the pipe was cut short
	for {
		n, err := s.src.Read(buf)
		if n > 0 {
			if e := s.take(ctx, buf[:n]); e != nil {
				return e
			}
		}
		switch {
		case err == nil && short == 0:
		case err == nil:
			if short++; short > cutReads {
				return s.finish(ctx)
			}
			setDeadline(s.src, cutWait)
		case errors.Is(err, io.EOF):
			return s.finish(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded) && short == 0:
			// The deadline may have passed while the sink was blocking: what the pipe
			// holds is still to be read.
			short = 1
			setDeadline(s.src, cutWait)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return s.finish(ctx)
		default:
			return fmt.Errorf("reading %s: %w", s.name, err)
		}
	}
}

// take accounts for what one read brought and gives it on.
func (s *stream) take(ctx context.Context, b []byte) error {
	s.at = time.Now()
	s.loss.BytesRead += int64(len(b))
	keep := 0
	if !s.cut {
		keep = s.x.budget.take(len(b))
	}
	truncate := s.x.spec.Limits.Truncate
	switch {
	case keep == len(b) || truncate:
		s.split(b)
	default: // beyond the limit nothing counts but the line ends
		s.split(b[:keep])
		s.loss.LinesRead += s.lines.skip(b[keep:])
	}
	text, n := s.decoder.decode(b[:keep])
	if keep < len(b) {
		if !s.cut {
			s.cut = true
			rest, m := s.decoder.flush()
			text, n = text+rest, n+m
			if !truncate && s.x.reason.CompareAndSwap(noReason, outputLimit) {
				s.x.limit <- struct{}{} // has room: only one CompareAndSwap succeeds
			}
		}
		s.loss.BytesTruncated += int64(len(b) - keep)
	}
	return s.write(ctx, b[:keep], text, n)
}

func (s *stream) split(b []byte) {
	if s.parse {
		s.loss.LinesRead += s.lines.feed(b, s.line)
		return
	}
	s.loss.LinesRead += s.lines.skip(b)
}

// line takes one whole line.
func (s *stream) line(line []byte, whole bool) {
	s.loss.LinesRead++
	var records []metricline.Record
	if whole || !metricline.Candidate(line) {
		records = s.parser.Parse(line)
	} else {
		records = []metricline.Record{{Rejected: fmt.Sprintf("a line over %d MiB is not parsed", maxLine>>20)}}
	}
	parsed := false
	for i := range records {
		r := &records[i]
		s.x.curves.admit(r)
		for j := range r.Points {
			r.Points[j].Stage, r.Points[j].At = s.x.spec.Stage, s.at
		}
		if !r.Plain() {
			parsed = true
			s.records = append(s.records, *r)
		}
		if r.Rejected != "" {
			s.loss.LinesRejected++
			if len(s.loss.RejectedSamples) < run.MaxSamples {
				s.loss.RejectedSamples = append(s.loss.RejectedSamples, r.Rejected)
			}
		}
	}
	if parsed {
		s.loss.LinesParsed++
	}
}

// finish gives on what waited for more bytes.
func (s *stream) finish(ctx context.Context) error {
	s.at = time.Now()
	before := s.loss.LinesRead
	if s.parse && !(s.cut && !s.x.spec.Limits.Truncate) {
		s.lines.end(s.line)
	} else {
		s.loss.LinesRead += s.lines.skipEnd()
	}
	text, n := s.decoder.flush()
	if text == "" && s.loss.LinesRead == before {
		return nil
	}
	return s.write(ctx, nil, text, n)
}

// write gives a chunk on; its text stands for n raw bytes.
func (s *stream) write(ctx context.Context, raw []byte, text string, n int) error {
	c := Chunk{
		Stream: s.name, Offset: s.offset, Text: text, Records: s.records, At: s.at,
		Raw: raw, Loss: s.loss, Unended: s.lines.open,
	}
	s.offset += int64(n)
	err := s.sink.Write(ctx, c)
	clear(s.records)
	s.records = s.records[:0]
	s.parser.Reset()
	if err != nil {
		return fmt.Errorf("storing %s: %w", s.name, err)
	}
	return nil
}

// cutShort makes the reads of r end soon though a process holds the pipe open.
func cutShort(r io.Reader) { setDeadline(r, time.Second) }

func setDeadline(r io.Reader, d time.Duration) {
	if p, ok := r.(interface{ SetReadDeadline(time.Time) error }); ok {
		_ = p.SetReadDeadline(time.Now().Add(d)) // a pipe without deadlines ends by itself
	}
}
