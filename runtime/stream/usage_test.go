package stream_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/stream"
)

// told is what a follower of the usage got, and when.
type told struct {
	at time.Duration
	n  run.UsageTotals
}

func (t told) String() string {
	money := "-"
	if t.n.Usage.CostNanoUSD != nil {
		money = fmt.Sprint(*t.n.Usage.CostNanoUSD)
	}
	return fmt.Sprintf("%s %d %s", t.at, t.n.Usage.Input, money)
}

// followUsage collects what a follower gets until stop.
func followUsage(s *stream.Stream) (got *[]told, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	var wg sync.WaitGroup
	from := time.Now()
	got = new([]told)
	wg.Go(func() {
		_ = s.FollowUsage(ctx, func(n run.UsageTotals) error {
			*got = append(*got, told{time.Since(from), n})
			return nil
		})
	})
	return got, func() { cancel(nil); wg.Wait() }
}

// At once, then when something changed, never twice the same and at most once a
// second; the last change is not lost.
func TestFollowUsage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, s := open(stream.Options{})
		got, stop := followUsage(s)
		time.Sleep(10 * time.Second) // nothing happens
		one, two := int64(1), int64(2)
		m.use(true, 5, nil)
		for i := range int64(25) { // 1.75 seconds of changes
			time.Sleep(70 * time.Millisecond)
			m.use(true, 10+i, &one)
		}
		time.Sleep(10 * time.Second)
		m.use(true, 34, &one) // a run changed, its usage did not
		time.Sleep(10 * time.Second)
		m.use(true, 34, &two)
		time.Sleep(10 * time.Second)
		stop()
		if text := fmt.Sprint(*got); text != "[0s 0 - 10s 5 - 11s 23 1 12s 34 1 31.75s 34 2]" {
			t.Errorf("got %s", text)
		}
	})
}

// What another process does is seen within a second.
func TestFollowUsageOfOtherProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, s := open(stream.Options{Poll: time.Second})
		got, stop := followUsage(s)
		time.Sleep(3500 * time.Millisecond)
		m.use(false, 7, nil)
		time.Sleep(5 * time.Second)
		stop()
		if text := fmt.Sprint(*got); text != "[0s 0 - 4s 7 -]" {
			t.Errorf("got %s", text)
		}
	})
}

// Many followers share one read a second, and each ends with the last state.
func TestFollowUsageSharesReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, s := open(stream.Options{})
		var all []*[]told
		for range 100 {
			got, stop := followUsage(s)
			defer stop()
			all = append(all, got)
		}
		synctest.Wait()
		for i := range int64(1000) { // 10 seconds
			time.Sleep(10 * time.Millisecond)
			m.use(true, i, nil)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		for i, got := range all {
			if last := (*got)[len(*got)-1].n.Usage.Input; last != 999 || len(*got) > 14 {
				t.Errorf("follower %d ends with %d after %d messages", i, last, len(*got))
			}
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.reads > 14 {
			t.Errorf("%d reads in 15 seconds", m.reads)
		}
	})
}

// A store that is gone is waited for.
func TestFollowUsageWaitsForTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, s := open(stream.Options{})
		m.mu.Lock()
		m.down = true
		m.mu.Unlock()
		got, stop := followUsage(s)
		time.Sleep(10 * time.Second)
		m.mu.Lock()
		m.down = false
		m.mu.Unlock()
		time.Sleep(10 * time.Second)
		stop()
		if len(*got) != 1 {
			t.Errorf("got %v", *got)
		}
	})
}
