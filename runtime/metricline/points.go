package metricline

import (
	"bytes"

	"github.com/weirhq/weir/runtime/run"
)

// single takes the form {"step":1,"metric":"loss","value":0.5}.
func (p *Parser) single(o *fields) {
	at, ok := step(o.step)
	if !ok {
		p.reject("step must be an integer within 64 bits")
		return
	}
	var name string
	if o.metric.kind == str {
		name = p.names.of(0, o.metric.raw, false)
	} else if name, ok = scalar(o.metric); !ok {
		p.reject("metric must be a string")
		return
	}
	f := 0.0
	switch o.value.kind {
	case number:
		f = float(o.value)
	case boolean:
		f = truth(o.value.raw)
	case str:
		if f, ok = decimal(text(o.value.raw)); !ok {
			p.reject("value is not a number")
			return
		}
	case absent, object, array, null:
		p.reject("value is not a number")
		return
	}
	tag := p.tag(o.tag)
	if p.room() {
		p.add(at, name, tag, f)
	}
}

func truth(raw []byte) float64 {
	if raw[0] == 't' {
		return 1
	}
	return 0
}

// room tells whether the line may have another point.
func (p *Parser) room() bool {
	if p.count >= MaxPoints {
		p.tooMany()
		return false
	}
	p.count++
	return true
}

func (p *Parser) tooMany() {
	p.reject("a line may hold %d points; the rest was left out", MaxPoints)
}

// add appends a point to the record that takes points; a new one if the last
// record has none.
func (p *Parser) add(at int64, name, tag string, f float64) {
	if p.open < 0 {
		p.open = len(p.points)
		p.records = append(p.records, Record{})
	}
	v, special := run.SplitFloat(f)
	if n := len(p.points); n < cap(p.points) { // in place: a point is large
		p.points = p.points[:n+1]
		p.points[n] = run.Point{Step: at, Name: name, Value: v, Special: special, RunTag: tag}
		return
	}
	p.points = append(p.points, run.Point{Step: at, Name: name, Value: v, Special: special, RunTag: tag})
}

// manyNames is where the search for repeated names takes a map.
const manyNames = 16

// batch takes the form {"step":1,"metrics":{...}}. Values that are not numbers
// are left out; of a repeated name the last value counts, at the first's place.
func (p *Parser) batch(o *fields) {
	at, ok := step(o.step)
	if !ok {
		p.reject("step must be an integer within 64 bits")
		return
	}
	if p.count >= MaxPoints && len(p.cells) > 0 {
		p.tooMany()
		return
	}
	tag := p.tag(o.tag)
	from := len(p.points)
	var gone map[int]bool    // places of points whose last value is none so far
	var index map[string]int // of names to points, once there are many
	for i := range p.cells {
		c := &p.cells[i]
		name := p.names.of(i, c.key, c.plain)
		f := 0.0
		isNumber := true
		switch c.v.kind {
		case number:
			f = float(c.v)
		case boolean:
			f = truth(c.v.raw)
		case absent, object, array, str, null:
			isNumber = false
			p.reject("the value of %.64q is not a number", name)
		}
		if index == nil && len(p.points)-from == manyNames {
			index = indexed(p.points, from)
		}
		switch seen := find(p.points, from, name, index); {
		case seen >= 0 && isNumber:
			if gone[seen] {
				if !p.room() {
					continue
				}
				delete(gone, seen)
			}
			p.points[seen].Value, p.points[seen].Special = run.SplitFloat(f)
		case seen >= 0 && !gone[seen]:
			if gone == nil {
				gone = make(map[int]bool)
			}
			gone[seen] = true
			p.count--
		case seen >= 0:
		case isNumber && p.room():
			if index != nil {
				index[name] = len(p.points)
			}
			p.add(at, name, tag, f)
		}
	}
	if p.more {
		p.tooMany()
	}
	if len(gone) > 0 {
		kept := p.points[:from]
		for i := from; i < len(p.points); i++ {
			if !gone[i] {
				kept = append(kept, p.points[i])
			}
		}
		p.points = kept
	}
	if p.open >= 0 && p.open == len(p.points) { // all were taken out again
		p.open = -1
		p.records = p.records[:len(p.records)-1]
	}
}

func indexed(points []run.Point, from int) map[string]int {
	index := make(map[string]int, 4*manyNames)
	for i := from; i < len(points); i++ {
		index[points[i].Name] = i
	}
	return index
}

// find gives the place of a name, -1 for none.
func find(points []run.Point, from int, name string, index map[string]int) int {
	if index != nil {
		if i, ok := index[name]; ok {
			return i
		}
		return -1
	}
	for i := from; i < len(points); i++ {
		if points[i].Name == name {
			return i
		}
	}
	return -1
}

const (
	// maxKnown bounds the names that names keeps, maxKnownLen their bytes.
	maxKnown    = 1024
	maxKnownLen = 128
)

// names makes strings of scanned strings. A program prints the same names line
// by line: each becomes one string, which most often stands where it stood in
// the line before.
type names struct {
	last  []string          // by place in the line
	known map[string]string // by what stands between the quotes, if that is plain
}

// of gives the cut text of a scanned string at the given place of its line.
// plain says that it needs no decoding; false says nothing.
func (n *names) of(place int, raw []byte, plain bool) string {
	inner := raw[1 : len(raw)-1]
	if !plain && !isPlain(inner) {
		return cut(text(raw))
	}
	if place < len(n.last) && n.last[place] == string(inner) {
		return n.last[place]
	}
	name, ok := n.known[string(inner)]
	if !ok {
		if len(inner) > maxKnownLen {
			return cut(string(inner))
		}
		if n.known == nil || len(n.known) >= maxKnown {
			n.known = make(map[string]string)
		}
		name = string(inner)
		n.known[name] = name
	}
	if place < len(n.last) {
		n.last[place] = name
	} else if place == len(n.last) && place < maxKnown {
		n.last = append(n.last, name)
	}
	return name
}

// isPlain tells whether a string's inside is its text: no escapes, all ASCII.
func isPlain(inner []byte) bool {
	if bytes.IndexByte(inner, '\\') >= 0 {
		return false
	}
	for _, c := range inner {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
