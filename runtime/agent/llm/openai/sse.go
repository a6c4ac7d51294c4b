package openai

import (
	"bufio"
	"bytes"
	"io"
)

// maxLine bounds a line of a stream.
const maxLine = 32 << 20

// readError is an error of the connection, and not of what came over it.
type readError struct{ cause error }

func (e *readError) Error() string { return e.cause.Error() }

// events hands over the data of each event of a stream. The last one counts also
// when the blank line behind it is missing and the stream ends in good order.
func events(r io.Reader, event func(data []byte) error) error {
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
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(append(data, rest...), '\n')
		}
	}
	if err := in.Err(); err != nil {
		return &readError{cause: err}
	}
	return flush()
}
