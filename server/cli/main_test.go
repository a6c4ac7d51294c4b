package cli

import (
	"bytes"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // what is printed is in the user's time
	goleak.VerifyTestMain(m)
}

// terminal is a screen that a person looks at.
func terminal(width int) (*Screen, *bytes.Buffer) {
	var b bytes.Buffer
	return &Screen{Writer: &b, Terminal: true, Color: true, Width: width}, &b
}

// pipe is a screen that nobody looks at.
func pipe() (*Screen, *bytes.Buffer) {
	var b bytes.Buffer
	return &Screen{Writer: &b}, &b
}

func none(string) string { return "" }
