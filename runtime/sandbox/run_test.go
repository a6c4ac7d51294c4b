package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTimeoutSendsTermThenKill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess()
		began := time.Now()
		res, err := sandbox.Run(t.Context(), &scripted{p: p}, aSpec(), &sink{}, sandbox.Options{})
		if err != nil || res.Class != run.ClassTimeout || !res.TimedOut() || p.got() != "TERM KILL" {
			t.Errorf("%+v %v, signals %q", res, err, p.got())
		}
		if d := res.SignalledAt.Sub(began); d != time.Minute {
			t.Errorf("TERM after %s", d)
		}
		if d := res.ProcessGoneAt.Sub(res.SignalledAt); d != 5*time.Second {
			t.Errorf("KILL %s after TERM", d)
		}
		if p.waited != 1 {
			t.Errorf("Wait was called %d times", p.waited)
		}
	})
}

func TestTimeoutThatTheCommandAnswersStaysATimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess()
		p.onStop = func() { p.end(0, "") }
		res, err := sandbox.Run(t.Context(), &scripted{p: p}, aSpec(), &sink{}, sandbox.Options{})
		if err != nil || res.Class != run.ClassTimeout || !res.IsError() || *res.ExitCode != 0 || p.got() != "TERM" {
			t.Errorf("%+v %v, signals %q", res, err, p.got())
		}
	})
}

func TestTheFirstReasonCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess()
		s := aSpec()
		s.Limits.Grace = 10 * time.Minute
		p.onStop = func() { time.AfterFunc(2*time.Minute, func() { p.end(-1, "SIGTERM") }) }
		ctx, stop := context.WithCancelCause(t.Context())
		cause := errors.New("aborted")
		time.AfterFunc(10*time.Second, func() { stop(cause) }) // the timeout passes during its grace
		res, err := sandbox.Run(ctx, &scripted{p: p}, s, &sink{}, sandbox.Options{})
		if err != nil || res.Class != run.ClassCancelled || !errors.Is(res.Cause, cause) || p.got() != "TERM" {
			t.Errorf("%+v %v, signals %q", res, err, p.got())
		}
	})
}

func TestExitBeforeTheDeadlineIsItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess()
		time.AfterFunc(time.Minute-1, func() { p.end(137, "") })
		res, err := sandbox.Run(t.Context(), &scripted{p: p}, aSpec(), &sink{}, sandbox.Options{})
		if err != nil || res.Class != run.ClassError || *res.ExitCode != 137 || !res.SignalledAt.IsZero() {
			t.Errorf("%+v %v", res, err)
		}
	})
}

func TestNoGraceKillsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess()
		s := aSpec()
		s.Limits.Grace = 0
		res, err := sandbox.Run(t.Context(), &scripted{p: p}, s, &sink{}, sandbox.Options{})
		if err != nil || res.Class != run.ClassTimeout || !res.ProcessGoneAt.Equal(res.SignalledAt) {
			t.Errorf("%+v %v", res, err)
		}
	})
}

func TestHurryEndsTheGrace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ hurry, term, kill time.Duration }{
		"during the grace": {15 * time.Second, 10 * time.Second, 15 * time.Second},
		"before the stop":  {5 * time.Second, 10 * time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newProcess()
				s := aSpec()
				s.Limits.Grace = time.Minute
				ctx, stop := context.WithCancelCause(t.Context())
				hurry := make(chan struct{})
				began := time.Now()
				time.AfterFunc(c.hurry, func() { close(hurry) })
				time.AfterFunc(c.term, func() { stop(errors.New("stopped")) })
				res, err := sandbox.Run(ctx, &scripted{p: p}, s, &sink{}, sandbox.Options{Hurry: hurry})
				if err != nil || res.Class != run.ClassCancelled || p.got() != "TERM KILL" {
					t.Errorf("%+v %v, signals %q", res, err, p.got())
				}
				if term, kill := res.SignalledAt.Sub(began), res.ProcessGoneAt.Sub(began); term != c.term || kill != c.kill {
					t.Errorf("TERM after %s, KILL after %s", term, kill)
				}
			})
		})
	}
}

func TestHurryStopsNothingByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess()
		hurry := make(chan struct{})
		close(hurry)
		time.AfterFunc(10*time.Second, func() { p.end(0, "") })
		res, err := sandbox.Run(t.Context(), &scripted{p: p}, aSpec(), &sink{}, sandbox.Options{Hurry: hurry})
		if err != nil || res.Class != run.ClassOK || p.got() != "" {
			t.Errorf("%+v %v, signals %q", res, err, p.got())
		}
	})
}

