package metricline_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/metricline"
	"github.com/weirhq/weir/runtime/run"
)

// check holds for every line.
func check(t *testing.T, line []byte) []metricline.Record {
	t.Helper()
	records := metricline.Parse(line)
	for _, r := range records {
		if len(r.Rejected) > 200 || !utf8.ValidString(r.Rejected) {
			t.Fatalf("%q: rejected %q", line, r.Rejected)
		}
		if r.Plain() && r.Rejected == "" {
			t.Fatalf("%q: an empty record", line)
		}
		for _, p := range r.Points {
			if !utf8.ValidString(p.Name) || !utf8.ValidString(p.RunTag) || strings.ContainsRune(p.Name+p.RunTag, 0) || utf8.RuneCountInString(p.Name) > metricline.MaxName {
				t.Fatalf("%q: point %+v", line, p)
			}
			if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) || (p.Special != run.Finite && p.Value != 0) {
				t.Fatalf("%q: point %+v", line, p)
			}
		}
		for _, raw := range []json.RawMessage{r.Chart, data(r)} {
			if raw != nil && (!json.Valid(raw) || !utf8.Valid(raw) || bytes.Contains(raw, []byte(`\u0000`)) && !bytes.Contains(raw, []byte(`\\u0000`))) {
				t.Fatalf("%q: stored JSON %q", line, raw)
			}
		}
	}
	return records
}

func data(r metricline.Record) json.RawMessage {
	if r.Media == nil {
		return nil
	}
	return r.Media.Data
}

// slow reads a line with one "metrics" object on encoding/json. It gives the
// values by step and name; false where it cannot tell.
func slow(line []byte) (map[string]float64, bool) {
	if !json.Valid(line) || bytes.Count(line, []byte("["))+bytes.Count(line, []byte("{")) > 900 {
		return nil, false
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(line, &top) != nil || starts(top["chart_config"], '{') || starts(top["log"], '{') || !starts(top["metrics"], '{') {
		return nil, false
	}
	step, err := strconv.ParseInt(string(top["step"]), 10, 64)
	if err != nil {
		return nil, false
	}
	var metrics map[string]json.RawMessage
	if json.Unmarshal(top["metrics"], &metrics) != nil {
		return nil, false
	}
	out := map[string]float64{}
	for name, raw := range metrics {
		if len(name) > metricline.MaxName || strings.ContainsAny(name, "\x00\ufffd") {
			return nil, false // may meet another name
		}
		key := fmt.Sprint(step, name)
		switch c := raw[0]; {
		case c == 't':
			out[key] = 1
		case c == 'f':
			out[key] = 0
		case c == '-' || (c >= '0' && c <= '9'):
			out[key], _ = strconv.ParseFloat(string(raw), 64) // a range error carries the value
		}
	}
	return out, true
}

func starts(raw json.RawMessage, c byte) bool { return len(raw) > 0 && raw[0] == c }

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"step":1,"metrics":{"loss":0.5,"acc":NaN},"run":"a"}`, `{"step":1,"metric":"loss","value":"1e5"}`,
		`{"chart_config":{"a":[NaN,"\u0000\ud800"]}}`, `{"log":{"type":"image","step":1,"key":"k","data":{"x":-Infinity}}}`,
		"\x1b[32m{\"step\":1,\"metrics\":{\"a\":1}}\x1b[0m", `{"step":1,"metrics":{"a":1}} {"step":2,"metrics":{"a":1}}`, `{`, "{}m", "\x1b[m",
	} {
		f.Add([]byte(s))
	}
	for _, line := range seedLines(f) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		records := check(t, line)
		// A parser that has read other lines reads this one the same way.
		var p metricline.Parser
		p.Parse([]byte(`{"step":1,"metrics":{"a":1,"loss":2},"run":"b"}{"chart_config":{}}{"step":2,"metric":"a","value":1}`))
		for range 2 {
			if fresh, used := show(records), show(p.Parse(line)); fresh != used {
				t.Fatalf("%q: %s, but %s behind other lines", line, fresh, used)
			}
			p.Reset()
		}
		if want, ok := slow(line); ok {
			got := map[string]float64{}
			for _, r := range records {
				for _, pt := range r.Points {
					got[fmt.Sprint(pt.Step, pt.Name)] = pt.Float()
				}
			}
			if !maps.Equal(got, want) {
				t.Fatalf("%q: %v, want %v", line, got, want)
			}
		}
	})
}

// Where encoding/json reads a chart, this reads the same; where it refuses
// (apart from the bare words and the depth), this refuses.
func FuzzAgreesWithEncodingJSON(f *testing.F) {
	for _, s := range []string{`1`, `{"a":[1,2,{"b":"\u00e9\n"}]}`, `-0.5e+7`, `"a\/b"`, `[true,false,null]`, `01`, `"\x"`, `[1,]`, `{"a":1,"a":2}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		line := []byte(`{"chart_config":{"v":` + value + `}}`)
		if bytes.Contains(line, []byte("N")) || bytes.Contains(line, []byte("I")) || bytes.ContainsAny(line, "\n\r") {
			return
		}
		records := check(t, line)
		accepted := len(records) > 0 && records[len(records)-1].Chart != nil
		if !json.Valid(line) {
			if accepted && len(records) == 1 && !severalObjects(line) {
				t.Fatalf("%q is not JSON, but gave %s", line, show(records))
			}
			return
		}
		var want struct {
			Chart json.RawMessage `json:"chart_config"`
		}
		if err := json.Unmarshal(line, &want); err != nil || want.Chart == nil || want.Chart[0] != '{' {
			return
		}
		var a, b any
		if !accepted {
			if strings.Count(value, "[")+strings.Count(value, "{") > 900 {
				return
			}
			t.Fatalf("%q is JSON, but gave %s", line, show(records))
		}
		if json.Unmarshal(want.Chart, &a) != nil {
			return // a number over float64
		}
		if err := json.Unmarshal(records[len(records)-1].Chart, &b); err != nil {
			t.Fatal(err)
		}
		x, _ := json.Marshal(withoutNUL(a))
		y, _ := json.Marshal(b)
		if !bytes.Equal(x, y) {
			t.Fatalf("%q: %s, want %s", line, y, x)
		}
	})
}

// severalObjects tells whether the line is a sequence of JSON values.
func severalObjects(line []byte) bool {
	d := json.NewDecoder(bytes.NewReader(line))
	n := 0
	for d.More() {
		var v json.RawMessage
		if d.Decode(&v) != nil {
			return false
		}
		n++
	}
	return n > 1
}

// withoutNUL replaces U+0000 in all strings of a decoded value.
func withoutNUL(v any) any {
	clean := func(s string) string { return strings.ReplaceAll(s, "\x00", "\ufffd") }
	switch v := v.(type) {
	case string:
		return clean(v)
	case []any:
		for i := range v {
			v[i] = withoutNUL(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out[clean(k)] = withoutNUL(v[k])
		}
		return out
	}
	return v
}
