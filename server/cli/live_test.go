package cli

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/weirhq/weir/runtime/run"
)

// The line that a program has begun stays below its whole lines and above the
// footer, whatever the other stream does, and is written once it has ended.
func TestLiveViewKeepsBegunLines(t *testing.T) {
	t.Parallel()
	screen, got := terminal(40)
	screen.Color = false
	v := newLiveView(&PlainView{Out: screen, Err: screen}, got, func() (int, int) { return 40, 24 })
	v.State(&Event{Type: run.TypeStateChanged, State: "train_running", Status: run.Running})
	v.Output(output("STDERR", "\r10% |#   |"))
	v.Output(output("STDOUT", "one\n"))
	if want := "\r\x1b[1A\x1b[Jone\n10% |#   |\ntrain_running  0:00"; !strings.HasSuffix(got.String(), want) {
		t.Errorf("got %q, want it to end with %q", got, want)
	}
	v.Output(output("STDERR", "\r20%\r30%"))
	v.Output(output("STDERR", "\r100%\nnext"))
	if want := "\r\x1b[1A\x1b[J100%\nnext\ntrain_running  0:00"; !strings.HasSuffix(got.String(), want) {
		t.Errorf("got %q, want it to end with %q", got, want)
	}
	v.Settle()
	if want := "\r\x1b[1A\x1b[Jnext\n"; !strings.HasSuffix(got.String(), want) {
		t.Errorf("got %q, want it to end with %q", got, want)
	}
	v.Close()
	before := got.Len()
	v.Output(output("STDOUT", "late\n"))
	if text := got.String()[before:]; text != "late\n" {
		t.Errorf("after the end: %q", text)
	}
}

// A terminal that became narrower has folded the footer's lines.
func TestLiveViewIsMadeNarrower(t *testing.T) {
	t.Parallel()
	screen, got := terminal(80)
	width := 80
	v := newLiveView(&PlainView{Out: screen, Err: screen}, got, func() (int, int) { return width, 24 })
	v.State(&Event{Type: run.TypeStateChanged, State: strings.Repeat("x", 50), Status: run.Running})
	width = 20
	before := got.Len()
	v.Output(output("STDOUT", "one\n"))
	if text := got.String()[before:]; !strings.HasPrefix(text, "\r\x1b[2A\x1b[Jone\n") { // 50 + "  0:00" are three rows
		t.Errorf("got %q", text)
	}
}

// A line without an end does not grow without bound.
func TestLiveViewBoundsABegunLine(t *testing.T) {
	t.Parallel()
	screen, got := terminal(80)
	v := newLiveView(&PlainView{Out: screen, Err: screen}, got, func() (int, int) { return 80, 24 })
	for i := range 3000 {
		v.Output(output("STDOUT", fmt.Sprintf("\rbar %d of 3000 and more", i)))
	}
	if n := len(v.area.tails[0].text); n > maxTail+100 {
		t.Errorf("%d bytes are kept", n)
	}
	v.Settle()
	if !strings.HasSuffix(got.String(), "bar 2999 of 3000 and more\n") {
		t.Errorf("it ends with %q", got.String()[got.Len()-80:])
	}
}

// Every line fits, at any width, and says less where there is less room.
func TestFooterFits(t *testing.T) {
	t.Parallel()
	var f footer
	f.state, f.began = "train_running", time.Unix(0, 0)
	for i := range 100 {
		for _, name := range []string{"loss", "acc", "a name that is much longer than its column", "四", "lr", "six"} {
			v := math.Sin(float64(i) / 10)
			f.point(Point{Name: name, Step: Long(i), Value: &v}, time.Unix(int64(i), 0))
		}
	}
	for width := 1; width <= 220; width++ {
		for _, ascii := range []bool{false, true} {
			f.ascii, f.color = ascii, !ascii
			for _, line := range f.lines(width, 24, time.Unix(100, 0)) {
				if n := runewidth.StringWidth(plainText(line)); n > width {
					t.Errorf("at %d columns a line has %d: %q", width, n, line)
				}
			}
		}
	}
	f.color, f.ascii = false, false
	got := f.lines(79, 24, time.Unix(3700, 0))
	if len(got) != 5 || got[0] != "train_running  1:01:40  step 99  1 steps/s  +2 metrics" {
		t.Errorf("at 80 columns: %q", got)
	}
	if n := len(f.lines(199, 24, time.Unix(100, 0))); n != 4 {
		t.Errorf("at 200 columns there are %d lines", n)
	}
	if n := len(f.lines(79, 8, time.Unix(100, 0))); n != 2 {
		t.Errorf("in 8 rows there are %d lines", n)
	}
}

func TestCurve(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   string
	}{
		{nil, ""},
		{[]float64{1}, "▁"},
		{[]float64{0, 1, 2, 3, 4, 5, 6, 7}, "▁▂▃▄▅▆▇█"},
		{[]float64{5, 5, 5}, "▁▁▁"},
		{[]float64{0, math.NaN(), 7}, "▁ █"},
		{[]float64{0, math.Inf(1), 7}, "▁ █"},
		{[]float64{-math.MaxFloat64, math.MaxFloat64}, "▁█"},
		{[]float64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 7}, "▁▁▁▁▁▁▁█"},
	} {
		k := &curve{each: 1}
		for _, v := range c.values {
			k.add(v)
		}
		if got := k.spark(8, false); got != c.want {
			t.Errorf("%v: got %q, want %q", c.values, got, c.want)
		}
	}
	// However long, it is kept in bounded room, and its ends are where they were.
	k := &curve{each: 1}
	for i := range 1_000_000 {
		k.add(float64(i))
	}
	if got := k.spark(8, true); len(k.slots) > maxCurveSlots || got != "_.-~=+*#" {
		t.Errorf("%d slots, %q", len(k.slots), got)
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	var f footer
	for i := range 100 {
		v := 1.0
		f.point(Point{Name: "x", Step: Long(10 * i), Value: &v}, time.Unix(int64(i), 0))
	}
	if got := f.rate(); got != 10 {
		t.Errorf("rate %v, want 10", got)
	}
	if n := len(f.stepAt); n > 25 {
		t.Errorf("%d steps are remembered", n)
	}
}

func TestASCIIOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, value string
		want        bool
	}{{"LANG", "", false}, {"LANG", "C", true}, {"LC_ALL", "en_US.UTF-8", false}, {"LC_CTYPE", "de_DE.utf8", false}, {"LC_ALL", "POSIX", true}} {
		if got := asciiOnly(func(n string) string {
			if n == c.name {
				return c.value
			}
			return ""
		}); got != c.want {
			t.Errorf("%s=%s: %v", c.name, c.value, got)
		}
	}
}
