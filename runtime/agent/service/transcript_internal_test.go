//go:build linux

package service

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

func row(id string, at time.Time, input, output int64) string {
	return fmt.Sprintf(`{"type":"assistant","sessionId":"s-1","timestamp":%q,"message":{"id":%q,"model":"claude-opus-5-5","role":"assistant","stop_reason":"end_turn","usage":{"input_tokens":%d,"output_tokens":%d}}}`+"\n",
		at.UTC().Format(time.RFC3339Nano), id, input, output)
}

// keep writes files below a workspace, a later one with a later time.
func keep(t *testing.T, dir string, files ...string) {
	t.Helper()
	when := time.Now().Add(-time.Hour)
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
		when = when.Add(time.Minute)
		if err := os.Chtimes(name, when, when); err != nil {
			t.Fatal(err)
		}
	}
}

func claude(session string) agent.Transcript {
	return agent.Transcript{Format: agent.TranscriptClaude, Folder: ".claude/projects", SessionID: session}
}

func sum(list []run.UsageRecord) (t run.Tokens) {
	for _, u := range list {
		t = t.Add(u.Tokens)
	}
	return t
}

// The session's file is found in any project folder, with its subagents; without
// it the newest file counts. A message counts once, and only since the start.
func TestTranscriptsAreFound(t *testing.T) {
	t.Parallel()
	dir, root := workspace(t)
	start := time.Now()
	before, after := start.Add(-time.Second), start.Add(time.Second)
	keep(t, dir,
		".claude/projects/-other/s-0.jsonl", row("m0", after, 1000, 0),
		".claude/projects/-workspace/s-1.jsonl", row("old", before, 5000, 0)+row("m1", after, 1, 1)+row("m1", after, 1, 7)+row("m2", after, 2, 0),
		".claude/projects/-workspace/s-1/subagents/agent-a.jsonl", row("m2", after, 2, 0)+row("m3", after, 10, 0),
		".claude/projects/-workspace/s-1/subagents/workflows/w/agent-b.jsonl", row("m4", after, 100, 0),
		".claude/projects/-workspace/s-1/notes.jsonl", row("m5", after, 7000, 0),
		".claude/projects/-newest/s-2.jsonl", row("m6", after, 3, 4),
	)
	for session, want := range map[string]run.Tokens{
		"s-1": {Input: 113, Output: 7}, "s-2": {Input: 3, Output: 4}, "s-9": {Input: 3, Output: 4}, "": {Input: 3, Output: 4},
	} {
		list, err := Files{}.Read(t.Context(), root, claude(session), start)
		if err != nil || sum(list) != want {
			t.Errorf("session %q reads as %+v, %v; want %+v", session, sum(list), err, want)
		}
	}
	none := claude("s-1")
	none.Folder = "elsewhere"
	if list, err := (Files{}).Read(t.Context(), root, none, start); len(list) != 0 || err != nil {
		t.Errorf("no folder gives %v, %v", list, err)
	}
}

// A line that was not written to its end is told, and the others count.
func TestATornTranscript(t *testing.T) {
	t.Parallel()
	dir, root := workspace(t)
	at := time.Now()
	keep(t, dir, ".claude/projects/p/s-1.jsonl", row("m1", at, 1, 2)+row("m2", at, 3, 4)[:60])
	list, err := Files{}.Read(t.Context(), root, claude("s-1"), time.Time{})
	if sum(list) != (run.Tokens{Input: 1, Output: 2}) || err == nil || !strings.Contains(err.Error(), "1 of its lines could not be read") {
		t.Errorf("got %+v, %v", list, err)
	}
}

