package tree

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// heldDirs is how many folders of a tree a walk holds open. Of a deeper one
	// it remembers the place and comes back to it by its child's "..".
	heldDirs = 64
	// direntBytes is what one read of a folder brings.
	direntBytes = 16 << 10
	// askEvery is after how many entries a walk looks at its context.
	askEvery = 1024
)

// Walk goes through folders that somebody may change at the same moment. It
// follows no link, opens nothing but folders, and needs memory for the depth of
// the tree only: no name is kept.
type Walk struct {
	Ctx context.Context
	// Visit gets every entry but the top, before what is in it. An error ends the walk.
	Visit func(dir int, name string, st *unix.Stat_t) error
	// Reopen gives folders that their owner has closed to itself back to it
	// while they are looked at; for a server that is that owner.
	Reopen bool
	// Since is the time of the kernel's coarse clock from which on a change of a
	// folder is noted; 0: none is.
	Since int64

	Blind     bool // something could not be looked at
	Disturbed bool // a folder was changed before all its names were read
	visited   int
	up        []level
	spare     [][]byte // buffers of levels that were left
}

// level is a folder on the way down.
type level struct {
	fd       int // -1: closed meanwhile
	dev, ino uint64
	next     int64  // where to go on reading
	buf      []byte // what reads bring
	rest     []byte // the part of it that has not been visited
	mode     uint32 // the mode to give back; 0: it was not changed
	lent     uint32 // the mode that it got instead
	lentAt   int64  // when that was its last change
}

// Below visits everything below path, which must be a folder and no link.
func (t *Walk) Below(path string) error {
	top, err := t.open(unix.AT_FDCWD, path)
	if err != nil {
		return fmt.Errorf("opening the folder: %w", err)
	}
	t.up = append(t.up[:0], top)
	defer func() {
		for i := range t.up {
			t.up[i].close()
		}
	}()
	for len(t.up) > 0 {
		here := &t.up[len(t.up)-1]
		if here.buf == nil {
			here.buf = t.buffer()
		}
		name, ok, err := here.entry()
		if err != nil {
			t.Blind = true // gone meanwhile, or a fault of the disk
		}
		if !ok || err != nil {
			t.leave()
			continue
		}
		if t.visited++; t.visited%askEvery == 0 && t.Ctx.Err() != nil {
			return context.Cause(t.Ctx)
		}
		if err := t.enter(here, name); err != nil {
			return err
		}
	}
	return nil
}

