package sandbox

import "unicode/utf8"

// decoder makes valid UTF-8 of a stream of bytes, whatever its pieces: each
// byte that is not part of a character becomes one U+FFFD, and a character cut
// by the end of a piece waits for the next.
type decoder struct {
	tail [utf8.UTFMax]byte
	n    int
}

// decode gives the text of what waited and b, and how many raw bytes it stands for.
func (d *decoder) decode(b []byte) (string, int) {
	waited := d.n
	if waited > 0 {
		joined := make([]byte, 0, waited+len(b))
		b = append(append(joined, d.tail[:waited]...), b...)
		d.n = 0
	}
	keep := len(b)
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				keep = len(b) - i
			}
			break
		}
	}
	d.n = copy(d.tail[:], b[keep:])
	return valid(b[:keep]), keep
}

// flush gives what still waits at the end of the stream.
func (d *decoder) flush() (string, int) {
	n := d.n
	d.n = 0
	return valid(d.tail[:n]), n
}

func valid(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	out := make([]byte, 0, len(b)+16)
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		out = utf8.AppendRune(out, r)
		i += n
	}
	return string(out)
}
