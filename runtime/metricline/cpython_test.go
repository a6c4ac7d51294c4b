package metricline_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/metricline"
)

// Where the two sides may differ, and who decided it:
//   - -0 equals 0, as the cases have it.
//   - This parser refuses what nests over 1,000 deep; CPython's own bound lies
//     elsewhere and depends on its stack.
//
// All else that the cases decide (booleans, numeric strings, integers over
// float64, replaced characters, cut names, two objects, colours and the
// byte-order mark) the reference does as well.
const mostDeep = 900

// TestAgreesWithCPython gives the same lines to this parser and to a slow one on
// CPython's json. On every line that either accepts, both must find the same
// points, bit for bit. WEIR_CPYTHON_LINES sets how many lines are made.
func TestAgreesWithCPython(t *testing.T) {
	t.Parallel()
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI=true, and there is no %s", python)
		}
		t.Skipf("SKIPPED, NOT TESTED: there is no %s (Debian package python3)", python)
	}
	n := 40_000
	if s := os.Getenv("WEIR_CPYTHON_LINES"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	seeds := seedLines(t)
	rng := rngOf(3)
	lines := slices.Clone(seeds)
	g := generator{rng: rng}
	for len(lines) < n {
		l := g.line()
		if rng.IntN(8) == 0 {
			g.clean = false
			l = slices.Clone(seeds[rng.IntN(len(seeds))])
		}
		if !g.clean {
			l = g.mutate(l)
		}
		lines = append(lines, l)
	}
	accepted, disagreed := 0, 0
	batch := 20_000 // bounds the memory of a long run
	for from := 0; from < len(lines); from += batch {
		part := lines[from:min(from+batch, len(lines))]
		for i, want := range reference(t, python, part) {
			line := part[i]
			got := meaning(metricline.Parse(line))
			want = sorted(want)
			if want != "-" {
				accepted++
			}
			if got == want || bytes.Count(line, []byte("["))+bytes.Count(line, []byte("{")) > mostDeep {
				continue
			}
			if disagreed++; disagreed < 20 {
				t.Errorf("%.300q\n   weir %.300s\ncpython %.300s", line, got, want)
			}
		}
	}
	t.Logf("%d lines, %d accepted by CPython, %d disagreements", len(lines), accepted, disagreed)
	if accepted < len(lines)/4 {
		t.Errorf("only %d of %d lines are accepted: the test is too weak", accepted, len(lines))
	}
}

func rngOf(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// seedLines are the lines of the cases and of TestParse.
func seedLines(t testing.TB) [][]byte {
	t.Helper()
	b, err := os.ReadFile("testdata/case-lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for l := range strings.Lines(string(b)) {
		s, err := strconv.Unquote(strings.TrimSuffix(l, "\n"))
		if err != nil {
			t.Fatalf("%v: %s", err, l)
		}
		out = append(out, []byte(s))
	}
	for _, c := range parseCases {
		if len(c.in) < 8192 {
			out = append(out, []byte(c.in))
		}
	}
	return out
}

// reference asks one CPython process about all lines.
func reference(t *testing.T, python string, lines [][]byte) []string {
	t.Helper()
	var in bytes.Buffer
	for _, l := range lines {
		in.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(l))))
		in.Write(l)
	}
	cmd := exec.CommandContext(t.Context(), python, "-I", "testdata/reference.py")
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%v: %s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var answers []string
	s := bufio.NewScanner(bytes.NewReader(out))
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		answers = append(answers, s.Text())
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	if len(answers) != len(lines) {
		t.Fatalf("%d answers to %d lines", len(answers), len(lines))
	}
	return answers
}

// meaning writes records as the reference does.
func meaning(records []metricline.Record) string {
	var out []string
	for _, r := range records {
		for _, p := range r.Points {
			f, bits := p.Float(), "nan"
			if !math.IsNaN(f) {
				if f == 0 {
					f = 0 // -0 equals 0
				}
				bits = fmt.Sprintf("%016x", math.Float64bits(f+0))
			}
			out = append(out, fmt.Sprintf("p:%d:%s:%s:%s", p.Step, hex.EncodeToString([]byte(p.Name)), bits, hex.EncodeToString([]byte(p.RunTag))))
		}
		if r.Chart != nil {
			out = append(out, "c")
		}
		if m := r.Media; m != nil {
			out = append(out, fmt.Sprintf("m:%s:%d:%s:%s", m.Kind, m.Step, hex.EncodeToString([]byte(m.Key)), hex.EncodeToString([]byte(m.RunTag))))
		}
	}
	if len(out) == 0 {
		return "-"
	}
	return sorted(strings.Join(out, " "))
}