func TestOutOfMemoryComesFromTheKernel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		oom    bool
		code   int
		signal string
		class  run.ExitClass
		warns  int
	}{
		"Killed":            {true, 0, "SIGKILL", run.ClassOOM, 0},
		"ShellReports137":   {true, 137, "", run.ClassOOM, 0},
		"ChildOnly":         {true, 0, "", run.ClassOK, 1},
		"ChildThenError":    {true, 2, "", run.ClassError, 1},
		"KilledBySomebody":  {false, 0, "SIGKILL", run.ClassSignal, 0},
		"Exit137":           {false, 137, "", run.ClassError, 0},
		"OtherSignalAndOOM": {true, 0, "SIGSEGV", run.ClassSignal, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProcess()
			p.exit.OOMKilled = c.oom
			p.end(c.code, c.signal)
			res, err := sandbox.Run(t.Context(), &scripted{p: p}, aSpec(), &sink{}, sandbox.Options{})
			if err != nil || res.Class != c.class || len(res.Warnings) != c.warns {
				t.Errorf("%+v %v", res, err)
			}
		})
	}
}

func TestAGrandchildThatHoldsThePipeIsKilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess()
		p.holdsThePipe = true
		p.onKill = p.closePipes
		began := time.Now()
		go func() {
			_, _ = io.WriteString(p.outW, "first\n")
			p.end(3, "")
			time.Sleep(time.Second)
			_, _ = io.WriteString(p.outW, "second\n") // within the drain
		}()
		s := &sink{}
		res, err := sandbox.Run(t.Context(), &scripted{p: p}, aSpec(), s, sandbox.Options{})
		if err != nil || res.Class != run.ClassError || *res.ExitCode != 3 || p.got() != "KILL" {
			t.Errorf("%+v %v, signals %q", res, err, p.got())
		}
		if d := time.Since(began); d != 1500*time.Millisecond || s.text.String() != "first\nsecond\n" {
			t.Errorf("after %s: %q", d, s.text.String())
		}
		if res.Elapsed != 0 {
			t.Errorf("elapsed %s: the command ended at once", res.Elapsed)
		}
	})
}

// A pipe that even the KILL does not free is left, and what it holds is read.
func TestAPipeThatStaysOpenIsLeft(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close(); _ = r.Close() }()
	p := newProcess()
	p.out, p.onKill = r, nil
	if _, err := w.WriteString("held\n"); err != nil {
		t.Fatal(err)
	}
	p.end(0, "")
	slow := &sink{}
	slow.write = func(_ context.Context, c sandbox.Chunk) error {
		if strings.Contains(c.Text, "held") {
			_, err := w.WriteString("more\n") // in the pipe while the sink blocks beyond every deadline
			<-time.After(2700 * time.Millisecond)
			return err
		}
		return nil
	}
	res, err := sandbox.Run(t.Context(), &scripted{p: p}, aSpec(), slow, sandbox.Options{})
	if err != nil || res.Class != run.ClassOK || slow.text.String() != "held\nmore\n" {
		t.Errorf("%+v %v %q", res, err, slow.text.String())
	}
}

func TestASlowSinkHoldsTheCommandAndLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess()
		go func() {
			for range 100 {
				_, _ = io.WriteString(p.outW, "{\"step\":1,\"metrics\":{\"a\":1}}\n")
			}
			p.end(0, "")
		}()
		s := &sink{}
		s.write = func(context.Context, sandbox.Chunk) error { time.Sleep(time.Second); return nil }
		spec := aSpec()
		spec.Limits.Timeout = 0
		began := time.Now()
		res, err := sandbox.Run(t.Context(), &scripted{p: p}, spec, s, sandbox.Options{})
		if err != nil || s.points != 100 || res.Loss.LinesParsed != 100 || time.Since(began) < 99*time.Second {
			t.Errorf("%+v %v, %d points after %s", res, err, s.points, time.Since(began))
		}
	})
}

func TestCancelDeliversTheLastWords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess()
		p.onStop = func() {
			go func() { _, _ = io.WriteString(p.outW, "bye\n"); p.end(0, "") }()
		}
		ctx, stop := context.WithCancelCause(t.Context())
		s := &sink{}
		s.write = func(ctx context.Context, _ sandbox.Chunk) error { return ctx.Err() } // as a store would
		time.AfterFunc(time.Second, func() { stop(errors.New("aborted")) })
		res, err := sandbox.Run(ctx, &scripted{p: p}, aSpec(), s, sandbox.Options{})
		if err != nil || res.Class != run.ClassCancelled || s.text.String() != "bye\n" {
			t.Errorf("%+v %v %q", res, err, s.text.String())
		}
	})
}

