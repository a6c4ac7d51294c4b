package metricline

import (
	"math"
	"strconv"
	"strings"
)

// float reads a scanned number. Too large becomes an infinity, too small 0.
func float(v value) float64 {
	if v.exact {
		return v.num
	}
	switch string(v.raw) {
	case "NaN":
		return math.NaN()
	case "Infinity":
		return math.Inf(1)
	case "-Infinity":
		return math.Inf(-1)
	}
	f, _ := strconv.ParseFloat(string(v.raw), 64) // the scanner checked the grammar; a range error carries the value
	return f
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
		if v.exact {
			return int64(v.num), true // at most 2^53
		}
		if n, err := strconv.ParseInt(string(v.raw), 10, 64); err == nil {
			return n, true
		}
		f := math.Trunc(float(v))
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
