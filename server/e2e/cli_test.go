package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// command is weir with args, as a client of this server.
func (s *server) command(args ...string) (cmd *exec.Cmd, stdout, stderr *logBuffer) {
	s.t.Helper()
	cmd = exec.CommandContext(background(s.t, 60*time.Second), binary, args...)
	cmd.Env = append(os.Environ(), "WEIR_SERVER=http://"+s.addr, "XDG_CONFIG_HOME=/none")
	stdout, stderr = &logBuffer{}, &logBuffer{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

// weir runs a command to its end and gives what it printed and its exit code.
func (s *server) weir(args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	cmd, out, log := s.command(args...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	if strings.Contains(log.String(), "goroutine ") {
		s.t.Errorf("weir %v panicked:\n%s", args, log)
	}
	return out.String(), log.String(), cmd.ProcessState.ExitCode()
}

// ok is weir where it has to succeed.
func (s *server) ok(args ...string) string {
	s.t.Helper()
	out, log, code := s.weir(args...)
	if code != 0 {
		s.t.Fatalf("weir %v ended with %d:\n%s%s", args, code, out, log)
	}
	return out
}

// The outcome of a run is the exit code, its output is the output, and what goes
// wrong before is one line.
func TestClientOutcomes(t *testing.T) {
	t.Parallel()
	needPython(t)
	s := newServer(t, "")
	s.start()
	dir := t.TempDir()
	file := filepath.Join(dir, "träin me.py")
	code := "import os, sys\nprint('{\"step\": 1, \"metrics\": {\"loss\": 0.5}}')\nprint(os.environ['WHO'])\nprint('bad', file=sys.stderr)\nopen('model.bin', 'w').write('x')\n"
	if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args   []string
		code   int
		stdout string // all of it
		stderr []string
	}{
		"File":     {[]string{"run", "--env", "WHO=me", file}, 0, "{\"step\": 1, \"metrics\": {\"loss\": 0.5}}\nme\n", []string{"bad\n", "model.bin", "DONE COMPLETED", "?session=ses_"}},
		"Command":  {[]string{"run", "--", "echo", "--not-a-flag"}, 0, "--not-a-flag\n", nil},
		"Raw":      {[]string{"run", "printf", `\033]0;t\007x`}, 0, "\x1b]0;t\ax", nil},
		"Fails":    {[]string{"run", "--", "sh", "-c", "exit 3"}, 1, "", []string{"FAILED ERROR", "exit code 3"}},
		"TimesOut": {[]string{"run", "--timeout", "300ms", "--", "sleep", "60"}, 124, "", []string{"TIMED_OUT", "0.3", "raise it", "weir run --timeout"}},
		"TooLong":  {[]string{"run", "--timeout", "48h", "--", "true"}, 1, "", []string{"sandbox.timeoutSeconds is 172800; this server allows at most 86400"}},
		"ABadCPU":  {[]string{"run", "--cpus", "-1", "--", "true"}, 2, "", []string{`--cpus "-1" is not a number of processors`}},
		"NotHere":  {[]string{"run", "--", "sh", "cli_test.go"}, 2, "", []string{"cli_test.go is a file here, which the server does not have"}},
		"NoFile":   {[]string{"run", dir + "/none.py"}, 2, "", []string{dir + "/none.py"}},
		"Nothing":  {[]string{"run"}, 2, "", []string{"--agent"}},
		"Refused":  {[]string{"run", "--memory", "999GiB", "ls"}, 1, "", []string{"1022976", "16384"}},
		"NoAgent":  {[]string{"run", "--agent", "nobody"}, 1, "", []string{"nobody"}},
		"NoRun":    {[]string{"show", "run_00000000000000000000000000"}, 1, "", []string{"run_00000000000000000000000000"}},
		"NoID":     {[]string{"abort", "xyz"}, 1, "", []string{"xyz", "weir runs"}},
		"NoType":   {[]string{"tail", "--types", "run_end", "ses_x"}, 2, "", []string{"run_end", "RUN_ENDED"}},
		"NoFlag":   {[]string{"runs", "--statuss", "x"}, 2, "", []string{"--statuss", "--status"}},
		"NoServer": {[]string{"runs", "--server", "127.0.0.1:1"}, 1, "", []string{"http://127.0.0.1:1", "weir serve"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, log, code := s.weir(c.args...)
			if code != c.code || out != c.stdout {
				t.Errorf("weir %q ended with %d, want %d, and printed %q, want %q\n%s", c.args, code, c.code, out, c.stdout, log)
			}
			for _, w := range c.stderr {
				if !strings.Contains(log, w) {
					t.Errorf("it does not say %q:\n%s", w, log)
				}
			}
			if code != 0 && !strings.Contains(log, "run run_") && strings.Count(log, "\n") != 1 {
				t.Errorf("not one line: %q", log)
			}
		})
	}
}

// A server with a token says how to give it; given in each way it works.
func TestClientToken(t *testing.T) {
	t.Parallel()
	const token = "sixteen-characters"
	s := newServer(t, "")
	s.env = []string{"WEIR_TOKEN=" + token}
	s.start()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"runs"}, {"run", "ls"}, {"runs", "--token", "another-one-of-them"}} {
		if _, log, code := s.weir(args...); code != 1 || !strings.Contains(log, "WEIR_TOKEN") || !strings.Contains(log, "--token-file") {
			t.Errorf("weir %v: %d %s", args, code, log)
		}
	}
	for _, args := range [][]string{{"run", "--token", token, "true"}, {"run", "--token-file", file, "true"}} {
		if _, log, code := s.weir(args...); code != 0 {
			t.Errorf("weir %v: %d %s", args, code, log)
		}
	}
}

