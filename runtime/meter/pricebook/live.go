package pricebook

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/textfile"
)

// maxFile bounds a price file, in bytes. LiteLLM's has about 2 MiB.
const maxFile = 32 << 20

// every is how often the file is looked at.
const every = time.Minute

// ReadPath reads the shipped prices with those of a file above them; "" is the
// shipped ones alone.
func ReadPath(path string) (*Book, error) {
	if path == "" {
		return Shipped()
	}
	data, err := textfile.Read(path, maxFile)
	if err != nil {
		return nil, Faults{{File: path, Text: err.Error()}}
	}
	return Read(path, data)
}

// Live is the book that a server prices by. Once a minute it reads its file
// again if that has changed; a version with faults is logged, and the last good
// book stays in force. It is safe for concurrent use.
type Live struct {
	path string
	log  *slog.Logger
	now  atomic.Pointer[state]
	seen fs.FileInfo // by Run alone
}

type state struct {
	book    *Book
	problem string // of a newer version of the file
}

var _ run.Pricer = (*Live)(nil)

// Open reads the file at path; "" is the shipped prices alone, which are read
// when they are first asked for: a program that prices nothing need not wait.
func Open(path string, log *slog.Logger) (*Live, error) {
	l := &Live{path: path, log: log}
	if path == "" {
		return l, nil
	}
	l.seen = l.stat() // before it is read: a change in between is seen later
	book, err := ReadPath(path)
	if err != nil {
		return nil, err
	}
	l.now.Store(&state{book: book})
	return l, nil
}

// Price implements run.Pricer.
func (l *Live) Price(u run.UsageRecord, pinned *run.Price) (run.Pricing, error) {
	return l.Book().Price(u, pinned)
}

// Book is the one in force.
func (l *Live) Book() *Book { return l.state().book }

// Problem says why the file's newest version is not in force; "" when it is.
func (l *Live) Problem() string { return l.state().problem }

func (l *Live) state() *state {
	if s := l.now.Load(); s != nil {
		return s
	}
	s := &state{}
	var err error
	if s.book, err = Shipped(); err != nil { // a test reads them
		s.book, s.problem = newBook(), err.Error()
	}
	l.now.Store(s)
	return s
}

// Run follows the file until ctx ends.
func (l *Live) Run(ctx context.Context) error {
	if l.path == "" {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			l.look(ctx)
		}
	}
}

// look reads the file if it has changed.
func (l *Live) look(ctx context.Context) {
	now := l.stat()
	if unchanged(l.seen, now) {
		return
	}
	l.seen = now
	book, err := ReadPath(l.path)
	if err != nil {
		l.keep(ctx, err)
		return
	}
	l.now.Store(&state{book: book})
	s := book.Summary()
	l.log.InfoContext(ctx, "the price file was read again", "file", l.path, "rows", s.Rows, "models", s.Models)
}

// keep leaves the last good book in force.
func (l *Live) keep(ctx context.Context, err error) {
	l.now.Store(&state{book: l.Book(), problem: err.Error()})
	l.log.ErrorContext(ctx, "the price file cannot be used; the prices read before stay in force", "problem", err)
}

// stat gives nil for a file that is not there.
func (l *Live) stat() fs.FileInfo {
	if l.path == "" {
		return nil
	}
	info, err := os.Stat(l.path)
	if err != nil {
		return nil
	}
	return info
}

func unchanged(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
