package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A training script with an environment of its own, a data file and a big one
// beside it, in a folder whose name is not a simple one.
func TestRunTrainsInTheCurrentFolder(t *testing.T) {
	t.Parallel()
	p := newProject(t, "my pröject ü")
	need(t, exists("/usr/bin/python3"), "python3")
	venv := exec.Command("/usr/bin/python3", "-m", "venv", "--without-pip", "venv")
	venv.Dir = p.dir
	if p.user != nil {
		venv.SysProcAttr = &syscall.SysProcAttr{Credential: p.user}
	}
	if out, err := venv.CombinedOutput(); err != nil {
		need(t, false, fmt.Sprintf("python3 -m venv (%v: %s)", err, out))
	}
	site, err := filepath.Glob(filepath.Join(p.dir, "venv/lib/python3*/site-packages"))
	if err != nil || len(site) != 1 {
		t.Fatalf("site-packages: %v, %v", site, err)
	}
	rel, err := filepath.Rel(p.dir, site[0])
	if err != nil {
		t.Fatal(err)
	}
	p.put(filepath.Join(rel, "mylib.py"), "def half(x): return x / 2\n")
	p.put("data.csv", "1,2\n3,4\n")
	p.put("big.bin", "")
	if err := os.Truncate(filepath.Join(p.dir, "big.bin"), 5<<30); err != nil {
		t.Fatal(err)
	}
	p.put("train.py", `
import json, os, sys, pathlib
import mylib
lr = json.loads(os.environ["WEIR_CONFIG"])["lr"]
print("rows", len(open("data.csv").readlines()), "lr", lr, "cwd", os.getcwd(), "user", os.getuid())
for step in range(20):
    print(json.dumps({"step": step, "metrics": {"loss": mylib.half(1 / (step + 1))}}))
pathlib.Path.home().joinpath("litter").write_text("x")
pathlib.Path("model.pt").write_bytes(b"x" * 1000)
for place in (os.path.join(sys.prefix, "x"), "/usr/x"):
    try:
        open(place, "w")
        print("WROTE", place)
    except OSError as e:
        print("refused", e.errno)
print("prefix", sys.prefix)
print("secrets", os.path.exists(os.environ["OUTSIDE"]))
`)
	p.env = append(p.env, "VIRTUAL_ENV="+filepath.Join(p.dir, "venv"))
	outside := filepath.Join(p.data, "..", "home")
	out, notes := p.weir(0, "run", "--set", "lr=0.01", "--env", "OUTSIDE="+outside, "--", "python3", "train.py")
	says(t, "stdout", out, "rows 2 lr 0.01 cwd "+p.dir, `{"step": 19, "metrics": {"loss": 0.025}}`, "prefix "+filepath.Join(p.dir, "venv"), "secrets False")
	if strings.Contains(out, "WROTE") || strings.Count(out, "refused 30") != 2 {
		t.Errorf("what is read-only was not: %s", out)
	}
	says(t, "stderr", notes, "ended: DONE COMPLETED", "exit code 0", "loss last 0.025, min 0.025, max 0.5", "model model.pt, 1000 B", "--again run_")
	if strings.Contains(notes, "warning") || strings.Contains(notes, "big.bin") {
		t.Errorf("there is a warning, or a file that the run did not make:\n%s", notes)
	}
	info, err := os.Stat(filepath.Join(p.dir, "model.pt"))
	if err != nil {
		t.Fatal(err)
	}
	if p.user != nil && info.Sys().(*syscall.Stat_t).Uid != p.user.Uid {
		t.Errorf("the model belongs to user id %d, want %d", info.Sys().(*syscall.Stat_t).Uid, p.user.Uid)
	}
	var names []string
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "big.bin data.csv model.pt train.py venv" {
		t.Errorf("the folder holds %s", got)
	}

	// Once more, from elsewhere and with another parameter.
	id := runID.FindStringSubmatch(notes)
	if id == nil {
		t.Fatalf("no id in %s", notes)
	}
	again := *p
	again.dir = p.data
	again.env = again.env[:len(again.env)-1]
	out, _ = again.weir(0, "run", "--again", id[1], "--set", "lr=0.02")
	says(t, "stdout", out, "lr 0.02 cwd "+p.dir, "secrets False")
}

