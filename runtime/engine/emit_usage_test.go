package engine

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weirhq/weir/runtime/run"
)

// One record that the store refuses takes no other of its entry with it, and the
// run's log says so, within bounds.
func TestRefusedUsageTakesNoOtherWithIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &scriptedAppender{refuse: func(b run.Batch) error {
			for _, u := range b.Usage {
				if strings.HasPrefix(u.RequestKey, "bad") {
					return run.Errorf(run.Invalid, "the usage record %q was not booked", u.RequestKey)
				}
			}
			return nil
		}}
		m, ctx, stop := startEmitter(t, a)
		var records []run.UsageRecord
		for i := range 2 * maxRefused {
			records = append(records, run.UsageRecord{RequestKey: fmt.Sprint("good", i)}, run.UsageRecord{RequestKey: fmt.Sprint("bad", i)})
		}
		if err := m.post(ctx, entry{usage: records}); err != nil {
			t.Fatal(err)
		}
		stop()
		var booked []string
		for _, b := range a.batches {
			for _, u := range b.Usage {
				booked = append(booked, u.RequestKey)
			}
		}
		if len(booked) != 2*maxRefused || booked[0] != "good0" {
			t.Errorf("booked is %v", booked)
		}
		told := strings.Split(strings.Join(a.texts(), "|"), "Usage was left out: ")
		if n := len(told) - 1; n != maxRefused || !strings.HasPrefix(told[1], `the usage record "bad0" was not booked`) || !strings.Contains(told[n], "server's log") {
			t.Errorf("%d warnings: %q", n, told)
		}
	})
}
