package metricline

import (
	"bytes"
	"unicode/utf8"
)

// undress takes off blanks, colour codes and one byte-order mark.
func undress(b []byte) []byte {
	const blanks = " \t\r\n\v\f"
	if n := len(b); n > 1 && b[0] == '{' && b[n-1] == '}' { // the common case
		return b
	}
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	for {
		b = bytes.TrimLeft(b, blanks)
		n := colourCode(b)
		if n == 0 {
			break
		}
		b = b[n:]
	}
	for {
		b = bytes.TrimRight(b, blanks)
		if len(b) == 0 || b[len(b)-1] != 'm' {
			return b
		}
		i := bytes.LastIndexByte(b, 0x1b)
		if i < 0 || colourCode(b[i:]) != len(b)-i {
			return b
		}
		b = b[:i]
	}
}

// colourCode gives the length of the SGR sequence that b begins with, 0 for none.
func colourCode(b []byte) int {
	if len(b) < 3 || b[0] != 0x1b || b[1] != '[' {
		return 0
	}
	for i, c := range b[2:] {
		switch {
		case c == 'm':
			return i + 3
		case (c >= '0' && c <= '9') || c == ';' || c == ':':
		default:
			return 0
		}
	}
	return 0
}

// refuse makes the record of a line that is not JSON: plain, and a rejected
// sample if it has the words of a metric line.
func refuse(line, body []byte, reason string) []Record {
	behind := line[bytes.IndexByte(line, '{'):]
	for _, word := range [...]string{"metric", "chart_config", `"log"`} {
		if bytes.Contains(behind, []byte(word)) {
			return []Record{{Rejected: sample(reason, body)}}
		}
	}
	if bytes.Contains(line, []byte(`"metrics"`)) { // JSON over several lines
		return []Record{{Rejected: sample(reason, body)}}
	}
	return nil
}

func sample(reason string, line []byte) string {
	b := make([]byte, 0, maxSample)
	b = append(b, reason...)
	b = append(b, ": "...)
	for i := 0; i < len(line); {
		r, n := utf8.DecodeRune(line[i:])
		if r < 0x20 {
			r = utf8.RuneError
		}
		if len(b)+utf8.RuneLen(r) > maxSample-len("…") {
			return string(append(b, "…"...))
		}
		b = utf8.AppendRune(b, r)
		i += n
	}
	return string(b)
}

// Candidate tells whether a line that begins with head can be a metric line.
func Candidate(head []byte) bool {
	head = undress(head)
	return len(head) == 0 || head[0] == '{' || head[0] == 0x1b
}
