//go:build linux

package service

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// What an agent puts in the place of a transcript leads nowhere else and holds nobody
// up, and is told with the reason. Links that stay in the workspace are followed.
func TestWhatStandsInATranscriptsPlace(t *testing.T) {
	t.Parallel()
	good := run.Tokens{Input: 1, Output: 2}
	link := func(to string) func(string) error { return func(name string) error { return os.Symlink(to, name) } }
	folder := func(name string) error { return os.Mkdir(name, 0o755) }
	fifo := func(name string) error { return syscall.Mkfifo(name, 0o644) }
	outside, _ := workspace(t)
	keep(t, outside, "s-1.jsonl", row("secret", time.Now(), 1, 1))
	const escapes = "it is a link that leads out of the workspace, or an absolute one; let the agent keep the file itself there"
	for name, c := range map[string]struct {
		session, at string // below the folder of the transcripts
		make        func(string) error
		files       []string
		want        run.Tokens
		told        string // of "AT in .claude/projects is not read: "
	}{
		"link outside":              {"s-1", "p/s-1.jsonl", link(filepath.Join(outside, "s-1.jsonl")), nil, run.Tokens{}, escapes},
		"link upwards":              {"s-1", "p/s-1.jsonl", link("../../../../x.jsonl"), nil, run.Tokens{}, escapes},
		"without a session":         {"", "p/s-1.jsonl", link(filepath.Join(outside, "s-1.jsonl")), nil, run.Tokens{}, escapes},
		"link to nothing":           {"s-1", "p/s-1.jsonl", link("s-2.jsonl"), nil, run.Tokens{}, "it is a link to what is not there"},
		"link to itself":            {"s-1", "p/s-1.jsonl", link("s-1.jsonl"), nil, run.Tokens{}, "too many levels of symbolic links"},
		"folder":                    {"s-1", "p/s-1.jsonl", folder, nil, run.Tokens{}, "it is a folder; let the agent keep a regular file there"},
		"pipe":                      {"s-1", "p/s-1.jsonl", fifo, nil, run.Tokens{}, "it is a named pipe (FIFO); let"},
		"projects are a link":       {"s-1", "p", link(outside), nil, run.Tokens{}, escapes},
		"subagent is a pipe":        {"s-1", "p/s-1/subagents/agent-a.jsonl", fifo, []string{"p/s-1.jsonl"}, good, "it is a named pipe"},
		"link inside":               {"s-1", "p/s-1.jsonl", link("../../kept/a.jsonl"), []string{"../kept/a.jsonl"}, good, ""},
		"link inside, no session":   {"", "p/s-1.jsonl", link("../../kept/a.jsonl"), []string{"../kept/a.jsonl"}, good, ""},
		"projects are within":       {"s-1", "p", link("../kept"), []string{"../kept/s-1.jsonl"}, good, ""},
		"subagents are within":      {"s-1", "p/s-1", link("../../kept"), []string{"../kept/subagents/agent-a.jsonl", "p/s-1.jsonl"}, run.Tokens{Input: 2, Output: 4}, ""},
		"another one is the newest": {"", "p/s-1.jsonl", fifo, []string{"p/s-2.jsonl"}, good, ""},
		"the newest is a pipe":      {"", "p/s-1.jsonl", fifo, []string{"p/s-2.jsonl"}, good, "it is a named pipe"},
		"the session is elsewhere":  {"s-1", "p/s-1.jsonl", fifo, []string{"q/s-1.jsonl"}, good, ""},
		"another session stands in": {"s-1", "p/s-1.jsonl", fifo, []string{"q/s-2.jsonl"}, good, "it is a named pipe"},
	} {
		dir, root := workspace(t)
		projects := filepath.Join(dir, ".claude/projects")
		var files []string
		for i, f := range c.files {
			files = append(files, filepath.Join(".claude/projects", f), row("m"+string(rune('0'+i)), time.Now(), 1, 2))
		}
		keep(t, dir, files...)
		if err := os.MkdirAll(filepath.Dir(filepath.Join(projects, c.at)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := c.make(filepath.Join(projects, c.at)); err != nil {
			t.Fatal(err)
		}
		if name == "another one is the newest" {
			if err := os.Chtimes(filepath.Join(projects, c.at), time.Time{}, time.Now().Add(-2*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		list, err := Files{}.Read(t.Context(), root, claude(c.session), time.Time{})
		if sum(list) != c.want || (err == nil) != (c.told == "") {
			t.Errorf("%s: got %+v, %v; want %+v", name, sum(list), err, c.want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), c.at+" in .claude/projects is not read: "+c.told) {
			t.Errorf("%s: told %q", name, err)
		}
	}
}

// The same holds of the folder that the operator names.
func TestAFolderOfTranscriptsThatIsNone(t *testing.T) {
	t.Parallel()
	dir, root := workspace(t)
	outside, _ := workspace(t)
	keep(t, outside, "p/s-1.jsonl", row("secret", time.Now(), 1, 1))
	keep(t, dir, "file", "")
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for folder, told := range map[string]string{
		"link": "link is not read: it is a link that leads out of the workspace", "file": "file is not read: it is no folder; look at service.transcript.folder",
	} {
		where := claude("s-1")
		where.Folder = folder
		if list, err := (Files{}).Read(t.Context(), root, where, time.Time{}); len(list) != 0 || err == nil || !strings.HasPrefix(err.Error(), told) {
			t.Errorf("%s: got %v, %v", folder, list, err)
		}
	}
	s := &search{ctx: t.Context(), folder: "f"}
	if err := s.unread("f/p/s.jsonl", &fs.PathError{Op: "openat", Path: "f/p/s.jsonl", Err: syscall.EACCES}); !errors.Is(err, fs.ErrPermission) ||
		err.Error() != "p/s.jsonl in f is not read: permission denied; let the agent make it readable for the owner of the workspace" {
		t.Errorf("got %q", err)
	}
}