// What pip install --user has installed is there, read-only, and nothing else of
// the home.
func TestRunHasTheUsersOwnPackages(t *testing.T) {
	t.Parallel()
	p := newProject(t, "work")
	need(t, exists("/usr/bin/python3"), "python3")
	version, err := exec.Command("/usr/bin/python3", "-c", "import sys; print('python%d.%d' % sys.version_info[:2])").Output()
	if err != nil {
		t.Fatal(err)
	}
	site := filepath.Join("..", "home", ".local", "lib", strings.TrimSpace(string(version)), "site-packages")
	if err := os.MkdirAll(filepath.Join(p.dir, site), 0o755); err != nil {
		t.Fatal(err)
	}
	p.put(filepath.Join(site, "mine.py"), "where = __file__\n")
	p.put(filepath.Join("..", "home", ".local", "lib", "secret"), "x")
	p.put("uses.py", "import os, mine\nlib = mine.where.split('/python3')[0]\nprint('it is', mine.where, os.listdir(lib), os.access(mine.where, os.W_OK))\n")
	out, _ := p.weir(0, "run", "uses.py")
	says(t, "stdout", out, "it is "+filepath.Join(p.dir, site, "mine.py")+" ['"+strings.TrimSpace(string(version))+"'] False")
	p.env = append(p.env, "PYTHONNOUSERSITE=1")
	_, notes := p.weir(1, "run", "uses.py")
	says(t, "stderr", notes, "No module named 'mine'")
}

// Each of these ends with the right code and says in one line why.
func TestRunOutcomes(t *testing.T) {
	t.Parallel()
	p := newProject(t, "work") // all of them at once, on one data folder
	p.put("fails.py", "import sys\nsys.exit(3)\n")
	p.put("needs.py", "import nosuchmodule\n")
	p.put("secret.py", "print(1)\n")
	if err := os.Chmod(filepath.Join(p.dir, "secret.py"), 0); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		line string
	}{
		"works":          {[]string{"run", "--", "true"}, 0, "ended: DONE COMPLETED"},
		"fails":          {[]string{"run", "fails.py"}, 1, "ended: FAILED ERROR: the command ended with exit code 3"},
		"times out":      {[]string{"run", "--timeout", "0.5", "--", "sleep", "60"}, 124, "ended: TIMED_OUT TIMEOUT: the "},
		"no module":      {[]string{"run", "needs.py"}, 1, "hint: the python3 of this run has no module 'nosuchmodule', no environment is active, and there is no .venv, venv or env in or above " + p.dir + ": activate the environment"},
		"no right":       {[]string{"run", "--", "python3", "secret.py"}, 1, "ended: FAILED ERROR: the command ended with exit code 2: python3: can't open file"},
		"no program":     {[]string{"run", "--", "nosuchcommand"}, 1, "command not found: nosuchcommand (inside of the sandbox, PATH is "},
		"own PATH":       {[]string{"run", "--env", "PATH=/srv", "--", "sh"}, 1, "hint: it is at /usr/bin/sh, in a folder that the PATH of this run leaves out"},
		"no file":        {[]string{"run", "nothere.py"}, 2, "there is no file nothere.py here"},
		"no mount":       {[]string{"run", "--mount", "/nothere", "--", "true"}, 2, "--mount /nothere: no such file or directory"},
		"nothing to do":  {[]string{"run"}, 2, "there is nothing to run"},
		"a kill":         {[]string{"run", "--", "sh", "-c", "kill -9 $$"}, 1, "ended: FAILED ERROR: the command was killed by SIGKILL"},
		"floods":         {[]string{"run", "--max-output", "1MiB", "--", "yes"}, 1, "ended: FAILED ERROR: the command printed more than its limit: sandbox.maxOutputBytes is 1048576; raise it (weir run --max-output)"},
		"network":        {[]string{"run", "--network", "none", "--", "sh", "-c", "test ! -e /sys/class/net/eth0 && ! ls /sys/class/net"}, 0, "DONE COMPLETED"},
		"a wish":         {[]string{"run", "--memory", "64MiB", "--", "sh", "-c", "echo $WEIR_CONFIG"}, 0, "DONE COMPLETED"},
		"wrong limit":    {[]string{"run", "--timeout", "1e9", "--", "true"}, 2, "at most 2592000 (30 days) are allowed"},
		"many words":     {slices.Concat([]string{"run", "--", "sh", "-c", "echo $#"}, slices.Repeat([]string{"x"}, 8000)), 0, "ended: DONE COMPLETED"},
		"too many words": {slices.Concat([]string{"run", "--", "true"}, slices.Repeat([]string{"x"}, 9500)), 1, "the command has 9501 words; here a sandbox takes at most 8"},
		"large config":   {[]string{"run", "--set", "a=" + strings.Repeat("x", 60_000), "--set", "b=" + strings.Repeat("x", 60_000), "--", "true"}, 2, "a program gets at most 102400 of them, as WEIR_CONFIG"},
		"no such run":    {[]string{"run", "--again", "run_06h2z43fdwj4q35js5b02kv118"}, 1, "there is no run run_06h2z43fdwj4q35js5b02kv118 in "},
		"mount at serve": {[]string{"run", "--server", "http://127.0.0.1:9", "--mount", "/srv", "--", "true"}, 2, "--mount /srv names a path of this machine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sub := *p
			sub.t = t
			_, notes := sub.weir(c.code, c.args...)
			says(t, "stderr", notes, c.line)
			if n := strings.Count(notes, c.line); n != 1 {
				t.Errorf("it is said %d times:\n%s", n, notes)
			}
		})
	}
	t.Run("read-only folder", func(t *testing.T) {
		t.Parallel()
		p := newProject(t, "readonly")
		p.put("train.py", "print('works')\nopen('model.pt', 'w')\n")
		if err := os.Chmod(p.dir, 0o555); err != nil {
			t.Fatal(err)
		}
		out, notes := p.weir(1, "run", "train.py")
		says(t, "stdout", out, "works")
		says(t, "stderr", notes, "PermissionError: [Errno 13] Permission denied: 'model.pt'")
	})
	t.Run("closed folder", func(t *testing.T) {
		t.Parallel()
		p := newProject(t, "closed")
		if err := os.Chmod(p.dir, 0o111); err != nil {
			t.Fatal(err)
		}
		_, notes := p.weir(2, "run", "--", "true")
		says(t, "stderr", notes, "the folder "+p.dir+" cannot be opened: permission denied")
	})
	t.Run("home folder", func(t *testing.T) {
		t.Parallel()
		p := newProject(t, "work")
		p.dir = filepath.Join(filepath.Dir(p.dir), "home")
		_, notes := p.weir(2, "run", "--", "true")
		says(t, "stderr", notes, "holds your home folder")
	})
}