// Lists, and the repetition of a run with another parameter.
func TestClientLists(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	s.start()
	id := strings.TrimSpace(s.ok("run", "--detach", "--title", "Äpfel", "--set", "lr=0.1", "--set", "name=x", "--label", "k=v", "--memory", "300MiB", "--timeout", "50", "--", "echo", "hi"))
	s.waitStatus(id, 20*time.Second, "DONE")
	again := strings.TrimSpace(s.ok("run", "--detach", "--again", id, "--set", "lr=0.2"))
	if got := s.ok("tail", again, "--raw"); got != "hi\n" {
		t.Errorf("the repetition printed %q", got)
	}
	var run struct {
		Status string
		Config map[string]any
		Labels map[string]any
		Input  struct {
			Command        []string
			TimeoutSeconds float64
			Sandbox        map[string]any
		}
	}
	decode(t, s.ok("show", "--json", again), &run)
	if want := `map[lr:0.2 name:x] map[k:v] [echo hi] 50 map[memoryMiB:300 timeoutSeconds:50]`; fmt.Sprint(run.Config, run.Labels, run.Input.Command, run.Input.TimeoutSeconds, run.Input.Sandbox) != want {
		t.Errorf("the repetition is %+v, want %s", run, want)
	}
	var page struct {
		Nodes     []struct{ ID, Title string }
		EndCursor string
		HasMore   bool
	}
	decode(t, s.ok("sessions", "--json", "--search", "pfel"), &page)
	if len(page.Nodes) != 1 || page.Nodes[0].Title != "Äpfel" {
		t.Errorf("the search found %+v", page)
	}
	decode(t, s.ok("runs", "--json", "--limit", "1", "--status", "done", "--agent", "script", "--root"), &page)
	if len(page.Nodes) != 1 || page.Nodes[0].ID != again || !page.HasMore {
		t.Errorf("the first page is %+v", page)
	}
	decode(t, s.ok("runs", "--json", "--after", page.EndCursor), &page)
	if len(page.Nodes) != 1 || page.Nodes[0].ID != id || page.HasMore {
		t.Errorf("the second page is %+v", page)
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"runs"}, []string{"RUN ", id, again, "echo hi"}},
		{[]string{"sessions"}, []string{"SESSION ", "train_done", "Äpfel"}},
		{[]string{"agents"}, []string{"AGENT ", "script"}},
		{[]string{"show", id}, []string{"DONE COMPLETED", "echo hi", `"lr":0.1`, "exit code 0", "/stdout"}},
		{[]string{"abort", id}, []string{id + "  had ended before"}},
		{[]string{"schema"}, []string{"type Mutation {", "interface Event {"}},
	} {
		out := s.ok(c.args...)
		for _, w := range c.want {
			if !strings.Contains(out, w) {
				t.Errorf("weir %v does not print %q:\n%s", c.args, w, out)
			}
		}
	}
}

func decode(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
}

// A tail goes on through kill -9 and restart of its server, and has each event once.
func TestClientTailResumes(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	s.start()
	input := map[string]any{"agent": "script", "command": []string{"sh", "-c", "for i in $(seq 40); do echo line $i; sleep 0.05; done; sleep 30"}}
	first := s.startRun(input)
	cmd, stdout, stderr := s.command("tail", "--json", first.Session.ID)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	saw := func(text string) {
		t.Helper()
		eventually(t, 30*time.Second, "the tail shows "+text, func() error {
			if !strings.Contains(stdout.String()+stderr.String(), text) {
				return errors.New(tail(stdout.String(), 500) + stderr.String())
			}
			return nil
		})
	}
	saw("line 5")
	s.kill()
	saw("connecting again")
	s.start()
	saw(`"LOST"`)
	saw("going on after event")
	input["sessionId"] = first.Session.ID
	second := s.startRun(input)
	saw(second.ID)
	s.abort(second.ID, false, true)
	saw(`"ABORTED"`)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("the tail ended with %v\n%s", err, stderr)
	}
	last := s.lastSeq(first.Session.ID)
	if want := fmt.Sprintf("--after %d", last); !strings.Contains(stderr.String(), want) {
		t.Errorf("it does not say how to go on (%s):\n%s", want, stderr)
	}
	paged := s.ok("tail", "--json", "--no-follow", first.Session.ID)
	if stdout.String() != paged {
		t.Errorf("the tail differs from the log\n%s\nwant\n%s", stdout, paged)
	}
	if n := int64(bytes.Count([]byte(paged), []byte("\n"))); n != last {
		t.Errorf("the log has %d lines of %d events", n, last)
	}
	// A run's part of it, from a cursor, ends by itself.
	if out := s.ok("tail", second.ID, "--types", "run-started,run-ended"); out != "" {
		t.Errorf("to people only output is stdout: %q", out)
	}
	if out := s.ok("tail", second.ID, "--json", "--types", "run-ended", "--after", fmt.Sprint(last-1)); strings.Count(out, "\n") != 1 || !strings.Contains(out, "RUN_ENDED") {
		t.Errorf("got %q", out)
	}
}

