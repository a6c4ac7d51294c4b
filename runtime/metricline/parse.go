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
	// MaxPoints bounds the points of one line.
	MaxPoints = 10_000
	// maxCells bounds the members of a "metrics" object that are looked at: what
	// is behind them is only checked to be JSON.
	maxCells = 2 * MaxPoints
	// maxSample bounds the bytes of Record.Rejected.
	maxSample = 200
	// maxIdle bounds the points whose memory an idle parser holds.
	maxIdle = 2048
)

// MediaKinds lists the kinds of {"log":{"type":...}} lines.
func MediaKinds() []string {
	return []string{"image", "image_grid", "table", "histogram", "confusion_matrix", "roc", "pr", "text", "plotly"}
}

// Parse reads one line with a parser of its own.
func Parse(line []byte) []Record { return new(Parser).Parse(line) }

// Parser reads the lines of one stream. Its memory is used again for the next
// lines after Reset; it holds no line. The zero Parser is ready; it is for one
// goroutine.
type Parser struct {
	records []Record    // of the lines since the last Reset
	points  []run.Point // theirs
	names   names
	tags    names

	// Of the line at hand.
	from     int    // where its records begin
	open     int    // where the points of its last record begin; -1: that has none
	count    int    // its points
	rejected string // the first reason
	cells    []cell // the members of the last "metrics" object, maxCells at most
	more     bool   // it has others
}

// Reset takes back the records that Parse gave, and their Points.
func (p *Parser) Reset() {
	clear(p.records) // for what they point to
	p.records = p.records[:0]
	if cap(p.points) > maxIdle {
		p.points = nil
	}
	p.points = p.points[:0]
	if cap(p.cells) > maxIdle {
		p.cells = nil
	}
}

// Parse reads one line, without its line end. The whole line, apart from
// surrounding blanks, colour codes and one byte-order mark, must be one JSON
// object or several; nil means plain text. Several objects give their records
// in order, neighbouring points joined in one record. A record that has both
// contents and Rejected was taken in part. The result shares nothing with line.
func (p *Parser) Parse(line []byte) []Record {
	if len(line) == 0 || (line[0] != '{' && bytes.IndexByte(line, '{') < 0) {
		return nil
	}
	body := undress(line)
	if body[0] != '{' || body[len(body)-1] != '}' {
		return refuse(line, body, "not JSON from end to end")
	}
	points := len(p.points)
	p.from, p.open, p.count, p.rejected = len(p.records), -1, 0, ""
	if reason := p.objects(body); reason != "" {
		clear(p.records[p.from:])
		p.records, p.points = p.records[:p.from], p.points[:points]
		return refuse(line, body, reason)
	}
	p.close()
	if p.rejected != "" {
		if len(p.records) == p.from {
			p.records = append(p.records, Record{})
		}
		p.records[len(p.records)-1].Rejected = sample(p.rejected, body)
	}
	if len(p.records) == p.from {
		return nil
	}
	return p.records[p.from:len(p.records):len(p.records)]
}

// objects reads the objects of a line; its result is why it cannot.
func (p *Parser) objects(body []byte) string {
	s := scanner{b: body}
	var o fields
	for s.i < len(body) {
		if body[s.i] != '{' {
			return "text between or behind the JSON"
		}
		o = fields{}
		s.odd = false
		if err := p.scan(&s, &o); err != nil {
			return err.Error()
		}
		o.odd = s.odd
		p.object(&o)
		s.space()
	}
	return ""
}

// fields are the members of an object that mean something; a repeated member
// counts with its last value.
type fields struct {
	step, metrics, metric, value, tag, chart, log, kind, key, data value
	odd                                                            bool
}

// set takes a member.
func (f *fields) set(key []byte, v value) {
	switch string(key) { // compared in place, without a copy
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

// cell is a member of a "metrics" object.
type cell struct {
	key   []byte // with its quotes
	plain bool   // the key is what stands between them
	v     value
}

// scan reads an object of the line into o, and the members of its last
// "metrics" object into cells, in one pass.
func (p *Parser) scan(s *scanner, o *fields) error {
	s.i++ // {
	for first := true; ; first = false {
		key, more, err := s.member(first)
		if err != nil || !more {
			return err
		}
		name := key[1 : len(key)-1]
		if !s.plain && bytes.IndexByte(key, '\\') >= 0 {
			name = []byte(text(key))
		}
		s.space()
		if s.peek() == '{' && string(name) == "metrics" {
			from := s.i
			if err := p.scanCells(s); err != nil {
				return err
			}
			o.metrics = value{raw: s.b[from:s.i], kind: object}
			continue
		}
		v, err := s.value(2)
		if err != nil {
			return err
		}
		o.set(name, v)
	}
}

func (p *Parser) scanCells(s *scanner) error {
	p.cells, p.more = p.cells[:0], false
	s.i++ // {
	for first := true; ; first = false {
		key, more, err := s.member(first)
		if err != nil || !more {
			return err
		}
		plain := s.plain
		v, err := s.value(3)
		if err != nil {
			return err
		}
		if len(p.cells) == maxCells {
			p.more = true
			continue
		}
		p.cells = append(p.cells, cell{key, plain, v})
	}
}

func (p *Parser) reject(format string, args ...any) {
	if p.rejected == "" {
		p.rejected = fmt.Sprintf(format, args...)
	}
}

// object takes one object. A chart_config object wins over a log object, and
// that over metrics.
func (p *Parser) object(o *fields) {
	switch {
	case o.chart.kind == object:
		p.close()
		p.records = append(p.records, Record{Chart: copyJSON(o.chart, o.odd)})
	case o.log.kind == object:
		p.media(o.log, o.odd)
	case o.metrics.kind == object:
		p.batch(o)
	case o.metric.kind != absent:
		p.single(o)
	case o.chart.kind != absent, o.metrics.kind != absent:
		p.reject("metrics and chart_config must be objects")
	}
}

// close ends the record that takes points.
func (p *Parser) close() {
	if p.open >= 0 {
		p.records[len(p.records)-1].Points = p.points[p.open:len(p.points):len(p.points)]
		p.open = -1
	}
}

func (p *Parser) media(log value, odd bool) {
	var o fields
	s := scanner{b: log.raw}
	if err := s.fields(&o); err != nil {
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
	key, keyOK := scalar(o.key)
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
		p.close()
		p.records = append(p.records, Record{Media: &run.MediaLogged{
			Kind: kind, Key: key, Step: at, RunTag: p.tag(o.tag), Data: copyJSON(o.data, odd),
		}})
	}
}

// scalar gives a string, a number as it was written, or a boolean as text.
func scalar(v value) (string, bool) {
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
func (p *Parser) tag(v value) string {
	switch v.kind {
	case str:
		return p.tags.of(0, v.raw, false)
	case array, object:
		p.reject("run must be a string; the tag was dropped")
	case number, boolean, absent, null:
	}
	tag, _ := scalar(v)
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