// The first Ctrl-C aborts with grace and prints the receipt; the second one
// takes the grace away.
func TestRunIsInterrupted(t *testing.T) {
	t.Parallel()
	p := newProject(t, "work")
	for name, c := range map[string]struct {
		script string
		by     os.Signal
		twice  bool
		signal string
	}{
		"Once":  {"echo ready; exec sleep 60", os.Interrupt, false, "SIGTERM"},
		"Twice": {"trap '' TERM; echo ready; sleep 60 & wait; sleep 60", os.Interrupt, true, "SIGKILL"},
		"Quit":  {"trap '' TERM; echo ready; sleep 60 & wait; sleep 60", syscall.SIGQUIT, true, "SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sub := *p
			sub.t = t
			s := sub.start("run", "--", "sh", "-c", c.script)
			eventually(t, 20*time.Second, "it works", func() error {
				if !strings.Contains(s.stdout.String(), "ready") {
					return errors.New("no output")
				}
				return nil
			})
			id := runID.FindStringSubmatch(s.stderr.String())
			began := time.Now()
			if err := s.Process.Signal(c.by); err != nil {
				t.Fatal(err)
			}
			if c.twice {
				eventually(t, 20*time.Second, "the abort is asked", func() error {
					if !strings.Contains(s.stderr.String(), "abort requested") {
						return errors.New("it is not")
					}
					return nil
				})
				if err := s.Process.Signal(c.by); err != nil {
					t.Fatal(err)
				}
			}
			if code := s.code(t, 20*time.Second); code != 130 {
				t.Errorf("exit code %d, want 130", code)
			}
			if took := time.Since(began); took > 4500*time.Millisecond {
				t.Errorf("it took %s, as long as the grace", took)
			}
			says(t, "stderr", s.stderr.String(), "ended: CANCELLED ABORTED", "survivors     none", c.signal)
			if left := processesWith("WEIR_RUN=" + id[1]); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// Where nobody reads the output any more, the run is aborted, with grace.
func TestRunWithoutAReader(t *testing.T) {
	t.Parallel()
	p := newProject(t, "work")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := &started{Cmd: exec.Command(binary, "run", "--", "sh", "-c", "trap 'touch graceful; exit' TERM; while :; do echo more; sleep 0.01; done"), exited: make(chan struct{})}
	s.Dir, s.Env = p.dir, p.env
	s.Stdout, s.Stderr = w, &s.stderr
	if p.user != nil {
		s.SysProcAttr = &syscall.SysProcAttr{Credential: p.user}
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = s.Wait()
		close(s.exited)
	}()
	_ = w.Close() // weir has its own
	if _, err := r.Read(make([]byte, 4)); err != nil {
		t.Error(err)
	}
	_ = r.Close()
	if code := s.code(t, 20*time.Second); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	says(t, "stderr", s.stderr.String(), "survivors     none", "writing the output: ")
	if strings.Contains(s.stderr.String(), "killing") || !exists(filepath.Join(p.dir, "graceful")) {
		t.Errorf("it had no grace:\n%s", s.stderr.String())
	}
}

// Where the output cannot be written, that is said while the run goes on.
func TestRunWithoutRoomForItsOutput(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		need(t, false, "/dev/full")
	}
	defer func() { _ = full.Close() }()
	for name, asJSON := range map[string][]string{"Text": nil, "JSON": {"--json"}} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t, "work")
			s := p.startTo(full, slices.Concat([]string{"run"}, asJSON, []string{"--", "sh", "-c", "echo some; while [ ! -e stop ]; do sleep 0.05; done; echo more"})...)
			eventually(t, 20*time.Second, "it is told", func() error {
				if !strings.Contains(s.stderr.String(), "no space left on device: the rest of it is not shown here; the run goes on") {
					return errors.New(s.stderr.String())
				}
				return nil
			})
			p.put("stop", "")
			if code := s.code(t, 20*time.Second); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if n := strings.Count(s.stderr.String(), "the run goes on"); n != 1 {
				t.Errorf("it is said %d times", n)
			}
		})
	}
}

