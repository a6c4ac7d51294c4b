package meter

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
)

// MaxCount bounds a count of tokens or calls; a larger one is no count. A record
// adds up a few of them, and one of more than 1e13 would be refused as a whole.
const MaxCount = 1_000_000_000_000

// maxMoney bounds a cost, in nano-USD: records over a million USD are refused.
const maxMoney = 1_000_000 * 1_000_000_000

// count is a number of a payload as it was written. Its Unmarshal never fails,
// so that one bad number does not hide the others.
type count struct {
	n        int64
	set, bad bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *count) UnmarshalJSON(b []byte) error {
	*c = count{}
	if string(b) == "null" {
		return nil
	}
	c.set = true
	if n, err := strconv.ParseInt(string(b), 10, 64); err == nil {
		c.n = n
	} else if f, err := strconv.ParseFloat(string(b), 64); err == nil && f == math.Trunc(f) && f <= MaxCount {
		c.n = int64(f) // 12.0, as Python writes a whole float
	} else {
		c.bad = true
	}
	if c.n < 0 || c.n > MaxCount {
		c.n, c.bad = 0, true
	}
	return nil
}

// over takes a later value in place of an earlier one. One that is none spoils
// the figure and leaves what was known.
func (c *count) over(later count) {
	switch {
	case later.bad:
		c.set, c.bad = true, true
	case later.set:
		*c = later
	}
}

// good tells whether the number is there and is a count.
func (c count) good() bool { return c.set && !c.bad }

// money is an amount of USD in nano-USD.
type money struct {
	nano     int64
	set, bad bool
}

// UnmarshalJSON implements json.Unmarshaler. It rounds half away from zero to
// nano-USD: agents print binary fractions, 0.0033549999999999995 for 0.003355.
func (m *money) UnmarshalJSON(b []byte) error {
	*m = money{}
	if string(b) == "null" {
		return nil
	}
	m.set, m.bad = true, true
	// An exponent makes a short number long.
	if i := bytes.IndexAny(b, "eE"); len(b) > 64 || (i >= 0 && len(b)-i > 4) {
		return nil
	}
	r, ok := new(big.Rat).SetString(string(b))
	if !ok || r.Sign() < 0 || bytes.IndexByte(b, '"') >= 0 {
		return nil
	}
	r.Mul(r, big.NewRat(1e9, 1)).Add(r, big.NewRat(1, 2))
	if n := new(big.Int).Quo(r.Num(), r.Denom()); n.IsInt64() && n.Int64() <= maxMoney {
		m.nano, m.bad = n.Int64(), false
	}
	return nil
}

// figures gathers what could be learnt of one request.
type figures struct {
	known bool     // at least one number was there
	bad   []string // names of numbers that are none
	odd   string   // what contradicts itself
}

// take reads one number.
func (f *figures) take(name string, c count) int64 {
	switch {
	case c.bad:
		f.bad = append(f.bad, name)
		f.known = f.known || c.n > 0 // from before
	case c.set:
		f.known = true
	}
	return c.n
}

// part is a number that lies inside another one.
func (f *figures) part(name string, c count, whole int64) int64 {
	n := f.take(name, c)
	if n > whole {
		f.odd = name + " is more than what it is a part of"
		return whole
	}
	return n
}

// object tells whether a raw value is there and is an object.
func object(b json.RawMessage) bool { return len(b) > 0 && b[0] == '{' }

// decode reads a JSON object; a field of another type than expected is left out.
func decode(b []byte, v any) bool {
	if len(b) == 0 || b[0] != '{' {
		return false
	}
	err := json.Unmarshal(b, v)
	if _, wrongType := err.(*json.UnmarshalTypeError); wrongType { //nolint:errorlint // json gives it unwrapped
		return true
	}
	return err == nil
}
