package metricline_test

import (
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
