package cli

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/mattn/go-runewidth"
)

// maxTail bounds what is kept of a line that has no end yet.
const maxTail = 16 << 10

// area is the bottom of a terminal: the lines that a program has begun, one of
// each of its streams, and the footer. What is above it scrolls and is never
// touched again.
type area struct {
	w    io.Writer
	size func() (columns, rows int)

	ready strings.Builder // whole lines that are to be written above
	tails [2]tail
	drawn []string // the lines that stand there
	fail  error
}

// tail takes one stream: whole lines go above the area, the line that has no end
// yet stands in it.
type tail struct {
	area *area
	text string
}

// stream gives the writer of stdout (0) or stderr (1).
func (a *area) stream(on int) io.Writer {
	a.tails[on].area = a
	return &a.tails[on]
}

// Write takes text; draw shows it.
func (t *tail) Write(p []byte) (int, error) {
	text := t.text + string(p)
	cut := strings.LastIndexByte(text, '\n') + 1
	for line := range strings.Lines(text[:cut]) {
		if strings.ContainsRune(strings.TrimRight(line, "\r\n"), '\r') {
			line = strings.TrimSuffix(lastPart(strings.TrimSuffix(line, "\n")), "\r") + "\n"
		}
		t.area.ready.WriteString(line)
	}
	t.text = text[cut:]
	if len(t.text) > maxTail {
		if kept := lastPart(t.text); len(kept) < maxTail {
			t.text = kept
		} else {
			t.area.ready.WriteString(t.text + "\n")
			t.text = ""
		}
	}
	return len(p), t.area.fail
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
	var lines []string
	for _, t := range a.tails {
		if t.text != "" {
			shown := strings.TrimSuffix(lastPart(t.text), "\r")
			lines = append(lines, runewidth.Truncate(strings.ReplaceAll(plainText(shown), "\t", " "), columns-1, "…"))
		}
	}
	lines = append(lines, footer...)
	if a.fail != nil || (a.ready.Len() == 0 && slices.Equal(lines, a.drawn)) {
		return
	}
	var b strings.Builder
	if len(a.drawn) > 0 {
		rows := 0
		for _, line := range a.drawn { // a terminal that became narrower has folded them
			rows += max((runewidth.StringWidth(plainText(line))+columns-1)/columns, 1)
		}
		b.WriteByte('\r')
		if rows > 1 {
			b.WriteString("\x1b[" + strconv.Itoa(rows-1) + "A")
		}
		b.WriteString("\x1b[J")
	}
	b.WriteString(a.ready.String())
	b.WriteString(strings.Join(lines, "\n"))
	a.ready.Reset()
	a.drawn = lines
	if _, err := io.WriteString(a.w, b.String()); err != nil {
		a.fail = err
	}
}

// plainText is text without the escape sequences that a Filter lets through.
func plainText(text string) string {
	f := Filter{Plain: true}
	return f.Clean(text)
}
