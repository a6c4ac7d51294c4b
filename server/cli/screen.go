package cli

import (
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// Screen is where a command writes: a terminal, or anything else.
type Screen struct {
	io.Writer

	// Terminal: a person looks at it, so text is made harmless.
	Terminal bool
	// Color: a terminal that knows colours, and whose user wants them.
	Color bool
	// Width in columns; 0: no limit.
	Width int
}

// NewScreen looks at what w is. NO_COLOR, TERM and COLUMNS are heeded.
func NewScreen(w io.Writer, getenv func(string) string) *Screen {
	s := &Screen{Writer: w}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	s.Terminal = true
	s.Color = getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
	s.Width = 80
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		s.Width = width
	}
	return s
}

// dim renders what is not the program's own.
func (s *Screen) dim(text string) string {
	if !s.Color {
		return text
	}
	return "\x1b[2m" + text + "\x1b[0m"
}

// Table writes rows in columns, the first row as the heading. On a terminal the
// rows fit its width: the columns marked in flexible are shortened first, the
// longest of them first, then the last columns are left out.
func (s *Screen) Table(rows [][]string, flexible ...int) error {
	if len(rows) == 0 {
		return nil
	}
	for _, row := range rows {
		for i := range row {
			row[i] = oneLine(row[i])
		}
	}
	widths := s.fit(columns(rows), flexible)
	var out strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, w := range widths {
			text := row[i]
			if s.Width > 0 {
				text = runewidth.Truncate(text, w, "…")
			}
			line.WriteString(text)
			if i < len(widths)-1 {
				line.WriteString(strings.Repeat(" ", max(0, w-runewidth.StringWidth(text))+2))
			}
		}
		out.WriteString(strings.TrimRight(line.String(), " "))
		out.WriteByte('\n')
	}
	_, err := io.WriteString(s, out.String())
	return err
}

func columns(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(text))
		}
	}
	return widths
}

const minColumn = 8

func (s *Screen) fit(widths, flexible []int) []int {
	if s.Width == 0 {
		return widths
	}
	total := func() int {
		sum := 2 * (len(widths) - 1)
		for _, w := range widths {
			sum += w
		}
		return sum
	}
	for total() > s.Width {
		longest := -1
		for _, i := range flexible {
			if i < len(widths) && widths[i] > minColumn && (longest < 0 || widths[i] > widths[longest]) {
				longest = i
			}
		}
		switch {
		case longest >= 0:
			widths[longest]--
		case len(widths) > 1:
			widths = widths[:len(widths)-1]
		default:
			widths[0] = s.Width
		}
	}
	return widths
}

// IO is what a command was started with.
type IO struct {
	Out, Err *Screen
	Getenv   func(string) string
	// NewView makes the view that shows a run to a person; nil: PlainView.
	NewView func(out, err *Screen) Shown

	mu    sync.Mutex
	shown *guarded // what a notice must not write into
}

// Notice prints a line about the command's own work. Any goroutine may call it,
// but no view.
func (i *IO) Notice(text string) {
	i.mu.Lock()
	shown := i.shown
	i.mu.Unlock()
	if shown == nil {
		shown = new(guarded)
	}
	shown.mu.Lock()
	defer shown.mu.Unlock()
	if shown.view != nil {
		shown.view.Settle()
	}
	_, _ = io.WriteString(i.Err, i.Err.dim("weir: "+clean(text))+"\n")
}

// seconds is a duration for people.
func seconds(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
