package sandbox

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// lines cuts the pieces and gives the lines with a brace, and the count of all.
func lines(pieces ...string) ([]string, int64) {
	var s splitter
	var got []string
	var n int64
	take := func(b []byte, _ bool) { got = append(got, string(b)); n++ }
	for _, p := range pieces {
		n += s.feed([]byte(p), take)
	}
	s.end(take)
	return got, n
}

func TestSplitterLineEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in    []string
		want  []string
		count int64
	}{
		"LF":                 {[]string{"{a}\n{b}\n"}, []string{"{a}", "{b}"}, 2},
		"CRLF":               {[]string{"{a}\r\n{b}\r\n\r\nx\r\n"}, []string{"{a}", "{b}"}, 4},
		"CREndsALine":        {[]string{"50%\r100%\r{a}\n"}, []string{"{a}"}, 3},
		"CRLFAcrossReads":    {[]string{"{a}\r", "\n{b}\r", "\n"}, []string{"{a}", "{b}"}, 2},
		"CRThenText":         {[]string{"{a}\r", "{b}"}, []string{"{a}", "{b}"}, 2},
		"PlainCRLFAcross":    {[]string{"x\r", "\ny\n{a}"}, []string{"{a}"}, 3},
		"NoLastEnd":          {[]string{"{a}"}, []string{"{a}"}, 1},
		"Split":              {[]string{"{", "a", "}\n", "{b}"}, []string{"{a}", "{b}"}, 2},
		"BraceLate":          {[]string{"INFO ", "{a}\n"}, []string{"INFO {a}"}, 1},
		"Empty":              {[]string{""}, nil, 0},
		"EmptyLines":         {[]string{"\n\n\r\n"}, nil, 3},
		"PlainOpenThenEnd":   {[]string{"abc", "def\n"}, []string{"abcdef"}, 1},
		"CRCR":               {[]string{"{a}\r\r{b}"}, []string{"{a}", "{b}"}, 3},
		"PlainTailThenBrace": {[]string{"abc\nde", "{f}\n"}, []string{"de{f}"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, n := lines(c.in...)
			if strings.Join(got, "|") != strings.Join(c.want, "|") || n != c.count {
				t.Errorf("got %q, %d lines; want %q, %d", got, n, c.want, c.count)
			}
		})
	}
}

// Whatever the pieces, the same lines with a brace come out, and the same count.
func TestSplitterDoesNotSeeThePieces(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var b []byte
		for range rng.IntN(40) {
			b = append(b, "ab{}\r\n\n"[rng.IntN(7)])
		}
		braced := func(all []string) (out []string) {
			for _, l := range all {
				if strings.Contains(l, "{") {
					out = append(out, l)
				}
			}
			return out
		}
		whole, n := lines(string(b))
		var pieces []string
		for rest := string(b); rest != ""; {
			k := 1 + rng.IntN(len(rest))
			pieces = append(pieces, rest[:k])
			rest = rest[k:]
		}
		split, m := lines(pieces...)
		if strings.Join(braced(whole), "|") != strings.Join(braced(split), "|") || n != m {
			t.Fatalf("%q as %q: %q %d, whole %q %d", b, pieces, split, m, whole, n)
		}
		// The plain truth: CRLF is one end.
		simple := strings.Split(strings.ReplaceAll(strings.ReplaceAll(string(b), "\r\n", "\n"), "\r", "\n"), "\n")
		if simple[len(simple)-1] == "" {
			simple = simple[:len(simple)-1]
		}
		if int64(len(simple)) != n || strings.Join(braced(simple), "|") != strings.Join(braced(whole), "|") {
			t.Fatalf("%q: %q %d, simply %q", b, whole, n, simple)
		}
		var s splitter
		var skipped int64
		for _, p := range pieces {
			skipped += s.skip([]byte(p))
		}
		if skipped += s.skipEnd(); skipped != n {
			t.Fatalf("%q as %q: skip counted %d of %d", b, pieces, skipped, n)
		}
	}
}

func TestSplitterBoundsItsMemory(t *testing.T) {
	t.Parallel()
	piece := bytes.Repeat([]byte("x"), readSize)
	for name, c := range map[string]struct {
		first string
		most  int
	}{"Plain": {"x", maxPlain + readSize}, "JSON": {`{"step":1,"metrics":{"`, maxLine}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s splitter
			s.feed([]byte(c.first), nil)
			for range 2 * maxLine / readSize {
				s.feed(piece, nil)
				if cap(s.pending) > c.most+readSize {
					t.Fatalf("holds %d bytes, at most %d are allowed", cap(s.pending), c.most)
				}
			}
			cut := false
			s.feed([]byte("\n"), func(_ []byte, whole bool) { cut = !whole })
			if !cut {
				t.Error("the cut line was given as whole")
			}
			got := ""
			s.feed([]byte("{a}\n"), func(b []byte, whole bool) {
				if whole {
					got = string(b)
				}
			})
			if got != "{a}" || cap(s.pending) > 1<<20 {
				t.Errorf("the next line is %q, %d bytes held", got, cap(s.pending))
			}
		})
	}
}

func BenchmarkSplitterShortLines(b *testing.B) {
	in := bytes.Repeat([]byte("y\n"), readSize/2)
	b.SetBytes(int64(len(in)))
	var s splitter
	for b.Loop() {
		s.feed(in, func([]byte, bool) {})
	}
}

func BenchmarkSplitterMetricLines(b *testing.B) {
	in := bytes.Repeat([]byte(`{"step":1,"metrics":{"loss":0.5}}`+"\n"), readSize/34)
	b.SetBytes(int64(len(in)))
	var s splitter
	for b.Loop() {
		s.feed(in, func([]byte, bool) {})
	}
}
