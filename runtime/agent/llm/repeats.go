package llm

import (
	"bytes"
	"context"
	"fmt"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/run"
)

// repeats notices an agent that does the same over and over.
type repeats struct {
	call   chat.Call
	result result
	times  int
}

// The same call with the same result, in a row: told at the first number, ended
// at the second.
const (
	stuckTold = 3
	stuckEnds = 6
)

func (r *repeats) note(ctx context.Context, h agent.Host, calls []chat.Call, results []result) error {
	for i, c := range calls {
		if c.Name != r.call.Name || !bytes.Equal(c.Arguments, r.call.Arguments) || results[i] != r.result {
			r.call, r.result, r.times = c, results[i], 1
			continue
		}
		switch r.times++; {
		case r.times >= stuckEnds:
			return fmt.Errorf("the agent is stuck: it called %s %d times in a row with the same arguments and the same result", c.Name, r.times)
		case r.times == stuckTold:
			text := fmt.Sprintf("The agent repeats itself: %s was called %d times in a row with the same arguments and the same result. At %d times the run ends.", c.Name, r.times, stuckEnds)
			if err := h.Emit(ctx, &run.Warning{Text: text}); err != nil {
				return err
			}
		}
	}
	return nil
}
