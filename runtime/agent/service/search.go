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
)

// search looks for transcripts in a folder that an agent fills as it likes. Links
// are followed as far as they stay in the workspace.
type search struct {
	ctx    context.Context
	root   *os.Root
	folder string
	seen   int
	err    error // the first one; what is not there is none
	newest struct {
		refused error // a file, or a folder of files, that cannot be read
		when    time.Time
	}
}

const suffix = ".jsonl"

// find gives the files of a session, the main one first.
func (s *search) find(t agent.Transcript) []string {
	var newest string
	var when time.Time
	var own error // why the session's own file is not read
	for _, project := range s.list(t.Folder) {
		folder := path.Join(t.Folder, project.Name())
		if !s.isFolder(folder, project) {
			continue
		}
		if t.SessionID != "" {
			name := path.Join(folder, t.SessionID+suffix)
			if _, err := s.root.Lstat(name); err == nil {
				if _, own = s.file(name); own == nil {
					s.newest.refused = nil // beside the session's own file
					return s.withSubagents(name)
				}
			}
		}
		for _, e := range s.list(folder) {
			name := path.Join(folder, e.Name())
			if path.Ext(name) != suffix {
				continue
			}
			if info, err := s.file(name); err != nil {
				s.refuse(err, lastChange(e))
			} else if info.ModTime().After(when) {
				newest, when = name, info.ModTime()
			}
		}
	}
	if own != nil {
		s.fail(own)
	}
	if newest == "" {
		return nil
	}
	if !s.newest.when.After(when) {
		s.newest.refused = nil
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
		if path.Ext(name) == suffix && strings.HasPrefix(e.Name(), "agent-") {
			if _, err := s.file(name); err != nil {
				s.fail(err)
				continue
			}
			names = append(names, name)
		} else if depth > 0 && s.isFolder(name, e) {
			names = append(names, s.subagents(name, depth-1)...)
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
			s.fail(s.unread(folder, err))
		}
		return nil
	}
	defer func() { _ = f.Close() }() // only read
	entries, err := f.ReadDir(maxEntries - s.seen)
	if err != nil && !errors.Is(err, io.EOF) {
		s.fail(s.unread(folder, err))
	}
	if s.seen += len(entries); s.seen >= maxEntries {
		s.fail(fmt.Errorf("the folder %s holds more than %d files, not all were looked at", folder, maxEntries))
	}
	return entries
}

// file looks where a name leads; its error says why no transcript can be read there.
func (s *search) file(name string) (fs.FileInfo, error) {
	info, err := s.root.Stat(name)
	if err != nil {
		return nil, s.unread(name, err)
	}
	if kind := other(info.Mode()); kind != "" {
		return nil, s.unread(name, errors.New(kind))
	}
	return info, nil
}

// open opens a file that was found.
func (s *search) open(name string) (*os.File, fs.FileInfo, error) {
	f, err := s.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO does not wait for its other end
	if err != nil {
		return nil, nil, s.unread(name, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() { // it was another one when it was found
		err = errors.New(other(info.Mode()))
	}
	if err != nil {
		_ = f.Close() // only read
		return nil, nil, s.unread(name, err)
	}
	return f, info, nil
}

func (s *search) isFolder(name string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := s.root.Stat(name)
	if err != nil {
		s.refuse(s.unread(name, err), lastChange(e))
		return false
	}
	return info.IsDir()
}

func lastChange(e fs.DirEntry) time.Time {
	if info, err := e.Info(); err == nil {
		return info.ModTime()
	}
	return time.Time{}
}

// refuse notes what cannot be read. It is told when nothing newer can: a link or a
// pipe beside a good transcript is nobody's concern.
func (s *search) refuse(err error, when time.Time) {
	if s.newest.refused == nil || when.After(s.newest.when) {
		s.newest.refused, s.newest.when = err, when
	}
}

// fail notes an error that is told in any case, if it is the first one.
func (s *search) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *search) problem() error {
	if s.err != nil {
		return s.err
	}
	return s.newest.refused
}

// unread says of a name, as seen from the folder of the transcripts, why it is not
// read and what to do.
func (s *search) unread(name string, err error) error {
	if s.ctx.Err() != nil {
		return err
	}
	shown := strings.TrimPrefix(name, s.folder+"/")
	if shown != name {
		shown += " in " + s.folder
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err // the path is told
	}
	what := "let the agent keep a regular file there"
	switch {
	case errors.Is(err, fs.ErrPermission):
		what = "let the agent make it readable for the owner of the workspace"
	case errors.Is(err, fs.ErrNotExist):
		err = errors.New("it is a link to what is not there, or was removed meanwhile")
	case errors.Is(err, syscall.ENOTDIR):
		err = errors.New("it is no folder")
		what = "look at service.transcript.folder"
	case err.Error() == "path escapes from parent": // of os.Root, which exports no error for it
		err = errors.New("it is a link that leads out of the workspace, or an absolute one")
		what = "let the agent keep the file itself there, or a relative link that stays in the workspace"
	}
	return fmt.Errorf("%s is not read: %w; %s", shown, err, what)
}

// other names what is no regular file.
func other(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return ""
	case m.IsDir():
		return "it is a folder"
	case m&fs.ModeNamedPipe != 0:
		return "it is a named pipe (FIFO)"
	case m&fs.ModeSocket != 0:
		return "it is a socket"
	}
	return "it is a device"
}
