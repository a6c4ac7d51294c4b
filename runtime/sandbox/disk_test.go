package sandbox_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

const mib = 1 << 20

// filling is a process whose workspace grows by a MiB in a second, between two looks.
type filling struct {
	*process
	began time.Time
	look  time.Duration // what one look takes
	err   error
	at    []time.Duration // when it was looked at
	now   atomic.Int32
}

func (p *filling) DiskUse(ctx context.Context, limit int64) (int64, error) {
	if p.now.Add(1) > 1 {
		panic("two looks at a time")
	}
	defer p.now.Add(-1)
	p.at = append(p.at, time.Since(p.began))
	select {
	case <-time.After(p.look):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return min(int64((time.Since(p.began)-100*time.Millisecond)/time.Second)*mib, limit+mib), p.err
}

// fill runs p with a limit of 10 MiB.
func fill(t *testing.T, p *filling, change func(*sandbox.Spec)) sandbox.Result {
	t.Helper()
	s := aSpec()
	s.Limits.DiskMiB = 10
	if change != nil {
		change(&s)
	}
	p.began = time.Now()
	res, err := sandbox.Run(t.Context(), &scripted{of: p}, s, &sink{}, sandbox.Options{})
	if err != nil {
		t.Errorf("Run: %v", err)
	}
	return res
}

func TestOverTheDiskLimitItIsKilledWithoutGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &filling{process: newProcess()}
		res := fill(t, p, nil)
		if res.Class != run.ClassDiskLimit || !res.IsError() || p.got() != "KILL" || res.DiskUse != 11*mib || res.DiskLimit != 10*mib {
			t.Errorf("%+v, signals %q", res, p.got())
		}
		if d := res.SignalledAt.Sub(p.began); d < 11*time.Second || d > 11*time.Second+250*time.Millisecond {
			t.Errorf("killed after %s; the limit was passed after 11 s", d)
		}
		if len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "11.0 MiB were counted, and sandbox.diskMiB is 10") {
			t.Errorf("warnings %q", res.Warnings)
		}
	})
}

func TestPausesBetweenLooksFollowWhatTheyCost(t *testing.T) {
	t.Parallel()
	for look, want := range map[time.Duration]time.Duration{
		0: 250 * time.Millisecond, 10 * time.Millisecond: 260 * time.Millisecond,
		100 * time.Millisecond: 1100 * time.Millisecond, 2 * time.Second: 7 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &filling{process: newProcess(), look: look}
			fill(t, p, func(s *sandbox.Spec) { s.Limits.DiskMiB = 40 })
			if len(p.at) < 4 || p.at[0] != 250*time.Millisecond {
				t.Fatalf("looked at %v", p.at)
			}
			for i, at := range p.at[1:4] {
				if d := at - p.at[i]; d != want {
					t.Errorf("a look of %s comes every %s, want %s", look, d, want)
				}
			}
		})
	}
}

// TestTheLastLookJudgesWhoEndsInAPause also shows that it judges nobody else.
func TestTheLastLookJudgesWhoEndsInAPause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ends time.Duration
		want run.ExitClass
	}{
		"Within":   {9900 * time.Millisecond, run.ClassOK},
		"JustOver": {11200 * time.Millisecond, run.ClassDiskLimit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &filling{process: newProcess()}
				time.AfterFunc(c.ends, func() { p.end(0, "") })
				if res := fill(t, p, nil); res.Class != c.want || p.got() != "" || *res.ExitCode != 0 {
					t.Errorf("%+v, signals %q", res, p.got())
				}
			})
		})
	}
}

func TestWhoWritesInItsGraceIsKilledAndKeepsItsReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &filling{process: newProcess()}
		res := fill(t, p, func(s *sandbox.Spec) { s.Limits.Timeout, s.Limits.Grace = 5*time.Second, time.Hour })
		if res.Class != run.ClassTimeout || p.got() != "TERM KILL" || res.ProcessGoneAt.Sub(p.began) > 12*time.Second {
			t.Errorf("%+v, signals %q", res, p.got())
		}
		if res.DiskUse != 0 || len(res.Warnings) != 0 {
			t.Errorf("a timeout speaks of the disk: %+v", res)
		}
	})
}

func TestWithoutALimitNobodyLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &filling{process: newProcess()}
		time.AfterFunc(20*time.Second, func() { p.end(0, "") })
		if res := fill(t, p, func(s *sandbox.Spec) { s.Limits.DiskMiB = 0 }); res.Class != run.ClassOK || len(p.at) > 0 {
			t.Errorf("%+v, looked at %v", res, p.at)
		}
	})
}

func TestAFaultOfMeasuringIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &filling{process: newProcess(), err: errors.New("input/output error")}
		time.AfterFunc(20*time.Second, func() { p.end(0, "") })
		res := fill(t, p, nil)
		if res.Class != run.ClassOK || len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "input/output error") {
			t.Errorf("%+v", res)
		}
	})
}

// TestALookEndsWithItsExecution has a look that lasts longer than the command.
func TestALookEndsWithItsExecution(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &filling{process: newProcess(), look: time.Hour}
		time.AfterFunc(time.Second, func() { p.end(0, "") })
		res := fill(t, p, nil)
		if d := time.Since(p.began); res.Class != run.ClassOK || d > 32*time.Second || len(res.Warnings) != 1 {
			t.Errorf("%+v after %s", res, d)
		}
	})
}
