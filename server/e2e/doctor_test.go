package e2e

import (
	"context"
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/dockertest"
)

// static gives a weir that needs no library: the binary of these tests if it is
// one, as in CI, else one that is built for this.
func static(t *testing.T) string {
	t.Helper()
	f, err := elf.Open(binary)
	if err != nil {
		t.Skipf("SKIPPED: %v", err) // another system than Linux
	}
	defer f.Close()
	dynamic := false
	for _, p := range f.Progs {
		dynamic = dynamic || p.Type == elf.PT_INTERP
	}
	if !dynamic {
		return binary
	}
	out := filepath.Join(t.TempDir(), "weir")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", out, "github.com/weirhq/weir")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building a static weir: %v\n%s", err, text)
	}
	return out
}

// In a container without anything, in one that has bubblewrap but may make no
// sandbox, and in one that was started as doctor says.
func TestDoctorInAContainer(t *testing.T) {
	t.Parallel()
	dockertest.Need(t)
	image := dockertest.Image(t, map[string]string{"/weir": static(t)})
	const (
		install   = "apt-get install -y bubblewrap"
		outside   = "run weir outside of the container"
		noCommand = "no command and no code can run on this machine"
	)
	remedy := []string{"--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined", "--security-opt", "systempaths=unconfined"}
	// The programs of this machine, read-only: bubblewrap and python3 are there.
	programs := []string{"-v", "/usr:/usr:ro"}
	with := func(lists ...[]string) (all []string) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	for name, c := range map[string]struct {
		options []string
		ok      bool
		want    []string
	}{
		"nothing":   {nil, false, []string{"PROBLEM  sandbox   bubblewrap (bwrap) is not installed", noCommand, install}},
		"forbidden": {programs, false, []string{"PROBLEM  sandbox   this container forbids user namespaces", noCommand, outside, strings.Join(remedy, " ")}},
		"half allowed": {
			with(programs, remedy[:4]), false,
			[]string{"PROBLEM  sandbox   this container hides parts of /proc", noCommand, outside, strings.Join(remedy, " ")},
		},
		"allowed": {with(programs, remedy), true, []string{"OK       sandbox", "OK       python3   python 3.", "weir serve works here"}},
	} {
		for user, asUser := range map[string][]string{"root": nil, "1000": {"-u", "1000:1000"}} {
			t.Run(name+" as "+user, func(t *testing.T) {
				t.Parallel()
				out, code := dockertest.Run(t, with(asUser, c.options), image, "/weir", "doctor", "--data", "/tmp/data")
				if (code == 0) != c.ok || code > 1 {
					t.Errorf("exit code %d", code)
				}
				for _, w := range c.want {
					if !strings.Contains(out, w) {
						t.Errorf("it does not say %q", w)
					}
				}
				if !c.ok && (strings.Contains(out, "works here") || strings.Contains(out, "OK       sandbox")) {
					t.Error("it says that the sandbox works")
				}
				if t.Failed() {
					t.Log("\n" + out)
				}
			})
		}
	}
	t.Run("serve --help", func(t *testing.T) {
		t.Parallel()
		for _, asUser := range [][]string{nil, {"-u", "1000:1000"}} {
			if out, code := dockertest.Run(t, asUser, image, "/weir", "serve", "--help"); code != 0 || !strings.Contains(out, "--allow-unsandboxed") {
				t.Errorf("%v: code %d\n%s", asUser, code, out)
			}
		}
	})
	// A server says what doctor says, and falls back to nothing.
	t.Run("serve", func(t *testing.T) {
		t.Parallel()
		script := `/weir serve --data /tmp/data --stop-timeout 0s & pid=$!
until busybox wget -qO /dev/null http://127.0.0.1:8080/readyz 2>/dev/null; do sleep 0.1; done
busybox wget -qO - --header 'Content-Type: application/json' --post-data '{"query":"{server{sandboxes{available isolation reason}}}"}' http://127.0.0.1:8080/graphql
kill $pid; wait $pid`
		out, code := dockertest.Run(t, nil, image, "sh", "-c", script)
		if code != 0 {
			t.Fatalf("code %d\n%s", code, out)
		}
		for _, w := range []string{"sandbox not available", install, `"available":false`, `"isolation":null`} {
			if !strings.Contains(out, w) {
				t.Errorf("it does not say %q\n%s", w, out)
			}
		}
		if strings.Contains(out, "UNSANDBOXED") {
			t.Errorf("a fallback:\n%s", out)
		}
	})
}

// On this machine the doctor agrees with the server, in words and in JSON.
func TestDoctorChecksWhatServeUses(t *testing.T) {
	t.Parallel()
	run := func(args ...string) (string, string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary, append([]string{"doctor"}, args...)...)
		var words strings.Builder
		cmd.Stderr = &words
		out, err := cmd.Output()
		return string(out), words.String(), err
	}
	s := newServer(t, "")
	out, words, err := run("--listen", s.addr, "--data", s.data)
	need(t, strings.Contains(out, "OK       sandbox"), "a working sandbox")
	if err != nil || words != "" || !strings.Contains(out, "weir serve works here") || !strings.Contains(out, "SQLite, to be made: "+s.data+"/weir.db") {
		t.Errorf("%v %s\n%s", err, words, out)
	}
	for i, line := range strings.Split(out, "\n") {
		if len(line) > 80 && !strings.Contains(line, "-> ") {
			t.Errorf("line %d is too long for a terminal: %s", i+1, line)
		}
	}
	if left, err := os.ReadDir(s.data); err != nil || len(left) > 0 {
		t.Errorf("it left %v in the data folder, %v", left, err)
	}
	s.start()
	out, words, err = run("--listen", s.addr, "--data", s.data, "--json")
	var got struct {
		OK     bool
		Checks []struct{ Check, Verdict, What, Meaning, Remedy string }
	}
	if e := json.Unmarshal([]byte(out), &got); e != nil || err == nil || got.OK || !strings.Contains(words, "not ready") {
		t.Fatalf("%v %v %s\n%s", e, err, words, out)
	}
	for _, c := range got.Checks {
		if busy := c.Check == "database" || c.Check == "port"; busy != (c.Verdict == "PROBLEM") || busy && (c.Remedy == "" || !strings.Contains(c.What, "in use")) {
			t.Errorf("%+v", c)
		}
	}
	if code := s.stop(20 * time.Second); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
	out, _, err = run("--listen", s.addr, "--data", s.data)
	if err != nil || !strings.Contains(out, "SQLite 3.") {
		t.Errorf("after the server: %v\n%s", err, out)
	}
}
