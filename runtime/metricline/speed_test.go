package metricline_test

import (
	"encoding/json"
	"testing"

	"github.com/weirhq/weir/runtime/metricline"
)

func BenchmarkX(b *testing.B) {
	for _, l := range []string{
		`{"step":12345,"metrics":{"train/loss":0.5231,"train/acc":0.871},"run":"a"}`,
		`{"step":12345,"metric":"train/loss","value":0.52314159}`,
		`{"step": 120, "metrics": {"loss": 0.43219876543, "acc": 0.8765, "lr": 0.0003, "grad_norm": 1.25, "epoch": 3}}`,
		`{"step": 120, "metrics": {"loss": 0.4321987654321012, "acc": 0.876512345678901}}`,
	} {
		line := []byte(l)
		b.Run("weir", func(b *testing.B) {
			b.ReportAllocs()
			var p metricline.Parser
			i := 0
			for b.Loop() {
				p.Parse(line)
				if i++; i%300 == 0 {
					p.Reset()
				}
			}
		})
		b.Run("json", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var m map[string]any
				_ = json.Unmarshal(line, &m)
			}
		})
	}
}
