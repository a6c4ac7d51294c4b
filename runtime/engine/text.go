package engine

import (
	"strings"
	"unicode/utf8"
)

// clip gives the longest prefix of s that has at most n bytes and cuts no character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// clean makes s fit for a text column: valid UTF-8, no NUL, at most n bytes.
func clean(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	if len(s) <= n {
		return s
	}
	const more = " ... (cut)"
	return clip(s, n-len(more)) + more
}
