package graph

import (
	"context"
	"fmt"
	"testing"

	"github.com/99designs/gqlgen/graphql"

	"github.com/weirhq/weir/runtime/run"
)

// BenchmarkEvents measures what one event costs one subscriber, from the feed
// to the encoded response, for batches of several sizes. The events are pieces
// of output of 100 bytes; the selection is the dashboard's kind.
func BenchmarkEvents(b *testing.B) {
	for _, size := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("BatchOf%d", size), func(b *testing.B) {
			f := newFake()
			batch := make([]*run.Event, size)
			for i := range batch {
				batch[i] = event(int64(i+1), &run.OutputWritten{ExecutionID: "exe_1", Stream: run.Stdout, Text: fmt.Sprintf("%0100d", i)})
			}
			f.follow = func(_ context.Context, _ int64, send func([]*run.Event) error) error {
				for {
					if err := send(batch); err != nil {
						return err
					}
				}
			}
			api := New(Options{Runs: f, Reader: f, Feed: f, Agents: f, Server: f})
			ctx, cancel := context.WithCancelCause(b.Context())
			exec := api.Executor()
			op, errs := exec.CreateOperationContext(graphql.StartOperationTrace(ctx), &graphql.RawParams{
				Query: `subscription{events(sessionId:"` + sesID + `"){__typename seq at runId stage ...on OutputWritten{executionId stream text offset} ...on AgentMessage{text} ...on StateChanged{state status}}}`,
			})
			if errs != nil {
				b.Fatal(errs)
			}
			next, ctx := exec.DispatchOperation(ctx, op)
			b.ReportAllocs()
			for n := 0; n < b.N; n += size {
				if r := next(ctx); r == nil || len(r.Errors) > 0 {
					b.Fatal(r)
				}
			}
			b.StopTimer()
			cancel(nil)
			api.Wait()
		})
	}
}
