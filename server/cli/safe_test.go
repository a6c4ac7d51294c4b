package cli

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"Plain":             {"a\tb\nc\r50 %\rd äöü 🎉", "a\tb\nc\r50 %\rd äöü 🎉"},
		"Colours":           {"\x1b[1;31mred\x1b[0m \x1b[38;2;1;2;3mrgb\x1b[m \x1b[4:3mcurly", "\x1b[1;31mred\x1b[0m \x1b[38;2;1;2;3mrgb\x1b[m \x1b[4:3mcurly"},
		"Title":             {"a\x1b]0;owned\x07b\x1b]2;owned\x1b\\c", "abc"},
		"TitleByC1":         {"a\u009d0;owned\u009cb", "ab"},
		"Clipboard":         {"\x1b]52;c;cm0gLXJmIC8=\x07x", "x"},
		"Link":              {"\x1b]8;;http://evil\x07text\x1b]8;;\x07", "text"},
		"CursorAndErase":    {"a\x1b[2J\x1b[H\x1b[3A\x1b[10;10Hb\x1b[K", "ab"},
		"CSIByC1":           {"a\u009b2Jb\u009b31mc", "ab\x1b[31mc"},
		"PrivateModes":      {"\x1b[?1049h\x1b[?25l\x1b[?2004hx", "x"},
		"ModifyKeysIsNoSGR": {"\x1b[>4;2mx\x1b[31$mx", "xx"},
		"QueryDevice":       {"\x1b[c\x1b[6n\x1bZx", "x"},
		"DCS":               {"\x1bP$q\"p\x1b\\x\x1b_app\x1b\\y\x1b^pm\x1b\\z\x1bXsos\x1b\\", "xyz"},
		"CharacterSet":      {"\x1b(0lqqk\x1b(B", "lqqk"},
		"Reset":             {"\x1bcx\x1b7\x1b8", "x"},
		"Bells":             {"a\a\b\v\f\x00\x7fb", "ab"},
		"UnfinishedTitle":   {"\x1b]0;never\nends", "\nends"},
		"UnfinishedCSI":     {"\x1b[12", ""},
		"EscapeInEscape":    {"\x1b\x1b[31mx", "\x1b[31mx"},
		"NewlineInCSI":      {"\x1b[3\nx", "\nx"},
		"Reorder":           {"a\u202eb\u2066c\u2028d", "abcd"},
		"RightToLeftStays":  {"שלום \u200f", "שלום \u200f"},
		"LongCSI":           {"\x1b[" + strings.Repeat("1;", 60) + "1mx", "x"},
		"BadUTF8":           {"a\xffb", "a\ufffdb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f Filter
			if got := f.Clean(c.in); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			// However it is split, between characters.
			var split Filter
			var got strings.Builder
			for _, r := range strings.ToValidUTF8(c.in, "\ufffd") {
				got.WriteString(split.Clean(string(r)))
			}
			if got.String() != c.want {
				t.Errorf("split: got %q\nwant %q", got.String(), c.want)
			}
			plain := Filter{Plain: true}
			if out := plain.Clean(c.in); strings.Contains(out, "\x1b") {
				t.Errorf("without colours: %q", out)
			}
		})
	}
}

// Whatever comes, a terminal gets text, attributes, and the three controls that stay.
func FuzzFilter(f *testing.F) {
	for _, s := range []string{"\x1b[31m", "\x1b]0;x\x07", "\u009b1m", "\x1bP\x1b[31m", "\x1b[\x1b[3mA"} {
		f.Add(s, "rest")
	}
	attribute := regexp.MustCompile("\x1b\\[[0-9;:]*m")
	f.Fuzz(func(t *testing.T, a, b string) {
		var filter Filter
		out := filter.Clean(a) + filter.Clean(b)
		rest := attribute.ReplaceAllString(out, "")
		for _, r := range rest {
			if (r < ' ' && r != '\n' && r != '\t' && r != '\r') || (r >= 0x7f && r <= 0x9f) {
				t.Fatalf("%q let %U through: %q", a+b, r, out)
			}
		}
	})
}

func TestCleanJSON(t *testing.T) {
	t.Parallel()
	in := `{"a":"x` + "\u009b\u007f" + `ä"}`
	out := cleanJSON([]byte(in))
	if string(out) != `{"a":"x\u009b\u007fä"}` {
		t.Errorf("got %s", out)
	}
	var a, b any
	if json.Unmarshal([]byte(in), &a) != nil || json.Unmarshal(out, &b) != nil || a.(map[string]any)["a"] != b.(map[string]any)["a"] {
		t.Error("it is another document now")
	}
}
