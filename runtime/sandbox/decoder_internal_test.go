package sandbox

import (
	"testing"
	"unicode/utf8"
)

func decodeAll(pieces ...[]byte) (string, int) {
	var d decoder
	text, n := "", 0
	for _, p := range pieces {
		s, raw := d.decode(p)
		text, n = text+s, n+raw
	}
	s, raw := d.flush()
	return text + s, n + raw
}

func TestDecoderKeepsWholeCharacters(t *testing.T) {
	t.Parallel()
	var d decoder
	euro := []byte("a€")
	if s, n := d.decode(euro[:3]); s != "a" || n != 1 {
		t.Errorf("decode gave %q, %d: half a character must wait", s, n)
	}
	if s, n := d.decode(euro[3:]); s != "€" || n != 3 {
		t.Errorf("decode gave %q, %d", s, n)
	}
	if s, n := d.flush(); s != "" || n != 0 {
		t.Errorf("flush gave %q, %d", s, n)
	}
}

func FuzzDecoderDoesNotSeeThePieces(f *testing.F) {
	f.Add([]byte("bad \xff\xfe \xc3( \xed\xa0\x80 end"), 3)
	f.Add([]byte("日本語😀"), 5)
	f.Add([]byte("\xf0\x9f\x98"), 1)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		want := string([]rune(string(b))) // each bad byte becomes one U+FFFD
		cut = min(max(cut, 0), len(b))
		bytewise := make([][]byte, len(b))
		for i := range b {
			bytewise[i] = b[i : i+1]
		}
		for _, pieces := range [][][]byte{{b}, {b[:cut], b[cut:]}, bytewise} {
			got, n := decodeAll(pieces...)
			if got != want || n != len(b) || !utf8.ValidString(got) {
				t.Fatalf("%q in %d pieces: %q for %d bytes, want %q for %d", b, len(pieces), got, n, want, len(b))
			}
		}
	})
}
