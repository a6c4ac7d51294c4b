package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
)

// tables are lists as servers answer them, with the worst that they may hold.
func tables(t *testing.T) (Page[Session], Page[Run]) {
	t.Helper()
	var answer struct {
		Sessions Page[Session]
		Runs     Page[Run]
	}
	text, err := os.ReadFile("testdata/lists.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Sessions, answer.Runs
}

// The tables at 80 and 200 columns and in a pipe. WEIR_UPDATE=1 writes the files.
func TestTables(t *testing.T) {
	t.Parallel()
	sessions, runs := tables(t)
	for _, width := range []int{80, 200, 0} {
		var b bytes.Buffer
		quiet, _ := pipe()
		i := &IO{Out: &Screen{Writer: &b, Terminal: width > 0, Width: width}, Err: quiet}
		if err := i.sessions(sessions); err != nil {
			t.Fatal(err)
		}
		if err := i.runs(runs); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if w := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); width > 0 && w > width {
				t.Errorf("%d columns of %d: %s", w, width, line)
			}
			if strings.ContainsAny(line, "\x1b\a\r\t") {
				t.Errorf("a control character: %q", line)
			}
		}
		golden(t, fmt.Sprintf("lists-%d.golden", width), b.Bytes())
	}
}

// A run as weir show prints it.
func TestShowARun(t *testing.T) {
	t.Parallel()
	_, runs := tables(t)
	c, err := NewClient(Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, r := range runs.Nodes {
		b.WriteString(r.text(c) + "--\n")
	}
	golden(t, "show.golden", []byte(b.String()))
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("WEIR_UPDATE") != "" {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
	}
}