func TestACancelledRunDoesNotWaitForABlockedSinkForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess()
		go func() { _, _ = io.WriteString(p.outW, "x\n") }()
		ctx, stop := context.WithCancelCause(t.Context())
		s := &sink{}
		s.write = func(ctx context.Context, _ sandbox.Chunk) error { <-ctx.Done(); return context.Cause(ctx) }
		time.AfterFunc(time.Second, func() { stop(errors.New("aborted")) })
		began := time.Now()
		res, err := sandbox.Run(ctx, &scripted{p: p}, aSpec(), s, sandbox.Options{})
		if err == nil || time.Since(began) > time.Minute || p.got() == "" {
			t.Errorf("%+v %v after %s", res, err, time.Since(began))
		}
	})
}

func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, prepare := range map[string]func(p *process, s *sink, o *sandbox.Options){
		"Read": func(p *process, _ *sink, _ *sandbox.Options) {
			go func() { _, _ = io.WriteString(p.outW, "kept\n"); _ = p.outW.CloseWithError(broken) }()
		},
		"Sink": func(p *process, s *sink, _ *sandbox.Options) {
			s.write = func(context.Context, sandbox.Chunk) error { return broken }
			go func() { _, _ = io.WriteString(p.outW, "kept\n") }()
		},
		"SinkWhileTheOtherStreamBlocks": func(p *process, s *sink, _ *sandbox.Options) {
			blocked := make(chan struct{})
			s.write = func(ctx context.Context, c sandbox.Chunk) error {
				if c.Stream == run.Stderr {
					close(blocked)
					<-ctx.Done()
					return ctx.Err()
				}
				<-blocked
				return broken
			}
			go func() { _, _ = io.WriteString(p.errsW, ""); _, _ = io.WriteString(p.errsW, "\n") }()
			go func() { _, _ = io.WriteString(p.outW, "kept\n") }()
		},
		"OnStart": func(_ *process, s *sink, o *sandbox.Options) {
			s.text.WriteString("kept")
			o.OnStart = func(context.Context, sandbox.Started) error { return broken }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newProcess()
				s := &sink{}
				var o sandbox.Options
				prepare(p, s, &o)
				began := time.Now()
				res, err := sandbox.Run(t.Context(), &scripted{p: p}, aSpec(), s, o)
				if !errors.Is(err, broken) || res.Class != run.ClassInfrastructure || p.got() != "KILL" || p.waited != 1 {
					t.Errorf("%+v %v, signals %q, waited %d", res, err, p.got(), p.waited)
				}
				if time.Since(began) != 0 || !strings.Contains(s.text.String(), "kept") {
					t.Errorf("after %s: %q", time.Since(began), s.text.String())
				}
			})
		})
	}
}

func TestOnStartComesBeforeTheFirstChunk(t *testing.T) {
	t.Parallel()
	p := newProcess()
	go func() { _, _ = io.WriteString(p.outW, "x"); p.end(0, "") }()
	var order []string
	s := &sink{}
	s.write = func(context.Context, sandbox.Chunk) error { order = append(order, "chunk"); return nil }
	_, err := sandbox.Run(t.Context(), &scripted{p: p}, aSpec(), s, sandbox.Options{OnStart: func(_ context.Context, st sandbox.Started) error {
		order = append(order, "start "+st.Backend)
		return nil
	}})
	if err != nil || len(order) < 2 || order[0] != "start scripted" || order[1] != "chunk" {
		t.Errorf("%v %v", order, err)
	}
}

func TestABlockedOnStartDoesNotHoldTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess()
		o := sandbox.Options{OnStart: func(context.Context, sandbox.Started) error { time.Sleep(time.Hour); return nil }}
		res, err := sandbox.Run(t.Context(), &scripted{p: p}, aSpec(), &sink{}, o)
		if d := res.ProcessGoneAt.Sub(res.SignalledAt); err != nil || res.Class != run.ClassTimeout || d != 5*time.Second || res.Elapsed > 2*time.Minute {
			t.Errorf("%+v %v", res, err)
		}
	})
}

