//go:build linux

package local_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local"
)

// childRole is the variable that makes this test binary a server that starts
// one execution and is then killed.
const childRole = "WEIR_TEST_CHILD"

func runChild() {
	var b backend = local.NewBubblewrap(local.Options{})
	if os.Getenv(childRole) == "plain" {
		b = local.NewPlain(local.Options{})
	}
	s := sandbox.Spec{
		Execution: run.ExecutionID(os.Getenv("TEST_EXECUTION")), Replica: os.Getenv("TEST_REPLICA"), Workspace: os.Getenv("TEST_WORKSPACE"),
		Command: []string{"sh", "-c", os.Getenv("TEST_SCRIPT")},
	}
	res, err := sandbox.Run(context.Background(), b, s, printer{}, sandbox.Options{})
	fmt.Printf("ended %s %v\n", res.Class, err)
}

type printer struct{}

func (printer) Write(_ context.Context, c sandbox.Chunk) error {
	fmt.Print(c.Text)
	return nil
}

// server starts this binary as a server and gives its output.
func server(t *testing.T, kind, replica, script string, as *syscall.Credential) (*exec.Cmd, *bufio.Reader, sandbox.Spec) {
	t.Helper()
	s := spec(t)
	s.Replica = replica
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), childRole+"="+kind, "TEST_EXECUTION="+string(s.Execution), "TEST_REPLICA="+replica, "TEST_WORKSPACE="+s.Workspace, "TEST_SCRIPT="+script)
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	if as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
		if err := os.Chown(s.Workspace, int(as.Uid), int(as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(out), s
}

func expectLine(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	got, err := r.ReadString('\n')
	if err != nil || strings.TrimSpace(got) != want {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

const daemons = "(setsid sh -c 'trap \"\" TERM; sleep 1000' &); sleep 1000 & echo up; wait"

func TestKilledServerLeavesNothing(t *testing.T) {
	t.Parallel()
	b := bubblewrap(t)
	replica := "replica_" + string(run.NewID())
	groups := func() []string {
		left, err := filepath.Glob("/sys/fs/cgroup/*/weir-" + replica + "-*")
		if err != nil {
			t.Fatal(err)
		}
		return left
	}
	for range 5 {
		cmd, out, s := server(t, "bubblewrap", replica, daemons, nil)
		expectLine(t, out, "up")
		if n := len(labelledProcesses(string(s.Execution))); n < 3 {
			t.Fatalf("only %d processes carry the label; the test looks for the wrong thing", n)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // was killed
		eventually(t, "the sandbox ends with its server", func() bool { return len(labelledProcesses(string(s.Execution))) == 0 })
	}
	if killed, err := b.Reap(t.Context(), replica); err != nil || len(killed) > 0 {
		t.Errorf("Reap found %v, %v", killed, err)
	}
	if left := groups(); len(left) > 0 {
		t.Errorf("control groups left: %v", left)
	}
}

func TestReapEndsWhatAPlainServerLeft(t *testing.T) {
	t.Parallel()
	b := local.NewPlain(local.Options{})
	defer func() { _ = b.Close() }()
	replica := "replica-" + string(run.NewID())
	cmd, out, s := server(t, "plain", replica, "echo $$; exec 2>&1; "+daemons, nil)
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	leader := "/proc/" + strings.TrimSpace(line)
	expectLine(t, out, "up")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // was killed
	eventually(t, "the command itself dies with its server", func() bool { _, err := os.Stat(leader); return err != nil })
	if len(labelledProcesses(string(s.Execution))) == 0 {
		t.Fatal("nothing was left; the test shows nothing")
	}
	if killed, err := b.Reap(t.Context(), "another-"+replica); err != nil || len(killed) > 0 {
		t.Errorf("Reap of another replica: %v %v", killed, err)
	}
	killed, err := b.Reap(t.Context(), replica)
	if err != nil || len(killed) == 0 {
		t.Errorf("Reap: %v %v", killed, err)
	}
	mustBeGone(t, s)
	if killed, err := b.Reap(t.Context(), replica); err != nil || len(killed) > 0 {
		t.Errorf("second Reap: %v %v", killed, err)
	}
}

func TestServerWithoutRoot(t *testing.T) {
	t.Parallel()
	bubblewrap(t)
	if os.Geteuid() != 0 {
		t.Log("this whole suite runs without root")
		return
	}
	nobody := &syscall.Credential{Uid: 61999, Gid: 61999, Groups: []uint32{}}
	cmd, out, s := server(t, "bubblewrap", "r2", "id -u; touch made; echo done", nobody)
	expectLine(t, out, "1000")
	expectLine(t, out, "done")
	expectLine(t, out, "ended OK <nil>")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(s.Workspace, "made"))
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != 61999 {
		t.Errorf("the file made: %v %v", info, err)
	}
}

// labelledProcesses finds the living processes of an execution by its label,
// by itself.
func labelledProcesses(execution string) []int {
	var found []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil || !bytes.Contains(env, []byte("WEIR_EXECUTION="+execution+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

// eventually waits for what another process does.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); {
		if time.Now().After(end) {
			t.Fatalf("did not happen: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// exactStatus tells whether the kernel gives the wait status of a process that
// is no child (since 6.15).
func exactStatus() bool {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return false
	}
	var major, minor int
	_, _ = fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return major > 6 || (major == 6 && minor >= 15)
}

// childTests are what a server that is no root must hold as well.
const childTests = "^(TestRedTeam.*|TestTheDiskLimit.*|TestTheLabelOfPlainIsTrue|TestClosedFoldersStayClosed|TestCases|TestNothingOfTheHostCanBeChanged)$"

// asOrdinaryUser is set in the process that runs childTests.
const asOrdinaryUser = "WEIR_TEST_ORDINARY_USER"

// TestAsAnOrdinaryUser runs the tests of the isolation again as a server
// without root: its sandboxes have its own user id, and no control groups.
func TestAsAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	bubblewrap(t)
	if os.Geteuid() != 0 {
		t.Log("this whole suite runs without root")
		return
	}
	// No folder is named: the way to this one may be closed to that user.
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", childTests, "-test.timeout", "12m", "-test.v")
	cmd.Env = append(os.Environ(), asOrdinaryUser+"=1", "HOME=/", "TMPDIR=/tmp")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 61999, Gid: 61999, Groups: []uint32{}}}
	out, err := cmd.CombinedOutput()
	if n := bytes.Count(out, []byte("--- PASS: ")); err != nil || n < 80 {
		t.Errorf("%v, %d tests passed:\n%s", err, n, failures(out))
	}
}

// failures gives the lines of a test's output that say what went wrong.
func failures(out []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "=== ") && !strings.Contains(line, "--- PASS") {
			b.WriteString(line)
		}
	}
	return b.String()
}