// Beside a server on the same data folder a run is kept in a place of its own,
// and is found again there. Its own server takes no orders but an abort.
func TestRunBesideAServer(t *testing.T) {
	t.Parallel()
	p := newProject(t, "work")
	s := newServer(t, "")
	s.as(p.user)
	s.start()
	p.data = s.data
	p.env = append(p.env, "WEIR_DATA="+s.data)
	p.put("go.sh", "echo ready\nwhile [ ! -e stop ]; do sleep 0.05; done\necho $WEIR_CONFIG\n")
	first := p.start("run", "--set", "n=1", "--", "sh", "go.sh")
	second := p.start("run", "--set", "n=2", "--", "sh", "go.sh")
	for _, r := range []*started{first, second} {
		eventually(t, 20*time.Second, "it works", func() error {
			if !strings.Contains(r.stdout.String(), "ready") {
				return errors.New(r.stderr.String())
			}
			return nil
		})
	}
	found := runID.FindStringSubmatch(first.stderr.String())
	own := &server{t: t, addr: strings.TrimPrefix(found[2], "http://")}
	for _, order := range []string{
		`mutation { startRun(input: {agent: "script", command: ["true"]}) { id } }`,
		`mutation { createSession(input: {}) { id } }`,
		`mutation { deleteSession(id: "ses_06h2z43fccdwybsm79jz509ewg") }`,
		`mutation { sendMessage(input: {sessionId: "ses_06h2z43fccdwybsm79jz509ewg", text: "x"}) { id } }`,
	} {
		if err := own.try(order, nil, nil); err == nil || !strings.Contains(err.Error(), "FORBIDDEN: this is weir run") {
			t.Errorf("%s: got %v", order, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	p.put("stop", "")
	for n, r := range []*started{first, second} {
		if code := r.code(t, 20*time.Second); code != 0 {
			t.Errorf("exit code %d", code)
		}
		says(t, "stdout", r.stdout.String(), fmt.Sprintf(`{"n":%d}`, n+1))
		says(t, "stderr", r.stderr.String(), "weir serve --data "+s.data+"/run-")
	}
	out, _ := p.weir(0, "run", "--again", found[1])
	says(t, "stdout", out, `{"n":1}`)
}

// What a server has left in its queue stays there, for a server.
func TestRunLeavesAServersQueueAlone(t *testing.T) {
	t.Parallel()
	p := newProject(t, "work")
	s := newServer(t, "", "--concurrency", "1")
	s.as(p.user)
	s.start()
	live := s.startRun(map[string]any{"agent": "script", "command": []string{"sleep", "60"}})
	s.waitStatus(live.ID, 20*time.Second, "RUNNING")
	queued := s.startRun(map[string]any{"agent": "script", "command": []string{"touch", "made"}})
	s.kill()
	p.env = append(p.env, "WEIR_DATA="+s.data)
	_, notes := p.weir(0, "run", "--", "true")
	says(t, "stderr", notes, "--data "+s.data+"/run-2")
	s.start()
	s.waitStatus(queued.ID, 20*time.Second, "DONE")
	s.waitStatus(live.ID, 20*time.Second, "FAILED")
}

// In a folder of root's own there is no sandbox, and one line says so. In one of
// another user root's run is in a sandbox, as that user.
func TestRunByRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can be root")
	}
	p := newProject(t, "work")
	owner, group := int(p.user.Uid), 61777
	p.user = nil
	if err := os.Chown(p.dir, owner, group); err != nil {
		t.Fatal(err)
	}
	script := []string{"run", "--", "sh", "-c", "id -u; stat -c %u .; cat /proc/sys/kernel/hostname; touch made; exit 0"}
	out, notes := p.weir(0, script...)
	if host, err := os.Hostname(); err != nil || strings.Contains(out, host) {
		t.Errorf("it sees the host (%v): %s", err, out)
	}
	says(t, "stdout", out, "1000\n1000\nweir\n")
	if strings.Contains(notes, "UNSANDBOXED") {
		t.Errorf("not in a sandbox:\n%s", notes)
	}
	for path, want := range map[string]int{p.dir: owner, filepath.Join(p.dir, "made"): owner} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != want || int(st.Gid) != group {
			t.Errorf("%s belongs to %d:%d, want %d:%d", path, st.Uid, st.Gid, want, group)
		}
	}

	if err := os.Chown(p.dir, 0, 0); err != nil {
		t.Fatal(err)
	}
	out, notes = p.weir(0, script...)
	says(t, "stdout", out, "0\n0\n")
	if n := strings.Count(notes, "UNSANDBOXED"); n != 1 {
		t.Errorf("it is labelled in %d lines:\n%s", n, notes)
	}
	says(t, "stderr", notes, "belongs to root, and a sandbox must not run as root")
}

