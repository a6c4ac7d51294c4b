package metricline

import (
	"math"
	"strconv"
	"strings"
)

// powers are the powers of ten that a float64 holds exactly.
var powers = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// float reads a scanned number. Too large becomes an infinity, too small 0.
func float(raw []byte) float64 {
	if f, ok := short(raw); ok {
		return f
	}
	switch string(raw) {
	case "NaN":
		return math.NaN()
	case "Infinity":
		return math.Inf(1)
	case "-Infinity":
		return math.Inf(-1)
	}
	f, _ := strconv.ParseFloat(string(raw), 64) // the scanner checked the grammar; a range error carries the value
	return f
}

// short reads a scanned number without an exponent whose digits and whose power
// of ten are exact as float64: then so is the rounding of their quotient.
func short(raw []byte) (float64, bool) {
	digits := raw
	if digits[0] == '-' {
		digits = digits[1:]
	}
	var whole uint64
	decimals, point := 0, false
	if len(digits) > 19 {
		return 0, false // whole might overflow
	}
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			whole = whole*10 + uint64(c-'0')
			if point {
				decimals++
			}
		case c == '.':
			point = true
		default:
			return 0, false
		}
	}
	if whole > 1<<53 {
		return 0, false
	}
	f := float64(whole)
	if decimals > 0 {
		f /= powers[decimals]
	}
	if raw[0] == '-' {
		f = -f
	}
	return f, true
}

// decimal reads a number given as a string, as Python's float() does, but
// without its underscores: decimal notation, nan, inf and infinity in any case.
func decimal(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	body := strings.TrimLeft(s, "+-")
	if len(s)-len(body) > 1 || body == "" {
		return 0, false
	}
	switch strings.ToLower(body) {
	case "nan":
		return math.NaN(), true // with a sign as well
	case "inf", "infinity":
	default:
		digits := false
		for i, c := range []byte(body) {
			switch {
			case c >= '0' && c <= '9':
				digits = true
			case c == '.' || ((c == 'e' || c == 'E') && digits):
			case (c == '+' || c == '-') && i > 0 && (body[i-1] == 'e' || body[i-1] == 'E'):
			default:
				return 0, false // hexadecimal and underscores, which ParseFloat would take
			}
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

// step reads a step: integers exactly, fractions cut toward zero, strings of
// decimal digits, true as 1. Everything else, and what int64 cannot hold, is refused.
func step(v value) (int64, bool) {
	switch v.kind {
	case number:
		if n, err := strconv.ParseInt(string(v.raw), 10, 64); err == nil {
			return n, true
		}
		f := math.Trunc(float(v.raw))
		// 2^63 is exact in a float64, and the first value that does not fit.
		if math.IsNaN(f) || f < -(1<<63) || f >= 1<<63 || !hasFraction(v.raw) {
			return 0, false
		}
		return int64(f), true
	case str:
		n, err := strconv.ParseInt(strings.TrimSpace(text(v.raw)), 10, 64)
		return n, err == nil
	case boolean:
		if v.raw[0] == 't' {
			return 1, true
		}
		return 0, true
	case absent, object, array, null:
	}
	return 0, false
}

// hasFraction tells a number in fraction or exponent notation from an integer.
func hasFraction(raw []byte) bool {
	for _, c := range raw {
		if c == '.' || c == 'e' || c == 'E' {
			return true
		}
	}
	return false
}
