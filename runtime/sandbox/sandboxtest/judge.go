package sandboxtest

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/run"
)

// Judge compares an outcome with the right answer and says what is wrong.
func (c Case) Judge(o Outcome, l Label) []string {
	j := &judge{c: c, o: o, l: l}
	j.exit()
	j.points()
	if len(o.Events)+len(c.Events) > 0 && !reflect.DeepEqual(o.Events, c.Events) {
		j.wrong("events %v, want %v", o.Events, c.Events)
	}
	j.output()
	j.words()
	return j.all
}

type judge struct {
	c   Case
	o   Outcome
	l   Label
	all []string
}

func (j *judge) wrong(format string, args ...any) {
	j.all = append(j.all, fmt.Sprintf(format, args...))
}

func (j *judge) exit() {
	want := append(slices.Clone(j.c.Exit.ClassAlso), j.c.Exit.Class)
	if j.c.Exit.Class == "oom" && !j.l.limitsAllMemory() {
		want = append(want, "error") // a MemoryError, as the label says
	}
	if !slices.Contains(want, strings.ToLower(string(j.o.Class))) {
		j.wrong("class %s, want %v", j.o.Class, want)
	}
	if j.c.Exit.Code != nil && j.o.Code() != *j.c.Exit.Code {
		j.wrong("exit code %d, want %d", j.o.Code(), *j.c.Exit.Code)
	}
	if most := time.Duration(j.c.Limits.MaxWallS * float64(time.Second)); most > 0 && j.o.Wall > most {
		j.wrong("took %s, at most %s are allowed", j.o.Wall, most)
	}
	if len(j.o.Survivors) > 0 {
		j.wrong("survivors %v", j.o.Survivors)
	}
}

func (j *judge) points() {
	have := count(j.o.Points)
	if check := j.c.MetricsCheck; check != nil {
		if len(j.o.Points) != check.Count {
			j.wrong("%d points, want %d", len(j.o.Points), check.Count)
		}
		for _, p := range check.Contains {
			if have[p.String()] == 0 {
				j.wrong("no point %s", p)
			}
		}
		return
	}
	if want := count(j.c.Metrics); !maps.Equal(have, want) {
		j.wrong("points %v, want %v", have, want)
	}
}

func count(points []Point) map[string]int {
	all := map[string]int{}
	for _, p := range points {
		if v, ok := p.Value.(float64); ok && v == 0 && math.Signbit(v) {
			p.Value = 0.0
		}
		all[p.String()]++
	}
	return all
}

// output is what holds for the text of every case.
func (j *judge) output() {
	if !utf8.ValidString(j.o.Stdout) || !utf8.ValidString(j.o.Stderr) {
		j.wrong("the text is not valid UTF-8")
	}
	if j.o.Class == run.ClassOutputLimit || strings.ContainsRune(j.o.Stdout+j.o.Stderr, utf8.RuneError) {
		return // the bytes cannot be counted from the text
	}
	if text := int64(len(j.o.Stdout) + len(j.o.Stderr)); j.o.Loss.BytesRead != text+j.o.Loss.BytesTruncated {
		j.wrong("%d bytes were read and %d truncated, the text has %d", j.o.Loss.BytesRead, j.o.Loss.BytesTruncated, text)
	}
}

// words is what the cases demand in words.
func (j *judge) words() {
	o := j.o
	if len(o.Warnings) > 0 && j.c.Number != 53 {
		j.wrong("warnings %q", o.Warnings)
	}
	switch j.c.Number {
	case 5:
		if strings.Count(o.Stdout, "\n") != int(o.Loss.LinesRead) {
			j.wrong("%d lines were read from %q", o.Loss.LinesRead, o.Stdout)
		}
	case 6:
		if !strings.Contains(o.Stdout, "\x1b]52;c;aGk=\x07") || !strings.Contains(o.Stdout, "\x1b[2J\x1b[999A") {
			j.wrong("the raw control sequences are not in the stored output")
		}
	case 8:
		if len(o.Stdout) < 10<<20 {
			j.wrong("only %d bytes of the long line were forwarded", len(o.Stdout))
		}
	case 11:
		if !strings.ContainsRune(o.Stdout, utf8.RuneError) {
			j.wrong("no U+FFFD in %q", o.Stdout)
		}
	case 18, 23, 31:
		if o.Loss.LinesRejected == 0 || len(o.Loss.RejectedSamples) == 0 {
			j.wrong("nothing tells of the lines that were left out: %+v", o.Loss)
		}
	case 26:
		if o.Loss.LinesRejected != 3 || len(o.Loss.RejectedSamples) != 3 {
			j.wrong("rejected %d lines, samples %q; want the three with other text around", o.Loss.LinesRejected, o.Loss.RejectedSamples)
		}
	case 28:
		if !strings.Contains(o.Stdout, "{'step': 1, 'metrics': {'loss': 0.5}}\n") || o.Loss.LinesParsed != 0 {
			j.wrong("parsed %d lines of %q", o.Loss.LinesParsed, o.Stdout)
		}
	case 33:
		j.inOrder()
	case 36:
		j.flood()
	case 37:
		if strings.Contains(o.Stdout, "late") {
			j.wrong("output after the end")
		}
	case 53:
		if j.l.limitsAllMemory() && (len(o.Warnings) != 1 || !strings.Contains(o.Warnings[0], "killed for memory")) {
			j.wrong("warnings %q, want one that a process was killed for memory", o.Warnings)
		}
	case 54:
		var n int64
		if i := strings.Index(o.Stdout, "wrote "); i < 0 {
			j.wrong("no word about the size in %q", o.Stdout)
		} else if _, err := fmt.Sscanf(o.Stdout[i:], "wrote %d MiB", &n); err != nil || n > j.c.Limits.DiskMB {
			j.wrong("%q, the limit is %d MiB", o.Stdout[i:], j.c.Limits.DiskMB)
		}
	}
}

// inOrder: each stream is whole and in its own order.
func (j *judge) inOrder() {
	var out, errs strings.Builder
	for i := range 200 {
		fmt.Fprintf(&out, "{\"step\":%d,\"metrics\":{\"i\":%d}}\n", i, i)
		fmt.Fprintf(&errs, "err %d\n", i)
	}
	if j.o.Stdout != out.String() || j.o.Stderr != errs.String() {
		j.wrong("the streams are not what was printed")
	}
}

func (j *judge) flood() {
	n, limit := int64(len(j.o.Stdout)), j.c.Limits.MaxOutputBytes
	if n == 0 || n > limit || strings.Trim(j.o.Stdout, "y\n") != "" {
		j.wrong("forwarded %d bytes, the limit is %d", n, limit)
	}
	if j.o.Class == run.ClassOutputLimit && j.o.Loss.BytesTruncated == 0 {
		j.wrong("stopped at the limit, and nothing was truncated")
	}
}
