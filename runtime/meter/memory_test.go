package meter_test

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/meter"
	"github.com/weirhq/weir/runtime/run"
)

// rows makes a transcript row by row: messages of two rows each, the second
// one with a tool's result of its own size behind it.
type rows struct {
	left    int64 // bytes still to make
	n       int64 // messages made
	pending []byte
}

func (r *rows) Read(p []byte) (int, error) {
	if len(r.pending) == 0 {
		if r.left <= 0 {
			return 0, io.EOF
		}
		id := "msg_" + strconv.FormatInt(r.n, 10)
		size := 500
		if r.n%200 == 7 {
			size = 1 << 20
		}
		r.pending = []byte(fmt.Sprintf(row, id, "null", 1) + "\n" + fmt.Sprintf(row, id, `"end_turn"`, 9) + "\n" +
			`{"type":"user","message":{"role":"user","content":"` + strings.Repeat("x", size) + `"}}` + "\n")
		r.left -= int64(len(r.pending))
		r.n++
	}
	n := copy(p, r.pending)
	r.pending = r.pending[n:]
	return n, nil
}

// TestMemoryStaysFlat reads a long transcript: 32 MB, or WEIR_TRANSCRIPT_MB. What
// is held does not grow with it.
func TestMemoryStaysFlat(t *testing.T) {
	size := int64(32)
	if s := os.Getenv("WEIR_TRANSCRIPT_MB"); s != "" {
		var err error
		if size, err = strconv.ParseInt(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	source := &rows{left: size << 20}
	r, err := meter.NewReader(meter.Source{Format: meter.ClaudeTranscript})
	if err != nil {
		t.Fatal(err)
	}
	var heap []uint64
	var output int64
	seen := map[bool]int64{}
	err = r.Read(t.Context(), source, func(records []run.UsageRecord) error {
		for _, u := range records {
			output += u.Tokens.Output
			seen[u.Provenance == run.Measured]++
		}
		if seen[true]%2048 < int64(len(records)) {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			heap = append(heap, m.HeapAlloc)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, report := r.Close(); len(report.Incomplete) != 0 || report.Skipped != 0 {
		t.Errorf("%+v", report)
	}
	// A message whose rows fall into two batches is told twice, with its totals.
	if output < 9*source.n || output > 9*source.n+10*seen[false] || seen[true] != source.n {
		t.Errorf("%d messages of 9 tokens gave %d, %v", source.n, output, seen)
	}
	if len(heap) < 2 {
		t.Fatalf("the heap was looked at %d times", len(heap))
	}
	t.Logf("%d messages; heap in MiB at the first look %.1f, at the last %.1f", source.n, float64(heap[0])/(1<<20), float64(heap[len(heap)-1])/(1<<20))
	for _, h := range heap {
		if h > heap[0]+16<<20 {
			t.Errorf("the heap grew from %d to %d MiB", heap[0]>>20, h>>20)
			break
		}
	}
}
