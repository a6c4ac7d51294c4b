package run

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// pointJSON is the log's form of a Point: short keys, because a run may log
// millions; the value is absent when it is special; microseconds since 1970.
type pointJSON struct {
	Step    int64    `json:"s"`
	Name    string   `json:"n"`
	Value   *float64 `json:"v,omitempty"`
	Special Special  `json:"x,omitempty"`
	RunTag  string   `json:"r,omitempty"`
	Stage   string   `json:"g,omitempty"`
	At      int64    `json:"t"`
}

// MarshalJSON writes the log's form of a point.
func (p Point) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil) }

// AppendJSON appends the log's form of a point to b.
func (p Point) AppendJSON(b []byte) ([]byte, error) {
	b = append(b, `{"s":`...)
	b = strconv.AppendInt(b, p.Step, 10)
	b = append(b, `,"n":`...)
	b, err := appendString(b, p.Name)
	if err != nil {
		return nil, err
	}
	if p.Special == Finite {
		b = append(b, `,"v":`...)
		b = strconv.AppendFloat(b, p.Value, 'g', -1, 64)
	} else {
		b = append(b, `,"x":`...)
		b = strconv.AppendInt(b, int64(p.Special), 10)
	}
	if p.RunTag != "" {
		b = append(b, `,"r":`...)
		if b, err = appendString(b, p.RunTag); err != nil {
			return nil, err
		}
	}
	if p.Stage != "" {
		b = append(b, `,"g":`...)
		if b, err = appendString(b, p.Stage); err != nil {
			return nil, err
		}
	}
	b = append(b, `,"t":`...)
	b = strconv.AppendInt(b, p.At.UnixMicro(), 10)
	return append(b, '}'), nil
}

// appendString appends s as a JSON string, with a short way for plain ASCII.
func appendString(b []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			j, err := json.Marshal(s)
			if err != nil {
				return nil, fmt.Errorf("encoding a name: %w", err)
			}
			return append(b, j...), nil
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"'), nil
}

// UnmarshalJSON reads the log's form of a point.
func (p *Point) UnmarshalJSON(data []byte) error {
	var j pointJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return fmt.Errorf("decoding a metric point: %w", err)
	}
	*p = Point{Step: j.Step, Name: j.Name, Special: j.Special, RunTag: j.RunTag, Stage: j.Stage, At: time.UnixMicro(j.At).UTC()}
	if j.Value != nil {
		p.Value = *j.Value
	}
	return nil
}