// sorted orders points by step and name: of different names at one step, none
// comes first. Those of the same name keep their order.
func sorted(s string) string {
	all := strings.Fields(s)
	key := func(p string) string {
		parts := strings.Split(p, ":")
		return strings.Join(parts[:min(3, len(parts))], ":")
	}
	slices.SortStableFunc(all, func(a, b string) int { return strings.Compare(key(a), key(b)) })
	return strings.Join(all, " ")
}

// generator makes lines that are nearly always JSON, in all its odd forms.
type generator struct {
	rng   *rand.Rand
	clean bool // only what both sides can read
}

// odd tells whether this place may hold what no JSON has.
func (g *generator) odd() bool { return !g.clean && g.rng.IntN(4) == 0 }

func pick[T any](g *generator, from ...T) T { return from[g.rng.IntN(len(from))] }

func (g *generator) space() string {
	if g.rng.IntN(4) > 0 {
		return ""
	}
	if g.odd() {
		return pick(g, "\u00a0", "\v", "\f", "\ufeff", "\x00")
	}
	return pick(g, " ", "  ", "\t", "\r", "\n", " \t ")
}

func (g *generator) digits(n int) string {
	var b strings.Builder
	for range 1 + g.rng.IntN(n) {
		b.WriteByte(byte('0' + g.rng.IntN(10)))
	}
	return b.String()
}

func (g *generator) number() string {
	switch g.rng.IntN(12) {
	case 0:
		if !g.odd() {
			return pick(g, "NaN", "Infinity", "-Infinity", "-0", "-0.0", "0e0", "-0E-5")
		}
		return pick(g, "-NaN", "nan", "inf", "+1", "01", ".5", "5.", "1e", "0x1", "1_0", "--1", "-", "1.e5", "1e+")
	case 1: // the edges of float64 and int64
		return pick(g, "1.7976931348623157e308", "1.7976931348623159e308", "1e309", "-1e309", "5e-324", "2e-324", "2.4703282292062327e-324", "2.4703282292062328e-324",
			"2.2250738585072011e-308", "2.2250738585072014e-308", "9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993", "9007199254740993.0",
			"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "9223372036854775807.0", "1e22", "1e23", "8.5e22", "0.1e-400", "1e99999999999",
			"18446744073709551615", "18446744073709551616", "36893488147419103233", "1"+strings.Repeat("0", 308), "1"+strings.Repeat("0", 309), "0."+strings.Repeat("0", 400)+"1")
	case 2:
		return strconv.FormatFloat(math.Float64frombits(g.rng.Uint64()), 'g', -1, 64)
	case 3:
		return strconv.FormatFloat(g.rng.NormFloat64(), pick(g, byte('e'), 'f', 'g'), g.rng.IntN(20), 64)
	case 4:
		return pick(g, "", "-") + g.digits(25)
	case 5:
		return pick(g, "", "-") + strconv.Itoa(g.rng.IntN(100)) + "." + g.digits(25)
	case 6:
		return pick(g, "", "-") + strconv.Itoa(g.rng.IntN(10)) + "." + g.digits(17) + pick(g, "e", "E") + pick(g, "", "+", "-") + g.digits(3)
	case 7: // halves between two floats
		return strconv.FormatUint(g.rng.Uint64()>>g.rng.IntN(12)|1, 10) + pick(g, "", ".5", ".0", ".500000000000000000001")
	default:
		return strconv.FormatFloat(float64(g.rng.IntN(100_000))/pick(g, 1.0, 10, 1000, 3), 'f', -1, 64)
	}
}

