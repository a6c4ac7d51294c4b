package bench

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/metricline"
)

// BenchmarkParse: metric lines as programs print them, against encoding/json
// into a map; and plain lines, which cost no memory.
func BenchmarkParse(b *testing.B) {
	const n = 3_000
	lines := [][]byte{
		[]byte(`{"step":12345,"metrics":{"train/loss":0.5231,"train/acc":0.871},"run":"a"}`),
		[]byte(`{"step": 12345, "metric": "train/loss", "value": 0.5231415926535}`),
		[]byte(`{"step": 120, "metrics": {"loss": 0.4321987654321098, "acc": 0.8765, "lr": 0.0003, "grad_norm": 1.25, "epoch": 3}}`),
	}
	plain := []byte("Epoch 12: 100%|##########| 312/312 [00:12<00:00, 25.11it/s, loss=0.52]")
	var p metricline.Parser
	took := func(f func(line []byte)) time.Duration {
		begin := time.Now()
		for i := range n {
			f(lines[i%len(lines)])
		}
		return time.Since(begin)
	}
	var ratios []float64
	for range 20*rounds() + 1 {
		count := 0
		weir := took(func(line []byte) {
			if len(p.Parse(line)) != 1 {
				b.Fatalf("not parsed: %s", line)
			}
			if count++; count%300 == 0 { // about a read of the pipe
				p.Reset()
			}
		})
		p.Reset()
		bare := took(func(line []byte) {
			var m map[string]any
			if err := json.Unmarshal(line, &m); err != nil {
				b.Fatal(err)
			}
		})
		b.Logf("weir %v, encoding/json %v a line", weir/n, bare/n)
		ratios = append(ratios, float64(bare)/float64(weir))
	}
	check(b, "encoding/json/parse", median(ratios), 5, false)
	allocs := testing.AllocsPerRun(1000, func() {
		if p.Parse(plain) != nil {
			b.Error("not plain")
		}
	})
	check(b, "allocs/plain-line", allocs, 0, true)
}
