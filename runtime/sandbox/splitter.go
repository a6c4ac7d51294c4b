package sandbox

import (
	"bytes"

	"github.com/weirhq/weir/runtime/metricline"
)

const (
	// maxLine bounds the line that is kept for parsing; a longer one is output only.
	maxLine = 8 << 20
	// maxPlain bounds what is kept of a line that cannot be a metric line: enough
	// to see JSON behind a log prefix.
	maxPlain = 4 << 10
)

// splitter cuts a stream into lines. LF, CRLF and CR each end one; a progress
// bar that redraws itself with CR therefore ends a line each time. A stream is
// either fed or skipped, apart from a last part that is skipped.
type splitter struct {
	pending []byte // the beginning of the line at hand
	lost    bool   // pending is not all of it
	open    bool   // the line at hand has begun
	cr      bool   // the last byte was a CR: a LF that follows belongs to it
}

// feed cuts b and calls line for each whole line, without its end; whole is
// false when only its beginning is given. line may not keep the slice.
func (s *splitter) feed(b []byte, line func(b []byte, whole bool)) {
	if s.cr && len(b) > 0 {
		s.cr = false
		if b[0] == '\n' {
			b = b[1:]
		}
	}
	for len(b) > 0 {
		nl := bytes.IndexByte(b, '\n')
		part := b
		if nl >= 0 {
			part = b[:nl]
		}
		end, next := nl, nl+1
		if cr := bytes.IndexByte(part, '\r'); cr >= 0 {
			end, next = cr, cr+1
			switch {
			case next == len(b):
				s.cr = true
			case b[next] == '\n':
				next++
			}
		}
		if end < 0 {
			s.keep(b)
			return
		}
		if s.open {
			s.keep(b[:end])
			line(s.pending, !s.lost)
			s.reset()
		} else {
			line(b[:end], true)
		}
		b = b[next:]
	}
}

// keep appends to the line at hand, as far as it may be worth parsing.
func (s *splitter) keep(b []byte) {
	s.open = true
	if s.lost {
		return
	}
	limit := maxLine
	if len(s.pending)+len(b) > maxPlain {
		head := s.pending
		if len(head) < 64 {
			head = append(head[:len(head):len(head)], b[:min(len(b), 64)]...)
		}
		if !metricline.Candidate(head) {
			limit = maxPlain
		}
	}
	if room := limit - len(s.pending); len(b) > room {
		b, s.lost = b[:max(room, 0)], true
	}
	if need := len(s.pending) + len(b); need > cap(s.pending) {
		grown := make([]byte, len(s.pending), min(max(need, 2*cap(s.pending)), max(limit, need)))
		copy(grown, s.pending)
		s.pending = grown
	}
	s.pending = append(s.pending, b...)
}

func (s *splitter) reset() {
	s.open, s.lost = false, false
	if cap(s.pending) > 1<<20 { // one huge line should not hold its memory for the rest of the run
		s.pending = nil
	}
	s.pending = s.pending[:0]
}

// end gives the last line if it had no end.
func (s *splitter) end(line func(b []byte, whole bool)) {
	if s.open {
		line(s.pending, !s.lost)
		s.reset()
	}
}

// skip counts the lines that end in b.
func (s *splitter) skip(b []byte) int64 {
	var n int64
	for _, c := range b {
		switch {
		case c == '\n' && s.cr:
			s.cr = false
		case c == '\n', c == '\r':
			n++
			s.open, s.cr = false, c == '\r'
		default:
			s.open, s.cr = true, false
		}
	}
	return n
}

// skipEnd counts a last line without an end.
func (s *splitter) skipEnd() int64 {
	if s.open {
		s.open = false
		return 1
	}
	return 0
}
