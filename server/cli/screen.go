package cli

import (
	"io"
	"os"
	"slices"
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

// same tells whether both write to one file or pipe.
func (s *Screen) same(other *Screen) bool {
	var infos [2]os.FileInfo
	for n, w := range []io.Writer{s.Writer, other.Writer} {
		f, ok := w.(*os.File)
		if !ok {
			return false
		}
		var err error
		if infos[n], err = f.Stat(); err != nil {
			return false
		}
	}
	return os.SameFile(infos[0], infos[1])
}

// dim renders what is not the program's own.
func (s *Screen) dim(text string) string {
	if !s.Color {
		return text
	}
	return "\x1b[2m" + text + "\x1b[0m"
}

// layout says what a table may give up to fit a terminal.
type layout struct {
	// drop are columns to leave out, the first one first.
	drop []int
	// flexible are columns that may be shortened.
	flexible []int
	// right is the first of the columns of numbers, which end at one edge; 0: none.
	right int
}

// Columns of text are shortened to enough before another column is left out,
// and to least when none is left to leave out.
const (
	enough = 20
	least  = 8
)

// pipeWidth is the most of a row in a pipe, where no column is left out.
const pipeWidth = 200

// Table writes rows in columns, the first row as the heading. On a terminal the
// rows fit its width.
func (s *Screen) Table(rows [][]string, l layout) error {
	widths := make([]int, len(rows[0])) // 0: left out
	for _, row := range rows {
		for i, text := range row {
			row[i] = oneLine(text)
			widths[i] = max(widths[i], runewidth.StringWidth(row[i]))
		}
	}
	if s.Width > 0 {
		l.fit(widths, s.Width)
	} else {
		layout{flexible: l.flexible}.fit(widths, pipeWidth)
	}
	var out strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, w := range widths {
			if w == 0 {
				continue
			}
			text := runewidth.Truncate(row[i], w, "…")
			space := strings.Repeat(" ", w-runewidth.StringWidth(text))
			if l.right > 0 && i >= l.right {
				text, space = space+text, ""
			}
			line.WriteString(text)
			line.WriteString(space + "  ")
		}
		out.WriteString(strings.TrimRight(line.String(), " "))
		out.WriteByte('\n')
	}
	_, err := io.WriteString(s, out.String())
	return err
}

// Columns is Table for a listing whose first column may be shortened; on a
// narrow terminal the columns drop are left out, the first one first.
func (s *Screen) Columns(rows [][]string, drop ...int) error {
	return s.Table(rows, layout{drop: drop, flexible: []int{0}})
}

func (l layout) fit(widths []int, width int) {
	total := func() int {
		sum := -2
		for _, w := range widths {
			if w > 0 {
				sum += w + 2
			}
		}
		return sum
	}
	shorten := func(to int) {
		for total() > width {
			longest := -1
			for _, i := range l.flexible {
				if widths[i] > to && (longest < 0 || widths[i] > widths[longest]) {
					longest = i
				}
			}
			if longest < 0 {
				return
			}
			widths[longest]--
		}
	}
	whole := slices.Clone(widths)
	for _, i := range append([]int{-1}, l.drop...) {
		copy(widths, whole)
		if i >= 0 {
			widths[i], whole[i] = 0, 0
		}
		if shorten(enough); total() <= width {
			return
		}
	}
	shorten(least)
	for i := len(widths) - 1; i > 0 && total() > width; i-- {
		widths[i] = 0
	}
	if total() > width {
		widths[0] = width
	}
}

// IO is what a command was started with.
type IO struct {
	Out, Err *Screen
	Getenv   func(string) string
	// NewView makes the view that shows a run to a person; nil: PlainView.
	NewView func(i *IO) Shown
	// KnownIsolation: the user has been told that there is no sandbox.
	KnownIsolation bool
	// Raw: what programs print is shown as it is, metrics and media included.
	Raw bool

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
