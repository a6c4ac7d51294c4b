//go:build linux

package disk

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/sandbox"
)

func TestOneLookAtATime(t *testing.T) {
	t.Parallel()
	var d Meters
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
	var d Meters
	s := sandbox.Spec{Workspace: top, Limits: sandbox.Limits{DiskMiB: 1 << 20}}
	m, err := d.Meter(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	use, err := m.Use(t.Context(), 1<<40, 0, nil)
	took := time.Since(began)
	if err != nil || use < int64(n)*EntryBytes {
		t.Errorf("%d bytes, %v", use, err)
	}
	if took > 5*time.Second+time.Duration(n)*20*time.Microsecond {
		t.Errorf("a look at %d files took %s", n, took)
	}
	t.Logf("a look at %d files took %s", n, took)
	began = time.Now()
	// The folder itself may be over the limit already.
	if cut, err := m.Use(t.Context(), 1<<20, 0, nil); err != nil || cut <= 1<<20 || cut >= use || time.Since(began) > took+5*time.Second {
		t.Errorf("%d bytes, %v; a look ends over the limit", cut, err)
	}
	t.Logf("a look that ends over its limit took %s", time.Since(began))
}
