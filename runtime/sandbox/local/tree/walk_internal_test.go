//go:build linux

package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// walked gives how often each name was visited.
func walked(t *testing.T, dir string) (map[string]int, *Walk) {
	t.Helper()
	seen := map[string]int{}
	w := &Walk{Ctx: t.Context(), Visit: func(_ int, name string, _ *unix.Stat_t) error { seen[name]++; return nil }}
	if err := w.Below(dir); err != nil {
		t.Fatal(err)
	}
	if len(w.up) > 0 {
		t.Errorf("%d folders are still open", len(w.up))
	}
	return seen, w
}

// TestAWalkSeesEverythingOnce goes deeper than it can hold folders open, with
// more names in each than one read brings.
func TestAWalkSeesEverythingOnce(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir, err := os.OpenRoot(top)
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	name := func() string { want++; return fmt.Sprintf("%0200d", want) }
	for level := range heldDirs + 10 {
		wide := 1
		if level == 0 || level > heldDirs-3 {
			wide = 120 // of 200 bytes: two reads
		}
		for range wide {
			if err := dir.WriteFile(name(), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		next := name()
		if err := dir.Mkdir(next, 0o700); err != nil {
			t.Fatal(err)
		}
		sub, err := dir.OpenRoot(next)
		if err != nil {
			t.Fatal(err)
		}
		_ = dir.Close()
		dir = sub
	}
	_ = dir.Close()
	seen, w := walked(t, top)
	if w.Blind || len(seen) != want {
		t.Errorf("saw %d of %d names, blind %v", len(seen), want, w.Blind)
	}
	for name, n := range seen {
		if n != 1 {
			t.Fatalf("%s was visited %d times", name, n)
		}
	}
}

// TestAWalkStaysInItsTree moves a deep folder out of the tree while the walk is
// in it, so that its ".." leads elsewhere.
func TestAWalkStaysInItsTree(t *testing.T) {
	t.Parallel()
	top, outside := t.TempDir(), t.TempDir()
	deep := top
	for i := range 2 * heldDirs {
		deep = filepath.Join(deep, strconv.Itoa(i))
	}
	if err := os.MkdirAll(filepath.Join(deep, "last"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{filepath.Join(outside, "secret"), filepath.Join(top, "zz"), filepath.Join(deep, "last", "f")} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var seen []string
	w := &Walk{Ctx: t.Context(), Visit: func(_ int, name string, _ *unix.Stat_t) error {
		seen = append(seen, name)
		if name == "f" {
			return os.Rename(filepath.Join(deep, "last"), filepath.Join(outside, "last"))
		}
		return nil
	}}
	if err := w.Below(top); err != nil {
		t.Fatal(err)
	}
	if !w.Blind {
		t.Error("it does not say that something was hidden from it")
	}
	for _, name := range seen {
		if name == "secret" {
			t.Error("it left its tree")
		}
	}
	if seen, _ := walked(t, top); seen["zz"] != 1 {
		t.Error("the rest was not seen")
	}
}

func TestAWalkOpensNoLinkAndNoFIFO(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	if err := os.Symlink("/", filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(top, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if seen, _ := walked(t, top); len(seen) != 2 {
		t.Errorf("saw %v", seen)
	}
	w := &Walk{Ctx: t.Context(), Visit: func(int, string, *unix.Stat_t) error { return nil }}
	for _, name := range []string{"link", "fifo"} {
		if err := w.Below(filepath.Join(top, name)); err == nil {
			t.Errorf("it went into the %s", name)
		}
	}
}

// TestAWalkOutlastsItsFolders takes and makes folders while it goes on.
func TestAWalkOutlastsItsFolders(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	var other sync.WaitGroup
	other.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			d := filepath.Join(top, strconv.Itoa(i%10), "a", "b")
			if err := os.MkdirAll(d, 0o700); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
			if i%3 == 0 {
				_ = os.RemoveAll(filepath.Join(top, strconv.Itoa(i*7%10)))
			}
		}
	})
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
		walked(t, top)
	}
	stop()
	other.Wait()
}
