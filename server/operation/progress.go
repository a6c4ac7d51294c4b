package operation

import (
	"errors"
	"io"
	"net"
	"time"
)

// Progress writes to W so that a write fails after Timeout without any
// progress, however long the whole write takes.
type Progress struct {
	W           io.Writer
	SetDeadline func(time.Time) error // of writes to W
	Timeout     time.Duration
	Piece       int  // how many bytes are written under one deadline
	Resumes     bool // W can go on after a deadline that passed in the midst of a piece
}

// Write implements io.Writer.
func (p Progress) Write(data []byte) (written int, err error) {
	for written < len(data) {
		piece := data[written:min(len(data), written+p.Piece)]
		if err := p.SetDeadline(time.Now().Add(p.Timeout)); err != nil {
			return written, err
		}
		n, err := p.W.Write(piece)
		written += n
		var timeout net.Error
		if err != nil && (!p.Resumes || n == 0 || !errors.As(err, &timeout) || !timeout.Timeout()) {
			return written, err
		}
	}
	return written, nil
}
