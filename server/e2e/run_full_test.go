package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// smallDisk mounts a file system of some MiB at a folder.
func smallDisk(t *testing.T, dir string, mib int) {
	t.Helper()
	need(t, os.Getuid() == 0, "root, to mount a small file system")
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", fmt.Sprintf("mode=777,size=%dm", mib), "tmpfs", dir).CombinedOutput(); err != nil {
		need(t, false, "a small file system: "+string(out))
	}
	t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
}

// Where what ran cannot be kept any more, weir run says so. It goes on when it
// can, and lets itself be ended when it cannot.
func TestRunOnAFullDisk(t *testing.T) {
	t.Parallel()
	const script = "i=0; while [ $i -lt 60000 ]; do echo line $i of the program; i=$((i+1)); done; echo last"
	setup := func(t *testing.T) (*project, *started, string) {
		t.Helper()
		p := newProject(t, "work")
		smallDisk(t, p.data, 3)
		ballast := filepath.Join(p.data, "ballast")
		if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		s := p.start("run", "--data", filepath.Join(p.data, "weir"), "--", "sh", "-c", script)
		eventually(t, 40*time.Second, "the full disk is told", func() error {
			if !strings.Contains(s.stderr.String(), "nothing can be kept in "+filepath.Join(p.data, "weir")) {
				return errors.New(s.stderr.String())
			}
			return nil
		})
		return p, s, ballast
	}
	t.Run("Ended", func(t *testing.T) {
		t.Parallel()
		_, s, _ := setup(t)
		id := runID.FindStringSubmatch(s.stderr.String())
		for _, told := range []string{"aborting ", "killing "} {
			if err := s.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			eventually(t, 10*time.Second, told, func() error {
				if !strings.Contains(s.stderr.String(), told) {
					return errors.New(s.stderr.String())
				}
				return nil
			})
		}
		if code := s.code(t, 20*time.Second); code != 130 {
			t.Errorf("exit code %d, want 130", code)
		}
		says(t, "stderr", s.stderr.String(), "could not be written: it will be listed as LOST")
		if left := processesWith("WEIR_RUN=" + id[1]); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	t.Run("Freed", func(t *testing.T) {
		t.Parallel()
		p, s, ballast := setup(t)
		if err := exec.CommandContext(t.Context(), "mount", "-o", "remount,size=64m", p.data).Run(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		if code := s.code(t, 40*time.Second); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
		says(t, "stderr", s.stderr.String(), "it can be kept again", "ended: DONE")
		lines := strings.Split(strings.TrimSpace(s.stdout.String()), "\n")
		if len(lines) != 60001 || lines[60000] != "last" || lines[59999] != "line 59999 of the program" {
			t.Errorf("%d lines, the last one is %q", len(lines), lines[len(lines)-1])
		}
	})
}
