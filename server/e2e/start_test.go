package e2e

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// refuses runs weir with args, expects it to end with code 1 and gives what it said.
func refuses(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("weir %v did not end:\n%s", args, out)
	}
	if err == nil {
		t.Fatalf("weir %v succeeded:\n%s", args, out)
	}
	if strings.Contains(string(out), "panic") || strings.Contains(string(out), "goroutine ") {
		t.Errorf("it panicked:\n%s", out)
	}
	t.Logf("%s", out)
	return string(out)
}

func wants(t *testing.T, said string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Errorf("the message does not name %q", w)
		}
	}
}

// TestStartRefusals: the server says in one line what keeps it from starting.
func TestStartRefusals(t *testing.T) {
	t.Parallel()
	t.Run("PortInUse", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		wants(t, refuses(t, "serve", "--listen", l.Addr().String(), "--data", dataFolder(t)), l.Addr().String(), "in use", "--listen")
	})
	t.Run("DataFolderTaken", func(t *testing.T) {
		s := newServer(t, "")
		s.start()
		wants(t, refuses(t, "serve", "--listen", "127.0.0.1:0", "--data", s.data), s.data, "--data")
	})
	t.Run("DataFolderIsAFile", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		wants(t, refuses(t, "serve", "--listen", "127.0.0.1:0", "--data", file), file)
	})
	t.Run("ReadOnlyDataFolder", func(t *testing.T) {
		dir := readOnlyFolder(t)
		wants(t, refuses(t, "serve", "--listen", "127.0.0.1:0", "--data", dir), dir, "--data")
	})
	t.Run("NotADatabase", func(t *testing.T) {
		dir := dataFolder(t)
		if err := os.WriteFile(filepath.Join(dir, "weir.db"), []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
		wants(t, refuses(t, "serve", "--listen", "127.0.0.1:0", "--data", dir), filepath.Join(dir, "weir.db"))
	})
	t.Run("PostgresNotThere", func(t *testing.T) {
		wants(t, refuses(t, "serve", "--listen", "127.0.0.1:0", "--data", dataFolder(t), "--db", "postgres://weir@127.0.0.1:1/weir?sslmode=disable"), "127.0.0.1:1")
	})
	t.Run("PostgresWithoutTLS", func(t *testing.T) {
		wants(t, refuses(t, "serve", "--listen", "127.0.0.1:0", "--data", dataFolder(t), "--db", "postgres://weir@db.example/weir"), "sslmode=verify-full")
	})
	t.Run("OpenAddressWithoutToken", func(t *testing.T) {
		wants(t, refuses(t, "serve", "--listen", "0.0.0.0:0", "--data", dataFolder(t)), "0.0.0.0", "token")
	})
	t.Run("AgentsFolderMissing", func(t *testing.T) {
		wants(t, refuses(t, "serve", "--listen", "127.0.0.1:0", "--data", dataFolder(t), "--agents", "/no/such/folder"), "/no/such/folder")
	})
}

// readOnlyFolder is a folder that even root cannot write to.
func readOnlyFolder(t *testing.T) string {
	t.Helper()
	dir := dataFolder(t)
	if os.Getuid() != 0 {
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "ro", "tmpfs", dir).CombinedOutput(); err != nil {
		need(t, false, "a read-only mount: "+string(out))
	}
	t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	return dir
}

// TestGracefulStop: a stop in good order ends the live runs as SHUTDOWN, keeps
// the queued ones, and leaves no process.
func TestGracefulStop(t *testing.T) {
	t.Parallel()
	s := newServer(t, "", "--stop-timeout", "1s")
	s.start()
	live := s.startRun(map[string]any{"agent": "script", "command": []string{"sleep", "300"}})
	s.waitStatus(live.ID, 10*time.Second, "RUNNING")
	queued := s.startRun(map[string]any{"agent": "script", "sessionId": live.Session.ID, "onBusy": "QUEUE", "command": []string{"echo", "later"}})
	if code := s.stop(15 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.start()
	if got := s.run(live.ID); got.Status != "CANCELLED" || deref(got.ExitReason) != "SHUTDOWN" {
		t.Errorf("the live run is %s %s", got.Status, deref(got.ExitReason))
	}
	s.waitStatus(queued.ID, 10*time.Second, "DONE")
}

// A start that is refused leaves no session behind, at a server and without one.
func TestARefusedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	local := func(args ...string) {
		cmd, _, log := s.command(append([]string{"run", "--data", s.data}, args...)...)
		cmd.Env, cmd.Dir = append(cmd.Env, "WEIR_SERVER="), dataFolder(t)
		if err := cmd.Run(); err == nil {
			t.Errorf("%q was taken: %s", args, log)
		}
	}
	local("--backend", "cloud9", "--", "true")
	local("--title", "mine", "--network", "moon", "--", "true")
	s.start()
	for _, args := range [][]string{
		{"run", "--title", "mine", "--agent", "nobody", "--prompt", "x"},
		{"run", "--title", "mine", "--backend", "cloud9", "--", "true"},
	} {
		if _, log, code := s.weir(args...); code == 0 {
			t.Errorf("%q was taken: %s", args, log)
		}
	}
	var page struct{ Nodes []struct{ Title string } }
	decode(t, s.ok("sessions", "--json"), &page)
	if len(page.Nodes) != 0 {
		t.Errorf("the sessions are %+v", page.Nodes)
	}
	s.ok("run", "--title", "mine", "--", "true")
	decode(t, s.ok("sessions", "--json"), &page)
	if len(page.Nodes) != 1 || page.Nodes[0].Title != "mine" {
		t.Errorf("after a start the sessions are %+v", page.Nodes)
	}
}
