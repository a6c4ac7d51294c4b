package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/server/supervise"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// diary writes down what services do, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) check(t *testing.T, want string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if got := strings.Join(d.lines, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// service takes a while to start and to stop.
func (d *diary) service(name string, end error) supervise.Service {
	ready := make(chan struct{})
	return supervise.Service{Name: name, Ready: ready, Run: func(ctx context.Context) error {
		time.Sleep(time.Second)
		d.add("%s ready", name)
		close(ready)
		<-ctx.Done()
		time.Sleep(time.Second)
		d.add("%s ended", name)
		return end
	}}
}

func TestStartsInOrderAndStopsInReverse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		ctx, cancel := context.WithCancelCause(t.Context())
		timer := time.AfterFunc(time.Minute, func() { cancel(nil) })
		defer timer.Stop()
		err := supervise.Run(ctx, quiet, d.service("a", nil), d.service("b", errors.New("late")), d.service("c", nil))
		d.check(t, "a ready, b ready, c ready, c ended, b ended, a ended")
		if err == nil || err.Error() != "stopping b: late" {
			t.Errorf("got %v", err)
		}
	})
}

func TestOneThatEndsBringsAllDown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  error
		want string
	}{"with an error": {errors.New("broken"), "b: broken"}, "without one": {nil, "b: it ended by itself"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var d diary
				b := supervise.Service{Name: "b", Run: func(context.Context) error {
					time.Sleep(time.Minute)
					return c.end
				}}
				err := supervise.Run(t.Context(), quiet, d.service("a", nil), b, d.service("c", nil))
				d.check(t, "a ready, c ready, c ended, a ended")
				if err == nil || err.Error() != c.want {
					t.Errorf("got %v, want %s", err, c.want)
				}
			})
		})
	}
}

func TestFailedStartStartsNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		b := supervise.Service{Name: "b", Ready: make(chan struct{}), Run: func(context.Context) error { return errors.New("no") }}
		err := supervise.Run(t.Context(), quiet, d.service("a", nil), b, d.service("c", nil))
		d.check(t, "a ready, a ended")
		if err == nil || err.Error() != "b: no" {
			t.Errorf("got %v", err)
		}
	})
}

func TestStopDuringTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		ctx, cancel := context.WithCancelCause(t.Context())
		timer := time.AfterFunc(1500*time.Millisecond, func() { cancel(nil) })
		defer timer.Stop()
		if err := supervise.Run(ctx, quiet, d.service("a", nil), d.service("b", nil), d.service("c", nil)); err != nil {
			t.Error(err)
		}
		d.check(t, "a ready, b ready, b ended, a ended")
	})
}
