package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// guide is the shell commands of a document, with the address of a server, and the
// ids of a run, put in.
type guide struct {
	t            *testing.T
	commands     [][]string
	addr         string
	run, session string
}

func newGuide(t *testing.T, s *server, name, pattern string, want int) *guide {
	t.Helper()
	_, err := exec.LookPath("curl")
	need(t, err == nil, "curl (Debian package curl)")
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	g := &guide{t: t, commands: regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1), addr: s.addr, run: "run_...", session: "ses_..."}
	if len(g.commands) != want {
		t.Fatalf("%s has %d commands: change this test, too", name, len(g.commands))
	}
	return g
}

// sh runs a command until its output holds a text.
func (g *guide) sh(i int, until string) string {
	g.t.Helper()
	text := strings.NewReplacer("http://127.0.0.1:8080", "http://"+g.addr, "ses_...", g.session, "run_...", g.run).Replace(g.commands[i][1])
	return runUntil(g.t, text, until)
}

// The commands of the GraphQL guide and of the README do what they say, one after
// the other.
func TestTheGuidesCommands(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	s.start()

	g := newGuide(t, s, "docs/graphql.md", "(?s)```sh\n(.*?)```", 4)
	started := g.sh(0, "}}}")
	g.run, g.session = regexp.MustCompile(`run_\w+`).FindString(started), regexp.MustCompile(`ses_\w+`).FindString(started)
	if g.run == "" || g.session == "" {
		t.Fatalf("startRun gave %s", started)
	}
	if all := g.sh(1, "RUN_ENDED"); !strings.Contains(all, `"seq":1,`) || !strings.Contains(all, "METRICS_LOGGED") {
		t.Errorf("the subscription gave %s", all)
	}
	if rest := g.sh(2, "RUN_ENDED"); strings.Contains(rest, `"seq":2,`) || !strings.Contains(rest, `"seq":3,`) {
		t.Errorf("behind event 2 came %s", rest)
	}
	if got := g.sh(3, "}}"); !strings.Contains(got, `{"run":{"status":"DONE","exitReason":"COMPLETED"}}`) {
		t.Errorf("the run is %s", got)
	}

	readme := newGuide(t, s, "README.md", "(?s)```sh\n(curl .*?)```", 2)
	if got := readme.sh(0, "}}}"); !strings.Contains(got, `"startRun":{"id":"run_`) {
		t.Errorf("startRun gave %s", got)
	}
	readme.session = g.session
	readme.sh(1, "RUN_ENDED")
}

// runUntil runs a shell command until its output holds a text, and gives the output.
func runUntil(t *testing.T, text, until string) string {
	t.Helper()
	cmd := exec.CommandContext(background(t, 30*time.Second), "sh", "-c", "exec "+text)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill() // a subscription does not end by itself
		_ = cmd.Wait()
	}()
	var all bytes.Buffer
	for part := make([]byte, 4096); ; {
		n, err := out.Read(part)
		all.Write(part[:n])
		if strings.Contains(all.String(), until) {
			return all.String()
		}
		if err != nil {
			t.Fatalf("%s\nended (%v) without %s: %s", text, err, until, all.String())
		}
	}
}
