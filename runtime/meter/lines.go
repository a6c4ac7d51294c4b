package meter

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// MaxLine bounds one line. Agents write what a tool read into one line: 64 MiB
// have been seen.
const MaxLine = 64 << 20

// keepBuffer is what stays allocated for the next line.
const keepBuffer = 1 << 20

// lines splits a stream. A line is valid until the next call.
type lines struct {
	r     *bufio.Reader
	buf   []byte
	limit int
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 32<<10), limit: MaxLine} }

// next gives a line without its end, the last one also when it has none. over
// tells that it was too long and is not there. io.EOF comes after the last line.
func (l *lines) next() (line []byte, over bool, err error) {
	if cap(l.buf) > keepBuffer {
		l.buf = nil
	}
	l.buf = l.buf[:0]
	for {
		piece, err := l.r.ReadSlice('\n')
		if !over && len(l.buf)+len(piece) <= l.limit+1 { // and its end
			if err == nil && len(l.buf) == 0 {
				return bytes.TrimSuffix(piece, []byte("\n")), false, nil
			}
			l.buf = append(l.buf, piece...)
		} else {
			over, l.buf = true, nil
		}
		switch {
		case err == nil:
			return bytes.TrimSuffix(l.buf, []byte("\n")), over, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && (len(l.buf) > 0 || over):
			return l.buf, over, nil
		default:
			return nil, false, err
		}
	}
}

// joiner puts the lines of a JSON document together again.
type joiner struct {
	buf           []byte
	depth         int
	text, escaped bool
}

// add takes a line. complete tells that a document ends with it; doc is nil when
// that was longer than limit.
func (j *joiner) add(line []byte, limit int) (doc []byte, complete bool) {
	if len(j.buf) == 0 {
		j.depth, j.text, j.escaped = 0, false, false
	}
	if len(j.buf)+len(line) > limit {
		j.buf = nil
		return nil, true
	}
	j.buf = append(append(j.buf, line...), '\n')
	for _, c := range line {
		switch {
		case j.escaped:
			j.escaped = false
		case j.text:
			j.escaped, j.text = c == '\\', c != '"'
		case c == '"':
			j.text = true
		case c == '{' || c == '[':
			j.depth++
		case c == '}' || c == ']':
			j.depth--
		}
	}
	if j.depth > 0 {
		return nil, false
	}
	doc, j.buf = j.buf, nil
	return bytes.TrimSpace(doc), true
}
