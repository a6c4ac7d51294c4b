//go:build linux

package local

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

	"github.com/weirhq/weir/runtime/sandbox"
)

// walked gives how often each name was visited.
func walked(t *testing.T, dir string) (map[string]int, *tree) {
	t.Helper()
	seen := map[string]int{}
	w := &tree{ctx: t.Context(), visit: func(_ int, name string, _ *unix.Stat_t) error { seen[name]++; return nil }}
	if err := w.walk(dir); err != nil {
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
	if w.blind || len(seen) != want {
		t.Errorf("saw %d of %d names, blind %v", len(seen), want, w.blind)
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
	w := &tree{ctx: t.Context(), visit: func(_ int, name string, _ *unix.Stat_t) error {
		seen = append(seen, name)
		if name == "f" {
			return os.Rename(filepath.Join(deep, "last"), filepath.Join(outside, "last"))
		}
		return nil
	}}
	if err := w.walk(top); err != nil {
		t.Fatal(err)
	}
	if !w.blind {
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
	w := &tree{ctx: t.Context(), visit: func(int, string, *unix.Stat_t) error { return nil }}
	for _, name := range []string{"link", "fifo"} {
		if err := w.walk(filepath.Join(top, name)); err == nil {
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

func TestOneLookAtATime(t *testing.T) {
	t.Parallel()
	var d disks
	give, err := d.take(t.Context(), "/w")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := d.take(t.Context(), "/other")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := d.take(ctx, "/w"); err == nil {
		t.Error("two looks at a time")
	}
	give()
	again, err := d.take(t.Context(), "/w")
	if err != nil {
		t.Fatal(err)
	}
	again()
	if len(d.busy) != 0 {
		t.Errorf("it remembers %v", d.busy)
	}
}

// TestManyFilesAreMeasured bounds what a look costs; `make soak` has a million files.
func TestManyFilesAreMeasured(t *testing.T) {
	t.Parallel()
	n := 2000
	if v := os.Getenv("WEIR_HOSTILE_FILES"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	top := t.TempDir()
	for i := range n {
		if err := os.WriteFile(filepath.Join(top, strconv.Itoa(i)+"\n\xff"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var d disks
	s := sandbox.Spec{Workspace: top, Limits: sandbox.Limits{DiskMiB: 1 << 20}}
	m, err := d.meter(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	use, err := m.use(t.Context(), 1<<40, 0, nil)
	took := time.Since(began)
	if err != nil || use < int64(n)*entryBytes {
		t.Errorf("%d bytes, %v", use, err)
	}
	if took > time.Second+time.Duration(n)*20*time.Microsecond {
		t.Errorf("a look at %d files took %s", n, took)
	}
	t.Logf("a look at %d files took %s", n, took)
	began = time.Now()
	// The folder itself may be over the limit already.
	if cut, err := m.use(t.Context(), 1<<20, 0, nil); err != nil || cut <= 1<<20 || cut >= use || time.Since(began) > took+time.Second {
		t.Errorf("%d bytes, %v; a look ends over the limit", cut, err)
	}
	t.Logf("a look that ends over its limit took %s", time.Since(began))
}
