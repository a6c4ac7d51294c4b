package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

const (
	metricLine = `{"step": 1, "metrics": {"loss": 0.5}}`
	chartLine  = `{"chart_config": {"charts": []}}`
	mediaLine  = `{"log": {"type": "text", "step": 1, "key": "k", "data": {"text": "x"}}}`
)

// What the server takes whole is left out; everything else stays, byte for byte,
// however it is cut into pieces.
func TestFold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, curves, noCurves string }{
		"plain":              {"a\nb\r\nc", "a\nb\r\nc", "a\nb\r\nc"},
		"metrics":            {"a\n" + metricLine + "\nb\n", "a\nb\n", "a\n" + metricLine + "\nb\n"},
		"a chart":            {chartLine + "\nb", "b", chartLine + "\nb"},
		"media":              {mediaLine + "\n" + metricLine + "\n", "", metricLine + "\n"},
		"ends of Windows":    {"a\r\n" + mediaLine + "\r\nb\r\n", "a\r\nb\r\n", "a\r\nb\r\n"},
		"a bar and a metric": {"\r10%|#\r" + mediaLine + "\r\r20%|##", "\r10%|#\r\r20%|##", "\r10%|#\r\r20%|##"},
		"in colour":          {"\x1b[32m" + mediaLine + "\x1b[0m\nb", "b", "b"},
		"indented":           {"  " + mediaLine + "\n  b", "  b", "  b"},
		"other JSON":         {"{\"a\": 1}\n{\n  \"a\": 1\n}\n", "{\"a\": 1}\n{\n  \"a\": 1\n}\n", "{\"a\": 1}\n{\n  \"a\": 1\n}\n"},
		"behind a prefix":    {"INFO: " + mediaLine + "\n", "INFO: " + mediaLine + "\n", "INFO: " + mediaLine + "\n"},
		"taken in part":      {`{"step": 1, "metrics": {"a": 1, "b": "x"}}` + "\n", `{"step": 1, "metrics": {"a": 1, "b": "x"}}` + "\n", `{"step": 1, "metrics": {"a": 1, "b": "x"}}` + "\n"},
		"no JSON":            {`{"metrics": {"a": 1` + "\nb", `{"metrics": {"a": 1` + "\nb", `{"metrics": {"a": 1` + "\nb"},
		"without an end":     {`a` + "\n" + `{"metrics": {"a"`, "a\n" + `{"metrics": {"a"`, "a\n" + `{"metrics": {"a"`},
		"the last line":      {"a\n" + metricLine, "a\n", "a\n" + metricLine},
	} {
		for size := 1; size <= len(c.text); size++ {
			curves, noCurves := pieces(&fold{curves: true}, c.text, size), pieces(&fold{}, c.text, size)
			if curves != c.curves || noCurves != c.noCurves {
				t.Errorf("%s, in pieces of %d: got %q, want %q; without curves %q, want %q", name, size, curves, c.curves, noCurves, c.noCurves)
				break
			}
		}
	}
}

func pieces(f *fold, text string, size int) string {
	var out strings.Builder
	for text != "" {
		n := min(size, len(text))
		out.WriteString(f.take(text[:n]))
		text = text[n:]
	}
	return out.String() + f.rest()
}

// A line that has begun without a brace does not wait for its end; one that may
// never end is let go.
func TestFoldHoldsLittle(t *testing.T) {
	t.Parallel()
	f := &fold{curves: true}
	if got := f.take("Continue? "); got != "Continue? " {
		t.Errorf("got %q of a question", got)
	}
	if got := f.take("\n{"); got != "\n" {
		t.Errorf("got %q", got)
	}
	long := strings.Repeat("x", maxHeld)
	if got := f.take(long); got != "{"+long {
		t.Errorf("%d bytes of a long line", len(got))
	}
	if got := f.take("y\n" + metricLine + "\n"); got != "y\n" {
		t.Errorf("got %q behind it", got)
	}
	f.take(`{"metrics": `)
	if got := f.rest() + f.take("{}}\nb\n"); got != `{"metrics": {}}`+"\nb\n" {
		t.Errorf("got %q of a line that was let go", got)
	}
}

// Only a terminal folds, only with a stage, which says that lines are read, and
// not where the raw lines were asked for. Nothing is lost at the end.
func TestPlainViewFolds(t *testing.T) {
	t.Parallel()
	text := "a\n" + metricLine + "\n" + mediaLine + "\n{"
	for name, c := range map[string]struct {
		view  PlainView
		stage string
		pipe  bool
		want  string
	}{
		"media":    {PlainView{Fold: true}, "train", false, "a\n" + metricLine + "\n{\n"},
		"all":      {PlainView{Fold: true, Curves: true}, "train", false, "a\n{\n"},
		"raw":      {PlainView{Curves: true}, "train", false, text + "\n"},
		"no stage": {PlainView{Fold: true, Curves: true}, "", false, text + "\n"},
		"a pipe":   {PlainView{Fold: true, Curves: true}, "train", true, text},
	} {
		out, got := terminal(80)
		err, _ := terminal(80)
		out.Terminal = !c.pipe
		v := c.view
		v.Out, v.Err = out, err
		for _, piece := range strings.SplitAfter(text, "\"") {
			e := output(string(run.Stdout), piece)
			e.Stage = c.stage
			v.Output(e)
		}
		v.Other(&Event{Type: run.TypeExecutionFinished, ExecutionID: "e", ExitClass: run.ClassOK})
		v.Settle()
		if got.String() != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// What was asked for as it is comes as it is.
func TestRawViewsDoNotFold(t *testing.T) {
	t.Parallel()
	screen, _ := terminal(80)
	for _, c := range []struct{ raw, quiet, want bool }{{false, false, true}, {true, false, false}, {false, true, false}} {
		i := &IO{Out: screen, Err: screen, Raw: c.raw}
		if v, ok := i.view(false, c.quiet).view.(*PlainView); !ok || v.Fold != c.want {
			t.Errorf("%+v: %+v", c, v)
		}
	}
}

func TestMediaAreOneLine(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"mime": "image/png", "base64": "` + strings.Repeat("AAAA", 1024) + `"}`: "logged image val/pred at step 3 (3.0 KiB)",
		`{"images": [{"base64": "AAAA"}, {"base64": "AAAA"}]}`:                    "logged image val/pred at step 3 (2 images, 6 B)",
		`{"columns": ["a"], "rows": [[1], [2]], "total": 7}`:                      "logged image val/pred at step 3 (7 rows)",
		`{"columns": ["a"], "rows": [[1]]}`:                                       "logged image val/pred at step 3 (1 row)",
		`{"matrix": [[1]], "labels": ["a"]}`:                                      "logged image val/pred at step 3",
		`{"rows": 3}`:                                                             "logged image val/pred at step 3",
	} {
		out, _ := pipe()
		err, got := pipe()
		v := &PlainView{Out: out, Err: err}
		v.Other(&Event{Type: run.TypeMediaLogged, Kind: "IMAGE", Key: "val/pred", Step: 3, Data: json.RawMessage(data)})
		if got.String() != "weir: "+want+"\n" {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
