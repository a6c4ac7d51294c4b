package cli

import (
	"strings"
	"unicode/utf8"
)

// Filter makes the text of one stream harmless for a terminal: colours and other
// text attributes stay (unless Plain), everything else that a terminal would act
// on is dropped: cursor movement, titles, clipboard and other OSC strings,
// device queries, C1 controls, marks that reorder the line. Newline, tab and
// carriage return stay, so that progress bars work. A sequence may be split over
// several calls. Not for use from several goroutines at once.
type Filter struct {
	Plain bool // drop colours too

	state filterState
	csi   []byte
	dyed  bool
}

type filterState int

const (
	ground filterState = iota
	escape
	escapeMore // after an intermediate byte, such as ESC ( of a character set
	csiParams
	csiIgnored // a control sequence that will not be kept
	controlString
	controlStringEscape
)

// maxCSI bounds what is held back; no real attribute sequence is longer.
const maxCSI = 64

// Dyed tells whether an attribute is set, so that a line of ours needs a reset first.
func (f *Filter) Dyed() bool { return f.dyed }

// Clean gives the harmless part of the stream's next piece.
func (f *Filter) Clean(text string) string {
	if f.state == ground && strings.IndexFunc(text, suspicious) < 0 {
		return text
	}
	var out strings.Builder
	out.Grow(len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n == 1 {
			f.ground(&out, utf8.RuneError)
		} else {
			f.rune(&out, r)
		}
		text = text[n:]
	}
	return out.String()
}

func suspicious(r rune) bool {
	switch {
	case r == '\n', r == '\t', r == '\r':
		return false
	case r < ' ', r >= 0x7f && r <= 0x9f:
		return true
	case r == utf8.RuneError, r == 0x2028, r == 0x2029, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

func (f *Filter) rune(out *strings.Builder, r rune) {
	switch f.state {
	case ground:
		f.ground(out, r)
	case escape:
		switch {
		case r == '[':
			f.state, f.csi = csiParams, f.csi[:0]
		case r == ']' || r == 'P' || r == 'X' || r == '^' || r == '_':
			f.state = controlString
		case r >= ' ' && r <= '/':
			f.state = escapeMore
		case r == 0x1b:
		case r < ' ' || r > '~':
			f.ground(out, r)
		default:
			f.state = ground
		}
	case escapeMore:
		switch {
		case r >= ' ' && r <= '/':
		case r < ' ' || r > '~':
			f.ground(out, r)
		default:
			f.state = ground
		}
	case csiParams, csiIgnored:
		f.sequence(out, r)
	case controlString, controlStringEscape:
		switch {
		case r == '\n': // an unfinished string must not hide the rest
			f.ground(out, r)
		case r == 0x07 || r == 0x9c || r == 0x18 || r == 0x1a:
			f.state = ground
		case r == 0x1b:
			f.state = controlStringEscape
		case f.state == controlStringEscape && r == '\\':
			f.state = ground
		case f.state == controlStringEscape:
			f.state = escape
			f.rune(out, r)
		}
	}
}

// sequence handles what follows ESC [.
func (f *Filter) sequence(out *strings.Builder, r rune) {
	switch {
	case (r >= '0' && r <= '9') || r == ';' || r == ':':
		if len(f.csi) == maxCSI {
			f.state = csiIgnored
		}
		if f.state == csiParams {
			f.csi = append(f.csi, byte(r))
		}
	case r >= ' ' && r <= '?': // private markers and intermediates: no attribute has them
		f.state = csiIgnored
	case r >= '@' && r <= '~':
		if r == 'm' && f.state == csiParams && !f.Plain {
			out.WriteString("\x1b[")
			out.Write(f.csi)
			out.WriteByte('m')
			params := string(f.csi)
			f.dyed = strings.Trim(params, "0") != "" && !strings.HasSuffix(params, ";0")
		}
		f.state = ground
	default:
		f.ground(out, r)
	}
}

func (f *Filter) ground(out *strings.Builder, r rune) {
	f.state = ground
	switch {
	case r == 0x1b:
		f.state = escape
	case r == 0x9b:
		f.state, f.csi = csiParams, f.csi[:0]
	case r == 0x90 || r == 0x98 || r == 0x9d || r == 0x9e || r == 0x9f:
		f.state = controlString
	case r == utf8.RuneError:
		out.WriteRune(r)
	case suspicious(r):
	default:
		out.WriteRune(r)
	}
}

// clean gives text without anything that a terminal acts on; its lines stay.
func clean(text string) string {
	f := Filter{Plain: true}
	return strings.ReplaceAll(f.Clean(text), "\r", "")
}

// oneLine gives text without controls and without line breaks.
func oneLine(text string) string {
	return strings.Join(strings.Fields(clean(text)), " ")
}

// cleanJSON escapes in a JSON document what a terminal could act on. Outside of
// strings JSON holds no such character, so the document stays the same.
func cleanJSON(doc []byte) []byte {
	if strings.IndexFunc(string(doc), func(r rune) bool { return r >= 0x7f && r <= 0x9f }) < 0 {
		return doc
	}
	const hex = "0123456789abcdef"
	var out []byte
	for _, r := range string(doc) {
		if r >= 0x7f && r <= 0x9f {
			out = append(out, '\\', 'u', '0', '0', hex[r>>4], hex[r&0xf])
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}
