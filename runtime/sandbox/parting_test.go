package sandbox_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// BeforeStop is called once, and the first signal waits for it; what ends the
// command meanwhile, or allows no more waiting, cuts it short.
func TestBeforeStop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stop, hurry, exit time.Duration // 0: never
		limit             int64         // of the output; 0: none
		calls             int
		class             run.ExitClass
		signals           string
		signal, end       time.Duration // after the start
		cut               bool
	}{
		"Cancelled":           {stop: 10 * time.Second, calls: 1, class: run.ClassCancelled, signals: "TERM KILL", signal: 13 * time.Second, end: 18 * time.Second},
		"TimedOut":            {calls: 1, class: run.ClassTimeout, signals: "TERM KILL", signal: 63 * time.Second, end: 68 * time.Second},
		"OverItsOutput":       {limit: 2, calls: 1, class: run.ClassOutputLimit, signals: "TERM KILL", signal: 3 * time.Second, end: 8 * time.Second},
		"StoppedTwice":        {stop: 59 * time.Second, calls: 1, class: run.ClassCancelled, signals: "TERM KILL", signal: 62 * time.Second, end: 67 * time.Second},
		"EndsByItself":        {exit: 10 * time.Second, class: run.ClassOK, end: 10 * time.Second},
		"EndsMeanwhile":       {stop: 10 * time.Second, exit: 11 * time.Second, calls: 1, class: run.ClassCancelled, end: 11 * time.Second, cut: true},
		"NoTimeForTheWaiting": {stop: 10 * time.Second, hurry: 11 * time.Second, calls: 1, class: run.ClassCancelled, signals: "TERM KILL", signal: 11 * time.Second, end: 11 * time.Second, cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newProcess()
				s := aSpec()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				hurry := make(chan struct{})
				began := time.Now()
				if c.stop > 0 {
					time.AfterFunc(c.stop, func() { cancel(errors.New("stopped")) })
				}
				if c.hurry > 0 {
					time.AfterFunc(c.hurry, func() { close(hurry) })
				}
				if c.exit > 0 {
					time.AfterFunc(c.exit, func() { p.end(0, "") })
				}
				if c.limit > 0 {
					s.Limits.MaxOutputBytes = c.limit
					go func() { _, _ = p.outW.Write([]byte("hello")) }()
				}
				calls, cut := 0, false
				res, err := sandbox.Run(ctx, &scripted{p: p}, s, &sink{}, sandbox.Options{Hurry: hurry, BeforeStop: func(ctx context.Context) {
					calls++
					if p.got() != "" {
						t.Errorf("called after %s", p.got())
					}
					select {
					case <-ctx.Done():
						cut = true
					case <-time.After(3 * time.Second):
					}
				}})
				if err != nil || res.Class != c.class || p.got() != c.signals || calls != c.calls || cut != c.cut {
					t.Errorf("%+v %v, signals %q, %d calls, cut short: %v", res, err, p.got(), calls, cut)
				}
				if got := res.ProcessGoneAt.Sub(began); got != c.end {
					t.Errorf("the process ended after %s, want %s", got, c.end)
				}
				if c.signals != "" && res.SignalledAt.Sub(began) != c.signal {
					t.Errorf("signalled after %s, want %s", res.SignalledAt.Sub(began), c.signal)
				}
			})
		})
	}
}
