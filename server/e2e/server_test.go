package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/db/pgtest"
	_ "github.com/weirhq/weir/server/app" // what the binary is made of: a change of it makes these tests run again
)

// binary is the built weir, made once for all tests of this package.
var binary string

func TestMain(m *testing.M) {
	// These tests mostly wait for other processes: many of them overlap well, also
	// on two processors.
	flag.Parse()
	if !flagGiven("test.parallel") {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "weir-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		// The sandbox's own user must be able to walk here.
		if err := os.Chmod(dir, 0o755); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		binary = filepath.Join(dir, "weir")
		build := exec.Command("go", "build", "-o", binary, "github.com/weirhq/weir")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building weir: %v\n%s", err, out)
			return 1
		}
		return pgtest.Run(m, func() error {
			http.DefaultClient.CloseIdleConnections()
			return goleak.Find()
		})
	}())
}

func flagGiven(name string) bool {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// server is a weir process that can be killed and started again on the same
// address and data.
type server struct {
	t      *testing.T
	addr   string
	data   string
	args   []string
	env    []string
	user   *syscall.Credential // nil: that of the test
	cmd    *exec.Cmd
	exited chan struct{}
	out    *logBuffer
}

// logBuffer keeps what the server printed.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newServer prepares a server without starting it. url is a PostgreSQL URL, or
// "" for SQLite.
func newServer(t *testing.T, url string, args ...string) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, addr: addr, data: dataFolder(t), out: &logBuffer{}}
	s.args = append([]string{"serve", "--listen", addr, "--data", s.data}, args...)
	if url != "" {
		s.args = append(s.args, "--db", url)
	}
	return s
}

// ordinaryUser has no rights at all; where the tests do not run as root, their
// own user is one.
func ordinaryUser() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	return &syscall.Credential{Uid: 61998, Gid: 61998, Groups: []uint32{}}
}

// as makes the server run as another user, who gets its data folder.
func (s *server) as(user *syscall.Credential) {
	s.t.Helper()
	if user == nil {
		return
	}
	if err := os.Chown(s.data, int(user.Uid), int(user.Gid)); err != nil {
		s.t.Fatal(err)
	}
	s.user = user
	s.env = append(s.env, "HOME="+s.data)
}

// dataFolder is a temporary folder that the sandbox's user can walk into,
// which t.TempDir's parent is not when root runs the test.
func dataFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-data-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// start runs the server and waits until it is ready.
func (s *server) start() {
	s.t.Helper()
	s.launch()
	s.waitReady(20 * time.Second)
}

func (s *server) launch() {
	s.t.Helper()
	cmd := exec.Command(binary, s.args...)
	cmd.Env = append(os.Environ(), s.env...)
	if s.user != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.user}
	}
	cmd.Stdout, cmd.Stderr = s.out, s.out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	s.cmd, s.exited = cmd, exited
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
		if s.t.Failed() {
			s.t.Logf("server log:\n%s", tail(s.out.String(), 6000))
		}
	})
}

func tail(s string, n int) string {
	if len(s) > n {
		return "..." + s[len(s)-n:]
	}
	return s
}

func (s *server) waitReady(limit time.Duration) {
	s.t.Helper()
	eventually(s.t, limit, "the server is ready", func() error {
		select {
		case <-s.exited:
			s.t.Fatalf("the server ended:\n%s", tail(s.out.String(), 6000))
		default:
		}
		resp, err := http.Get("http://" + s.addr + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz says %s", resp.Status)
		}
		return nil
	})
}

// kill ends the server as a power cut would, and waits until it is gone.
func (s *server) kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Fatal(err)
	}
	<-s.exited
}

// stop ends the server in good order and gives its exit code.
func (s *server) stop(limit time.Duration) int {
	s.t.Helper()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-s.exited:
	case <-time.After(limit):
		s.t.Fatalf("the server did not stop within %s", limit)
	}
	return s.cmd.ProcessState.ExitCode()
}

// eventually polls until probe gives nil.
func eventually(t *testing.T, limit time.Duration, what string, probe func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := probe()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %s until %s: %v", limit, what, err)
		}
		<-tick.C
	}
}

// processesWith gives the live processes whose environment holds marker.
func processesWith(marker string) []string {
	var found []string
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil || !bytes.Contains(env, []byte(marker)) {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		if i := strings.LastIndexByte(string(stat), ')'); i > 0 && strings.HasPrefix(string(stat)[i:], ") Z") {
			continue // a zombie runs nothing
		}
		cmdline, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		found = append(found, e.Name()+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
	}
	return found
}

// need skips loudly on a laptop and fails in CI.
func need(t *testing.T, ok bool, what string) {
	t.Helper()
	if !ok {
		pgtest.Need(t, what+" is missing")
	}
}

func background(t *testing.T, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
