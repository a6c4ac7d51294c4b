package chat

import (
	"bufio"
	"bytes"
	"io"
)

// maxLine bounds a line of a stream.
const maxLine = 32 << 20

// ReadError is an error of the connection, and not of what came over it.
type ReadError struct{ Cause error }

func (e *ReadError) Error() string { return e.Cause.Error() }
func (e *ReadError) Unwrap() error { return e.Cause }

// Events hands over the data of each event of a stream. The last one counts also
// when the blank line behind it is missing and the stream ends in good order. Lines
// that are no fields are handed to other, unless that is nil.
func Events(r io.Reader, event func(data []byte) error, other func(line []byte)) error {
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxLine)
	var data []byte
	flush := func() error {
		whole := bytes.TrimSpace(data)
		data = data[:0]
		if len(whole) == 0 {
			return nil
		}
		return event(whole)
	}
	for in.Scan() {
		line := in.Bytes() // without \r too
		if len(line) == 0 {
			if err := flush(); err != nil {
				return err
			}
			continue
		}
		switch field, value, _ := bytes.Cut(line, []byte(":")); string(field) {
		case "data":
			data = append(append(data, value...), '\n')
		case "", "event", "id", "retry":
		default:
			if other != nil {
				other(line)
			}
		}
	}
	if err := in.Err(); err != nil {
		return &ReadError{Cause: err}
	}
	return flush()
}
