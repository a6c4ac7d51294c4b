package meter_test

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/meter"
	"github.com/weirhq/weir/runtime/run"
)

// readText reads a text with a reader of its own.
func readText(t *testing.T, source meter.Source, texts ...string) ([]run.UsageRecord, meter.Report) {
	t.Helper()
	r, err := meter.NewReader(source)
	if err != nil {
		t.Fatal(err)
	}
	b := newBook()
	for _, text := range texts {
		if err := r.Read(t.Context(), strings.NewReader(text), b.add); err != nil {
			t.Fatal(err)
		}
	}
	records, report := r.Close()
	if err := b.add(records); err != nil {
		t.Fatal(err)
	}
	return b.all(), report
}

func TestUnknownFormatNamesTheKnownOnes(t *testing.T) {
	t.Parallel()
	_, err := meter.NewReader(meter.Source{Format: "claude"})
	if err == nil || !strings.Contains(err.Error(), `"claude"`) || !strings.Contains(err.Error(), "claude-stream-json, claude-transcript") {
		t.Errorf("got %v", err)
	}
}

// A number that counts nothing is left out and said; the others of its request
// are booked.
func TestNumbersThatAreNoCounts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		input    int64
		rejected int
	}{
		"7": {7, 0}, "7.0": {7, 0}, "7e2": {700, 0}, "0": {0, 0}, "null": {0, 0}, "1000000000000": {1_000_000_000_000, 0},
		"-1": {0, 1}, "7.5": {0, 1}, `"7"`: {0, 1}, "1000000000001": {0, 1}, "1e300": {0, 1}, "-1e300": {0, 1},
		"99999999999999999999": {0, 1}, "true": {0, 1}, "{}": {0, 1}, "[7]": {0, 1},
	} {
		records, report := readText(t, meter.Source{Format: meter.AnthropicUsage},
			fmt.Sprintf(`{"model":"m","usage":{"input_tokens":%s,"output_tokens":5}}`, text))
		provenance := run.Measured
		if want.rejected > 0 {
			provenance = run.Partial
		}
		if len(records) != 1 || records[0].Tokens != (run.Tokens{Input: want.input, Output: 5}) ||
			records[0].Provenance != provenance || report.Rejected != want.rejected || (len(report.Incomplete) > 0) != (want.rejected > 0) {
			t.Errorf("%s: %+v, %+v", text, records, report)
		}
	}
}

// Nothing that says nothing is booked as zero and exact.
func TestNothingKnownIsUnknown(t *testing.T) {
	t.Parallel()
	for format, texts := range map[meter.Format][]string{
		meter.AnthropicUsage:   {"", "{}", `{"usage":null}`, `{"usage":"7"}`, `{"usage":{"input_tokens":-3}}`, "{", "[]", "text"},
		meter.ChatUsage:        {"", `{"error":{"message":"no"}}`},
		meter.ChatSSE:          {"", "data: [DONE]"},
		meter.ResponsesSSE:     {"", `data: {"type":"response.failed","response":{"id":"r","usage":null}}`},
		meter.GeminiUsage:      {"", "{}"},
		meter.ClaudeStream:     {"", `{"type":"system","subtype":"init","session_id":"s","model":"m"}`},
		meter.ClaudeTranscript: {"", `{"type":"user","message":{"role":"user","content":"hi"}}`},
		meter.CodexExec:        {"", `{"type":"turn.started"}`, `{"type":"turn.failed","error":{"message":"x"}}`},
		meter.CodexRollout:     {"", `{"type":"event_msg","payload":{"type":"token_count","info":null}}`},
		meter.GeminiCLI:        {"", `{"type":"init","session_id":"s","model":"m"}`},
		meter.OpenCode:         {"", `{"type":"step_finish","part":{"id":"p","tokens":{"input":0,"output":0}}}`},
		meter.UsageEvents:      {"", `{"request_key":"a","usage":{}}`},
		meter.UsageStatus:      {"", "{}", "<html>"},
	} {
		for _, text := range texts {
			records, report := readText(t, meter.Source{Format: format, Model: "m"}, text)
			if len(records) != 1 || records[0].Provenance != run.UnknownProvenance || records[0].Tokens != (run.Tokens{}) ||
				records[0].CostNanoUSD != nil || records[0].RequestKey == "" || len(report.Incomplete) == 0 {
				t.Errorf("%s %q: %+v, %+v", format, text, records, report)
			}
		}
	}
}

