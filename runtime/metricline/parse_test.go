package metricline_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/metricline"
)

// show writes what a line came to in one line of text.
func show(records []metricline.Record) string {
	var out []string
	for _, r := range records {
		for _, p := range r.Points {
			s := fmt.Sprintf("%d %q=%v", p.Step, p.Name, p.Float())
			if p.RunTag != "" {
				s += " run=" + p.RunTag
			}
			out = append(out, s)
		}
		if r.Chart != nil {
			out = append(out, "chart "+string(r.Chart))
		}
		if m := r.Media; m != nil {
			out = append(out, fmt.Sprintf("%s %d %q run=%q %s", m.Kind, m.Step, m.Key, m.RunTag, m.Data))
		}
		if r.Rejected != "" {
			out = append(out, "rejected")
		}
	}
	return strings.Join(out, "; ")
}

var parseCases = map[string]struct{ in, want string }{
	"Batch":            {`{"step":1,"metrics":{"loss":0.5,"acc":0.8},"run":"a"}`, `1 "loss"=0.5 run=a; 1 "acc"=0.8 run=a`},
	"Single":           {`{"step":1,"metric":"loss","value":0.5}`, `1 "loss"=0.5`},
	"Chart":            {`{"chart_config":{"charts":[{"title":"Loss","metrics":["loss"],"type":"line"}]}}`, `chart {"charts":[{"title":"Loss","metrics":["loss"],"type":"line"}]}`},
	"Media":            {`{"log":{"type":"image","step":1,"key":"val/pred","data":{"a":1}}}`, `image 1 "val/pred" run="" {"a":1}`},
	"Blanks":           {" \t {\"step\":1,\"metrics\":{\"a\":1}} \r", `1 "a"=1`},
	"InnerBlanks":      {"{ \"step\" : 1 ,\t\"metrics\" : { \"a\" : 1 } }", `1 "a"=1`},
	"BOM":              {"\xef\xbb\xbf{\"step\":1,\"metrics\":{\"a\":1}}", `1 "a"=1`},
	"TwoBOMs":          {"\xef\xbb\xbf\xef\xbb\xbf{\"step\":1,\"metrics\":{\"a\":1}}", `rejected`},
	"Colour":           {"\x1b[32m{\"step\":1,\"metrics\":{\"a\":1}}\x1b[0m", `1 "a"=1`},
	"Colours":          {"\x1b[1m \x1b[38;5;10m{\"step\":1,\"metrics\":{\"a\":1}}\x1b[m\x1b[0m ", `1 "a"=1`},
	"CursorIsNoColour": {"\x1b[2J{\"step\":1,\"metrics\":{\"a\":1}}", "rejected"},
	"NaN":              {`{"step":1,"metrics":{"a":NaN,"b":Infinity,"c":-Infinity,"ok":0.5}}`, `1 "a"=NaN; 1 "b"=+Inf; 1 "c"=-Inf; 1 "ok"=0.5`},
	"SingleNaN":        {`{"step":2,"metric":"a","value":NaN}`, `2 "a"=NaN`},
	"Overflow":         {`{"step":3,"metrics":{"a":1e999,"b":-1e999,"c":1e-400}}`, `3 "a"=+Inf; 3 "b"=-Inf; 3 "c"=0`},
	"Bool":             {`{"step":1,"metrics":{"done":true,"bad":false}}`, `1 "done"=1; 1 "bad"=0`},
	"SingleBool":       {`{"step":1,"metric":"m","value":true}`, `1 "m"=1`},
	"String":           {`{"step":1,"metric":"m","value":" 0.25 "}`, `1 "m"=0.25`},
	"StringNaN":        {`{"step":1,"metric":"m","value":"nan"}`, `1 "m"=NaN`},
	"StringSignedNaN":  {`{"step":1,"metric":"m","value":"-NaN"}`, `1 "m"=NaN`},
	"LastIsNoNumber":   {`{"step":1,"metrics":{"a":1,"b":2,"a":"x"}}`, `1 "b"=2; rejected`},
	"LastIsANumber":    {`{"step":1,"metrics":{"a":"x","b":2,"a":1}}`, `1 "b"=2; 1 "a"=1; rejected`},
	"OnlyIsTakenOut":   {`{"step":1,"metrics":{"a":1,"a":null}}`, `rejected`},
	"StringInf":        {`{"step":1,"metric":"m","value":"-Infinity"}`, `1 "m"=-Inf`},
	"StringHuge":       {`{"step":1,"metric":"m","value":"1e999"}`, `1 "m"=+Inf`},
	"StringHex":        {`{"step":1,"metric":"m","value":"0x10"}`, "rejected"},
	"StringUnderscore": {`{"step":1,"metric":"m","value":"1_000"}`, "rejected"},
	"StringP":          {`{"step":1,"metric":"m","value":"0x1p4"}`, "rejected"},
	"StringWord":       {`{"step":1,"metric":"m","value":"abc"}`, "rejected"},
	"StringEmpty":      {`{"step":1,"metric":"m","value":""}`, "rejected"},
	"StringSigns":      {`{"step":1,"metric":"m","value":"--1"}`, "rejected"},
	"BatchSkips":       {`{"step":2,"metrics":{"a":"0.5","b":null,"c":[1],"d":1}}`, `2 "d"=1; rejected`},
	"BatchOfNothing":   {`{"step":2,"metrics":{"a":"x"}}`, "rejected"},
	"EmptyBatch":       {`{"step":2,"metrics":{}}`, ""},
	"HugeInts":         {`{"step":1,"metrics":{"a":9007199254740993,"b":-9223372036854775809}}`, `1 "a"=9.007199254740992e+15; 1 "b"=-9.223372036854776e+18`},
	"Digits5000":       {`{"step":1,"metrics":{"a":1` + strings.Repeat("0", 5000) + `,"ok":1}}`, `1 "a"=+Inf; 1 "ok"=1`},
	"Duplicates":       {`{"step":1,"step":2,"metrics":{"loss":0.1,"x":1,"loss":0.2}}`, `2 "loss"=0.2; 2 "x"=1`},
	"DuplicateMetrics": {`{"step":1,"metrics":{"a":1},"metrics":{"b":2}}`, `1 "b"=2`},
	"EscapedKeys":      {`{"st\u0065p":1,"metrics":{"\u0061\t\ud83d\ude00":1}}`, `1 "a\t😀"=1`},
	"NUL":              {`{"step":1,"metrics":{"x\u0000y":1}}`, "1 \"x�y\"=1"},
	"LoneSurrogate":    {`{"step":1,"metrics":{"\ud800":1,"\udc00a":2,"\ud800\u0041":3}}`, "1 \"�\"=1; 1 \"�a\"=2; 1 \"�A\"=3"},
	"BadUTF8":          {"{\"step\":1,\"metrics\":{\"bad\xff\":1}}", "1 \"bad�\"=1"},
	"RawControl":       {"{\"step\":1,\"metrics\":{\"a\x01\":1}}", "rejected"},
	"NoNormalising":    {"{\"step\":1,\"metrics\":{\"\u00e9\":1,\"e\u0301\":2}}", "1 \"\u00e9\"=1; 1 \"e\u0301\"=2"},
	"EmptyName":        {`{"step":1,"metrics":{"":1," ":2}}`, `1 ""=1; 1 " "=2`},
	"Proto":            {`{"step":1,"metrics":{"__proto__":1}}`, `1 "__proto__"=1`},
	"Deep":             {`{"step":1,"metrics":` + strings.Repeat("[", 200000) + strings.Repeat("]", 200000) + `}`, "rejected"},
	"DeepChart":        {`{"chart_config":` + strings.Repeat(`{"a":`, 900) + "1" + strings.Repeat("}", 900) + `}`, "chart " + strings.Repeat(`{"a":`, 900) + "1" + strings.Repeat("}", 900)},
	"StepNegative":     {`{"step":-3,"metrics":{"m":1}}`, `-3 "m"=1`},
	"StepFraction":     {`{"step":1.7,"metrics":{"m":1}}`, `1 "m"=1`},
	"StepNegFraction":  {`{"step":-1.7,"metrics":{"m":1}}`, `-1 "m"=1`},
	"StepExponent":     {`{"step":1e3,"metrics":{"m":1}}`, `1000 "m"=1`},
	"StepString":       {`{"step":" 8 ","metrics":{"m":1}}`, `8 "m"=1`},
	"StepStringFloat":  {`{"step":"7.0","metrics":{"m":1}}`, "rejected"},
	"StepTrue":         {`{"step":true,"metrics":{"m":1}}`, `1 "m"=1`},
	"StepNull":         {`{"step":null,"metrics":{"m":1}}`, "rejected"},
	"StepList":         {`{"step":[],"metrics":{"m":1}}`, "rejected"},
	"StepMissing":      {`{"metrics":{"m":1}}`, "rejected"},
	"StepHuge":         {`{"step":1e30,"metrics":{"m":1}}`, "rejected"},
	"StepNaN":          {`{"step":NaN,"metrics":{"m":1}}`, "rejected"},
	"StepInfinity":     {`{"step":Infinity,"metrics":{"m":1}}`, "rejected"},
	"StepMax":          {`{"step":9223372036854775807,"metrics":{"m":1}}`, `9223372036854775807 "m"=1`},
	"StepOverMax":      {`{"step":9223372036854775808,"metrics":{"m":1}}`, "rejected"},
	"StepMaxFloat":     {`{"step":9.3e18,"metrics":{"m":1}}`, "rejected"},
	"StepMinFloat":     {`{"step":-9223372036854775808.0,"metrics":{"m":1}}`, `-9223372036854775808 "m"=1`},
	"NegativeZero":     {`{"step":1,"metric":"m","value":-0.0}`, `1 "m"=-0`},
	"Plus":             {`{"step":1,"metric":"m","value":+1}`, "rejected"},
	"LeadingDot":       {`{"step":1,"metric":"m","value":.5}`, "rejected"},
	"TrailingDot":      {`{"step":1,"metric":"m","value":1.}`, "rejected"},
	"LeadingZero":      {`{"step":1,"metric":"m","value":01}`, "rejected"},
	"Hex":              {`{"step":1,"metric":"m","value":0x10}`, "rejected"},
	"Underscore":       {`{"step":1,"metric":"m","value":1_0}`, "rejected"},
	"MinusNaN":         {`{"step":1,"metric":"m","value":-NaN}`, "rejected"},
	"LogPrefix":        {`2026-01-01 INFO {"step":1,"metrics":{"loss":0.1}}`, "rejected"},
	"Trailing":         {`{"step":3,"metrics":{"loss":0.3}} # done`, "rejected"},
	"TwoObjects":       {`{"step":1,"metrics":{"loss":0.1}}{"step":1,"metrics":{"acc":0.9}}`, `1 "loss"=0.1; 1 "acc"=0.9`},
	"TwoWithBlank":     {`{"step":2,"metrics":{"loss":0.2}} {"step":2,"metrics":{"acc":0.8}}`, `2 "loss"=0.2; 2 "acc"=0.8`},
	"OneAndAHalf":      {`{"step":3,"metrics":{"loss":0.3}}{"step":3,"metr`, "rejected"},
	"OneAndAHalfBrace": {`{"step":3,"metrics":{"loss":0.3}}{"step":3,"metrics":{"a":1}`, "rejected"},
	"Comma":            {`{"step":1,"metrics":{"a":1}},{"step":1,"metrics":{"a":1}}`, "rejected"},
	"OtherKinds":       {`{"step":1,"metrics":{"a":1}}{"chart_config":{}}{"step":2,"metrics":{"a":2}}`, `1 "a"=1; chart {}; 2 "a"=2`},
	"OtherObject":      {`{"level":"info"}{"step":1,"metrics":{"a":1}}`, `1 "a"=1`},
	"List":             {`[1,2,3]`, ""},
	"Text":             {`"step"`, ""},
	"Number":           {`42`, ""},
	"Empty":            {``, ""},
	"EmptyObject":      {`{}`, ""},
	"PythonRepr":       {`{'step': 1, 'metrics': {'loss': 0.5}}`, "rejected"},
	"TrailingComma":    {`{"step":1,"metrics":{"loss":0.5},}`, "rejected"},
	"PrettyPrinted":    {`  "metrics": {"loss": 0.5}`, "rejected"},
	"OpenBrace":        {`{`, ""},
	"StepOnly":         {`{"step":1}`, ""},
	"MetricOnly":       {`{"step":1,"metric":"loss"}`, "rejected"},
	"ValueOnly":        {`{"step":1,"value":3}`, ""},
	"WrongCase":        {`{"Step":1,"Metrics":{"loss":0.5}}`, ""},
	"StructuredLog":    {`{"level":"info","msg":"epoch","step":3}`, ""},
	"ChartWins":        {`{"chart_config":{"charts":[]},"step":1,"metrics":{"loss":0.5}}`, `chart {"charts":[]}`},
	"BadChart":         {`{"chart_config":"x","step":2,"metrics":{"loss":0.4}}`, `2 "loss"=0.4`},
	"BadChartOnly":     {`{"chart_config":"x"}`, "rejected"},
	"ChartNaN":         {`{"chart_config":{"a":[NaN,-Infinity,Infinity],"N\"I":"-Infinity NaN"}}`, `chart {"a":["NaN","-Infinity","Infinity"],"N\"I":"-Infinity NaN"}`},
	"ChartBadText":     {"{\"chart_config\":{\"a\":\"\\u0000\xff\\ud800\\n\"}}", "chart {\"a\":\"���\\n\"}"},
	"MediaLoose":       {`{"log":{"type":"table","step":"2","key":5,"run":"r","data":{"rows":[[1]]}}}`, `table 2 "5" run="r" {"rows":[[1]]}`},
	"MediaKind":        {`{"log":{"type":"nope","step":1,"key":"k","data":{}}}`, "rejected"},
	"MediaNoStep":      {`{"log":{"type":"image","key":"k","data":{}}}`, "rejected"},
	"MediaNoKey":       {`{"log":{"type":"image","step":1,"data":{}}}`, "rejected"},
	"MediaList":        {`{"log":{"type":"image","step":1,"key":"k","data":[]}}`, "rejected"},
	"MediaRefusesAll":  {`{"log":{"type":"text","step":null,"key":"k","data":{}},"step":3,"metrics":{"loss":1}}`, "rejected"},
	"MediaFallsBack":   {`{"log":"x","step":4,"metrics":{"loss":0.5}}`, `4 "loss"=0.5`},
	"TagEmpty":         {`{"step":2,"run":"","metrics":{"m":2}}`, `2 "m"=2`},
	"TagNull":          {`{"step":3,"run":null,"metrics":{"m":3}}`, `3 "m"=3`},
	"TagNumber":        {`{"step":4,"run":7,"metrics":{"m":4}}`, `4 "m"=4 run=7`},
	"TagList":          {`{"step":5,"run":["x"],"metrics":{"m":5}}`, `5 "m"=5; rejected`},
	"MetricNumber":     {`{"step":5,"metric":7,"value":5}`, `5 "7"=5`},
	"BatchBeatsSingle": {`{"step":5,"metrics":{"a":1},"metric":"b","value":2}`, `5 "a"=1`},
	"SingleIfNoBatch":  {`{"step":5,"metrics":3,"metric":"b","value":2}`, `5 "b"=2`},
}

