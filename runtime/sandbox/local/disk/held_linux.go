package disk

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/sandbox/local/proc"
)

const (
	// maxHeld bounds how many descriptors and mappings of an execution one look goes through.
	maxHeld = 1 << 18
	// maxMaps bounds the bytes that one look reads about mappings.
	maxMaps = 64 << 20
	// askEvery is after how many threads a look asks its context.
	askEvery = 1024
)

var errTooManyHeld = errors.New("more descriptors and mappings than are looked at")

// addHeld counts the files that have no name any more and that processes keep
// open or mapped.
func (g *gauge) addHeld(ctx context.Context, workspace string, top *unix.Stat_t, of *Hold) error {
	h := newHeld(g, top)
	dir, err := unix.Open(workspace, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		h.top = dir
		defer unix.Close(dir) //nolint:errcheck // opened for reading
	}
	var bound int
	h.sockets, bound = unixSockets(of.Network)
	for _, pid := range of.Members() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := h.process(ctx, pid)
		switch {
		case err == nil:
		case errors.Is(err, errEnough), ctx.Err() != nil:
			return err
		case !proc.IsGone(err):
			g.blind = true // a process that nobody may look into, or too much to look at
		}
	}
	g.blind = g.blind || h.doubtful > doubtfulMost || bound > boundMost
	g.pinned = g.pinned || stillThere(h.sockets, of.Network)
	return nil
}

// held finds the nameless files of processes.
type held struct {
	*gauge
	device uint64 // of the workspace
	topIno uint64 // of the workspace
	top    int    // the workspace; -1: it could not be opened
	seen   map[fileID]struct{}
	left   int   // descriptors and mappings that may still be looked at
	maps   int64 // bytes about mappings that may still be read

	sockets map[uint64]struct{} // of the network namespace, that no descriptor was seen of

	kept       map[fileID]struct{} // folders of deleted names that were looked at
	paths      map[string]bool     // of deleted folders of which nothing else is known
	doubtful   int                 // folders that may be deleted ones
	folderOf   func(link string) (folder, bool)
	openFolder func(f folder, at int) (int, error)

	memory map[string]bool // devices of files in memory, as maps writes them; nil: not asked yet
}

func newHeld(g *gauge, top *unix.Stat_t) *held {
	return &held{
		gauge: g, device: top.Dev, topIno: top.Ino, top: -1, left: maxHeld, maps: maxMaps,
		seen: map[fileID]struct{}{}, kept: map[fileID]struct{}{}, paths: map[string]bool{},
		folderOf: folderOf, openFolder: folder.open,
	}
}

// process looks into one process. Its threads share their memory, but each may
// have descriptors and a folder of its own; and the first of them may have ended
// long before the others, which empties its part of /proc.
func (h *held) process(ctx context.Context, pid int) error {
	threads, err := proc.Threads(pid)
	if err != nil {
		return err
	}
	memory := false // was looked at
	var shown []int // threads whose descriptors were looked at: the first and the last
	for i, tid := range threads {
		if i%askEvery == askEvery-1 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		of := "/proc/" + strconv.Itoa(tid) // of any thread, though only the first ones are listed there
		if !slices.ContainsFunc(shown, func(other int) bool { return sameFiles(tid, other) }) {
			err = h.descriptors(of)
			shown = append(shown[:min(len(shown), 1)], tid)
		}
		if err == nil {
			_, err = h.linked(of, "/cwd") // a folder that was emptied and deleted keeps its size
		}
		h.pinned = h.pinned || pins(tid)
		if err == nil && !memory {
			// A program may unmap itself, and is kept by this only.
			if memory, err = h.linked(of, "/exe"); memory && err == nil {
				err = h.mappings(of)
			}
		}
		// Only root may look at a thread that has ended.
		if err != nil && !proc.IsGone(err) && (!errors.Is(err, os.ErrPermission) || !proc.Ended(tid)) {
			return err
		}
	}
	return nil
}

// sameFiles tells whether two threads certainly share their descriptors; not
// every kernel tells.
func sameFiles(a, b int) bool {
	const kcmpFiles = 2
	r, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpFiles, 0, 0, 0)
	return errno == 0 && r == 0
}

// linked counts what a link of /proc leads to, if it was deleted. It is not
// there for a thread that has ended.
func (h *held) linked(of, name string) (there bool, err error) {
	link := of + name
	if h.left--; h.left < 0 {
		return false, errTooManyHeld
	}
	var st unix.Stat_t
	if err := unix.Stat(link, &st); err != nil {
		if proc.IsGone(err) {
			err = nil
		}
		return false, err
	}
	return true, h.nameless(of, &st, link)
}

