package agent

import (
	"github.com/weirhq/weir/runtime/meter"
	"github.com/weirhq/weir/runtime/run"
)

// Definition is an agent as its YAML file defines it.
type Definition struct {
	Name     string             `yaml:"name" json:"name"`
	Team     string             `yaml:"team" json:"team,omitempty"`
	Role     string             `yaml:"role" json:"role,omitempty"`
	Driver   string             `yaml:"driver" json:"driver"` // script, replay, service or llm
	Provider string             `yaml:"provider" json:"provider,omitempty"`
	Model    string             `yaml:"model" json:"model,omitempty"`
	Stage    *string            `yaml:"stage" json:"stage,omitempty"` // absent: the agent's name
	Command  []string           `yaml:"command" json:"command,omitempty"`
	Code     string             `yaml:"code" json:"code,omitempty"`
	Env      []run.EnvVar       `yaml:"env" json:"env,omitempty"`
	Sandbox  run.SandboxRequest `yaml:"sandbox" json:"sandbox"`
	Timeout  float64            `yaml:"timeoutSeconds" json:"timeoutSeconds,omitempty"` // of the run
	Budget   *Budgets           `yaml:"budget" json:"budget,omitempty"`
	Hooks    []Hook             `yaml:"hooks" json:"hooks,omitempty"`
	Turns    []Turn             `yaml:"turns" json:"turns,omitempty"` // driver replay

	Service *Service `yaml:"service" json:"service,omitempty"` // driver service
	LLM     *LLM     `yaml:"llm" json:"llm,omitempty"`         // driver llm

	// Files are copied into a new session's workspace before the first run:
	// relative path to content.
	Files map[string]string `yaml:"files" json:"files,omitempty"`
}

// Budgets are those of an agent. They hold beside the request's and the operator's.
type Budgets struct {
	Run     *run.Budget `yaml:"run" json:"run,omitempty"` // with everything that it delegates to
	Session *run.Budget `yaml:"session" json:"session,omitempty"`
	Day     *run.Budget `yaml:"day" json:"day,omitempty"` // of all runs of the agent
}

// Hook is a command that runs in the run's sandbox after success.
type Hook struct {
	Name    string   `yaml:"name" json:"name"`
	Command []string `yaml:"command" json:"command"`
}

// Turn is one step of a replayed agent; exactly one field is set.
type Turn struct {
	Text     *TextTurn     `yaml:"text" json:"text,omitempty"`
	Thought  string        `yaml:"thought" json:"thought,omitempty"`
	Tool     *ToolTurn     `yaml:"tool" json:"tool,omitempty"`
	Delegate *DelegateTurn `yaml:"delegate" json:"delegate,omitempty"`
	Ask      *AskTurn      `yaml:"ask" json:"ask,omitempty"`
	Usage    *UsageTurn    `yaml:"usage" json:"usage,omitempty"`
	Delay    float64       `yaml:"delaySeconds" json:"delaySeconds,omitempty"`
	Warning  string        `yaml:"warning" json:"warning,omitempty"`
	Error    string        `yaml:"error" json:"error,omitempty"`     // the run fails with this
	Timeout  string        `yaml:"timeout" json:"timeout,omitempty"` // the driver reports a timeout
}

// TextTurn writes a message; Pace is in characters per second (0: at once).
// The text {{prompt}} stands for the run's prompt.
type TextTurn struct {
	Say  string  `yaml:"say" json:"say"`
	Pace float64 `yaml:"pace" json:"pace,omitempty"`
}

// ToolTurn is a tool call that really runs in the sandbox.
type ToolTurn struct {
	Name    string   `yaml:"name" json:"name"` // default execute_code
	Code    string   `yaml:"code" json:"code,omitempty"`
	Command []string `yaml:"command" json:"command,omitempty"`
	Timeout float64  `yaml:"timeoutSeconds" json:"timeoutSeconds,omitempty"`
}

// DelegateTurn starts a child run and waits for it; it shows as the tool call delegate_task.
type DelegateTurn struct {
	Agent  string `yaml:"agent" json:"agent"`
	Prompt string `yaml:"prompt" json:"prompt"`
}

// AskTurn asks a person and waits for the answer.
type AskTurn struct {
	Text   string         `yaml:"text" json:"text"`
	Schema map[string]any `yaml:"schema" json:"schema,omitempty"`
}

// UsageTurn books a model call: either the counts, where CostUSD is a decimal
// string, exact, or what files in the workspace tell in a format of package meter.
type UsageTurn struct {
	Provider        string `yaml:"provider" json:"provider,omitempty"`
	Model           string `yaml:"model" json:"model,omitempty"`
	Input           int64  `yaml:"input" json:"input"`
	CacheRead       int64  `yaml:"cacheRead" json:"cacheRead"`
	CacheWriteShort int64  `yaml:"cacheWriteShort" json:"cacheWriteShort"`
	CacheWriteLong  int64  `yaml:"cacheWriteLong" json:"cacheWriteLong"`
	Output          int64  `yaml:"output" json:"output"`
	Reasoning       int64  `yaml:"reasoning" json:"reasoning"`
	CostUSD         string `yaml:"costUsd" json:"costUsd,omitempty"`

	Format meter.Format `yaml:"format" json:"format,omitempty"`
	File   string       `yaml:"file" json:"file,omitempty"`
	Files  []string     `yaml:"files" json:"files,omitempty"`   // read one after the other, as one source
	Stream string       `yaml:"stream" json:"stream,omitempty"` // turns of one stream tell of the same calls
}

// Names lists the files of the turn.
func (u UsageTurn) Names() []string {
	if u.File != "" {
		return append([]string{u.File}, u.Files...)
	}
	return u.Files
}
