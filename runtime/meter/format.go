package meter

import (
	"fmt"
	"slices"
	"strings"
)

// Format names a kind of payload.
type Format string

// The formats. A "usage" format is one JSON document per request, on one line or
// several: the provider's response, or an object with model and usage. An "sse"
// format is the response as it was streamed.
const (
	AnthropicUsage   Format = "anthropic-usage"
	AnthropicSSE     Format = "anthropic-sse"
	ChatUsage        Format = "openai-chat-usage"
	ChatSSE          Format = "openai-chat-sse"
	ResponsesUsage   Format = "openai-responses-usage"
	ResponsesSSE     Format = "openai-responses-sse"
	CompatibleUsage  Format = "openai-compatible-usage"
	CompatibleSSE    Format = "openai-compatible-sse"
	GeminiUsage      Format = "gemini-usageMetadata"
	GeminiSSE        Format = "gemini-sse"
	ClaudeStream     Format = "claude-stream-json"
	ClaudeTranscript Format = "claude-transcript"
	CodexExec        Format = "codex-exec-json"
	CodexRollout     Format = "codex-rollout"
	GeminiCLI        Format = "gemini-cli-stream-json"
	OpenCode         Format = "opencode-run-json"
	UsageEvents      Format = "weir-usage-events"
	UsageStatus      Format = "http-usage-status"
)

// framing is how events are laid out on lines.
type framing int

const (
	perLine  framing = iota // one JSON object per line
	document                // JSON objects that may go over several lines
	sse                     // "data: " and one JSON object, or the object alone
)

// formats says how each format is laid out, whose models it bills and who reads it.
var formats = map[Format]struct {
	framing  framing
	provider string // unless the payload or the caller names another one
	parser   func(*Reader) parser
}{
	AnthropicUsage:   {document, "anthropic", newAnthropicUsage},
	AnthropicSSE:     {sse, "anthropic", newAnthropicSSE},
	ChatUsage:        {document, "openai", newChatUsage},
	ChatSSE:          {sse, "openai", newChatSSE},
	ResponsesUsage:   {document, "openai", newResponsesUsage},
	ResponsesSSE:     {sse, "openai", newResponsesSSE},
	CompatibleUsage:  {document, "", newChatUsage},
	CompatibleSSE:    {sse, "", newChatSSE},
	GeminiUsage:      {document, "google", newGeminiUsage},
	GeminiSSE:        {sse, "google", newGeminiSSE},
	ClaudeStream:     {perLine, "anthropic", newClaudeStream},
	ClaudeTranscript: {perLine, "anthropic", newTranscript},
	CodexExec:        {perLine, "openai", newCodexExec},
	CodexRollout:     {perLine, "openai", newRollout},
	GeminiCLI:        {perLine, "google", newGeminiCLI},
	OpenCode:         {perLine, "", newOpenCode},
	UsageEvents:      {perLine, "", newUsageEvents},
	UsageStatus:      {document, "", newUsageStatus},
}

// names lists the formats in alphabetical order, for messages.
var names []string

func init() { // the table names functions that come back to it
	for f := range formats {
		names = append(names, string(f))
	}
	slices.Sort(names)
}

// Check tells whether f is a format; the error lists those that are.
func (f Format) Check() error {
	if slices.Contains(names, string(f)) {
		return nil
	}
	return fmt.Errorf("unknown usage format %q; it is one of %s", clip(string(f), 64), strings.Join(names, ", "))
}
