//go:build linux

package disk

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAFileTellsOfItsFolder deletes a file and its folder, and reaches that as
// the kernel lets it.
func TestAFileTellsOfItsFolder(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	f, inode := deleted(t, filepath.Join(top, "d"), true)
	of, ok := folderOf(link(f))
	if !ok {
		t.Skip("SKIPPED: the folder of a file is told from Linux 6.13 on, by file systems such as ext4; else it counts as one of unknown size")
	}
	if uint64(of.inode) != inode {
		t.Errorf("inode %d, want %d", of.inode, inode)
	}
	at, err := os.Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = at.Close() }()
	dir, err := of.open(int(at.Fd()))
	if errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
		return // the other way is tested below
	}
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil || st.Ino != inode || st.Nlink != 0 {
		t.Errorf("%v, %+v", err, st)
	}
	_ = unix.Close(dir)
}

// TestFoldersOfUnknownSize counts them where the kernel tells less: for a server
// without root, and where there are no such handles.
func TestFoldersOfUnknownSize(t *testing.T) {
	t.Parallel()
	const n = 5
	for name, c := range map[string]struct {
		handles, gone    bool
		remade, replaced bool  // by a link, by a folder
		bytes            int64 // of folders
		doubtful         int
	}{
		"Handles":          {handles: true, gone: true, bytes: n << 20, doubtful: n},
		"HandlesRemade":    {handles: true, gone: true, remade: true, bytes: n << 20, doubtful: n},
		"HandlesReplaced":  {handles: true, gone: true, replaced: true, bytes: n << 20, doubtful: n},
		"HandlesThere":     {handles: true},
		"NoHandles":        {gone: true, bytes: 1 << 20, doubtful: n}, // one path
		"NoHandlesRemade":  {gone: true, remade: true, doubtful: n},
		"NoHandlesInPlace": {doubtful: n},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			var st unix.Stat_t
			if err := unix.Stat(top, &st); err != nil {
				t.Fatal(err)
			}
			g := &gauge{limit: math.MaxInt64, unknown: 1 << 20, linked: map[fileID]struct{}{}}
			h := newHeld(g, &st)
			inodes := map[string]uint64{}
			h.folderOf = func(link string) (folder, bool) { return folder{inode: uint32(inodes[link])}, c.handles }
			dir := filepath.Join(top, "d")
			var files []*os.File
			for range n {
				f, inode := deleted(t, dir, c.gone)
				files, inodes[link(f)] = append(files, f), inode
			}
			if c.remade { // as a link to the workspace, which it is not
				if err := os.Symlink(".", dir); err != nil {
					t.Fatal(err)
				}
				c.bytes = max(c.bytes, 1<<20) // no folder is there
			}
			if c.replaced {
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range files {
				if err := unix.Fstat(int(f.Fd()), &st); err != nil {
					t.Fatal(err)
				}
				if err := h.keeps("/proc/self", link(f), &st); err != nil {
					t.Fatal(err)
				}
			}
			if g.bytes != c.bytes || h.doubtful != c.doubtful {
				t.Errorf("%d bytes and %d in doubt, want %d and %d", g.bytes, h.doubtful, c.bytes, c.doubtful)
			}
		})
	}
}

// deleted makes a file in a folder and deletes it, and maybe the folder too.
func deleted(t *testing.T, dir string, gone bool) (f *os.File, folder uint64) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	if gone {
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
	}
	return f, st.Ino
}

func link(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// TestSocketsWithANameAreCounted has one that listens, what it accepted, and two
// without a name in a folder, as the kernel lists them.
func TestSocketsWithANameAreCounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name, abstract := filepath.Join(dir, "s"), "@"+dir
	var lc net.ListenConfig
	for _, at := range []string{name, abstract} {
		l, err := lc.Listen(t.Context(), "unix", at)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		var d net.Dialer
		client, err := d.DialContext(t.Context(), "unix", at)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = server.Close() }()
	}
	list, err := os.ReadFile("/proc/self/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	var ours []byte
	for line := range bytes.Lines(list) {
		if bytes.Contains(line, []byte(dir)) {
			ours = append(ours, line...)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "unix"), ours, 0o600); err != nil {
		t.Fatal(err)
	}
	if found, bound := unixSockets(dir); len(found) != 4 || bound != 2 {
		t.Errorf("%d sockets, %d of them with a name, want 4 and 2: %s", len(found), bound, ours)
	}
}
