// Package scalar says how 64-bit integers, instants, days, floats and raw JSON
// travel through GraphQL.
//
// What it reads wrong is a *run.Error with the code INVALID that names the
// value; what it writes is always valid JSON.
package scalar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/weirhq/weir/runtime/run"
)

// maxSafe is the largest integer that JavaScript holds exactly (2^53 - 1).
const maxSafe = 1<<53 - 1

// MarshalLong writes v as a number while JavaScript can hold it, else as a string.
func MarshalLong(v int64) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) {
		var buf [24]byte
		b := buf[:0]
		if v > maxSafe || v < -maxSafe {
			b = append(b, '"')
			b = strconv.AppendInt(b, v, 10)
			b = append(b, '"')
		} else {
			b = strconv.AppendInt(b, v, 10)
		}
		_, _ = w.Write(b)
	})
}

// UnmarshalLong reads an integer of 64 bits from a number or a decimal string.
func UnmarshalLong(v any) (int64, error) {
	if s, ok := v.(string); ok {
		return parseInt("Long", s, 64)
	}
	return readInt("Long", v, 64)
}

// MarshalInt writes v as a number.
func MarshalInt(v int) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) {
		var buf [20]byte
		_, _ = w.Write(strconv.AppendInt(buf[:0], int64(v), 10))
	})
}

// UnmarshalInt reads an integer of 32 bits, as GraphQL defines Int.
func UnmarshalInt(v any) (int, error) {
	n, err := readInt("Int", v, 32)
	return int(n), err
}

func readInt(name string, v any, bits int) (int64, error) {
	switch v := v.(type) {
	case json.Number:
		return parseInt(name, v.String(), bits)
	case int64:
		return parseInt(name, strconv.FormatInt(v, 10), bits)
	case int:
		return parseInt(name, strconv.Itoa(v), bits)
	case nil:
		return 0, nil
	}
	return 0, run.Errorf(run.Invalid, "%s: %s is not a whole number", name, show(v))
}

func parseInt(name, s string, bits int) (int64, error) {
	n, err := run.ParseWhole(s, bits)
	if err != nil {
		return 0, run.Errorf(run.Invalid, "%s: %w", name, err)
	}
	return n, nil
}

// MarshalFloat writes a finite number. NaN and the infinities are refused:
// they travel as null with a mark beside it.
func MarshalFloat(v float64) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			_, _ = io.WriteString(w, "null")
			return
		}
		var buf [32]byte
		format := byte('f')
		if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
			format = 'e'
		}
		_, _ = w.Write(strconv.AppendFloat(buf[:0], v, format, -1, 64))
	})
}

// UnmarshalFloat reads a finite number.
func UnmarshalFloat(v any) (float64, error) {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return 0, run.Errorf(run.Invalid, "%s is out of range; Float is a finite number of 64 bits", clip(v.String()))
		}
		return f, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, run.Errorf(run.Invalid, "%v is not finite; Float wants a finite number", v)
		}
		return v, nil
	case int64:
		return float64(v), nil
	case int:
		return float64(v), nil
	case nil:
		return 0, nil
	}
	return 0, run.Errorf(run.Invalid, "%s is not a number; Float wants one", show(v))
}

// MarshalString writes text.
func MarshalString(s string) graphql.Marshaler { return graphql.MarshalString(s) }

// UnmarshalString reads text and nothing else: a number in its place is more
// often a mistake than meant.
func UnmarshalString(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case nil:
		return "", nil
	}
	return "", run.Errorf(run.Invalid, "%s is not text; String wants a string", show(v))
}

// timeFormat is RFC 3339 in UTC with exactly six digits of fraction.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// MarshalTime writes an instant in UTC with microseconds.
func MarshalTime(t time.Time) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) {
		var buf [40]byte
		b := append(buf[:0], '"')
		b = t.UTC().AppendFormat(b, timeFormat)
		_, _ = w.Write(append(b, '"'))
	})
}

// UnmarshalTime reads an instant in RFC 3339 and cuts it to microseconds.
func UnmarshalTime(v any) (time.Time, error) {
	s, ok := v.(string)
	if !ok {
		return time.Time{}, run.Errorf(run.Invalid, "%s is not a time; Time wants RFC 3339, for example 2026-11-30T22:46:54.123456Z", show(v))
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, run.Errorf(run.Invalid, "%s is not a time; Time wants RFC 3339, for example 2026-11-30T22:46:54.123456Z", show(s))
	}
	return t.UTC().Truncate(time.Microsecond), nil
}

// dateFormat is a day as RFC 3339 writes it.
const dateFormat = "2006-01-02"

// MarshalDate writes the day of an instant in UTC.
func MarshalDate(t time.Time) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) {
		var buf [16]byte
		b := append(buf[:0], '"')
		b = t.UTC().AppendFormat(b, dateFormat)
		_, _ = w.Write(append(b, '"'))
	})
}

// UnmarshalDate reads a day; it is its midnight in UTC.
func UnmarshalDate(v any) (time.Time, error) {
	s, ok := v.(string)
	t, err := time.Parse(dateFormat, s)
	if !ok || err != nil {
		return time.Time{}, run.Errorf(run.Invalid, "%s is not a day; Date wants year, month and day, for example 2026-11-30", show(v))
	}
	return t, nil
}

// JSON is a JSON value kept as its bytes; an empty one is null.
type JSON json.RawMessage

// MarshalGQL writes the bytes as they are.
func (j JSON) MarshalGQL(w io.Writer) {
	if len(j) == 0 {
		_, _ = io.WriteString(w, "null")
		return
	}
	_, _ = w.Write(j)
}

// UnmarshalGQL takes any JSON value. Numbers keep their digits.
func (j *JSON) UnmarshalGQL(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return run.Errorf(run.Invalid, "the value is not JSON: %w", err)
	}
	*j = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	return nil
}

func show(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(clip(s))
	}
	return clip(fmt.Sprint(v))
}

// clip keeps a wrong value short enough to be named in a message.
func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}

// MarshalDecimal writes an amount of USD as a decimal string.
func MarshalDecimal(s string) graphql.Marshaler { return graphql.MarshalString(s) }

// UnmarshalDecimal reads an amount of USD above 0 from a decimal string or a number
// and gives it as run.ParseUSD takes it.
func UnmarshalDecimal(v any) (string, error) {
	var s string
	switch v := v.(type) {
	case string:
		s = v
	case json.Number:
		f, err := v.Float64()
		if s = v.String(); err == nil && strings.ContainsAny(s, "eE") {
			s = strconv.FormatFloat(f, 'f', -1, 64)
		}
	case float64:
		s = strconv.FormatFloat(v, 'f', -1, 64)
	case int, int32, int64:
		s = fmt.Sprint(v)
	default:
		return "", run.Errorf(run.Invalid, "%v is no amount of USD: give a decimal string, such as \"0.25\"", v)
	}
	n, err := run.ParseUSD(s)
	if err != nil {
		return "", run.Errorf(run.Invalid, "%w", err)
	}
	return n.String(), nil
}
