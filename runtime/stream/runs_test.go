package stream_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/stream"
)

func TestFollowRunsCoalesces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, s := open(stream.Options{})
		ctx, cancel := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		release := make(chan struct{})
		var got []run.Run
		wg.Go(func() {
			_ = s.FollowRuns(ctx, run.RunFilter{Agent: "a"}, func(r run.Run) error {
				<-release
				got = append(got, r)
				return nil
			})
		})
		synctest.Wait()
		for i := range 100 {
			m.set(run.Run{ID: "run_1", Agent: "a", Result: fmt.Sprint(i)})
			m.set(run.Run{ID: "run_2", Agent: "b"})
			synctest.Wait()
		}
		close(release)
		synctest.Wait()
		cancel(nil)
		wg.Wait()
		if len(got) != 2 || got[0].Result != "0" || got[1].Result != "99" {
			t.Errorf("got %d runs, want the first state and the newest", len(got))
		}
	})
}

// Each follower ends with the newest state of every run, and one read of a
// changed run serves all of them.
func TestFollowRunsShareReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, s := open(stream.Options{})
		ctx, cancel := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		const followers, runs, changes = 30, 5, 40
		last := make([]map[run.ID]string, followers)
		for i := range last {
			last[i] = map[run.ID]string{}
			wg.Go(func() {
				_ = s.FollowRuns(ctx, run.RunFilter{}, func(r run.Run) error {
					last[i][r.ID] = r.Result
					return nil
				})
			})
		}
		synctest.Wait()
		for c := range changes {
			for r := range runs {
				m.set(run.Run{ID: run.ID(fmt.Sprint("run_", r)), Result: fmt.Sprint(c)})
			}
			synctest.Wait()
		}
		cancel(nil)
		wg.Wait()
		for i, l := range last {
			for r := range runs {
				if got := l[run.ID(fmt.Sprint("run_", r))]; got != fmt.Sprint(changes-1) {
					t.Errorf("follower %d has state %s of run %d, want %d", i, got, r, changes-1)
				}
			}
		}
		// Some reads race with a change and are not shared; without sharing
		// there would be 30 times as many.
		if m.reads > followers*runs*changes/2 {
			t.Errorf("%d reads for %d changes and %d followers", m.reads, runs*changes, followers)
		}
	})
}
