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

// FuzzReader gives every format any bytes, as a file and line by line.
func FuzzReader(f *testing.F) {
	formats := allFormats(f)
	seeds, err := filepath.Glob(casesDir + "/*/*")
	if err != nil {
		f.Fatal(err)
	}
	for i := range formats {
		for _, path := range seeds {
			if b, err := os.ReadFile(path); err == nil && len(b) < 2<<10 && !strings.HasSuffix(path, "expected.json") {
				f.Add(uint8(i), b)
			}
		}
		f.Add(uint8(i), []byte(`{"usage":{"iterations":[{"type":"compaction","input_tokens":-1},{"type":"advisor_message","model":"`+"\xff"+`"}]}}`))
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		format := formats[int(which)%len(formats)]
		inOne, one := readAll(t, format, func(r *meter.Reader, add func([]run.UsageRecord) error) error {
			return r.Read(t.Context(), iotest.HalfReader(bytes.NewReader(b)), add)
		})
		byLine, two := readAll(t, format, func(r *meter.Reader, add func([]run.UsageRecord) error) error {
			for line := range bytes.SplitSeq(b, []byte("\n")) {
				if err := add(r.Line(line)); err != nil {
					return err
				}
			}
			return nil
		})
		if len(one.all()) == 0 {
			t.Fatalf("%s: nothing is said of %q", format, b)
		}
		if inOne.Events != byLine.Events || inOne.Skipped != byLine.Skipped || totalOf(one) != totalOf(two) {
			t.Fatalf("%s: %q read at once gives %+v %+v, line by line %+v %+v", format, b, inOne, totalOf(one), byLine, totalOf(two))
		}
	})
}

// readAll reads with a reader of its own and checks what it gives.
func readAll(t *testing.T, format meter.Format, read func(*meter.Reader, func([]run.UsageRecord) error) error) (meter.Report, *book) {
	t.Helper()
	r, err := meter.NewReader(meter.Source{Format: format, Prompt: "p"})
	if err != nil {
		t.Fatal(err)
	}
	b := newBook()
	add := func(records []run.UsageRecord) error {
		checkRecords(t, records)
		return b.add(records)
	}
	if err := read(r, add); err != nil {
		t.Fatal(err)
	}
	records, report := r.Close()
	if err := add(records); err != nil {
		t.Fatal(err)
	}
	return report, b
}

func totalOf(b *book) run.Tokens {
	t, _ := b.sum()
	return t
}