func (h *held) descriptors(of string) error {
	dir, err := os.Open(of + "/fd")
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // opened for reading
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			if h.left--; h.left < 0 {
				return errTooManyHeld
			}
			var st unix.Stat_t
			// Through the link, to the file itself; that opens nothing.
			if unix.Fstatat(int(dir.Fd()), name, &st, 0) != nil {
				continue // closed meanwhile
			}
			if st.Mode&unix.S_IFMT == unix.S_IFSOCK {
				delete(h.sockets, st.Ino)
				h.blind = h.blind || carries(of, name)
			}
			if err := h.nameless(of, &st, of+"/fd/"+name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// nameless counts a file or folder that was deleted and lies on a disk, and the
// deleted folders that it was in.
func (h *held) nameless(of string, st *unix.Stat_t, link string) error {
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFDIR {
		if st.Nlink != 0 {
			return nil
		}
	} else if err := h.keeps(of, link, st); err != nil {
		return err
	}
	if st.Nlink != 0 || (kind != unix.S_IFREG && kind != unix.S_IFDIR) {
		return nil
	}
	id := fileID{st.Dev, st.Ino}
	if _, again := h.seen[id]; again {
		return nil
	}
	if memory, known := inMemory(link); !known || (memory && st.Dev != h.device) {
		return nil // closed meanwhile; or bounded by the memory limit, or by its own size
	}
	if kind == unix.S_IFDIR {
		dir, err := unix.Open(link, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil //nolint:nilerr // closed meanwhile
		}
		return h.upwards(dir)
	}
	h.seen[id] = struct{}{}
	return h.add(st)
}

// inMemory tells whether a file lies in memory and not on a disk.
func inMemory(path string) (memory, known bool) {
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) != nil {
		return false, false
	}
	return fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.HUGETLBFS_MAGIC || fs.Type == unix.RAMFS_MAGIC, true
}

// carries tells whether descriptors lie in a socket that nobody has taken out
// yet: files in there have no process.
func carries(of, fd string) bool {
	info, err := os.ReadFile(of + "/fdinfo/" + fd)
	if err != nil {
		return false // closed meanwhile
	}
	for line := range bytes.Lines(info) {
		if n, ok := bytes.CutPrefix(line, []byte("scm_fds:")); ok {
			return string(bytes.TrimSpace(n)) != "0"
		}
	}
	return false
}

// mappings finds the deleted files that are only mapped.
func (h *held) mappings(of string) error {
	f, err := os.Open(of + "/maps")
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	lines := bufio.NewReader(io.LimitReader(f, h.maps))
	for {
		line, err := lines.ReadSlice('\n')
		h.maps -= int64(len(line))
		if bytes.HasSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte(" (deleted)")) {
			if err := h.mapped(of, line); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // a path longer than that: its end comes next
		case errors.Is(err, io.EOF) && h.maps > 0:
			return nil
		case errors.Is(err, io.EOF):
			return errTooManyHeld
		case err != nil:
			return err
		}
	}
}

func (h *held) mapped(of string, line []byte) error {
	// 7f5a-7f5b r--s 00000000 fe:00 1234   /path (deleted)
	f := bytes.Fields(line)
	if len(f) < 6 {
		h.blind = true
		return nil
	}
	if h.left--; h.left < 0 {
		return errTooManyHeld
	}
	link := filepath.Join(of, "map_files", string(f[0]))
	var st unix.Stat_t
	switch err := unix.Stat(link, &st); {
	case err == nil:
		return h.nameless(of, &st, link)
	case errors.Is(err, unix.ENOENT): // unmapped meanwhile
	default: // only root may ask
		return h.onlyMapped(of, f)
	}
	return nil
}

// onlyMapped counts a file of which only its mapping is known: as far as that
// reaches, and at least a part of the limit, so that there cannot be many.
func (h *held) onlyMapped(of string, f [][]byte) error {
	var from, to, offset, ino uint64
	if n, _ := fmt.Sscanf(string(f[0])+" "+string(f[2])+" "+string(f[4]), "%x-%x %x %d", &from, &to, &offset, &ino); n != 4 {
		h.blind = true
		return nil
	}
	if h.memory == nil {
		h.memory = memoryDevices(of, h.device)
	}
	if h.memory[string(f[3])] {
		return nil
	}
	id := fileID{h.device, ino}
	_, again := h.seen[id]
	h.seen[id] = struct{}{}
	folder := path.Dir(string(bytes.Join(f[5:], []byte(" "))))
	if again { // maybe by another name, which was in another folder
		return h.doubt(of, folder)
	}
	if err := h.add(&unix.Stat_t{Ino: ino, Nlink: 0, Mode: unix.S_IFREG, Blocks: int64(max(offset+to-from, uint64(h.unknown)) / 512)}); err != nil {
		return err
	}
	return h.doubt(of, folder)
}

// memoryDevices gives the devices of the files in memory that a process can
// have mapped, other than that of its workspace.
func memoryDevices(of string, workspace uint64) map[string]bool {
	devices := map[string]bool{}
	add := func(st *unix.Stat_t) {
		if st.Dev != workspace {
			devices[fmt.Sprintf("%02x:%02x", unix.Major(st.Dev), unix.Minor(st.Dev))] = true
		}
	}
	var st unix.Stat_t
	for _, dir := range []string{"/tmp", "/dev/shm"} {
		path := of + "/root" + dir
		if memory, _ := inMemory(path); memory && unix.Stat(path, &st) == nil {
			add(&st)
		}
	}
	// Shared memory without a name is on the kernel's own mount, as this is.
	if f, err := unix.MemfdCreate("device", unix.MFD_CLOEXEC); err == nil {
		if unix.Fstat(f, &st) == nil {
			add(&st)
		}
		_ = unix.Close(f)
	}
	return devices
}
