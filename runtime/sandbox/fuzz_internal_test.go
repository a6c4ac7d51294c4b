package sandbox

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/metricline"
	"github.com/weirhq/weir/runtime/run"
)

// simply cuts b into lines in the plainest way: CRLF, CR and LF each end one.
func simply(b []byte) []string {
	all := strings.Split(strings.ReplaceAll(strings.ReplaceAll(string(b), "\r\n", "\n"), "\r", "\n"), "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// pieces cuts b as cuts says; without cuts it is one piece.
func pieces(b, cuts []byte) [][]byte {
	var out [][]byte
	for i := 0; len(b) > 0; i++ {
		n := len(b)
		if len(cuts) > 0 {
			n = min(1+int(cuts[i%len(cuts)]), len(b))
		}
		out = append(out, b[:n:n])
		b = b[n:]
	}
	return out
}

func addStreams(f *testing.F) {
	f.Helper()
	for _, s := range []string{
		"", "a", "a\n", "a\r\nb\r\n", "{a}\r", "x\r{\"step\":1,\"metrics\":{\"a\":1}}\r\n", "\xe2\x82\xac\xe2\x82", "é\xff\xf0\x9f\x98\x80{", "50%\r100%\r\n{}\n\n\r\r\n",
		"INFO {\"metrics\":1}\nplain\n{\"step\":1,\"metric\":\"a\",\"value\":NaN}", "\r\n\r\n", "{\"step\":1,\"metrics\":{\"é\":1}}\n",
	} {
		for _, cuts := range []string{"", "\x00", "\x01\x00", "\x03"} {
			f.Add([]byte(s), []byte(cuts), uint16(4), true)
			f.Add([]byte(s), []byte(cuts), uint16(4), false)
			f.Add([]byte(s), []byte(cuts), uint16(1000), false)
		}
	}
}

// FuzzSplitter: whatever the reads, the lines are those of the plain reference,
// and their number is exact.
func FuzzSplitter(f *testing.F) {
	addStreams(f)
	f.Fuzz(func(t *testing.T, in, cuts []byte, _ uint16, _ bool) {
		want := simply(in)
		var braced []string
		for _, l := range want {
			if strings.Contains(l, "{") {
				braced = append(braced, l)
			}
		}
		var fed, skipped splitter
		var got []string
		var n, m int64
		take := func(b []byte, whole bool) {
			if n++; !whole && len(in) <= maxPlain {
				t.Fatalf("the line %q is not whole", b)
			}
			if bytes.IndexByte(b, '{') >= 0 {
				got = append(got, string(b))
			}
		}
		for _, p := range pieces(in, cuts) {
			n += fed.feed(bytes.Clone(p), take)
			m += skipped.skip(p)
		}
		fed.end(take)
		m += skipped.skipEnd()
		if len(in) <= maxPlain && strings.Join(got, "\n") != strings.Join(braced, "\n") {
			t.Fatalf("%q in reads of %v: %q, want %q", in, cuts, got, braced)
		}
		if n != int64(len(want)) || m != n {
			t.Fatalf("%q in reads of %v: %d lines fed, %d skipped, want %d", in, cuts, n, m, len(want))
		}
	})
}

// told collects the chunks of one stream and checks each.
type told struct {
	t         *testing.T
	raw, text []byte
	behind    int64 // raw bytes of text
	last      run.Loss
	points    int
}

func (c *told) Write(_ context.Context, k Chunk) error {
	if k.Offset != c.behind {
		c.t.Fatalf("the text %q is at %d, want %d", k.Text, k.Offset, c.behind)
	}
	if !utf8.ValidString(k.Text) {
		c.t.Fatalf("the text %q is no UTF-8", k.Text)
	}
	c.raw = append(c.raw, k.Raw...)
	c.text = append(c.text, k.Text...)
	for _, r := range k.Records {
		c.points += len(r.Points)
	}
	// What the text stands for: as much of raw as gives it.
	for c.behind < int64(len(c.raw)) && valid(c.raw[:c.behind]) != string(c.text) {
		c.behind++
	}
	if k.Loss.BytesRead < c.last.BytesRead || k.Loss.LinesRead < c.last.LinesRead {
		c.t.Fatalf("the account goes back from %+v to %+v", c.last, k.Loss)
	}
	c.last = k.Loss
	return nil
}

// FuzzStream: whatever the reads and the limit, every byte is kept or counted
// as truncated, the text is that of the kept bytes, and every line is counted.
func FuzzStream(f *testing.F) {
	addStreams(f)
	f.Fuzz(func(t *testing.T, in, cuts []byte, limit uint16, truncate bool) {
		if len(in) > maxPlain {
			return
		}
		x := &execution{spec: Spec{Stage: "s", Limits: Limits{Truncate: truncate}}, curves: NewCurves(), limit: make(chan struct{}, 1)}
		x.budget.left.Store(int64(limit))
		c := &told{t: t}
		s := &stream{name: run.Stdout, parse: true, x: x, sink: c}
		for _, p := range pieces(in, cuts) {
			if err := s.take(t.Context(), bytes.Clone(p)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		kept := in[:min(len(in), int(limit))]
		stopped := len(kept) < len(in) && !truncate
		want := run.Loss{BytesRead: int64(len(in)), BytesTruncated: int64(len(in) - len(kept)), LinesRead: int64(len(simply(in)))}
		parsed := simply(in)
		if stopped {
			parsed = simply(kept)
			if n := len(kept); n > 0 && kept[n-1] != '\n' && kept[n-1] != '\r' {
				parsed = parsed[:len(parsed)-1] // the line that the limit cut
			}
		}
		points := 0
		for _, l := range parsed {
			plain := true
			for _, r := range metricline.Parse([]byte(l)) {
				plain = plain && r.Plain()
				points += len(r.Points)
				if r.Rejected != "" {
					want.LinesRejected++
				}
			}
			if !plain {
				want.LinesParsed++
			}
		}
		got := s.loss
		got.RejectedSamples = nil
		if !bytes.Equal(c.raw, kept) || string(c.text) != valid(kept) || c.points != points {
			t.Fatalf("%q in reads of %v, limit %d: raw %q, text %q, %d points; want %q %q %d", in, cuts, limit, c.raw, c.text, c.points, kept, valid(kept), points)
		}
		if got.BytesRead != want.BytesRead || got.BytesTruncated != want.BytesTruncated || got.LinesRead != want.LinesRead ||
			got.LinesParsed != want.LinesParsed || got.LinesRejected != want.LinesRejected {
			t.Fatalf("%q in reads of %v, limit %d, truncate %v: %+v, want %+v", in, cuts, limit, truncate, got, want)
		}
		// The kept bytes, counted again, give the same account.
		if len(kept) == len(in) {
			again := NewTally(run.Stdout, "s")
			if err := again.Add(t.Context(), kept); err != nil {
				t.Fatal(err)
			}
			loss, err := again.Loss(t.Context())
			loss.RejectedSamples = nil
			if err != nil || loss.LinesRead != want.LinesRead || loss.LinesParsed != want.LinesParsed || loss.BytesRead != want.BytesRead {
				t.Fatalf("%q counted again: %+v, want %+v, %v", in, loss, want, err)
			}
		}
	})
}

// A chunk of output costs the memory of its text; its lines and their points
// cost none.
func TestOutputCostsOnlyItsText(t *testing.T) {
	for name, c := range map[string]struct {
		lines  string
		parsed bool
	}{
		"Plain":  {"Epoch 12: 100%|####| 312/312 [00:12<00:00, loss=0.52]\n{x} and text\r\n", false},
		"Metric": {"{\"step\":1,\"metrics\":{\"loss\":0.5,\"acc\":0.25},\"run\":\"a\"}\n", true},
	} {
		x := &execution{spec: Spec{Stage: "s"}, curves: NewCurves(), budget: budget{unlimited: true}}
		s := &stream{name: run.Stdout, parse: true, x: x, sink: discard{}}
		chunk := bytes.Repeat([]byte(c.lines), readSize/len(c.lines))
		if n := testing.AllocsPerRun(50, func() {
			if err := s.take(t.Context(), chunk); err != nil {
				t.Error(err)
			}
		}); n > 1 {
			t.Errorf("%s: %v allocations", name, n)
		}
		if (s.loss.LinesParsed > 0) != c.parsed || s.loss.LinesRead == 0 {
			t.Errorf("%s: %+v", name, s.loss)
		}
	}
}

// firsts keeps where the first point of each chunk stands.
type firsts []*run.Point

func (f *firsts) Write(_ context.Context, c Chunk) error {
	*f = append(*f, &c.Records[0].Points[0])
	return nil
}

// The memory of a chunk's points is used again for the next one.
func TestAStreamHoldsTheRecordsOfOneChunk(t *testing.T) {
	t.Parallel()
	x := &execution{spec: Spec{Stage: "s"}, curves: NewCurves(), budget: budget{unlimited: true}}
	var f firsts
	s := &stream{name: run.Stdout, parse: true, x: x, sink: &f}
	for range 3 {
		if err := s.take(t.Context(), []byte("{\"step\":1,\"metric\":\"a\",\"value\":1}\n")); err != nil {
			t.Fatal(err)
		}
	}
	if len(f) != 3 || f[1] != f[2] {
		t.Errorf("the points stand at %p", f)
	}
}