func (g *generator) text() string {
	if g.rng.IntN(3) > 0 {
		return pick(g, "loss", "acc", "train/loss", "lr", "a", "b", "")
	}
	var b strings.Builder
	for range g.rng.IntN(6) {
		if g.odd() {
			b.WriteString(pick(g, `\u00e`, `\x`, "\x00", "\x1f", `\`, `"`, `\u 123`, `\u+123`))
			continue
		}
		b.WriteString(pick(g, "a", "é", "😀", "\xff", "\xe2\x82", "\xed\xa0\x80", `\n`, `\"`, `\\`, `\/`, `\u0041`, `\u0000`, `\ud800`, `\udc00`, `\ud83d\ude00`, `\uD83D`, `\ud83dA`,
			"\x7f", " ", "{", "}", "\u2028", `\b\f\r\t`, `\ud83d\u0041`))
	}
	if g.rng.IntN(40) == 0 {
		b.WriteString(strings.Repeat(pick(g, "x", "ä", `\u00e4`), 505+g.rng.IntN(15)))
	}
	return b.String()
}

func (g *generator) str() string { return `"` + g.text() + `"` }

func (g *generator) value(depth int) string {
	switch g.rng.IntN(14) {
	case 0:
		if g.odd() {
			return pick(g, "True", "None", "nul", "truefalse", "")
		}
		return pick(g, "true", "false", "null")
	case 1:
		return g.str()
	case 2:
		return `"` + pick(g, "", " ", "\t", `\u00a0`, `\n`, "+", "-") + g.number() + pick(g, "", " ", "x") + `"`
	case 3:
		if depth > 0 {
			return g.object(depth-1, g.str)
		}
	case 4:
		if depth > 0 {
			return "[" + g.value(depth-1) + g.space() + "," + g.value(depth-1) + "]"
		}
	case 5:
		if g.rng.IntN(50) == 0 {
			n := 300 * g.rng.IntN(5)
			return strings.Repeat("[", n) + strings.Repeat("]", n)
		}
	default:
	}
	return g.number()
}

func (g *generator) object(depth int, key func() string) string {
	var b strings.Builder
	b.WriteString("{" + g.space())
	for i := range g.rng.IntN(5) {
		if i > 0 {
			b.WriteString("," + g.space())
		}
		b.WriteString(key() + g.space() + ":" + g.space() + g.value(depth) + g.space())
	}
	return b.String() + "}"
}

// line makes one line with the members that mean something.
func (g *generator) line() []byte {
	g.clean = g.rng.IntN(3) > 0
	var b strings.Builder
	b.WriteString(pick(g, "", "", "", "", "\ufeff", "\x1b[32m", " ", "\x1b[1;31m \x1b[0m"))
	if g.odd() {
		b.WriteString(pick(g, "x", "\x1b[2J", "\ufeff", "INFO "))
	}
	for range 1 + g.rng.IntN(12)/11 {
		b.WriteString("{")
		members := []string{`"step":` + g.space() + g.step()}
		if g.rng.IntN(3) > 0 {
			members = append(members, pick(g, `"metrics"`, `"metrics"`, `"metrics"`, `"metr\u0069cs"`)+g.space()+":"+g.space()+g.object(2, g.str))
		} else {
			members = append(members, `"metric":`+pick(g, g.str(), g.value(1)), `"value":`+g.value(1))
		}
		if g.rng.IntN(3) == 0 {
			members = append(members, `"run":`+pick(g, g.str(), g.value(1)))
		}
		if g.rng.IntN(12) == 0 {
			members = append(members, `"chart_config":`+g.value(2))
		}
		if g.rng.IntN(12) == 0 {
			members = append(members, `"log":{"type":"`+pick(g, "image", "roc", "nope")+`","step":`+g.step()+`,"key":`+g.value(1)+`,"data":`+pick(g, g.object(2, g.str), g.value(1))+`,"run":`+g.value(1)+`}`)
		}
		if g.rng.IntN(8) == 0 {
			members = append(members, members[g.rng.IntN(len(members))], g.str()+":"+g.value(2))
		}
		g.rng.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		b.WriteString(strings.Join(members, g.space()+","+g.space()) + "}" + g.space())
	}
	b.WriteString(pick(g, "", "", "", "", "\x1b[0m", " ", "\r", "\x1b[m\x1b[0m"))
	if g.odd() {
		b.WriteString(pick(g, "x", "}", "m", ","))
	}
	return []byte(b.String())
}

func (g *generator) step() string {
	if g.rng.IntN(3) > 0 {
		return strconv.Itoa(g.rng.IntN(1000))
	}
	return g.value(1)
}

// mutate changes a few places of a line.
func (g *generator) mutate(l []byte) []byte {
	l = slices.Clone(l)
	for range 1 + g.rng.IntN(3) {
		at := g.rng.IntN(len(l) + 1)
		switch g.rng.IntN(4) {
		case 0:
			l = slices.Insert(l, at, []byte(pick(g, "{", "}", "[", "]", ",", ":", `"`, `\`, "0", "-", ".", "e", "N", "\xff", "\x00", " ", "\t", "\x1b[0m", "1e5", "null"))...)
		case 1:
			if at < len(l) {
				l = slices.Delete(l, at, min(at+1+g.rng.IntN(3), len(l)))
			}
		case 2:
			if at < len(l) {
				l[at] = byte(g.rng.IntN(256))
			}
		default:
			if at < len(l) {
				end := min(at+g.rng.IntN(8), len(l))
				l = slices.Insert(l, g.rng.IntN(len(l)+1), slices.Clone(l[at:end])...)
			}
		}
	}
	return slices.DeleteFunc(l, func(c byte) bool { return c == '\n' && g.rng.IntN(2) == 0 })
}
