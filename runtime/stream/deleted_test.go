package stream_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/stream"
)

// Who follows a session that is deleted learns of it, whether this process
// deletes it or another one does.
func TestADeletedSessionEndsItsFollowers(t *testing.T) {
	t.Parallel()
	for name, here := range map[string]bool{"Here": true, "Elsewhere": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, s := open(stream.Options{Poll: time.Second})
				m.create("a")
				m.create("b")
				m.append(true, "a", &run.Event{Type: run.TypeWarning})
				ctx, cancel := context.WithCancelCause(t.Context())
				polling := make(chan error, 1)
				go func() { polling <- s.Run(ctx) }()
				ended := map[run.SessionID]chan error{"a": make(chan error, 2), "b": make(chan error, 2)}
				for id, end := range ended {
					for range 2 {
						go func() {
							end <- s.Follow(ctx, id, 0, run.EventFilter{}, func([]*run.Event) error { return nil })
						}()
					}
				}
				synctest.Wait()
				m.remove("a")
				if here {
					s.Deleted("a")
				} else {
					time.Sleep(2 * time.Second)
				}
				synctest.Wait()
				if n := len(ended["a"]); n != 2 {
					t.Fatalf("%d of 2 followers ended", n)
				}
				for range 2 {
					if err := <-ended["a"]; run.CodeOf(err) != run.NotFound {
						t.Errorf("a follower ended with %v", err)
					}
				}
				if n := len(ended["b"]); n != 0 {
					t.Errorf("%d followers of another session ended", n)
				}
				cancel(nil)
				for range 2 {
					if err := <-ended["b"]; run.CodeOf(err) == run.NotFound {
						t.Errorf("the other session's follower ended with %v", err)
					}
				}
				if err := <-polling; err != nil {
					t.Error(err)
				}
				s.Deleted("a") // nobody follows it any more
			})
		})
	}
}
