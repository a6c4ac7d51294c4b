package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/weirhq/weir/runtime/metricline"
)

// maxHeld bounds a line that is held until its end shows what it is: the server
// reads no longer one either.
const maxHeld = 8 << 20

// fold leaves out of a program's stdout the lines that a view shows in another
// form: media and, where there are curves, metrics and their charts. What the
// server does not take, or takes in part only, stays. A line that can be one of
// these is held until it ends.
type fold struct {
	curves bool // metrics are drawn

	parser metricline.Parser
	held   strings.Builder
	pass   bool // the line at hand is none of these
	cr     bool // the last line was left out and ended in \r: a \n belongs to it
}

// take gives what is to be shown of the next piece.
func (f *fold) take(text string) string {
	var out strings.Builder
	for text != "" {
		if f.cr {
			f.cr = false
			if text = strings.TrimPrefix(text, "\n"); text == "" {
				break
			}
		}
		line, ended := text, false
		if i := strings.IndexAny(text, "\r\n"); i >= 0 {
			line, ended = text[:i+1], true
		}
		text = text[len(line):]
		if f.pass {
			out.WriteString(line)
			f.pass = !ended
			continue
		}
		f.held.WriteString(line)
		switch {
		case ended:
			if whole := f.held.String(); f.shown(whole) {
				out.WriteString(whole)
			} else {
				f.cr = strings.HasSuffix(whole, "\r")
			}
			f.held.Reset()
		case f.held.Len() > maxHeld || !metricline.Candidate([]byte(f.held.String()[:min(f.held.Len(), maxHead)])):
			out.WriteString(f.rest())
		}
	}
	return out.String()
}

// maxHead is how much of a line's beginning tells whether it can be folded.
const maxHead = 256

// shown tells whether a whole line is shown as it is.
func (f *fold) shown(line string) bool {
	f.parser.Reset()
	records := f.parser.Parse([]byte(strings.TrimRight(line, "\r\n")))
	for _, r := range records {
		if r.Plain() || r.Rejected != "" || (r.Media == nil && !f.curves) {
			return true
		}
	}
	return len(records) == 0
}

// rest gives what is held without waiting for the end of its line, and lets the
// rest of that line pass.
func (f *fold) rest() string {
	text := f.held.String()
	f.held.Reset()
	f.pass = f.pass || text != ""
	if !f.shown(text) {
		return ""
	}
	return text
}

// extent says in brackets how much media holds; "" where that says nothing.
func extent(data json.RawMessage) string {
	type image struct{ Base64 string }
	var m struct {
		image
		Images []image
		Rows   []json.RawMessage
		Total  int
	}
	if json.Unmarshal(data, &m) != nil {
		return ""
	}
	bytes := base64.StdEncoding.DecodedLen(len(m.Base64))
	for _, i := range m.Images {
		bytes += base64.StdEncoding.DecodedLen(len(i.Base64))
	}
	switch {
	case len(m.Images) > 0:
		return fmt.Sprintf(" (%s, %s)", count(len(m.Images), "image"), size(int64(bytes)))
	case bytes > 0:
		return fmt.Sprintf(" (%s)", size(int64(bytes)))
	case m.Rows != nil:
		return fmt.Sprintf(" (%s)", count(max(m.Total, len(m.Rows)), "row"))
	}
	return ""
}