func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range parseCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := show(metricline.Parse([]byte(c.in))); got != c.want {
				t.Errorf("%.200s\n got %.300s\nwant %.300s", c.in, got, c.want)
			}
		})
	}
}

func TestMediaKinds(t *testing.T) {
	t.Parallel()
	for _, kind := range metricline.MediaKinds() {
		line := fmt.Sprintf(`{"log":{"type":%q,"step":1,"key":"k","data":{}}}`, kind)
		if got := metricline.Parse([]byte(line)); len(got) != 1 || got[0].Media == nil || got[0].Media.Kind != kind {
			t.Errorf("%s: %s", line, show(got))
		}
	}
	if n := len(metricline.MediaKinds()); n != 9 {
		t.Errorf("%d kinds", n)
	}
}

func TestLongNamesAreCut(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		strings.Repeat("ä", 5000): strings.Repeat("ä", 511) + "…",
		strings.Repeat("x", 513):  strings.Repeat("x", 511) + "…",
		strings.Repeat("ä", 512):  strings.Repeat("ä", 512),
	} {
		got := metricline.Parse([]byte(`{"step":1,"metrics":{"` + name + `":1}}`))
		if len(got) != 1 || got[0].Points[0].Name != want {
			t.Errorf("%d characters: %.60s", utf8.RuneCountInString(name), show(got))
		}
	}
}

