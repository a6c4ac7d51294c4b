package scalar

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/weirhq/weir/runtime/run"
)

func text(m graphql.Marshaler) string {
	var b bytes.Buffer
	m.MarshalGQL(&b)
	return b.String()
}

func TestLongIsANumberWhileExactInJavaScript(t *testing.T) {
	t.Parallel()
	for v, want := range map[int64]string{
		0: "0", -1: "-1",
		1<<53 - 1: "9007199254740991", -(1<<53 - 1): "-9007199254740991",
		1 << 53: `"9007199254740992"`, -(1 << 53): `"-9007199254740992"`,
		math.MaxInt64: `"9223372036854775807"`, math.MinInt64: `"-9223372036854775808"`,
	} {
		if got := text(MarshalLong(v)); got != want {
			t.Errorf("%d is written %s, want %s", v, got, want)
		}
	}
}

func TestLongReadsNumbersAndStrings(t *testing.T) {
	t.Parallel()
	for _, v := range []any{json.Number("9007199254740993"), "9007199254740993", int64(9007199254740993), 9007199254740993} {
		if got, err := UnmarshalLong(v); err != nil || got != 9007199254740993 {
			t.Errorf("%v (%T) reads as %d, %v", v, v, got, err)
		}
	}
	for _, v := range []any{"", " 1", "1.0", "0x10", "010", "+5", "1_000", "9223372036854775808", json.Number("1e3"), json.Number("1.5"), true, []any{}, 1.5} {
		if got, err := UnmarshalLong(v); run.CodeOf(err) != run.Invalid {
			t.Errorf("%v (%T) reads as %d, %v; want INVALID", v, v, got, err)
		}
	}
}

func TestIntHas32Bits(t *testing.T) {
	t.Parallel()
	if v, err := UnmarshalInt(json.Number("2147483647")); err != nil || v != math.MaxInt32 {
		t.Error(v, err)
	}
	for _, v := range []any{json.Number("2147483648"), "1", 1.0, int64(-2147483649)} {
		if _, err := UnmarshalInt(v); run.CodeOf(err) != run.Invalid {
			t.Errorf("%v (%T): %v; want INVALID", v, v, err)
		}
	}
	if got := text(MarshalInt(-5)); got != "-5" {
		t.Error(got)
	}
}

func TestFloatIsFinite(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0.1: "0.1", 1234567: "1234567", 1e-7: "1e-07", 1e21: "1e+21", math.MaxFloat64: "1.7976931348623157e+308"} {
		if got := text(MarshalFloat(v)); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if got := text(MarshalFloat(v)); got != "null" {
			t.Errorf("%v is written %s", v, got)
		}
		if _, err := UnmarshalFloat(v); run.CodeOf(err) != run.Invalid {
			t.Errorf("%v reads: %v", v, err)
		}
	}
	for _, v := range []any{"NaN", "Infinity", "1", json.Number("1e999"), true} {
		if _, err := UnmarshalFloat(v); run.CodeOf(err) != run.Invalid {
			t.Errorf("%v (%T): %v; want INVALID", v, v, err)
		}
	}
	for _, v := range []any{json.Number("2"), int64(2), 2, 2.0} {
		if got, err := UnmarshalFloat(v); err != nil || got != 2 {
			t.Errorf("%v (%T) reads as %v, %v", v, v, got, err)
		}
	}
}

func TestTimeHasMicroseconds(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 23, 46, 54, 123456789, time.FixedZone("", 3600))
	if got := text(MarshalTime(at)); got != `"2026-11-30T22:46:54.123456Z"` {
		t.Error(got)
	}
	if got := text(MarshalTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))); got != `"2026-01-01T00:00:00.000000Z"` {
		t.Error(got)
	}
	back, err := UnmarshalTime("2026-11-30T23:46:54.123456789+01:00")
	if err != nil || !back.Equal(at.Truncate(time.Microsecond)) {
		t.Error(back, err)
	}
	for _, v := range []any{"yesterday", "2026-11-30", 5, nil} {
		if _, err := UnmarshalTime(v); run.CodeOf(err) != run.Invalid {
			t.Errorf("%v: %v; want INVALID", v, err)
		}
	}
}

func TestJSONKeepsBytesAndDigits(t *testing.T) {
	t.Parallel()
	raw := JSON(`{"z":1.10,"a":[12345678901234567890,"<b>"]}`)
	if got := text(raw); got != string(raw) {
		t.Error(got)
	}
	if got := text(JSON(nil)); got != "null" {
		t.Error(got)
	}
	var v any
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var j JSON
	if err := j.UnmarshalGQL(v); err != nil || string(j) != `{"a":[12345678901234567890,"<b>"],"z":1.10}` {
		t.Error(string(j), err)
	}
	if err := j.UnmarshalGQL(math.NaN()); run.CodeOf(err) != run.Invalid {
		t.Error(err)
	}
}

func FuzzLong(f *testing.F) {
	f.Add("9007199254740993")
	f.Add("-0")
	f.Fuzz(func(t *testing.T, s string) {
		v, err := UnmarshalLong(s)
		if err != nil {
			return
		}
		var out json.Number
		if err := json.Unmarshal([]byte(strings.Trim(text(MarshalLong(v)), `"`)), &out); err != nil {
			t.Fatal(err)
		}
		back, err := UnmarshalLong(out)
		if err != nil || back != v {
			t.Fatalf("%s reads as %d, and back as %d, %v", s, v, back, err)
		}
	})
}

func TestDateIsADayInUTC(t *testing.T) {
	t.Parallel()
	late := time.Date(2026, 11, 30, 23, 30, 0, 0, time.FixedZone("", -3600)) // the next day in UTC
	if got := text(MarshalDate(late)); got != `"2026-12-01"` {
		t.Errorf("got %s", got)
	}
	if got, err := UnmarshalDate("2024-02-29"); err != nil || !got.Equal(time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, v := range []any{"", "2026-02-29", "2026-1-1", "2026-11-30Z", "2026-11-30T00:00:00Z", " 2026-11-30", json.Number("20261130"), nil, true} {
		if got, err := UnmarshalDate(v); run.CodeOf(err) != run.Invalid {
			t.Errorf("%v (%T) reads as %v, %v; want INVALID", v, v, got, err)
		}
	}
}
