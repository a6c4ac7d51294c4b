package disk

import (
	"encoding/binary"
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/sandbox/local/proc"
)

// Whoever keeps a file whose name was deleted also keeps the folder of that
// name, with the room that its list of names took, and all folders above it.
// A name may be deleted while the file has others, and be that of a FIFO or link.

const (
	// doubtfulMost is how many folders of unknown size may be deleted ones that only
	// a file keeps, until the look counts as one that something hides from.
	doubtfulMost = 32
	// boundMost is the same for sockets with a name, each of which may keep folders.
	// What a server has accepted has the name as well.
	boundMost = 256
	// handleConnectable asks for a handle that has the folder in it (Linux 6.13).
	handleConnectable = 0x2
	// handleOfFile and handleWithFolder are the kinds of handles that consist of
	// inode and generation, of which a file system that counts in 32 bits makes use.
	handleOfFile, handleWithFolder = 0x1, 0x2
	// handleKind leaves out of a kind what the kernel has added.
	handleKind = 0xffff

	deletedMark = " (deleted)"
)

// folder is where a file had its name: as far as it is known exactly.
type folder struct{ inode, generation uint32 }

// folderOf gives the folder of the file that a link of /proc leads to.
func folderOf(link string) (folder, bool) {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, link, unix.AT_SYMLINK_FOLLOW|handleConnectable)
	if err != nil || h.Type()&handleKind != handleWithFolder || h.Size() != 16 {
		return folder{}, false // an older kernel, or another file system
	}
	b := h.Bytes()
	return folder{binary.NativeEndian.Uint32(b[8:]), binary.NativeEndian.Uint32(b[12:])}, true
}

// open opens the folder, deleted or not, on the file system of at. Only root may.
func (f folder) open(at int) (int, error) {
	b := binary.NativeEndian.AppendUint32(nil, f.inode)
	b = binary.NativeEndian.AppendUint32(b, f.generation)
	return unix.OpenByHandleAt(at, unix.NewFileHandle(handleOfFile, b), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
}

// keeps counts the deleted folders that a file keeps: those of root with their
// size. Else the one that it was in counts a part of the limit, so that there
// cannot be many; and those above are doubtful.
func (h *held) keeps(of, link string, st *unix.Stat_t) error {
	text, err := os.Readlink(link)
	if err == nil && (!strings.HasPrefix(text, "/") || !strings.HasSuffix(text, deletedMark)) {
		return nil
	}
	if err != nil && !errors.Is(err, unix.ENAMETOOLONG) {
		return nil // closed meanwhile
	}
	if memory, known := inMemory(link); !known || memory {
		return nil // the folders are in memory as well
	}
	f, exact := h.folderOf(link)
	if !exact {
		return h.unnamed(of, path.Dir(text))
	}
	id := fileID{st.Dev, uint64(f.inode)}
	if _, again := h.kept[id]; again {
		return nil
	}
	h.kept[id] = struct{}{}
	if st.Dev == h.device && h.top >= 0 {
		if dir, err := h.openFolder(f, h.top); err == nil {
			return h.upwards(dir)
		}
	}
	dir := path.Dir(text)
	now, there := h.statIn(of, dir)
	// It cannot have come to mean another one: the inode is in use.
	if there && now.Nlink > 0 && now.Dev == id.dev && now.Ino == id.ino {
		return nil
	}
	if err := h.share(); err != nil {
		return err
	}
	return h.doubt(of, path.Dir(dir))
}

// unnamed counts a folder of which only the path is known that it had. Where
// there is none now it is a deleted one; but one path can have been that of many.
func (h *held) unnamed(of, dir string) error {
	if _, there := h.statIn(of, dir); !there && !h.paths[dir] {
		h.paths[dir] = true
		if err := h.share(); err != nil {
			return err
		}
		dir = path.Dir(dir)
	}
	return h.doubt(of, dir)
}

// share counts a folder of unknown size.
func (h *held) share() error {
	h.doubtful++
	return h.add(&unix.Stat_t{Mode: unix.S_IFDIR, Blocks: h.unknown / 512})
}

// doubt counts the folders from one up to the workspace, which nobody can delete.
// Where they lie there may be others by now.
func (h *held) doubt(of, dir string) error {
	if !path.IsAbs(dir) { // too long to be told
		h.doubtful = doubtfulMost + 1
	}
	for ; len(dir) > 1; dir = path.Dir(dir) {
		if h.left--; h.left < 0 {
			return errTooManyHeld
		}
		if h.doubtful > doubtfulMost {
			return nil
		}
		if now, there := h.statIn(of, dir); there && now.Dev == h.device && now.Ino == h.topIno {
			return nil
		}
		h.doubtful++
	}
	return nil
}

// statIn looks at a folder as a process sees it. No link is followed: it could
// make one folder look like another.
func (h *held) statIn(of, dir string) (st unix.Stat_t, there bool) {
	root, err := unix.Open(of+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return st, false
	}
	defer unix.Close(root) //nolint:errcheck // nothing was written
	fd, err := unix.Openat2(root, "."+dir, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
	})
	if err != nil {
		return st, false
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	return st, unix.Fstat(fd, &st) == nil
}

// upwards counts a folder and those above it, as long as they are deleted ones:
// each has the size that it had. It closes dir.
func (h *held) upwards(dir int) (err error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	for err == nil {
		var st unix.Stat_t
		if h.left--; h.left < 0 {
			err = errTooManyHeld
			break
		}
		if err = unix.Fstat(dir, &st); err != nil {
			break
		}
		id := fileID{st.Dev, st.Ino}
		if _, again := h.seen[id]; again || st.Nlink != 0 {
			break
		}
		h.seen[id] = struct{}{}
		if err = h.add(&st); err != nil {
			break
		}
		up, failed := unix.Openat(dir, "..", flags, 0)
		if failed != nil {
			break // closed meanwhile, or not of this mount
		}
		_ = unix.Close(dir)
		dir = up
	}
	_ = unix.Close(dir)
	if proc.IsGone(err) {
		err = nil
	}
	return err
}