func TestOutputLimit(t *testing.T) {
	t.Parallel()
	const line = "{\"step\":1,\"metrics\":{\"a\":1}}\n"
	for name, truncate := range map[string]bool{"Stop": false, "Truncate": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newProcess()
				p.onStop = func() { p.end(0, "") }
				written := 0
				wrote := make(chan struct{})
				go func() {
					defer close(wrote)
					for range 100 {
						n, err := io.WriteString(p.outW, line)
						written += n
						if err != nil {
							break
						}
						time.Sleep(time.Millisecond)
					}
					p.end(0, "")
				}()
				spec := aSpec()
				spec.Limits.MaxOutputBytes, spec.Limits.Truncate = int64(len(line)*3/2), truncate
				s := &sink{}
				res, err := sandbox.Run(t.Context(), &scripted{p: p}, spec, s, sandbox.Options{})
				<-wrote
				if err != nil {
					t.Fatal(err)
				}
				if s.text.Len() != len(line)*3/2 || res.Loss.BytesRead != int64(written) || res.Loss.BytesTruncated != int64(written-s.text.Len()) {
					t.Errorf("%d bytes forwarded of %d: %+v", s.text.Len(), written, res.Loss)
				}
				if truncate && (res.Class != run.ClassOK || s.points != 100 || p.got() != "" || res.Loss.LinesParsed != 100) {
					t.Errorf("%+v, %d points, signals %q", res, s.points, p.got())
				}
				if !truncate && (res.Class != run.ClassOutputLimit || s.points != 1 || p.got() != "TERM") {
					t.Errorf("%+v, %d points, signals %q", res, s.points, p.got())
				}
			})
		})
	}
}

func TestOffsetsCountRawBytes(t *testing.T) {
	t.Parallel()
	p := newProcess()
	raw := "a\xffé\xe2\x82" // one bad byte, and a character that never ends
	go func() {
		for i := range len(raw) {
			_, _ = io.WriteString(p.outW, raw[i:i+1])
		}
		p.end(0, "")
	}()
	s := &sink{}
	next := int64(0)
	s.write = func(_ context.Context, c sandbox.Chunk) error {
		if c.Offset != next {
			t.Errorf("chunk %q at %d, want %d", c.Text, c.Offset, next)
		}
		switch c.Text {
		case "": // its bytes wait for the rest of a character
		case "é", "��":
			next += 2
		default:
			next++
		}
		return nil
	}
	res, err := sandbox.Run(t.Context(), &scripted{p: p}, aSpec(), s, sandbox.Options{})
	if err != nil || s.text.String() != "a�é��" || next != int64(len(raw)) || res.Loss.BytesRead != next {
		t.Errorf("%q %d %+v %v", s.text.String(), next, res.Loss, err)
	}
}

func TestWhatDoesNotStart(t *testing.T) {
	t.Parallel()
	broken := errors.New("no room")
	res, err := sandbox.Run(t.Context(), &scripted{startErr: broken}, aSpec(), &sink{}, sandbox.Options{})
	if !errors.Is(err, broken) || res.Class != run.ClassInfrastructure {
		t.Errorf("%+v %v", res, err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	cause := errors.New("aborted")
	stop(cause)
	res, err = sandbox.Run(ctx, &scripted{p: newProcess()}, aSpec(), &sink{}, sandbox.Options{})
	if !errors.Is(err, cause) || res.Class != run.ClassCancelled || !errors.Is(res.Cause, cause) {
		t.Errorf("%+v %v", res, err)
	}
}

func TestWhatAStartLeavesBehindIsReported(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("stopped")
	stop(why)
	b := &scripted{startErr: fmt.Errorf("starting: %w", &sandbox.LeftBehindError{PIDs: []int{42}})}
	res, err := sandbox.Run(ctx, b, aSpec(), &sink{}, sandbox.Options{})
	if !errors.Is(err, why) || res.Class != run.ClassCancelled || !slices.Equal(res.Survivors, []int{42}) || res.SignalledAt.IsZero() {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestSurvivorsAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess()
		p.onKill = p.closePipes // nothing kills it
		p.exit.Survivors = []int{4711}
		p.exit.Signal = "SIGKILL"
		res, err := sandbox.Run(t.Context(), &scripted{p: p}, aSpec(), &sink{}, sandbox.Options{})
		if err != nil || res.Class != run.ClassTimeout || len(res.Survivors) != 1 || len(res.Warnings) != 1 {
			t.Errorf("%+v %v", res, err)
		}
	})
}

func TestTheRejectedLinesAreCounted(t *testing.T) {
	t.Parallel()
	p := newProcess()
	go func() {
		for range 7 {
			_, _ = io.WriteString(p.outW, "INFO {\"step\":1,\"metrics\":{\"loss\":1}}\nplain\n{\"step\":1,\"metrics\":{\"a\":1,\"b\":\"x\"}}\n")
		}
		_, _ = io.WriteString(p.errsW, "{\"step\":1,\"metrics\":{\"a\":1}}\n") // stderr is never parsed
		p.end(0, "")
	}()
	s := &sink{}
	res, err := sandbox.Run(t.Context(), &scripted{p: p}, aSpec(), s, sandbox.Options{})
	l := res.Loss
	if err != nil || l.LinesRead != 22 || l.LinesParsed != 7 || l.LinesRejected != 14 || len(l.RejectedSamples) != 5 || s.points != 7 {
		t.Errorf("%+v %v, %d points", l, err, s.points)
	}
}
