package meter_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/meter"
	"github.com/weirhq/weir/runtime/run"
)

// allFormats lists every format, as the error of a wrong one does.
func allFormats(t testing.TB) []meter.Format {
	_, list, _ := strings.Cut(meter.Format("").Check().Error(), "it is one of ")
	var formats []meter.Format
	for name := range strings.SplitSeq(list, ", ") {
		formats = append(formats, meter.Format(name))
	}
	if len(formats) < 15 {
		t.Fatalf("found %d formats", len(formats))
	}
	return formats
}

// checkRecords holds for every input.
func checkRecords(t *testing.T, records []run.UsageRecord) {
	t.Helper()
	for _, u := range records {
		n := u.Tokens
		if min(n.Input, n.CacheRead, n.CacheWriteShort, n.CacheWriteLong, n.Output, n.Reasoning) < 0 || n.Reasoning > n.Output ||
			max(n.Input, n.CacheRead, n.CacheWriteShort, n.CacheWriteLong, n.Output) > 4*meter.MaxCount {
			t.Fatalf("counts %+v", u)
		}
		for tool, calls := range u.ToolCalls {
			if calls < 0 || tool == "" {
				t.Fatalf("calls %+v", u)
			}
		}
		if u.CostNanoUSD != nil && (*u.CostNanoUSD < 0 || u.CostSource != run.AgentReported) || u.CostNanoUSD == nil && u.CostSource != "" {
			t.Fatalf("cost %+v", u)
		}
		if u.Provenance == run.UnknownProvenance && (n != run.Tokens{} || u.CostNanoUSD != nil) {
			t.Fatalf("unknown, but %+v", u)
		}
		if u.RequestKey == "" || u.Kind != run.ModelCall || u.At.IsZero() || u.Rank == 0 || u.Provenance == "" || u.Cumulative && u.Stream == "" {
			t.Fatalf("not filled: %+v", u)
		}
		for _, s := range []string{u.RequestKey, u.Model, u.Provider, u.Stream, u.Tier} {
			if len(s) > 300 || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
				t.Fatalf("name %q of %+v", s, u)
			}
		}
		if u.Raw != nil && (!json.Valid(u.Raw) || !utf8.Valid(u.Raw)) {
			t.Fatalf("raw %q", u.Raw)
		}
	}
}

// FuzzReader gives every format any bytes, whole and in pieces.
func FuzzReader(f *testing.F) {
	seeds, err := filepath.Glob(casesDir + "/*/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range seeds {
		if b, err := os.ReadFile(path); err == nil && len(b) < 8<<10 && !strings.HasSuffix(path, "expected.json") {
			f.Add(b)
		}
	}
	f.Add([]byte(`{"usage":{"iterations":[{"type":"compaction","input_tokens":-1},{"type":"advisor_message","model":"` + "\xff" + `"}]}}`))
	formats := allFormats(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, format := range formats {
			var reports [2]meter.Report
			var sums [2]run.Tokens
			for i := range reports {
				r, err := meter.NewReader(meter.Source{Format: format, Prompt: "p"})
				if err != nil {
					t.Fatal(err)
				}
				book := newBook()
				add := func(records []run.UsageRecord) error {
					checkRecords(t, records)
					return book.add(records)
				}
				if i == 0 {
					err = r.Read(t.Context(), iotest.OneByteReader(bytes.NewReader(b)), add)
				} else {
					for line := range bytes.SplitSeq(b, []byte("\n")) {
						if err == nil {
							err = add(r.Line(line))
						}
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				records, report := r.Close()
				checkRecords(t, records)
				if err := book.add(records); err != nil {
					t.Fatal(err)
				}
				if len(book.all()) == 0 {
					t.Fatalf("%s: nothing is said of %q", format, b)
				}
				reports[i], sums[i] = report, totalOf(book)
			}
			if reports[0].Events != reports[1].Events || reports[0].Skipped != reports[1].Skipped || sums[0] != sums[1] {
				t.Fatalf("%s: %q read at once gives %+v %+v, line by line %+v %+v", format, b, reports[0], sums[0], reports[1], sums[1])
			}
		}
	})
}

func totalOf(b *book) run.Tokens {
	t, _ := b.sum()
	return t
}
