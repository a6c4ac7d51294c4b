package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
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
	s := &search{ctx: ctx, root: root}
	names := s.find(t)
	if len(names) == 0 {
		return nil, s.err
	}
	r, err := meter.NewReader(meter.Source{Format: meter.ClaudeTranscript, After: since})
	if err != nil {
		return nil, err
	}
	var list []run.UsageRecord
	at := make(map[string]int)
	problem := s.err
	for _, name := range names {
		err := readFile(ctx, root, name, r, func(records []run.UsageRecord) error {
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
			problem = errors.Join(problem, fmt.Errorf("reading %s: %w", name, err))
		}
	}
	_, rep := r.Close()
	if n := rep.Skipped + rep.Oversized; n > 0 {
		problem = errors.Join(problem, fmt.Errorf("%d of its lines could not be read", n))
	}
	return list, problem
}

// readFile reads a regular file of the workspace.
func readFile(ctx context.Context, root *os.Root, name string, r *meter.Reader, book func([]run.UsageRecord) error) error {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO does not wait for its other end
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is no regular file")
	}
	return r.Read(ctx, &bounded{ctx, f}, book)
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

// search looks for transcripts in a folder that an agent fills as it likes.
type search struct {
	ctx  context.Context
	root *os.Root
	seen int
	err  error // the first one; what is not there is none
}

const suffix = ".jsonl"

// find gives the files of a session, the main one first.
func (s *search) find(t agent.Transcript) []string {
	var newest string
	var when time.Time
	for _, project := range s.list(t.Folder) {
		if !project.IsDir() {
			continue
		}
		folder := path.Join(t.Folder, project.Name())
		if t.SessionID != "" {
			name := path.Join(folder, t.SessionID+suffix)
			if info, err := s.root.Lstat(name); err == nil && info.Mode().IsRegular() {
				return s.withSubagents(name)
			}
		}
		for _, e := range s.list(folder) {
			if !e.Type().IsRegular() || path.Ext(e.Name()) != suffix {
				continue
			}
			if info, err := e.Info(); err == nil && info.ModTime().After(when) {
				newest, when = path.Join(folder, e.Name()), info.ModTime()
			}
		}
	}
	if newest == "" {
		return nil
	}
	return s.withSubagents(newest)
}

func (s *search) withSubagents(main string) []string {
	return append([]string{main}, s.subagents(path.Join(strings.TrimSuffix(main, suffix), "subagents"), maxDepth)...)
}

// subagents gives the transcripts of what the session delegated to.
func (s *search) subagents(folder string, depth int) (names []string) {
	for _, e := range s.list(folder) {
		name := path.Join(folder, e.Name())
		switch {
		case e.IsDir() && depth > 0:
			names = append(names, s.subagents(name, depth-1)...)
		case e.Type().IsRegular() && path.Ext(name) == suffix && strings.HasPrefix(e.Name(), "agent-"):
			names = append(names, name)
		}
	}
	return names
}

// list gives what is in a folder, links as they are.
func (s *search) list(folder string) []fs.DirEntry {
	if s.ctx.Err() != nil {
		s.fail(context.Cause(s.ctx))
		return nil
	}
	if s.seen >= maxEntries {
		return nil
	}
	f, err := s.root.OpenFile(folder, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.fail(err)
		}
		return nil
	}
	defer func() { _ = f.Close() }() // only read
	entries, err := f.ReadDir(maxEntries - s.seen)
	if err != nil && !errors.Is(err, io.EOF) {
		s.fail(err)
	}
	if s.seen += len(entries); s.seen >= maxEntries {
		s.fail(fmt.Errorf("the folder %s holds more than %d files, not all were looked at", folder, maxEntries))
	}
	return entries
}

func (s *search) fail(err error) {
	if s.err == nil {
		s.err = fmt.Errorf("looking for transcripts: %w", err)
	}
}
