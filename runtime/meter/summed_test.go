package meter_test

import (
	"testing"

	"github.com/weirhq/weir/runtime/meter"
)

// Sources that tell the sum of several requests say so: it is the prompt of none.
func TestSumsAreMarked(t *testing.T) {
	t.Parallel()
	codexTotal := `{"input_tokens":9,"cached_input_tokens":0,"output_tokens":1,"reasoning_output_tokens":0}`
	for _, c := range []struct {
		format meter.Format
		text   string
		summed bool
	}{
		{meter.UsageStatus, `{"tokens_input":9,"tokens_output":1,"tokens_cache_read":0,"tokens_cache_write":0}`, true},
		{meter.ClaudeStream, `{"type":"result","session_id":"s","modelUsage":{"m":{"inputTokens":9,"outputTokens":1}}}`, true},
		{meter.ClaudeStream, `{"type":"result","session_id":"s","usage":{"input_tokens":9,"output_tokens":1}}`, true},
		{meter.ClaudeStream, `{"type":"assistant","session_id":"s","message":{"id":"a","model":"m","usage":{"input_tokens":9,"output_tokens":1}}}`, false},
		{meter.CodexExec, `{"type":"turn.completed","usage":` + codexTotal + `}`, true},
		{meter.CodexRollout, `{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":` + codexTotal + `}}}`, false},
		{meter.GeminiCLI, `{"type":"result","status":"success","stats":{"total_tokens":10,"input_tokens":9,"output_tokens":1}}`, true},
		{meter.GeminiUsage, `{"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":1}}`, false},
		{meter.OpenCode, `{"type":"step_finish","part":{"id":"p","tokens":{"input":9,"output":1}}}`, false},
		{meter.ChatUsage, `{"usage":{"prompt_tokens":9,"completion_tokens":1}}`, false},
		{meter.AnthropicUsage, `{"usage":{"input_tokens":9,"output_tokens":1}}`, false},
	} {
		records, _ := readText(t, meter.Source{Format: c.format}, c.text)
		if len(records) != 1 || records[0].Tokens.Input != 9 || records[0].Tokens.Output != 1 || records[0].Summed != c.summed {
			t.Errorf("%s: %+v", c.format, records)
		}
	}
}
