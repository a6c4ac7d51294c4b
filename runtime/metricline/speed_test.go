package metricline_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/weirhq/weir/runtime/metricline"
)

// Lines as programs print them.
var (
	plainLines = [][]byte{
		[]byte("Epoch 12: 100%|##########| 312/312 [00:12<00:00, 25.11it/s, loss=0.52]"), []byte("\x1b[31mred\x1b[0m"),
		[]byte("for (;;) { x }"), []byte(`{"level":"info","msg":"epoch","step":3}`), nil,
	}
	metricLines = [][]byte{
		[]byte(`{"step":12345,"metrics":{"train/loss":0.5231,"train/acc":0.871},"run":"a"}`),
		[]byte(`{"step": 12345, "metric": "train/loss", "value": 0.52314159}`),
		[]byte(`{"step": 120, "metrics": {"loss": 0.43219876543, "acc": 0.8765, "lr": 0.0003, "grad_norm": 1.25, "epoch": 3}}`),
	}
)

func TestPlainLinesCostNothing(t *testing.T) {
	var p metricline.Parser
	if n := testing.AllocsPerRun(100, func() {
		for _, l := range plainLines {
			if p.Parse(l) != nil {
				t.Error("not plain")
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Names that come again and values cost no memory either.
func TestRepeatedMetricLinesCostNothing(t *testing.T) {
	var p metricline.Parser
	if n := testing.AllocsPerRun(100, func() {
		for range 50 {
			for _, l := range metricLines {
				if len(p.Parse(l)) != 1 {
					t.Error("not parsed")
				}
			}
		}
		p.Reset()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The memory of one huge line is not held for the rest of the run, and names
// that never come again are forgotten.
func TestAParserHoldsLittle(t *testing.T) {
	t.Parallel()
	var p metricline.Parser
	g := generator{rng: rngOf(7)}
	for range 5000 {
		p.Parse([]byte(`{"step":1,"metrics":{"` + g.digits(60) + `":1}}`))
		p.Reset()
	}
	if n := metricline.Known(&p); n > 1024 {
		t.Errorf("%d names are known", n)
	}
	line := []byte(`{"step":1,"metrics":{`)
	for i := range 20_000 {
		line = append(line, `"`+g.digits(9)+string(rune('a'+i%26))+`":1,`...)
	}
	got := p.Parse(append(line, `"end":1}}`...))
	if len(got) != 1 || len(got[0].Points) != metricline.MaxPoints || got[0].Rejected == "" {
		t.Fatalf("%d records", len(got))
	}
	p.Reset()
	if n := metricline.Idle(&p); n > 2048 {
		t.Errorf("memory for %d points is held", n)
	}
}

// What one line can hold too much costs little more than reading it.
func TestLinesThatHoldTooMuchAreCheap(t *testing.T) {
	const most = 60_000 // allocations: of names and points that are kept
	line := func(n int, member func(i int) string) []byte {
		b := []byte(`{"step":1,"metrics":{`)
		for i := range n {
			b = append(b, member(i)...)
		}
		return append(b, `"end":1}}`...)
	}
	name := func(i int) string { return fmt.Sprintf(`"k%d":1,`, i) }
	objects := bytes.Repeat([]byte(`{"step":1,"metrics":{"a":1,"b":2,"b":null}}`), 100_000)
	for what, c := range map[string]struct {
		line   []byte
		points int
	}{
		"many names": {line(500_000, name), metricline.MaxPoints},
		"a name that comes and goes": {line(19_000, func(i int) string {
			if i < 9990 {
				return name(i)
			}
			return [...]string{`"x":1,`, `"x":null,`}[i%2]
		}), 9991},
		"many objects": {objects, metricline.MaxPoints},
	} {
		var p metricline.Parser
		got := p.Parse(c.line)
		n := 0
		for _, r := range got {
			n += len(r.Points)
		}
		if n != c.points || len(got) == 0 || got[len(got)-1].Rejected == "" {
			t.Errorf("%s: %d points in %d records", what, n, len(got))
		}
		p.Reset()
		if a := testing.AllocsPerRun(1, func() { p.Parse(c.line); p.Reset() }); a > most {
			t.Errorf("%s: %v allocations", what, a)
		}
	}
}

// Of a name that is repeated the last value counts, at the first's place, as
// in Python's dictionaries.
func TestNamesThatComeAndGo(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"step":1,"metrics":{"a":1,"b":2,"a":null,"c":3,"a":4}}`: "a=4 b=2 c=3 ",
		`{"step":1,"metrics":{"a":1,"b":2,"a":null,"a":"x"}}`:     "b=2 ",
		`{"step":1,"metrics":{"a":1,"a":null}}`:                   "",
		`{"step":1,"metrics":{"a":null,"b":1,"a":2}}`:             "b=1 a=2 ",
	} {
		got := ""
		for _, r := range metricline.Parse([]byte(line)) {
			for _, p := range r.Points {
				got += fmt.Sprintf("%s=%v ", p.Name, p.Value)
			}
		}
		if got != want {
			t.Errorf("%s gives %s, want %s", line, got, want)
		}
	}
}

func BenchmarkParseMetric(b *testing.B) {
	var p metricline.Parser
	b.ReportAllocs()
	for b.Loop() {
		for range 100 {
			for _, l := range metricLines {
				p.Parse(l)
			}
		}
		p.Reset()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100*len(metricLines)), "ns/line")
}

func BenchmarkParsePlain(b *testing.B) {
	var p metricline.Parser
	for b.Loop() {
		p.Parse(plainLines[0])
	}
}
