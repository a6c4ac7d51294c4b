package meter

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

// A line over the limit is not held while it is read.
func TestLongLinesAreNotHeld(t *testing.T) {
	t.Parallel()
	l := newLines(strings.NewReader("one\n" + strings.Repeat("x", 1<<20) + "\ntwo\n" + strings.Repeat("y", 1<<20)))
	l.limit = 100
	var got []string
	for {
		line, over, err := l.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if over && len(line) > 0 || cap(l.buf) > 64<<10 {
			t.Errorf("%d bytes given and %d held of a line over the limit", len(line), cap(l.buf))
		}
		if got = append(got, string(line)); over {
			got[len(got)-1] = "over"
		}
	}
	if strings.Join(got, " ") != "one over two over" {
		t.Errorf("read %q", got)
	}
}

// The requests that are remembered do not grow in number.
func TestTheWindowIsBounded(t *testing.T) {
	t.Parallel()
	w := newWindow()
	for i := range 4 * windowSize {
		w.put(run.UsageRecord{RequestKey: strconv.Itoa(i), Tokens: run.Tokens{Input: 1}})
		if i%100 == 0 && len(w.drain()) == 0 {
			t.Fatal("nothing was given")
		}
	}
	if w.drain(); len(w.entries) > windowSize || len(w.order) > 5*windowSize || w.emitted != 4*windowSize {
		t.Errorf("%d requests and %d keys are held, %d were given", len(w.entries), len(w.order), w.emitted)
	}
}
