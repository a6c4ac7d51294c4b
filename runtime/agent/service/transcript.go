package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/meter"
	"github.com/weirhq/weir/runtime/run"
)

const (
	// maxEntries and maxDepth bound the look for transcripts: the folder is the agent's.
	maxEntries = 20_000
	maxDepth   = 4
	// maxCalls bounds what is taken from one transcript.
	maxCalls = 200_000
)

// Files reads transcripts from the files that agents leave in their workspace.
type Files struct{}

// Read implements Transcripts. A session of Claude Code is the file SESSION.jsonl
// in any of its project folders, and what stands in SESSION/subagents; without a
// session's id, or without its file, the newest one counts.
func (Files) Read(ctx context.Context, root *os.Root, t agent.Transcript, since time.Time) ([]run.UsageRecord, error) {
	s := &search{ctx: ctx, root: root, folder: t.Folder}
	names := s.find(t)
	if len(names) == 0 {
		return nil, s.problem()
	}
	r, err := meter.NewReader(meter.Source{Format: meter.ClaudeTranscript, After: since})
	if err != nil {
		return nil, err
	}
	var list []run.UsageRecord
	at := make(map[string]int)
	problem := s.problem()
	for _, name := range names {
		err := s.read(name, r, func(records []run.UsageRecord) error {
			for _, u := range records {
				i, known := at[u.RequestKey]
				switch {
				case known:
					list[i] = u
				case len(list) >= maxCalls:
					return fmt.Errorf("it has more than %d calls", maxCalls)
				default:
					at[u.RequestKey] = len(list)
					list = append(list, u)
				}
			}
			return nil
		})
		if err != nil {
			problem = errors.Join(problem, err)
		}
	}
	_, rep := r.Close()
	if n := rep.Skipped + rep.Oversized; n > 0 {
		problem = errors.Join(problem, fmt.Errorf("%d of its lines could not be read", n))
	}
	return list, problem
}

// bounded ends a reading with its context.
type bounded struct {
	ctx context.Context
	r   io.Reader
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	return b.r.Read(p)
}
