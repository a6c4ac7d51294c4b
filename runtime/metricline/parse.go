package metricline

import (
	"bytes"
	"fmt"

	"github.com/weirhq/weir/runtime/run"
)

const (
	// MaxName bounds the characters of a metric name, a media key or a run tag;
	// a longer one is cut and ends in an ellipsis.
	MaxName = 512
	// maxSample bounds the bytes of Record.Rejected.
	maxSample = 200
)

// MediaKinds lists the kinds of {"log":{"type":...}} lines.
func MediaKinds() []string {
	return []string{"image", "image_grid", "table", "histogram", "confusion_matrix", "roc", "pr", "text", "plotly"}
}

// Parse reads one line, without its line end. The whole line, apart from
// surrounding blanks, colour codes and one byte-order mark, must be one JSON
// object or several; nil means plain text. Several objects give their records
// in order, neighbouring points joined in one record. A record that has both
// contents and Rejected was taken in part. The result shares nothing with line.
func Parse(line []byte) []Record {
	if bytes.IndexByte(line, '{') < 0 {
		return nil
	}
	body := undress(line)
	if len(body) == 0 {
		return nil
	}
	if body[0] != '{' || body[len(body)-1] != '}' {
		return refuse(line, body, "not JSON from end to end")
	}
	var p parser
	s := scanner{b: body}
	for s.i < len(body) {
		if body[s.i] != '{' {
			return refuse(line, body, "text between or behind the JSON")
		}
		var o fields
		s.odd = false
		if err := s.members(1, o.visit(&s)); err != nil {
			return refuse(line, body, err.Error())
		}
		p.object(&o)
		s.space()
	}
	if len(p.records) == 0 && p.rejected == "" {
		return nil
	}
	if p.rejected != "" {
		if len(p.records) == 0 {
			p.records = append(p.records, Record{})
		}
		p.records[len(p.records)-1].Rejected = sample(p.rejected, body)
	}
	return p.records
}

// fields are the members of an object that mean something; a repeated member
// counts with its last value.
type fields struct {
	step, metrics, metric, value, tag, chart, log, kind, key, data value
	odd                                                            bool
}

func (f *fields) visit(s *scanner) func([]byte, value) {
	return func(key []byte, v value) {
		f.odd = f.odd || s.odd
		if bytes.IndexByte(key, '\\') >= 0 {
			key = []byte(`"` + text(key) + `"`)
		}
		switch string(key[1 : len(key)-1]) { // compared in place, without a copy
		case "step":
			f.step = v
		case "metrics":
			f.metrics = v
		case "metric":
			f.metric = v
		case "value":
			f.value = v
		case "run":
			f.tag = v
		case "chart_config":
			f.chart = v
		case "log":
			f.log = v
		case "type":
			f.kind = v
		case "key":
			f.key = v
		case "data":
			f.data = v
		}
	}
}

// parser collects the records of one line.
type parser struct {
	records  []Record
	rejected string // the first reason
}

func (p *parser) reject(format string, args ...any) {
	if p.rejected == "" {
		p.rejected = fmt.Sprintf(format, args...)
	}
}

// object takes one object. A chart_config object wins over a log object, and
// that over metrics.
func (p *parser) object(o *fields) {
	switch {
	case o.chart.kind == object:
		p.records = append(p.records, Record{Chart: copyJSON(o.chart, o.odd)})
	case o.log.kind == object:
		p.media(o.log, o.odd)
	case o.metrics.kind == object:
		p.points(o)
	case o.metric.kind != absent:
		p.point(o)
	case o.chart.kind != absent, o.metrics.kind != absent:
		p.reject("metrics and chart_config must be objects")
	}
}

func (p *parser) media(log value, odd bool) {
	var o fields
	s := scanner{b: log.raw}
	if err := s.members(2, o.visit(&s)); err != nil {
		p.reject("%s", err) // was scanned before
		return
	}
	kind := ""
	if o.kind.kind == str {
		for _, k := range MediaKinds() {
			if k == text(o.kind.raw) {
				kind = k
			}
		}
	}
	at, stepOK := step(o.step)
	key, keyOK := p.scalar(o.key)
	switch {
	case kind == "":
		p.reject("log.type must be one of %v", MediaKinds())
	case !stepOK:
		p.reject("log.step must be an integer within 64 bits")
	case !keyOK:
		p.reject("log.key must be a string")
	case o.data.kind != object:
		p.reject("log.data must be an object")
	default:
		p.records = append(p.records, Record{Media: &run.MediaLogged{
			Kind: kind, Key: key, Step: at, RunTag: p.tag(o.tag), Data: copyJSON(o.data, odd),
		}})
	}
}