const row = `{"type":"assistant","sessionId":"s","timestamp":"2026-11-20T10:00:00Z","message":{"id":"%s","model":"m","stop_reason":%s,"usage":{"input_tokens":10,"output_tokens":%d}}}`

// Byte-order mark, CRLF, blank lines and a last line without an end are read;
// what is torn or foreign in a transcript makes it incomplete.
func TestLines(t *testing.T) {
	t.Parallel()
	a, b := fmt.Sprintf(row, "a", `"end_turn"`, 5), fmt.Sprintf(row, "b", `"end_turn"`, 7)
	records, report := readText(t, meter.Source{Format: meter.ClaudeTranscript}, "\xef\xbb\xbf"+a+"\r\n\r\n  \n"+b)
	if len(records) != 2 || report.Events != 2 || report.Skipped != 0 || len(report.Incomplete) != 0 {
		t.Errorf("%+v, %+v", records, report)
	}
	records, report = readText(t, meter.Source{Format: meter.ClaudeTranscript}, a+"\n"+b[:len(b)-9])
	if len(records) != 2 || records[0].Provenance != run.Measured || records[1].Provenance != run.Partial ||
		records[1].Tokens != (run.Tokens{}) || records[1].Stream != records[0].Stream || report.Skipped != 1 || len(report.Incomplete) != 1 {
		t.Errorf("torn: %+v, %+v", records, report)
	}
}

// A line over the limit loses its payload and nothing else, and is not held.
func TestLineOverTheLimit(t *testing.T) {
	t.Parallel()
	a, b := fmt.Sprintf(row, "a", `"end_turn"`, 5), fmt.Sprintf(row, "b", `"end_turn"`, 7)
	r, err := meter.NewReader(meter.Source{Format: meter.ClaudeTranscript})
	if err != nil {
		t.Fatal(err)
	}
	book := newBook()
	long := io.MultiReader(strings.NewReader(a+"\n"+`{"content":"`), io.LimitReader(endless(strings.Repeat("x", 1<<16)), meter.MaxLine), strings.NewReader("\"}\n"+b+"\n"))
	if err := r.Read(t.Context(), long, book.add); err != nil {
		t.Fatal(err)
	}
	records, report := r.Close()
	if err := book.add(records); err != nil {
		t.Fatal(err)
	}
	if sum, p := book.sum(); sum.Output != 12 || p != run.Partial || report.Oversized != 1 || report.Skipped != 0 {
		t.Errorf("%+v %s, %+v", sum, p, report)
	}
}

// endless is a text that goes on.
type endless string

func (e endless) Read(p []byte) (int, error) { return copy(p, e), nil }

// A live reader tells of each change once.
func TestLiveLines(t *testing.T) {
	t.Parallel()
	r, err := meter.NewReader(meter.Source{Format: meter.ClaudeTranscript})
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		line string
		want int64 // output of the one record; 0: none
	}{
		{fmt.Sprintf(row, "a", "null", 1), 1},
		{fmt.Sprintf(row, "a", "null", 1), 0},
		{fmt.Sprintf(row, "a", `"end_turn"`, 9), 9},
		{fmt.Sprintf(row, "a", "null", 3), 0},
		{"text", 0},
	} {
		got := r.Line([]byte(step.line))
		if step.want == 0 && len(got) != 0 || step.want > 0 && (len(got) != 1 || got[0].Tokens.Output != step.want) {
			t.Errorf("line %d: %+v", i+1, got)
		}
	}
	if got, report := r.Close(); len(got) != 1 || got[0].Provenance != run.Partial || report.Skipped != 1 {
		t.Errorf("%+v, %+v", got, report)
	}
}

