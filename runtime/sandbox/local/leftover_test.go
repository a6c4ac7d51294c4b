//go:build linux

package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local"
)

// leftIn tells what is left of an execution: processes by its label, and the
// control groups that bear its name, which may go a moment later.
func leftIn(t *testing.T, id run.ExecutionID) string {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; <-time.After(2 * time.Millisecond) {
		if left := leftNow(t, id); !strings.Contains(left, "/sys/fs/cgroup") || time.Now().After(end) {
			return left
		}
	}
}

func leftNow(t *testing.T, id run.ExecutionID) string {
	t.Helper()
	var left []string
	for _, pid := range labelledProcesses(string(id)) {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		left = append(left, fmt.Sprintf("process %d %q", pid, status))
	}
	for _, pattern := range []string{"/sys/fs/cgroup/*/weir-*-", "/sys/fs/cgroup/weir/weir-*-"} {
		groups, err := filepath.Glob(pattern + string(id))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, groups...)
	}
	return strings.Join(left, "; ")
}

func TestStartsThatAreCutOffLeaveNothing(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	const atOnce = 8
	starts := 32 * rounds(t)
	why := errors.New("cut off")
	var all sync.WaitGroup
	for k := range atOnce {
		rnd := rand.New(rand.NewPCG(uint64(k), 1))
		all.Go(func() {
			for range starts / atOnce {
				s := shell(t, "true")
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(rnd.Int64N(int64(60*time.Millisecond))), why)
				res, err := sandbox.Run(ctx, b, s, &recorder{}, sandbox.Options{})
				cancel()
				if err != nil && !errors.Is(err, why) {
					t.Errorf("a cut off start: %v", err)
				}
				if left := leftIn(t, s.Execution); left != "" {
					t.Errorf("left of an execution that ended as %s %v: %s", res.Class, err, left)
				}
			}
		})
	}
	all.Wait()
}

// TestAChildThatNothingLabelsGoesWithItsStart cuts off a start at the moment
// when only bubblewrap knows of the process that it has made.
func TestAChildThatNothingLabelsGoesWithItsStart(t *testing.T) {
	t.Parallel()
	bubblewrap(t)
	for _, how := range []string{"cancel", "close"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := shell(t, "true")
			dir := filepath.Dir(s.Workspace)
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			fake, told := filepath.Join(dir, "bwrap"), filepath.Join(dir, "child")
			script := "#!/bin/sh\nenv -i sleep 1000 <&- >&- 2>&- 3<&- 4>&- 5<&- 6>&- &\necho $! >" + told + ".new; mv " + told + ".new " + told + "; wait; wait\n"
			if err := os.WriteFile(fake, []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			b := local.NewBubblewrap(local.Options{Bwrap: fake})
			defer func() { _ = b.Close() }()
			why := errors.New("cut off")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			started := make(chan error, 1)
			go func() { // received from below
				_, err := b.Start(ctx, s)
				started <- err
			}()
			child := ""
			eventually(t, "the child's number is told", func() bool {
				data, err := os.ReadFile(told)
				child = "/proc/" + strings.TrimSpace(string(data))
				return err == nil
			})
			eventually(t, "the child is what it will be", func() bool {
				name, err := os.ReadFile(child + "/comm")
				return err == nil && string(name) == "sleep\n"
			})
			if how == "cancel" {
				cancel(why)
			} else if err := b.Close(); err != nil {
				t.Error(err)
			}
			if err := <-started; err == nil || (how == "cancel" && !errors.Is(err, why)) {
				t.Errorf("the start's error: %v", err)
			}
			if status, err := os.ReadFile(child + "/status"); err == nil && !bytes.Contains(status, []byte("State:\tZ")) {
				t.Errorf("the child is alive:\n%s", status)
			}
		})
	}
}

func TestCloseDuringStartsLeavesNothing(t *testing.T) {
	t.Parallel()
	bubblewrap(t)
	rnd := rand.New(rand.NewPCG(7, 7))
	for range 6 * rounds(t) {
		b := local.NewBubblewrap(local.Options{})
		specs := []sandbox.Spec{shell(t, "sleep 1000"), shell(t, "sleep 1000")}
		var all sync.WaitGroup
		for _, s := range specs {
			all.Go(func() { _, _ = sandbox.Run(t.Context(), b, s, &recorder{}, sandbox.Options{}) })
		}
		<-time.After(time.Duration(rnd.Int64N(int64(40 * time.Millisecond))))
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		for _, s := range specs {
			mustBeGone(t, s)
		}
		all.Wait()
		for _, s := range specs {
			if left := leftIn(t, s.Execution); left != "" {
				t.Error(left)
			}
		}
	}
}

// TestAStoppedBubblewrapDelaysNoEnd stops bubblewrap itself, as somebody with
// the right to could.
func TestAStoppedBubblewrapDelaysNoEnd(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	for name, c := range map[string]struct {
		script        string
		grace, atMost time.Duration
	}{
		"willing":  {"echo up; exec sleep 1000", 20 * time.Second, 5 * time.Second},
		"stubborn": {"trap '' TERM; echo up; while :; do sleep 0.1; done", 300 * time.Millisecond, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shell(t, c.script)
			s.Limits.Grace = c.grace
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var began time.Time
			r := &recorder{}
			r.onText = func(string) {
				for _, pid := range labelledProcesses(string(s.Execution)) {
					status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
					if bytes.Contains(status, fmt.Appendf(nil, "\nPPid:\t%d\n", os.Getpid())) {
						if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
							t.Error(err)
						}
						began = time.Now()
					}
				}
				cancel(nil)
			}
			res, err := sandbox.Run(ctx, b, s, r, sandbox.Options{})
			if err != nil || began.IsZero() {
				t.Fatalf("bubblewrap was stopped at %v; error %v", began, err)
			}
			if took := time.Since(began); took > c.atMost {
				t.Errorf("it took %s", took)
			}
			if len(res.Survivors) > 0 || res.SandboxGoneAt.IsZero() || res.Class != run.ClassCancelled {
				t.Errorf("result %+v", res)
			}
			mustBeGone(t, s)
		})
	}
}