func TestManyNamesLastValueCounts(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"step":1,"metrics":{`)
	for round := range 2 {
		for i := range 8000 {
			fmt.Fprintf(&b, `"layer.%d":%d,`, i, round*10000+i)
		}
	}
	b.WriteString(`"end":0}}`)
	got := metricline.Parse([]byte(b.String()))
	if len(got) != 1 || len(got[0].Points) != 8001 {
		t.Fatalf("%d records", len(got))
	}
	for i, p := range got[0].Points[:8000] {
		if p.Name != fmt.Sprintf("layer.%d", i) || p.Value != float64(10000+i) {
			t.Fatalf("point %d: %+v", i, p)
		}
	}
}

func TestRejectedSamplesAreShortAndClean(t *testing.T) {
	t.Parallel()
	got := metricline.Parse([]byte("INFO \x1b[2J\xff {\"metrics\": " + strings.Repeat("é", 300)))
	if len(got) != 1 || len(got[0].Rejected) > 200 || !utf8.ValidString(got[0].Rejected) || strings.ContainsRune(got[0].Rejected, 0x1b) {
		t.Fatalf("%+v", got)
	}
	if !strings.HasPrefix(got[0].Rejected, "not JSON from end to end: INFO ") || !strings.HasSuffix(got[0].Rejected, "…") {
		t.Errorf("%q", got[0].Rejected)
	}
}

func TestTheResultSharesNothingWithTheLine(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		`{"step":1,"metrics":{"loss":0.5},"run":"tag"}`, `{"chart_config":{"charts":[]}}`,
		`{"log":{"type":"image","step":1,"key":"val/pred","data":{"a":1}}}`, `INFO {"metrics":1}`,
	} {
		line := []byte(in)
		got := metricline.Parse(line)
		before := show(got)
		for i := range line {
			line[i] = 'X'
		}
		if show(got) != before {
			t.Errorf("%s became %s", before, show(got))
		}
	}
}

func TestCandidate(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]bool{"": true, " ": true, "{": true, "\xef\xbb\xbf{": true, "\x1b[3": true, "\x1b[31m{": true, "x{": false, "[": false} {
		if got := metricline.Candidate([]byte(head)); got != want {
			t.Errorf("%q: %v", head, got)
		}
	}
}