// What an earlier run was booked for is left out.
func TestRequestsBeforeThisRun(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 10, 0, 1, 0, time.UTC)
	later := strings.ReplaceAll(fmt.Sprintf(row, "b", `"end_turn"`, 7), "10:00:00Z", "10:00:02Z")
	records, _ := readText(t, meter.Source{Format: meter.ClaudeTranscript, After: at}, fmt.Sprintf(row, "a", `"end_turn"`, 5)+"\n"+later)
	if len(records) != 1 || records[0].RequestKey != "b" {
		t.Errorf("got %+v", records)
	}
	total := `{"type":"event_msg","timestamp":"2026-11-20T10:00:0%dZ","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":%d,"output_tokens":1}}}}` + "\n"
	text := `{"type":"session_meta","payload":{"id":"t2","forked_from_id":"t1"}}` + "\n" + fmt.Sprintf(total, 0, 100) + fmt.Sprintf(total, 2, 130)
	records, _ = readText(t, meter.Source{Format: meter.CodexRollout, After: at}, text)
	if len(records) != 1 || records[0].Tokens != (run.Tokens{Input: 30}) || records[0].Stream != "" || records[0].Cumulative {
		t.Errorf("fork: %+v", records)
	}
}

// Names of a hostile source are short and every store can keep them.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 4000)
	records, _ := readText(t, meter.Source{Format: meter.ClaudeTranscript},
		fmt.Sprintf(`{"sessionId":"%[1]s","message":{"id":"%[1]sa","model":"%[1]s","stop_reason":"x","usage":{"input_tokens":1,"x":"%[1]s%[1]s%[1]s"}}}`, long)+"\n"+
			fmt.Sprintf(`{"message":{"id":"%sb","model":"a\u0000b`+"\xff"+`","stop_reason":"x","usage":{"input_tokens":1,"y":"`+"\xff"+`"}}}`, long))
	if len(records) != 2 {
		t.Fatalf("%d records: other ids became one", len(records))
	}
	for _, u := range records {
		for _, s := range []string{u.RequestKey, u.Model, u.Stream, string(u.Raw)} {
			if len(s) > 300 || strings.ToValidUTF8(s, "") != s || strings.ContainsRune(s, 0) {
				t.Errorf("%q", s)
			}
		}
	}
}

// A document may go over several lines; one that is torn costs only itself.
func TestDocuments(t *testing.T) {
	t.Parallel()
	one := `{"id":"%s","usage":{"prompt_tokens":%d}}` + "\n"
	pretty := "{\n \"id\": \"p\",\n \"x\": \"}\\\"{\",\n \"usage\": {\n  \"prompt_tokens\": 3\n }\n}\n"
	records, report := readText(t, meter.Source{Format: meter.ChatUsage}, pretty+"note\n"+`{"id":"torn","usage":{"prompt_tokens":50`+"\n"+fmt.Sprintf(one, "a", 5)+pretty[:20], fmt.Sprintf(one, "b", 7))
	if sumOf(records) != (run.Tokens{Input: 15}) || len(records) != 3 || report.Skipped != 3 || report.Events != 3 {
		t.Errorf("%+v, %+v", records, report)
	}
}

// Polls of one start that other readers make are one request, too.
func TestPollsOfOneStart(t *testing.T) {
	t.Parallel()
	b := newBook()
	for i, text := range []string{`{"tokens_input":5,"tokens_output":1}`, `{"tokens_input":9,"tokens_output":2}`} {
		r, err := meter.NewReader(meter.Source{Format: meter.UsageStatus, Stream: "start", Scope: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Read(t.Context(), strings.NewReader(text), b.add); err != nil {
			t.Fatal(err)
		}
	}
	if sum, _ := b.sum(); sum != (run.Tokens{Input: 9, Output: 2}) {
		t.Errorf("got %+v", sum)
	}
}

// Every format stands in the guide, and no other.
func TestEveryFormatIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/usage.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Where numbers come from")
	section, _, _ = strings.Cut(section, "\n## ")
	var cells strings.Builder
	for _, m := range regexp.MustCompile("(?m)^\\| (`.*?`) \\|").FindAllStringSubmatch(section, -1) {
		cells.WriteString(m[1])
	}
	formats := allFormats(t)
	for _, f := range formats {
		if !strings.Contains(cells.String(), "`"+string(f)+"`") {
			t.Errorf("docs/usage.md lacks the format %s", f)
		}
	}
	if n := strings.Count(cells.String(), "`") / 2; n != len(formats) {
		t.Errorf("docs/usage.md has %d formats, there are %d", n, len(formats))
	}
}