// Ctrl-C aborts the run, with the receipt; a second one leaves that to the server.
func TestClientInterrupt(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	s.start()
	cmd, stdout, stderr := s.command("run", "--", "sh", "-c", "trap '' TERM; echo ready; sleep 60 & wait; sleep 60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	interrupt := func(until string) {
		t.Helper()
		eventually(t, 20*time.Second, "it prints "+until, func() error {
			if !strings.Contains(stdout.String()+stderr.String(), until) {
				return errors.New(stdout.String() + stderr.String())
			}
			return nil
		})
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	interrupt("ready")
	interrupt("Ctrl-C again")
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(stderr.String(), "left alone") || strings.Contains(stderr.String(), "process gone") {
		t.Errorf("it ended with %d:\n%s", code, stderr)
	}

	cmd, stdout, stderr = s.command("run", "--", "sh", "-c", "echo ready; sleep 60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	interrupt("ready")
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("it ended with %d:\n%s", code, stderr)
	}
	for _, w := range []string{"is stopped", "process gone", "survivors     none", "CANCELLED ABORTED"} {
		if !strings.Contains(stderr.String(), w) {
			t.Errorf("it does not say %q:\n%s", w, stderr)
		}
	}
	live := strings.TrimSpace(s.ok("run", "--detach", "--", "sh", "-c", "echo ready; sleep 60"))
	eventually(t, 20*time.Second, "the process is there", func() error {
		if out := s.ok("tail", "--raw", "--no-follow", live); out != "ready\n" {
			return errors.New(out)
		}
		return nil
	})
	var r receipt
	decode(t, s.ok("abort", "--json", live), &r)
	if r.Outcome != "STOPPED" || r.ProcessGoneAt == nil || len(r.Survivors) != 0 {
		t.Errorf("the receipt is %+v", r)
	}
}

// onATerminal runs weir on a pseudo terminal and gives what it showed.
func (s *server) onATerminal(env []string, args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(background(s.t, 60*time.Second), "/usr/bin/python3",
		append([]string{"-c", "import pty, sys; pty.spawn(sys.argv[1:])", binary}, args...)...)
	cmd.Env = append(append(os.Environ(), "WEIR_SERVER=http://"+s.addr, "XDG_CONFIG_HOME=/none", "TERM=xterm-256color", "NO_COLOR="), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("weir %v on a terminal: %v\n%s", args, err, out)
	}
	return string(out)
}

// On a terminal a program's colours stay, and what it would do to the terminal
// does not happen; without colours nothing but text is left.
func TestClientOnATerminal(t *testing.T) {
	t.Parallel()
	needPython(t)
	s := newServer(t, "")
	s.start()
	program := []string{"run", "--no-chart", "--title", strings.Repeat("long ", 40), "--", "printf", `\033]0;owned\007\033[31mred\033[2J\033[5A\033]52;c;eA==\007`}
	got := s.onATerminal(nil, program...)
	if !strings.Contains(got, "\x1b[31mred\x1b[0m\r\n") {
		t.Errorf("the colour is lost, stays on, or is not on a line of its own: %q", got)
	}
	for _, bad := range []string{"\x1b]", "\x1b[2J", "\x1b[5A", "owned"} {
		if strings.Contains(got, bad) {
			t.Errorf("%q came through: %q", bad, got)
		}
	}
	for env, forbidden := range map[string]string{"NO_COLOR=1": "\x1b\\[[0-9;:]*m", "TERM=dumb": "\x1b"} {
		if got := s.onATerminal([]string{env}, program...); regexp.MustCompile(forbidden).MatchString(got) || !strings.Contains(got, "red\r\n") {
			t.Errorf("with %s: %q", env, got)
		}
	}
	table := s.onATerminal(nil, "sessions")
	if !strings.Contains(table, "…\r\n") {
		t.Errorf("the title is not shortened: %q", table)
	}
	for line := range strings.SplitSeq(table, "\r\n") {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}
