package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
)

// footer is what is known of a run that goes on.
type footer struct {
	color, ascii bool

	state  string
	began  time.Time
	step   int64
	stepAt []stepAt
	curves []*curve
	byName map[string]*curve
}

// stepAt tells when a step was reached.
type stepAt struct {
	at   time.Time
	step int64
}

const (
	rateOver  = 20 * time.Second // the rate is of this time
	maxCurves = 64               // that are kept
	nameWidth = 18
	// twoColumns is from where on metrics stand in two columns.
	twoColumns = 120
	maxSpark   = 60
	leastSpark = 8
)

func (f *footer) running() bool { return f.state != "" }

func (f *footer) point(p Point, at time.Time) {
	name := p.Name
	if p.RunTag != "" {
		name = p.RunTag + "/" + name
	}
	c := f.byName[name]
	if c == nil {
		if len(f.curves) >= maxCurves {
			return
		}
		if f.byName == nil {
			f.byName = map[string]*curve{}
		}
		c = &curve{name: oneLine(name), each: 1}
		f.byName[name] = c
		f.curves = append(f.curves, c)
	}
	c.add(p.Float())
	step := int64(p.Step)
	if len(f.stepAt) > 0 && step <= f.step {
		return
	}
	f.step = step
	f.stepAt = append(f.stepAt, stepAt{at, step})
	for len(f.stepAt) > 2 && at.Sub(f.stepAt[0].at) > rateOver {
		f.stepAt = f.stepAt[1:]
	}
}

// rate is in steps per second, 0 when it is not known.
func (f *footer) rate() float64 {
	if len(f.stepAt) < 2 {
		return 0
	}
	first, last := f.stepAt[0], f.stepAt[len(f.stepAt)-1]
	d := last.at.Sub(first.at).Seconds()
	if d < 0.1 {
		return 0
	}
	return float64(last.step-first.step) / d
}

func perSecond(r float64) string {
	if r >= 100 {
		return strconv.FormatFloat(r, 'f', 0, 64)
	}
	return strconv.FormatFloat(r, 'g', 3, 64)
}

// lines are the footer's, each at most width columns wide.
func (f *footer) lines(width, height int, now time.Time) []string {
	if !f.running() || width < 10 {
		return nil
	}
	head := []string{f.state, clock(now.Sub(f.began))}
	if len(f.stepAt) > 0 {
		head = append(head, fmt.Sprintf("step %d", f.step))
	}
	if r := f.rate(); r > 0 {
		head = append(head, fmt.Sprintf("%s steps/s", perSecond(r)))
	}
	columns := 1
	if width >= twoColumns && len(f.curves) > 1 {
		columns = 2
	}
	rows := min(4, height/5)
	shown := f.curves[:min(len(f.curves), rows*columns)]
	if more := len(f.curves) - len(shown); more > 0 {
		head = append(head, "+"+count(more, "metric"))
	}
	out := []string{f.paint("1", runewidth.Truncate(strings.Join(head, "  "), width, "…"))}
	each := (width - 2*(columns-1)) / columns
	for i := 0; i < len(shown); i += columns {
		line := f.metric(shown[i], each)
		if i+1 < len(shown) && columns == 2 {
			pad := each - runewidth.StringWidth(plainText(line))
			line += strings.Repeat(" ", pad+2) + f.metric(shown[i+1], each)
		}
		out = append(out, line)
	}
	return out
}

// metric is a name, its last value, and its curve where there is room.
func (f *footer) metric(c *curve, width int) string {
	name := min(nameWidth, width/2)
	text := runewidth.FillRight(runewidth.Truncate(c.name, name, "…"), name)
	value := runewidth.FillLeft(strconv.FormatFloat(c.last, 'g', 5, 64), 11)
	line := f.paint("36", text) + value
	if spark := min(width-name-11-2, maxSpark); spark >= leastSpark {
		line += "  " + f.paint("32", c.spark(spark, f.ascii))
	} else if name+11 > width {
		return runewidth.Truncate(text+value, width, "…")
	}
	return line
}

func (f *footer) paint(code, text string) string {
	if !f.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// clock is a time as 1:02 or 1:02:03.
func clock(d time.Duration) string {
	s := int(max(d, 0).Seconds())
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// maxCurveSlots is how finely a curve is kept: twice what is shown at most.
const maxCurveSlots = 2 * maxSpark

// curve is all of a metric, ever more coarsely: each slot is the mean of as many
// values as every other one.
type curve struct {
	name  string
	last  float64
	slots []float64
	each  int // values of a full slot
	sum   float64
	in    int // values in sum, which is not a slot yet
	seen  int // of them finite
}

func (c *curve) add(v float64) {
	c.last = v
	c.in++
	if !math.IsNaN(v) && !math.IsInf(v, 0) {
		c.sum += v
		c.seen++
	}
	if c.in < c.each {
		return
	}
	c.slots = append(c.slots, c.open())
	c.sum, c.in, c.seen = 0, 0, 0
	if len(c.slots) < maxCurveSlots {
		return
	}
	for i := range maxCurveSlots / 2 {
		c.slots[i] = mean(c.slots[2*i], c.slots[2*i+1])
	}
	c.slots = c.slots[:maxCurveSlots/2]
	c.each *= 2
}

// open is the slot that is being filled; NaN when no value in it is finite.
func (c *curve) open() float64 {
	if c.seen == 0 {
		return math.NaN()
	}
	return c.sum / float64(c.seen)
}

// mean takes what is finite.
func mean(a, b float64) float64 {
	switch {
	case math.IsNaN(a):
		return b
	case math.IsNaN(b):
		return a
	}
	return a/2 + b/2
}

var (
	blocks  = []rune("▁▂▃▄▅▆▇█")
	letters = []rune("_.-~=+*#")
)

// spark draws the curve in width columns; a gap is where no value was finite.
func (c *curve) spark(width int, ascii bool) string {
	marks := blocks
	if ascii {
		marks = letters
	}
	values := c.slots
	if c.in > 0 {
		values = append(values[:len(values):len(values)], c.open())
	}
	n := min(width, len(values))
	low, high := math.Inf(1), math.Inf(-1)
	cells := make([]float64, n)
	for i := range cells {
		cells[i] = math.NaN()
		for _, v := range values[i*len(values)/n : (i+1)*len(values)/n] {
			cells[i] = mean(cells[i], v)
		}
		if !math.IsNaN(cells[i]) {
			low, high = min(low, cells[i]), max(high, cells[i])
		}
	}
	out := make([]rune, n)
	for i, v := range cells {
		switch {
		case math.IsNaN(v):
			out[i] = ' '
		case high == low:
			out[i] = marks[0]
		default:
			out[i] = marks[min(int((v/2-low/2)/(high/2-low/2)*float64(len(marks))), len(marks)-1)]
		}
	}
	return string(out)
}

// asciiOnly tells whether the user's locale is one without other characters.
func asciiOnly(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(name); v != "" {
			v = strings.ToUpper(v)
			return !strings.Contains(v, "UTF-8") && !strings.Contains(v, "UTF8")
		}
	}
	return false
}