// scalar gives a string, a number as it was written, or a boolean as text.
func (p *parser) scalar(v value) (string, bool) {
	switch v.kind {
	case str:
		return cut(text(v.raw)), true
	case number, boolean:
		return cut(string(v.raw)), true
	case absent, object, array, null:
	}
	return "", false
}

// tag reads a run tag; a list or an object is dropped with a notice.
func (p *parser) tag(v value) string {
	tag, ok := p.scalar(v)
	if !ok && v.kind != absent && v.kind != null {
		p.reject("run must be a string; the tag was dropped")
	}
	return tag
}

// cut bounds a name to MaxName characters.
func cut(s string) string {
	if len(s) <= MaxName {
		return s
	}
	n := 0
	keep := 0 // bytes of the first MaxName-1 characters
	for i := range s {
		if n == MaxName-1 {
			keep = i
		}
		if n == MaxName {
			return s[:keep] + "…"
		}
		n++
	}
	return s
}

// point takes the single form {"step":1,"metric":"loss","value":0.5}.
func (p *parser) point(o *fields) {
	at, ok := step(o.step)
	if !ok {
		p.reject("step must be an integer within 64 bits")
		return
	}
	name, ok := p.scalar(o.metric)
	if !ok {
		p.reject("metric must be a string")
		return
	}
	f := 0.0
	switch o.value.kind {
	case number:
		f = float(o.value.raw)
	case boolean:
		if o.value.raw[0] == 't' {
			f = 1
		}
	case str:
		if f, ok = decimal(text(o.value.raw)); !ok {
			p.reject("value is not a number")
			return
		}
	case absent, object, array, null:
		p.reject("value is not a number")
		return
	}
	p.add(p.target(), at, name, p.tag(o.tag), f)
}

// target is the record that takes points: the last one if it has points.
func (p *parser) target() *Record {
	if n := len(p.records); n > 0 && p.records[n-1].Points != nil {
		return &p.records[n-1]
	}
	p.records = append(p.records, Record{})
	return &p.records[len(p.records)-1]
}

func (p *parser) add(r *Record, at int64, name, tag string, f float64) {
	v, special := run.SplitFloat(f)
	r.Points = append(r.Points, run.Point{Step: at, Name: name, Value: v, Special: special, RunTag: tag})
}

// manyNames is where the search for repeated names takes a map.
const manyNames = 16

// points takes the form {"step":1,"metrics":{...}}. Values that are not numbers
// are left out; of a repeated name the last value counts, at the first's place.
func (p *parser) points(o *fields) {
	at, ok := step(o.step)
	if !ok {
		p.reject("step must be an integer within 64 bits")
		return
	}
	tag := p.tag(o.tag)
	var points []run.Point
	var index map[string]int
	s := scanner{b: o.metrics.raw}
	err := s.members(2, func(key []byte, v value) {
		f := 0.0
		name := cut(text(key))
		switch v.kind {
		case number:
			f = float(v.raw)
		case boolean:
			if v.raw[0] == 't' {
				f = 1
			}
		case absent, object, array, str, null:
			p.reject("the value of %.64q is not a number", name)
			return
		}
		x, special := run.SplitFloat(f)
		pt := run.Point{Step: at, Name: name, Value: x, Special: special, RunTag: tag}
		if len(points) == manyNames && index == nil {
			index = make(map[string]int, 4*manyNames)
			for i := range points {
				index[points[i].Name] = i
			}
		}
		if index != nil {
			if i, seen := index[name]; seen {
				points[i] = pt
				return
			}
			index[name] = len(points)
		} else {
			for i := range points {
				if points[i].Name == name {
					points[i] = pt
					return
				}
			}
		}
		points = append(points, pt)
	})
	if err != nil {
		p.reject("%s", err) // was scanned before
		return
	}
	if len(points) > 0 {
		r := p.target()
		r.Points = append(r.Points, points...)
	}
}