// Without bubblewrap the command runs as a plain process, which one line says
// with the reason.
func TestRunWithoutASandbox(t *testing.T) {
	t.Parallel()
	p := newProject(t, "work")
	bin := filepath.Join(filepath.Dir(p.dir), "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/sh", filepath.Join(bin, "sh")); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "PATH="+bin)
	out, notes := p.weir(0, "run", "--set", "lr=1", "--", "sh", "-c", "pwd; echo $HOME $WEIR_CONFIG")
	says(t, "stdout", out, p.dir+"\n"+filepath.Join(filepath.Dir(p.dir), "home")+` {"lr":1}`)
	says(t, "stderr", notes, "UNSANDBOXED: no sandbox works here: bubblewrap (bwrap) is not installed; to mend it: ", "DONE COMPLETED")
	if n := strings.Count(notes, "UNSANDBOXED"); n != 1 {
		t.Errorf("it is labelled in %d lines:\n%s", n, notes)
	}
	if left, err := os.ReadDir(p.dir); err != nil || len(left) > 0 {
		t.Errorf("the folder holds %v, %v", left, err)
	}
}

// --json is one event per line and nothing else.
func TestRunInJSON(t *testing.T) {
	t.Parallel()
	p := newProject(t, "work")
	out, _ := p.weir(1, "run", "--json", "--", "sh", "-c", `echo '{"step":1,"metrics":{"loss":0.5}}'; exit 4`)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, line := range lines {
		if !strings.HasPrefix(line, `{"seq":`) {
			t.Errorf("not an event: %s", line)
		}
	}
	says(t, "stdout", out, `"type":"METRICS_LOGGED"`, `"type":"RUN_ENDED"`, `"exitCode":4`)
	if !bytes.Contains([]byte(lines[len(lines)-1]), []byte(`"RUN_ENDED"`)) {
		t.Errorf("the last line is %s", lines[len(lines)-1])
	}
}
