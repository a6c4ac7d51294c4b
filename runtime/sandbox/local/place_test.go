//go:build linux

package local_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// placed makes a workspace a folder of the user's own, with files in it.
func placed(t *testing.T, s sandbox.Spec) sandbox.Spec {
	t.Helper()
	s.Place = &run.Place{Folder: s.Workspace}
	if err := os.Chmod(s.Workspace, 0o777); err != nil { // whoever the sandbox runs as
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.Workspace, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Workspace, "lib", "file"), make([]byte, 3<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

// A folder of the user's own stands at its own path, and keeps its owner and its
// mode; what is mounted beside it cannot be changed, also within it.
func TestAPlaceStaysAsItIs(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	other := workspace(t)
	if err := os.WriteFile(filepath.Join(other, "tool"), []byte("#!/bin/sh\necho tool runs\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(other, 0o777); err != nil {
		t.Fatal(err)
	}
	s := placed(t, shell(t, `pwd; tool; echo x > made && echo made; for f in lib/x `+other+`/x /x; do { echo x > $f; } 2>/dev/null && echo WROTE $f; done
echo x > ~/litter && echo home $HOME; grep weir /etc/passwd; ls /workspace 2>/dev/null && echo WORKSPACE; true`))
	s.Place.Mounts = []run.Mount{{From: other, At: other}, {From: other, At: "/somewhere/else"}, {From: s.Workspace + "/lib", At: s.Workspace + "/lib"}}
	s.Place.Path = []string{"/somewhere/else"}
	before, err := os.Stat(s.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	res, r := execute(t, b, s)
	want := s.Workspace + "\ntool runs\nmade\nhome /weir/home\nweir:x:1000:1000:weir:/weir/home:/bin/sh\n"
	if res.Class != run.ClassOK || r.stdout() != want {
		t.Errorf("%s: got %q, want %q; stderr %s", res.Class, r.stdout(), want, r.stderr())
	}
	after, err := os.Stat(s.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	if before.Mode() != after.Mode() || before.Sys().(*syscall.Stat_t).Uid != after.Sys().(*syscall.Stat_t).Uid {
		t.Errorf("the folder was changed: %v, now %v", before.Sys(), after.Sys())
	}
}

// What is in a folder of the user's own before does not count against the disk
// limit; what is added does.
func TestAPlacesDiskLimitIsOfItsGrowth(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	s := placed(t, shell(t, "dd if=/dev/zero of=made bs=64k count=16 2>/dev/null; ls -l made"))
	s.Limits.DiskMiB = 2 // and there are 3 MiB already
	if res, r := execute(t, b, s); res.Class != run.ClassOK {
		t.Errorf("within its growth it ended as %s: %s", res.Class, r.stderr())
	}
	s = placed(t, shell(t, "for i in 1 2 3 4 5 6; do dd if=/dev/zero of=made$i bs=64k count=16; done"))
	s.Limits.DiskMiB = 2
	if res, _ := execute(t, b, s); res.Class != run.ClassDiskLimit || res.DiskUse <= 2<<20 || res.DiskUse > 8<<20 {
		t.Errorf("over its growth it ended as %s with %d bytes", res.Class, res.DiskUse)
	}
}

// A device is there that no sandbox has of itself, and only then are GPUs this
// backend's.
func TestAPlacesDevices(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	s := placed(t, shell(t, ""))
	entries, err := os.ReadDir("/dev")
	if err != nil {
		t.Fatal(err)
	}
	own := []string{"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx"}
	for _, e := range entries {
		if e.Type()&os.ModeCharDevice != 0 && !slices.Contains(own, e.Name()) {
			s.Place.Devices = append(s.Place.Devices, "/dev/"+e.Name())
			break
		}
	}
	if len(s.Place.Devices) == 0 {
		t.Skip("SKIPPED: /dev has no other device") // also in CI: its container decides
	}
	s.GPU = "any"
	s.Command[2] = "test -c " + s.Place.Devices[0] + " && echo there"
	res, r := execute(t, b, s)
	if res.Class != run.ClassOK || r.stdout() != "there\n" {
		t.Errorf("%s %s: %q, stderr %s", s.Place.Devices[0], res.Class, r.stdout(), r.stderr())
	}
	s.Place.Devices = nil
	if _, err := sandbox.Run(t.Context(), b, s, &recorder{}, sandbox.Options{}); err == nil || !strings.Contains(err.Error(), "no GPUs") {
		t.Errorf("without devices: got %v", err)
	}
}
