package metricline

import (
	"encoding/json"
	"unicode/utf8"
)

// copyJSON copies a scanned value as strict JSON in valid UTF-8: bare NaN,
// Infinity and -Infinity become strings of the same letters; U+0000, lone
// surrogates and bad bytes in strings become U+FFFD. Everything else stays as
// it was written.
func copyJSON(v value, odd bool) json.RawMessage {
	if !odd {
		return append(make([]byte, 0, len(v.raw)), v.raw...)
	}
	b := v.raw
	dst := make([]byte, 0, len(b)+16)
	for i := 0; i < len(b); {
		switch c := b[i]; c {
		case '"':
			end := stringEnd(b, i)
			dst = copyString(dst, b[i:end])
			i = end
		case 'N': // outside of strings only NaN begins so
			dst = append(dst, `"NaN"`...)
			i += len("NaN")
		case 'I':
			if n := len(dst); n > 0 && dst[n-1] == '-' {
				dst = append(dst[:n-1], `"-Infinity"`...)
			} else {
				dst = append(dst, `"Infinity"`...)
			}
			i += len("Infinity")
		default:
			dst = append(dst, c)
			i++
		}
	}
	return dst
}

// stringEnd gives the index behind the string that begins at i.
func stringEnd(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// copyString copies one string; only one that needs repair is written anew.
func copyString(dst, raw []byte) []byte {
	s := scanner{b: raw}
	_ = s.skipString() // was scanned before
	if !s.odd {
		return append(dst, raw...)
	}
	j, err := json.Marshal(text(raw))
	if err != nil || !utf8.Valid(j) {
		return append(dst, `""`...)
	}
	return append(dst, j...)
}
