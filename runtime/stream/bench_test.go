package stream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/stream"
)

// BenchmarkFanOut measures the time per event delivered to one of many
// followers that do nothing with it, events committed one by one as fast as
// they are; it counts events, not batches.
func BenchmarkFanOut(b *testing.B) {
	for _, followers := range []int{1, 20, 200} {
		b.Run(fmt.Sprint(followers, " followers"), func(b *testing.B) {
			m, s := open(stream.Options{})
			m.create("ses_a")
			ctx, cancel := context.WithCancelCause(b.Context())
			var wg sync.WaitGroup
			var delivered, batches atomic.Int64
			done := errors.New("all delivered")
			total := int64(b.N)
			for range followers {
				wg.Go(func() {
					_ = s.Follow(ctx, "ses_a", 0, run.EventFilter{}, func(events []*run.Event) error {
						delivered.Add(int64(len(events)))
						batches.Add(1)
						if events[len(events)-1].Seq == total {
							return done
						}
						return nil
					})
				})
			}
			rnd := rand.New(rand.NewPCG(1, 1))
			b.ResetTimer()
			for range b.N {
				m.append(true, "ses_a", event(rnd))
			}
			wg.Wait()
			b.StopTimer()
			cancel(nil)
			if got := delivered.Load(); got != total*int64(followers) {
				b.Fatalf("%d deliveries, want %d", got, total*int64(followers))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(delivered.Load()), "ns/delivery")
			b.ReportMetric(float64(delivered.Load())/float64(batches.Load()), "events/batch")
		})
	}
}
