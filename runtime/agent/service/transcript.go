package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// section is how many bytes of a transcript are read in one go: a reading that is cut
// off begins there again.
const section = 4 << 20

// Files reads transcripts from the files that agents leave in their workspace.
type Files struct{}

// Open implements Transcripts. A session of Claude Code is the file SESSION.jsonl
// in any of its project folders, and what stands in SESSION/subagents; without a
// session's id, or without its file, the newest one counts.
func (Files) Open(t agent.Transcript, since time.Time) (Reading, error) {
	r, err := meter.NewReader(meter.Source{Format: meter.ClaudeTranscript, After: since})
	if err != nil {
		return nil, err
	}
	return &reading{transcript: t, r: r, files: map[string]*place{}, at: map[string]int{}}, nil
}

// reading is how far the files of one transcript were read. They only grow, so each
// line is read once; a file that was replaced is read from its beginning, which
// tells of the same calls.
type reading struct {
	transcript agent.Transcript
	r          *meter.Reader
	files      map[string]*place
	list       []run.UsageRecord
	at         map[string]int // where a call stands in list
}

// place is where the next line of a file begins.
type place struct {
	info   fs.FileInfo
	offset int64
	before []byte // what stands in front of it
}

// remembered is how much of what was read tells that a file is the same.
const remembered = 512

// holds tells whether the file is the one that was read so far, and not written anew.
func (p *place) holds(f io.ReaderAt, info fs.FileInfo) bool {
	if !os.SameFile(p.info, info) || info.Size() < p.offset {
		return false
	}
	now := make([]byte, len(p.before))
	_, err := f.ReadAt(now, p.offset-int64(len(now)))
	return err == nil && bytes.Equal(now, p.before)
}

// advance moves the place on.
func (p *place) advance(f io.ReaderAt, to int64) error {
	before := make([]byte, min(remembered, to))
	if _, err := f.ReadAt(before, to-int64(len(before))); err != nil {
		return err
	}
	p.offset, p.before = to, before
	return nil
}

// Read implements Reading.
func (g *reading) Read(ctx context.Context, root *os.Root, last bool) ([]run.UsageRecord, error) {
	s := &search{ctx: ctx, root: root, folder: g.transcript.Folder}
	names := s.find(g.transcript)
	problem := s.problem()
	for _, name := range names {
		problem = errors.Join(problem, g.file(s, name, last))
	}
	rep := g.r.Report()
	if n := rep.Skipped + rep.Oversized; n > 0 {
		problem = errors.Join(problem, fmt.Errorf("%d of its lines could not be read", n))
	}
	return g.list, problem
}

// file reads what came to a file since the last time; a line without an end only when
// it is the last time.
func (g *reading) file(s *search, name string, last bool) error {
	f, info, err := s.open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	p := g.files[name]
	if p == nil || !p.holds(f, info) {
		p = &place{info: info}
		g.files[name] = p
	}
	for p.offset < info.Size() {
		end, err := lineEnd(f, p.offset, min(p.offset+section, info.Size()))
		if err == nil && end == p.offset && info.Size()-end > section { // a line that is longer
			end, err = lineEnd(f, p.offset, info.Size())
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if end == p.offset {
			if !last {
				return nil
			}
			end = info.Size()
		}
		if err := g.r.Read(s.ctx, io.NewSectionReader(f, p.offset, end-p.offset), g.book); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if err := p.advance(f, end); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
	}
	return nil
}

// book takes what was read of calls.
func (g *reading) book(records []run.UsageRecord) error {
	for _, u := range records {
		i, known := g.at[u.RequestKey]
		switch {
		case known:
			u.Tokens = u.Tokens.Max(g.list[i].Tokens) // the reader does not remember all
			g.list[i] = u
		case len(g.list) >= maxCalls:
			return fmt.Errorf("it has more than %d calls", maxCalls)
		default:
			g.at[u.RequestKey] = len(g.list)
			g.list = append(g.list, u)
		}
	}
	return nil
}

// lineEnd gives the end of the last whole line between two places; from if there is none.
func lineEnd(f io.ReaderAt, from, to int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for to > from {
		n := min(int64(len(buf)), to-from)
		if _, err := f.ReadAt(buf[:n], to-n); err != nil {
			return from, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return to - n + int64(i) + 1, nil
		}
		to -= n
	}
	return from, nil
}
