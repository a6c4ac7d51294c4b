package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

const (
	recountPage = 200      // events
	recountRead = 32 << 10 // bytes
	maxCount    = 64 << 10 // bytes of a count file
)

// recount makes the account of an execution whose own was lost with the server:
// from the raw output, which is exact, or where that is missing or shorter than
// what the events show, from their text. What was read beyond the output limit
// stands in the count file.
func (s *supervisor) recount(ctx context.Context, id run.ExecutionID) (run.Loss, error) {
	shown := map[run.OutputStream]*shownText{}
	for _, name := range []run.OutputStream{run.Stdout, run.Stderr} {
		shown[name] = &shownText{tally: sandbox.NewTally(name, s.run.Stage)}
	}
	if err := s.recountEvents(ctx, id, shown); err != nil {
		return run.Loss{}, err
	}
	dir, err := s.e.openOutputs(s.run.Session)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.e.log.Warn("The raw output of a lost execution could not be read", "execution", id, "error", err)
	}
	if dir != nil {
		defer func() { _ = dir.Close() }() // only read through
	}
	var sum run.Loss
	for _, name := range []run.OutputStream{run.Stdout, run.Stderr} {
		loss, err := s.recountStream(ctx, dir, id, name, shown[name])
		if err != nil {
			return run.Loss{}, fmt.Errorf("counting the output of execution %s: %w", id, err)
		}
		sum = sum.Add(loss)
	}
	return sum, nil
}

// shownText is what the events show of a stream.
type shownText struct {
	tally *sandbox.Tally
	least int64 // raw bytes that it stands for, at least
}

func (s *supervisor) recountEvents(ctx context.Context, id run.ExecutionID, shown map[run.OutputStream]*shownText) error {
	q := run.EventQuery{
		Session: s.run.Session, First: recountPage,
		Filter: run.EventFilter{Run: s.run.ID, Types: []run.EventType{run.TypeOutputWritten}},
	}
	for {
		page, err := s.e.store.Events(ctx, q)
		if err != nil {
			return fmt.Errorf("reading the output of execution %s: %w", id, err)
		}
		for _, ev := range page.Events {
			p, err := ev.Payload()
			if err != nil {
				return fmt.Errorf("reading the output of execution %s: %w", id, err)
			}
			o, ok := p.(*run.OutputWritten)
			if !ok || o.ExecutionID != id || shown[o.Stream] == nil {
				continue
			}
			t := shown[o.Stream]
			if err := t.tally.Add(ctx, []byte(o.Text)); err != nil {
				return fmt.Errorf("counting the output of execution %s: %w", id, err)
			}
			// A replaced byte was one byte and is three now.
			const more = len(string(utf8.RuneError)) - 1
			t.least = o.Offset + int64(len(o.Text)-more*strings.Count(o.Text, string(utf8.RuneError)))
		}
		if !page.HasMore || len(page.Events) == 0 {
			return nil
		}
		q.After = page.Events[len(page.Events)-1].Seq
	}
}

// recountStream decides which account of a stream counts. dir is nil when there
// is no raw output here.
func (s *supervisor) recountStream(ctx context.Context, dir *os.Root, id run.ExecutionID, name run.OutputStream, shown *shownText) (run.Loss, error) {
	fromEvents, err := shown.tally.Loss(ctx)
	if err != nil {
		return run.Loss{}, err
	}
	if dir == nil {
		fromEvents.BytesNotKept = fromEvents.BytesRead
		return fromEvents, nil
	}
	loss, err := s.recountFile(ctx, dir, outputName(id, name), name)
	if err != nil {
		s.e.log.Warn("The raw output of a lost execution could not be read", "execution", id, "stream", name, "error", err)
	}
	if kept := loss.BytesRead; err != nil || kept < shown.least {
		loss = fromEvents
		loss.BytesNotKept = max(loss.BytesRead-kept, 0)
	}
	if beyond, ok := s.counted(dir, countName(id, name)); ok && beyond.BytesRead >= loss.BytesRead {
		notKept := loss.BytesNotKept
		loss = beyond
		loss.BytesNotKept = notKept
	}
	return loss, nil
}

// recountFile counts a file; one that is not there is empty.
func (s *supervisor) recountFile(ctx context.Context, dir *os.Root, path string, name run.OutputStream) (run.Loss, error) {
	t := sandbox.NewTally(name, s.run.Stage)
	f, err := dir.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t.Loss(ctx)
	}
	if err != nil {
		return run.Loss{}, err
	}
	defer func() { _ = f.Close() }() // only read
	buf := make([]byte, recountRead)
	for {
		n, err := f.Read(buf)
		if n > 0 {
			if err := t.Add(ctx, buf[:n]); err != nil {
				return run.Loss{}, err
			}
		}
		if errors.Is(err, io.EOF) {
			return t.Loss(ctx)
		}
		if err != nil {
			return run.Loss{}, err
		}
	}
}

// counted reads a count file.
func (s *supervisor) counted(dir *os.Root, path string) (run.Loss, bool) {
	f, err := dir.Open(path)
	if err != nil {
		return run.Loss{}, false
	}
	b, err := io.ReadAll(io.LimitReader(f, maxCount))
	_ = f.Close() // only read
	var a account
	if err != nil || json.Unmarshal(b, &a) != nil {
		s.e.log.Warn("The account of a lost execution could not be read", "file", path)
		return run.Loss{}, false
	}
	if a.Unended {
		a.Loss.LinesRead++ // as at any other end
	}
	return a.Loss, true
}
