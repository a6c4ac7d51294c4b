package graph

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// pipe runs follow in a goroutine of its own and gives what it sends as a
// channel. The channel is unbuffered and closed when follow has returned. A
// send waits for the reader or for the end of ctx, so the goroutine outlives
// ctx by no more than follow needs to notice. An error that is not the end of
// ctx is kept for whoever called Watch on the context.
func pipe[T any](ctx context.Context, owner *sync.WaitGroup, follow func(send func(T) error) error) <-chan T {
	out := make(chan T)
	owner.Go(func() {
		defer close(out)
		err := safely(func() error {
			return follow(func(v T) error {
				select {
				case out <- v:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
		})
		if w, ok := ctx.Value(watchKey{}).(*watch); ok && ctx.Err() == nil {
			w.set(err)
		}
	})
	return out
}

// safely turns a panic into an error: nobody else recovers in this goroutine,
// and one bad stream must not take the server down.
func safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

type watchKey struct{}

type watch struct {
	mu  sync.Mutex
	err error
}

func (w *watch) set(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = errors.Join(w.err, err)
}

func (w *watch) get() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Watch prepares a subscription's context: after its last response the function
// says why it ended, nil for a normal end. GraphQL itself has no word for that.
func Watch(ctx context.Context) (context.Context, func() error) {
	w := new(watch)
	return context.WithValue(ctx, watchKey{}, w), w.get
}

type cursorKey struct{}

// cursor is the place of an events subscription that a client names with a
// header instead of with the argument after.
type cursor struct {
	after int64

	mu   sync.Mutex
	sent []int64 // last seqs of the messages that were handed on, but not asked for yet
}

// Resume lets an events subscription start after the later one of seq and its
// argument after. The function it gives is to be called once for each response
// and gives the last seq in it; 0 when the operation has no seqs.
func Resume(ctx context.Context, seq int64) (context.Context, func() int64) {
	c := &cursor{after: seq}
	return context.WithValue(ctx, cursorKey{}, c), c.next
}

// handOn is called before a message is, so that next finds its seq.
func (c *cursor) handOn(seq int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = append(c.sent, seq)
}

func (c *cursor) next() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sent) == 0 {
		return 0
	}
	seq := c.sent[0]
	c.sent = c.sent[1:]
	return seq
}
