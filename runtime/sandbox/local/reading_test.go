//go:build linux

package local_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// rounds is how often a proof is repeated: WEIR_READ_ROUNDS, or a few.
func rounds(t *testing.T) int {
	t.Helper()
	s := os.Getenv("WEIR_READ_ROUNDS")
	if s == "" {
		return 5
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// counter is a sink that keeps no text: it checks that each stream is the
// sequence of numbered lines, and that raw bytes, text and account agree.
type counter struct {
	t       *testing.T
	mu      sync.Mutex
	streams map[run.OutputStream]*counted
	onChunk func(ctx context.Context, c sandbox.Chunk) error
}

type counted struct {
	rest   []byte // of a line that has not ended
	lines  int
	raw    int64
	text   int64
	points int
	loss   run.Loss
	sum    hash.Hash
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	return &counter{t: t, streams: map[run.OutputStream]*counted{run.Stdout: {sum: sha256.New()}, run.Stderr: {sum: sha256.New()}}}
}

func (k *counter) Write(ctx context.Context, c sandbox.Chunk) error {
	k.mu.Lock()
	s := k.streams[c.Stream]
	s.raw += int64(len(c.Raw))
	if c.Offset != s.text {
		k.t.Errorf("%s: a chunk is at %d, want %d", c.Stream, c.Offset, s.text)
	}
	s.text += int64(len(c.Text)) // these tests print ASCII
	_, _ = s.sum.Write(c.Raw)
	s.loss = c.Loss
	b := append(s.rest, c.Raw...)
	for {
		line, rest, ok := bytes.Cut(b, []byte("\n"))
		if !ok {
			break
		}
		if n, _, _ := bytes.Cut(line, []byte(" ")); string(n) != strconv.Itoa(s.lines) && !bytes.HasPrefix(line, fmt.Appendf(nil, `{"step":%d,`, s.lines)) {
			k.t.Errorf("%s: line %d is %.60q", c.Stream, s.lines, line)
		}
		s.lines++
		b = rest
	}
	s.rest = append(s.rest[:0], b...)
	if len(s.rest) > 1<<20 {
		s.rest = s.rest[:0]
	}
	for _, r := range c.Records {
		for _, p := range r.Points {
			if p.Step != int64(s.points) {
				k.t.Errorf("point %d has the step %d", s.points, p.Step)
			}
			s.points++
		}
	}
	k.mu.Unlock()
	if k.onChunk != nil {
		return k.onChunk(ctx, c)
	}
	return nil
}

// agree checks that what arrived is what the account says.
func (k *counter) agree(res sandbox.Result) {
	k.t.Helper()
	var raw, text int64
	lines := 0
	for _, s := range k.streams {
		raw, text, lines = raw+s.raw, text+s.text, lines+s.lines
		if len(s.rest) > 0 {
			lines++
		}
	}
	if l := res.Loss; raw != l.BytesRead-l.BytesTruncated || text != raw || (l.BytesTruncated == 0 && int64(lines) != l.LinesRead) {
		k.t.Errorf("%d raw bytes, %d of text and %d lines arrived; the account is %+v", raw, text, lines, l)
	}
}

// Every line of a program that prints and exits at once arrives, in order,
// every time.
func TestEveryLineOfAQuickExitArrives(t *testing.T) {
	t.Parallel()
	const lines = 50_000
	each(t, func(t *testing.T, b backend) {
		for round := range rounds(t) {
			s := shell(t, fmt.Sprintf("exec seq -f '%%.0f and some words' 0 %d", lines-1))
			points := 0
			if round%2 == 1 { // the same as metric lines, from an interpreter
				s, points = python(t, fmt.Sprintf("import sys\nsys.stdout.write(''.join('{\"step\":%%d,\"metrics\":{\"a\":%%d}}\\n' %% (i, i) for i in range(%d)))\n", lines)), lines
			}
			s.Limits.Timeout = 5 * time.Minute
			k := newCounter(t)
			res, err := sandbox.Run(t.Context(), b, s, k, sandbox.Options{})
			if err != nil || res.Class != run.ClassOK {
				t.Fatalf("round %d: %+v, %v", round, res, err)
			}
			if out := k.streams[run.Stdout]; out.lines != lines || out.points != points || res.Loss.LinesParsed != int64(points) || res.Loss.LinesRead != lines {
				t.Errorf("round %d: %d lines, %d points: %+v", round, out.lines, out.points, res.Loss)
			}
			k.agree(res)
			if t.Failed() {
				return
			}
		}
	})
}

func TestOneLineOf50MB(t *testing.T) {
	t.Parallel()
	const size = 50_000_000
	each(t, func(t *testing.T, b backend) {
		for name, head := range map[string]string{"Plain": "x", "LooksLikeJSON": "{\"step\":1,\"metrics\":{\""} {
			s := python(t, fmt.Sprintf("import os\nhead = %q.encode()\nos.write(1, head)\nleft = %d - len(head)\nb = b'y' * (1 << 20)\nwhile left > 0:\n    left -= os.write(1, b[:left])\n", head, size))
			s.Limits.Timeout = 5 * time.Minute
			k := newCounter(t)
			res, err := sandbox.Run(t.Context(), b, s, k, sandbox.Options{})
			if err != nil || res.Class != run.ClassOK {
				t.Fatalf("%s: %+v, %v", name, res, err)
			}
			want := sha256.New()
			_, _ = want.Write([]byte(head))
			_, _ = want.Write(bytes.Repeat([]byte("y"), size-len(head)))
			if out := k.streams[run.Stdout]; out.raw != size || !bytes.Equal(out.sum.Sum(nil), want.Sum(nil)) {
				t.Errorf("%s: %d bytes arrived, or others", name, out.raw)
			}
			rejected := int64(0)
			if name == "LooksLikeJSON" {
				rejected = 1
			}
			if l := res.Loss; l.BytesRead != size || l.LinesRead != 1 || l.LinesParsed != 0 || l.LinesRejected != rejected ||
				(rejected > 0 && !strings.HasPrefix(l.RejectedSamples[0], "a line over 8 MiB")) {
				t.Errorf("%s: %+v", name, l)
			}
		}
	})
}

const flood = "import os\nn = 0\nwhile True:\n    os.write(1, b''.join(b'%d words\\n' % i for i in range(n, n + 500)))\n    n += 500\n"

// However a flood ends, what was read is what arrived, in order, to the byte.
func TestFloodsAreExactAtAnyEnd(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b backend) {
		broken := errors.New("the store is gone")
		for name, c := range map[string]struct {
			code   string
			change func(s *sandbox.Spec)
			stop   bool // kill after some output
			fail   bool // the sink breaks after some output
			class  run.ExitClass
		}{
			"Kill":    {code: "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + flood, stop: true, class: run.ClassCancelled, change: func(s *sandbox.Spec) { s.Limits.Grace = 50 * time.Millisecond }},
			"Timeout": {code: flood, class: run.ClassTimeout, change: func(s *sandbox.Spec) { s.Limits.Timeout = 400 * time.Millisecond }},
			"Stop":    {code: flood, class: run.ClassOutputLimit, change: func(s *sandbox.Spec) { s.Limits.MaxOutputBytes = 3_000_001 }},
			"Truncate": {code: flood, class: run.ClassTimeout, change: func(s *sandbox.Spec) {
				s.Limits.MaxOutputBytes, s.Limits.Truncate, s.Limits.Timeout = 100_001, true, 400*time.Millisecond
			}},
			"BrokenSink": {code: flood, fail: true, class: run.ClassInfrastructure},
			// The command ends, its child floods on and holds the pipe.
			"HeldPipe": {code: "import os, time\nif os.fork() > 0:\n    time.sleep(0.2)\n    os._exit(3)\n" + flood, class: run.ClassError},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := python(t, c.code)
				s.Stage = "train"
				if c.change != nil {
					c.change(&s)
				}
				ctx, stop := context.WithCancelCause(t.Context())
				defer stop(nil)
				k := newCounter(t)
				k.onChunk = func(_ context.Context, chunk sandbox.Chunk) error {
					if c.stop && chunk.Offset > 300_000 {
						stop(nil)
					}
					if c.fail && chunk.Offset > 300_000 {
						return broken
					}
					return nil
				}
				res, err := sandbox.Run(ctx, b, s, k, sandbox.Options{})
				if c.fail != errors.Is(err, broken) || (!c.fail && err != nil) || res.Class != c.class {
					t.Fatalf("%+v, %v", res, err)
				}
				k.agree(res)
				if out := k.streams[run.Stdout]; out.loss.BytesRead != res.Loss.BytesRead || out.lines == 0 {
					t.Errorf("the last chunk says %+v, the result %+v", out.loss, res.Loss)
				}
				if limit := s.Limits.MaxOutputBytes; (name == "Stop" || name == "Truncate") != (res.Loss.BytesTruncated > 0) ||
					(res.Loss.BytesTruncated > 0 && res.Loss.BytesRead-res.Loss.BytesTruncated != limit) {
					t.Errorf("of a limit of %d: %+v", limit, res.Loss)
				}
				mustBeGone(t, s)
			})
		}
	})
}

func TestTwoStreamsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	const lines = 20_000
	each(t, func(t *testing.T, b backend) {
		k := newCounter(t)
		res, err := sandbox.Run(t.Context(), b, python(t, fmt.Sprintf("import os\nfor i in range(%d):\n    os.write(1 + i %% 2, b'%%d words\\n' %% (i // 2))\n", 2*lines)), k, sandbox.Options{})
		if err != nil || res.Class != run.ClassOK || k.streams[run.Stdout].lines != lines || k.streams[run.Stderr].lines != lines {
			t.Errorf("%d and %d lines: %+v, %v", k.streams[run.Stdout].lines, k.streams[run.Stderr].lines, res, err)
		}
		k.agree(res)
	})
}

// A sink that takes nothing holds the process back: the server reads no more
// than one buffer ahead. Afterwards everything arrives.
func TestASlowSinkHoldsTheProcessBack(t *testing.T) {
	t.Parallel()
	const lines = 400_000
	each(t, func(t *testing.T, b backend) {
		s := python(t, fmt.Sprintf(`import os
progress = os.open("progress", os.O_CREAT | os.O_RDWR, 0o666)
done = 0
for n in range(0, %d, 500):
    b = b''.join(b'%%d words\n' %% i for i in range(n, n + 500))
    while b:
        k = os.write(1, b[:4096])
        b = b[k:]
        done += k
        os.pwrite(progress, b'%%d ' %% done, 0)
`, lines))
		blocked, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		k := newCounter(t)
		k.onChunk = func(context.Context, sandbox.Chunk) error {
			once.Do(func() { close(blocked) })
			<-release
			return nil
		}
		var res sandbox.Result
		var err error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			res, err = sandbox.Run(t.Context(), b, s, k, sandbox.Options{})
		}()
		<-blocked
		written := func() int64 {
			raw, _ := os.ReadFile(filepath.Join(s.Workspace, "progress"))
			n, _ := strconv.ParseInt(strings.TrimRight(strings.SplitN(string(raw), " ", 2)[0], "\x00"), 10, 64)
			return n
		}
		// Until it writes nothing any more: the pipe is full.
		last, since := int64(-1), time.Now()
		for deadline := time.Now().Add(10 * time.Second); time.Since(since) < 300*time.Millisecond && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if n := written(); n != last {
				last, since = n, time.Now()
			}
		}
		const most = 64<<10 + 2*32<<10 + 4<<10 // the pipe, the chunk in the sink, a read, a write under way
		if last < 16<<10 || last > most {
			t.Errorf("%d bytes were written against a sink that takes nothing, want at most %d", last, most)
		}
		close(release)
		<-ended
		if out := k.streams[run.Stdout]; err != nil || res.Class != run.ClassOK || out.lines != lines {
			t.Errorf("%d lines: %+v, %v", out.lines, res, err)
		}
		k.agree(res)
	})
}
