package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// project is a folder of a user's own, with a weir that the user starts in it.
type project struct {
	t    *testing.T
	dir  string
	data string
	env  []string
	user *syscall.Credential // of weir; nil: that of the test
}

// newProject makes the folder; it belongs to an ordinary user, who also starts
// weir.
func newProject(t *testing.T, name string) *project {
	t.Helper()
	need(t, exists("/usr/bin/bwrap"), "bubblewrap")
	base := dataFolder(t)
	p := &project{t: t, dir: filepath.Join(base, name), data: filepath.Join(base, "data"), user: ordinaryUser()}
	home := filepath.Join(base, "home")
	for _, dir := range []string{p.dir, p.data, home} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		p.own(dir)
	}
	p.env = []string{"HOME=" + home, "WEIR_DATA=" + p.data, "PATH=/usr/bin:/bin"}
	return p
}

// own gives a file to the project's user.
func (p *project) own(path string) {
	p.t.Helper()
	if p.user == nil {
		return
	}
	if err := os.Lchown(path, int(p.user.Uid), int(p.user.Gid)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) put(name, content string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		p.t.Fatal(err)
	}
	p.own(path)
}

// started is a weir that runs.
type started struct {
	*exec.Cmd
	stdout, stderr logBuffer
	exited         chan struct{}
}

func (p *project) start(args ...string) *started {
	p.t.Helper()
	return p.startTo(nil, args...)
}

// startTo starts weir with a stdout of its own, unless that is nil.
func (p *project) startTo(stdout *os.File, args ...string) *started {
	p.t.Helper()
	s := &started{Cmd: exec.Command(binary, args...), exited: make(chan struct{})}
	s.Dir, s.Env = p.dir, p.env
	s.Stdout, s.Stderr = &s.stdout, &s.stderr
	if stdout != nil {
		s.Stdout = stdout
	}
	if p.user != nil {
		s.SysProcAttr = &syscall.SysProcAttr{Credential: p.user}
	}
	if err := s.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		_ = s.Wait()
		close(s.exited)
	}()
	p.t.Cleanup(func() {
		_ = s.Process.Kill()
		<-s.exited
		if p.t.Failed() {
			p.t.Logf("weir %q:\n%s\n%s", args, tail(s.stdout.String(), 3000), tail(s.stderr.String(), 3000))
		}
	})
	return s
}

// code waits for the end.
func (s *started) code(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-s.exited:
		return s.ProcessState.ExitCode()
	case <-time.After(limit):
		t.Fatalf("weir did not end within %s", limit)
		return 0
	}
}

// weir runs to its end and has to give an exit code.
func (p *project) weir(want int, args ...string) (stdout, stderr string) {
	p.t.Helper()
	s := p.start(args...)
	if got := s.code(p.t, time.Minute); got != want {
		p.t.Errorf("weir %q ended with %d, want %d:\n%s", args, got, want, s.stderr.String())
	}
	return s.stdout.String(), s.stderr.String()
}

func says(t *testing.T, what, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s has no %q:\n%s", what, w, text)
		}
	}
}

var runID = regexp.MustCompile(`run (run_[0-9a-z]+) at (http://[0-9.:]+)/`)
