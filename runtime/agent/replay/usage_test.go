package replay_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/agent/replay"
	"github.com/weirhq/weir/runtime/meter"
	"github.com/weirhq/weir/runtime/run"
)

const (
	started   = `{"type":"thread.started","thread_id":"th"}` + "\n" + `{"type":"turn.started"}` + "\n"
	completed = `{"type":"turn.completed","usage":{"input_tokens":30,"cached_input_tokens":5,"output_tokens":15}}` + "\n"
)

// replayIn replays turns in a workspace.
func replayIn(t *testing.T, h *host, workspace string, turns ...agent.Turn) error {
	t.Helper()
	_, err := replay.New().Run(t.Context(), agent.Task{
		Run:        run.Run{ID: "run_1", Provider: "p", Model: "m", Input: run.Input{Prompt: "Say hello."}},
		Definition: agent.Definition{Turns: turns}, Workspace: workspace,
	}, h)
	return err
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A turn reads its files as one source. The model and, where the format belongs
// to nobody, the provider are the run's; a stream is the run's own.
func TestUsageFromFiles(t *testing.T) {
	t.Parallel()
	h, dir := newHost(), t.TempDir()
	put(t, dir, "a.jsonl", started+completed)
	put(t, dir, "sub/b.jsonl", started)
	put(t, dir, "step.jsonl", `{"type":"step_finish","part":{"id":"x","cost":0.5,"tokens":{"input":7,"output":1}}}`)
	err := replayIn(t, h, dir,
		agent.Turn{Usage: &agent.UsageTurn{Format: meter.CodexExec, Files: []string{"a.jsonl", "sub/b.jsonl"}}},
		agent.Turn{Usage: &agent.UsageTurn{Format: meter.OpenCode, File: "step.jsonl", Model: "other"}},
	)
	if err != nil || len(h.usage) != 3 {
		t.Fatalf("%v, %+v", err, h.usage)
	}
	a, b, c := h.usage[0], h.usage[1], h.usage[2]
	if a.Tokens != (run.Tokens{Input: 25, CacheRead: 5, Output: 15}) || a.RequestKey != "turn-1/th/turn-1" || a.Stream != "run_1/codex/th" ||
		!a.Cumulative || a.Model != "m" || a.Provider != "openai" || len(a.Raw) == 0 {
		t.Errorf("first: %+v", a)
	}
	if b.Provenance != run.UnknownProvenance || b.Tokens != (run.Tokens{}) {
		t.Errorf("the second file's turn did not complete: %+v", b)
	}
	if c.RequestKey != "turn-2/x" || c.Model != "other" || c.Provider != "p" || *c.CostNanoUSD != 500_000_000 {
		t.Errorf("third: %+v", c)
	}
	if len(h.log) != 1 || !strings.Contains(h.log[0], "warning The usage of turn 1 is incomplete: ") || !strings.Contains(h.log[0], "a turn that did not complete") {
		t.Errorf("told %v", h.log)
	}
}

// Turns of one stream tell of the same calls.
func TestUsageOfOneStream(t *testing.T) {
	t.Parallel()
	h, dir := newHost(), t.TempDir()
	put(t, dir, "poll.json", `{"tokens_input":1,"tokens_output":2}`)
	put(t, dir, "rows.jsonl", `{"sessionId":"s","message":{"id":"a","model":"m","stop_reason":"x","usage":{"input_tokens":3}}}`)
	err := replayIn(t, h, dir,
		agent.Turn{Usage: &agent.UsageTurn{Format: meter.UsageStatus, File: "poll.json", Stream: "start"}},
		agent.Turn{Usage: &agent.UsageTurn{Format: meter.ClaudeTranscript, File: "rows.jsonl", Stream: "start"}},
	)
	if err != nil || len(h.usage) != 2 || h.usage[0].Stream != "run_1/start" || h.usage[1].Stream != "run_1/start" || h.usage[0].Rank >= h.usage[1].Rank {
		t.Errorf("%v, %+v", err, h.usage)
	}
}