// A long transcript is streamed: its size does not show in memory. It is cut off
// with its context.
func TestALongTranscriptIsStreamed(t *testing.T) {
	dir, root := workspace(t)
	keep(t, dir, ".claude/projects/p/s-1.jsonl", "")
	f, err := os.Create(filepath.Join(dir, ".claude/projects/p/s-1.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	filler := `{"type":"user","message":{"content":"` + strings.Repeat("x", 1<<20) + `"}}` + "\n"
	for i := range 64 {
		_, _ = w.WriteString(filler)
		_, _ = w.WriteString(row(fmt.Sprint("m", i), time.Now(), 1, 1))
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	list, err := Files{}.Read(t.Context(), root, claude("s-1"), time.Time{})
	runtime.ReadMemStats(&after)
	if err != nil || len(list) != 64 || sum(list) != (run.Tokens{Input: 64, Output: 64}) {
		t.Errorf("%d calls, %+v, %v", len(list), sum(list), err)
	}
	if grown := int64(after.Sys) - int64(before.Sys); grown > 32<<20 {
		t.Errorf("reading took %d MiB from the system", grown>>20)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errOver)
	if list, err := (Files{}).Read(ctx, root, claude("s-1"), time.Time{}); len(list) != 0 || !errors.Is(err, errOver) {
		t.Errorf("after the end of its time: %d calls, %v", len(list), err)
	}
}

// A transcript is read on where the reading has stopped: lines count once they are
// whole, or at the end; a file that was replaced is read anew.
func TestATranscriptIsReadOn(t *testing.T) {
	t.Parallel()
	dir, root := workspace(t)
	name := filepath.Join(dir, ".claude/projects/p/s-1.jsonl")
	at := time.Now()
	first, second := row("m0", at, 5, 0)+`{"filler":"`+strings.Repeat("y", remembered)+`"}`+"\n"+row("m1", at, 1, 2), row("m2", at, 3, 4)
	keep(t, dir, ".claude/projects/p/s-1.jsonl", first+second[:70])
	g, err := Files{}.Open(claude("s-1"), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	read := func(last bool, want run.Tokens, told string) {
		t.Helper()
		list, err := g.Read(t.Context(), root, last)
		if sum(list) != want || (err == nil) != (told == "") || err != nil && !strings.Contains(err.Error(), told) {
			t.Errorf("read %+v, %v; want %+v, %q", sum(list), err, want, told)
		}
	}
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read(false, run.Tokens{Input: 6, Output: 2}, "")
	// What was read is not read again, nor is a line that an agent is writing.
	write(strings.Replace(first, `"m0"`, `"mX"`, 1) + second[:80])
	read(false, run.Tokens{Input: 6, Output: 2}, "")
	write(first + second + row("m1", at, 1, 9))
	read(false, run.Tokens{Input: 9, Output: 13}, "")
	keep(t, dir, ".claude/projects/p/s-1/subagents/agent-a.jsonl", row("m3", at, 100, 0))
	read(false, run.Tokens{Input: 109, Output: 13}, "")
	write(strings.Repeat(row("m6", at, 2000, 0), 20)) // longer than before
	read(false, run.Tokens{Input: 2109, Output: 13}, "")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	write(row("m2", at, 3, 5) + row("m4", at, 1000, 0) + row("m5", at, 1, 1)[:80])
	read(false, run.Tokens{Input: 3109, Output: 14}, "")
	read(true, run.Tokens{Input: 3109, Output: 14}, "1 of its lines could not be read")
}

// A line may be longer than a section, and one without an end counts in the end.
func TestLongLinesAreReadOn(t *testing.T) {
	t.Parallel()
	dir, root := workspace(t)
	long := `{"type":"user","message":{"content":"` + strings.Repeat("x", 3*section/2) + `"}}` + "\n"
	keep(t, dir, ".claude/projects/p/s-1.jsonl", long+row("m1", time.Now(), 1, 1)+long+long+strings.TrimSpace(row("m2", time.Now(), 2, 2)))
	g, err := Files{}.Open(claude("s-1"), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{1, 3} {
		if list, err := g.Read(t.Context(), root, i == 1); sum(list).Input != want || err != nil {
			t.Errorf("read %+v, %v; want %d", sum(list), err, want)
		}
	}
}
