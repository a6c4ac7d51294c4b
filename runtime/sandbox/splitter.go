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

// feed cuts b and calls line for each whole line that has a brace, without its
// end; whole is false when only its beginning is given. line may not keep the
// slice. It gives the number of the other whole lines.
func (s *splitter) feed(b []byte, line func(b []byte, whole bool)) int64 {
	var plain int64
	for len(b) > 0 {
		if s.cr {
			s.cr = false
			if b[0] == '\n' {
				b = b[1:]
				continue
			}
		}
		if !s.open {
			// The fast way: lines before the next brace are only counted.
			brace := bytes.IndexByte(b, '{')
			if brace < 0 {
				brace = len(b)
			}
			if n := bytes.LastIndexAny(b[:brace], "\r\n") + 1; n > 0 {
				plain += s.skip(b[:n])
				b = b[n:]
				continue
			}
			if brace == len(b) {
				s.keep(b)
				return plain
			}
		}
		end := bytes.IndexByte(b, '\n')
		if cr := bytes.IndexByte(b[:max(end, 0)], '\r'); cr >= 0 {
			end = cr
		} else if end < 0 {
			end = bytes.IndexByte(b, '\r')
		}
		if end < 0 {
			s.keep(b)
			return plain
		}
		if s.open {
			s.keep(b[:end])
			line(s.pending, !s.lost)
			s.reset()
		} else {
			line(b[:end], true)
		}
		s.cr = b[end] == '\r'
		b = b[end+1:]
	}
	return plain
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
	if len(b) == 0 {
		return 0
	}
	if !s.cr && bytes.IndexByte(b, '\r') < 0 {
		s.open = b[len(b)-1] != '\n'
		return int64(bytes.Count(b, []byte{'\n'}))
	}
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
