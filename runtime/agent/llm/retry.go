package llm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/run"
)

// again waits before the next try, or gives the error that ends the run.
func (l *loop) again(ctx context.Context, try int, err error) error {
	var e *chat.Error
	if !errors.As(err, &e) {
		return err
	}
	if !e.Again() || try >= l.retry.Tries {
		return l.final(try, e)
	}
	wait := l.retry.pause(try, rand.Float64())
	if e.After > 0 {
		if e.After > l.retry.Wait {
			return fmt.Errorf("%w; it may be asked again after %s, which is more than the %s that a run waits", l.final(try, e), e.After.Round(time.Second), l.retry.Wait)
		}
		wait = e.After
	}
	text := fmt.Sprintf("No whole answer came: %s. The model is asked again in %s (try %d of %d).", describe(e), wait.Round(100*time.Millisecond), try+1, l.retry.Tries)
	if err := l.host.Emit(ctx, &run.Warning{Text: text}); err != nil {
		return err
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pause is the time before the try after this one: doubled each time, with
// jitter, so that runs which failed together do not come back together.
func (r Retry) pause(try int, jitter float64) time.Duration {
	d := r.Delay
	for range try - 1 {
		if d *= 2; d >= r.Max {
			d = r.Max
			break
		}
	}
	return d/2 + time.Duration(jitter*float64(d/2))
}

// final says what ended the run, and what to do.
func (l *loop) final(try int, e *chat.Error) error {
	at := l.task.Definition.Endpoint()
	provider := l.task.Definition.Provider
	switch e.Class {
	case chat.Denied:
		hint := "set llm.keyEnv to the variable that holds a key"
		if at.KeyEnv != "" {
			hint = "check the key in " + at.KeyEnv
		}
		return fmt.Errorf("%s refused the key: %s; %s", provider, describe(e), hint)
	case chat.NoCredit:
		return fmt.Errorf("%s wants to be paid first: %s", provider, describe(e))
	case chat.TooLong:
		return fmt.Errorf("%w (%s)", l.full(), describe(e))
	case chat.Invalid:
		return fmt.Errorf("%s does not take the request: %s", provider, describe(e))
	case chat.Passing, chat.Malformed:
	}
	return fmt.Errorf("%s could not be asked, in %d tries: %s", provider, try, describe(e))
}

func describe(e *chat.Error) string {
	if e.Status >= 300 {
		return fmt.Sprintf("%s (HTTP %d)", e.Text, e.Status)
	}
	return e.Text
}