// enter visits an entry and goes down into it, if it is a folder.
func (t *Walk) enter(here *level, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(here.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		t.Blind = t.Blind || !errors.Is(err, unix.ENOENT)
		return nil
	}
	if err := t.Visit(here.fd, name, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	child, err := t.open(here.fd, name)
	switch {
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("opening a folder: %w", err)
	case err != nil:
		t.Blind = t.Blind || !errors.Is(err, unix.ENOENT)
		return nil
	}
	if len(t.up) > heldDirs {
		here.close()
		t.takeBuffer(here)
	}
	t.up = append(t.up, child)
	return nil
}

// leave goes back up. Should the folder above not be there any more, because
// somebody has moved this one, it goes on in the deepest one that it holds.
func (t *Walk) leave() {
	child := t.up[len(t.up)-1]
	defer child.close()
	t.noteLeft(&child)
	t.takeBuffer(&child)
	t.up = t.up[:len(t.up)-1]
	if len(t.up) == 0 || t.up[len(t.up)-1].fd >= 0 {
		return
	}
	above := &t.up[len(t.up)-1]
	parent, err := t.open(child.fd, "..")
	if err == nil && (parent.dev != above.dev || parent.ino != above.ino) {
		parent.close()
		err = unix.ESTALE
	}
	if err == nil {
		parent.next = above.next
		if _, err = unix.Seek(parent.fd, parent.next, 0); err == nil {
			*above = parent
			return
		}
		parent.close()
	}
	t.Blind = true
	for len(t.up) > 0 && t.up[len(t.up)-1].fd < 0 {
		t.up = t.up[:len(t.up)-1]
	}
}

func (t *Walk) buffer() []byte {
	if n := len(t.spare); n > 0 {
		b := t.spare[n-1]
		t.spare = t.spare[:n-1]
		return b
	}
	return make([]byte, direntBytes)
}

func (t *Walk) takeBuffer(l *level) {
	if l.buf != nil {
		t.spare = append(t.spare, l.buf)
	}
	l.buf, l.rest = nil, nil
}

// open opens a folder that is no link. It never opens anything else: a FIFO put
// in its place is refused and not waited for.
func (t *Walk) open(dir int, name string) (level, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	l := level{fd: -1}
	var st unix.Stat_t
	fd, err := openat(dir, name, flags)
	if errors.Is(err, unix.EACCES) && t.Reopen {
		var place int
		if place, err = openat(dir, name, flags|unix.O_PATH); err != nil {
			return l, err
		}
		defer unix.Close(place) //nolint:errcheck // only a name
		if err = unix.Fstat(place, &st); err != nil {
			return l, err
		}
		t.Note(&st)
		l.mode, l.lent = st.Mode, st.Mode|0o500
		if err = unix.Chmod("/proc/self/fd/"+strconv.Itoa(place), l.lent&0o7777); err != nil {
			return l, err
		}
		fd, err = openat(place, ".", flags)
	}
	if err != nil {
		return l, err
	}
	l.fd = fd
	if err := unix.Fstat(fd, &st); err != nil {
		l.close()
		return l, err
	}
	if l.mode == 0 {
		t.Note(&st)
	}
	if t.Reopen && st.Mode&0o100 == 0 && unix.Fchmod(fd, st.Mode&0o7777|0o100) == nil { // it may be read, not passed
		l.mode, l.lent = st.Mode, st.Mode|0o100
	}
	if l.mode != 0 && unix.Fstat(fd, &st) == nil {
		l.lentAt = st.Ctim.Nano()
	}
	l.dev, l.ino = st.Dev, st.Ino
	return l, nil
}

// Note notes a change since the walk began. Whoever takes a file away from
// before the walk changes the folder that it was in before that was read to its
// end, or one above.
func (t *Walk) Note(st *unix.Stat_t) {
	t.Disturbed = t.Disturbed || (t.Since != 0 && st.Ctim.Nano() >= t.Since)
}

// noteLeft notes a change of a folder that was read to its end; that of its
// mode was by the walk itself.
func (t *Walk) noteLeft(l *level) {
	var st unix.Stat_t
	if t.Since == 0 || l.fd < 0 || unix.Fstat(l.fd, &st) != nil {
		return
	}
	if l.mode == 0 || st.Ctim.Nano() != l.lentAt {
		t.Note(&st)
	}
}

func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func (l *level) close() {
	if l.fd < 0 {
		return
	}
	if l.mode != 0 {
		var st unix.Stat_t
		if unix.Fstat(l.fd, &st) == nil && st.Mode == l.lent { // else its owner has changed it meanwhile
			_ = unix.Fchmod(l.fd, l.mode&0o7777)
		}
	}
	_ = unix.Close(l.fd)
	l.fd, l.mode = -1, 0
}

// entry gives the next name; ok is false at the end.
func (l *level) entry() (name string, ok bool, err error) {
	for {
		for len(l.rest) == 0 {
			n, err := unix.Getdents(l.fd, l.buf)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case err != nil:
				return "", false, err
			case n <= 0:
				return "", false, nil
			}
			l.rest = l.buf[:n]
		}
		// struct linux_dirent64: inode 8, offset of the next 8, length 2, type 1, name.
		size := int(binary.NativeEndian.Uint16(l.rest[16:]))
		rec := l.rest[:size]
		l.rest = l.rest[size:]
		l.next = int64(binary.NativeEndian.Uint64(rec[8:]))
		raw := rec[19:]
		if i := bytes.IndexByte(raw, 0); i >= 0 {
			raw = raw[:i]
		}
		if s := string(raw); s != "." && s != ".." {
			return s, true, nil
		}
	}
}
