package cli

import (
	"io"
	"strconv"
	"strings"

	"github.com/mattn/go-runewidth"
)

// maxTail bounds what is kept of a line that has no end yet.
const maxTail = 16 << 10

// area is the bottom of a terminal: the line that a program has begun, and the
// footer. What is above it scrolls and is never touched again.
type area struct {
	w    io.Writer
	size func() (columns, rows int)

	ready strings.Builder // whole lines that are to be written above
	tail  string          // the line that has no end yet
	drawn []int           // the widths of the lines that stand there
	fail  error
}

// Write takes text for above the footer; draw shows it.
func (a *area) Write(p []byte) (int, error) {
	text := a.tail + string(p)
	cut := strings.LastIndexByte(text, '\n') + 1
	a.ready.WriteString(text[:cut])
	a.tail = text[cut:]
	if len(a.tail) > maxTail {
		if kept := lastPart(a.tail); len(kept) < maxTail {
			a.tail = kept
		} else {
			a.ready.WriteString(a.tail + "\n")
			a.tail = ""
		}
	}
	return len(p), a.fail
}

// lastPart is what a line shows that was written over and over by \r.
func lastPart(line string) string {
	ended := strings.TrimRight(line, "\r")
	part := ended[strings.LastIndexByte(ended, '\r')+1:]
	if len(ended) < len(line) {
		part += "\r"
	}
	return part
}

// draw takes the area away, writes what is ready and puts the area there again,
// with another footer.
func (a *area) draw(footer []string) {
	columns, _ := a.size()
	var b strings.Builder
	if len(a.drawn) > 0 {
		rows := 0
		for _, w := range a.drawn { // a terminal that became narrower has folded them
			rows += max((w+columns-1)/columns, 1)
		}
		b.WriteByte('\r')
		if rows > 1 {
			b.WriteString("\x1b[" + strconv.Itoa(rows-1) + "A")
		}
		b.WriteString("\x1b[J")
	}
	b.WriteString(a.ready.String())
	a.ready.Reset()
	a.drawn = a.drawn[:0]
	lines := footer
	if a.tail != "" {
		shown := strings.TrimSuffix(lastPart(a.tail), "\r")
		lines = append([]string{runewidth.Truncate(oneLine(plainText(shown)), columns-1, "…")}, footer...)
	}
	for i, line := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(line)
		a.drawn = append(a.drawn, runewidth.StringWidth(plainText(line)))
	}
	if b.Len() == 0 || a.fail != nil {
		return
	}
	if _, err := io.WriteString(a.w, b.String()); err != nil {
		a.fail = err
	}
}

// plainText is text without the escape sequences that a Filter lets through.
func plainText(text string) string {
	f := Filter{Plain: true}
	return f.Clean(text)
}
