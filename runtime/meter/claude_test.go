package meter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/meter"
	"github.com/weirhq/weir/runtime/run"
)

const (
	assistant = `{"type":"assistant","session_id":"s","parent_tool_use_id":%s,"message":{"id":"%s","model":"%s","stop_reason":null,"usage":{"input_tokens":10,"output_tokens":1}}}` + "\n"
	result    = `{"type":"result","subtype":"success","session_id":"s","total_cost_usd":%s,"usage":{"input_tokens":10,"output_tokens":50},"modelUsage":{%s}}` + "\n"
	usedModel = `"%s":{"inputTokens":%d,"outputTokens":%d,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"webSearchRequests":0,"costUSD":%s}`
)

func sumOf(records []run.UsageRecord) (t run.Tokens) {
	for _, u := range records {
		t = t.Add(u.Tokens)
	}
	return t
}

// The totals of each model take the place of its messages, also where the
// places of a model spell it differently.
func TestResultTakesThePlaceOfItsMessages(t *testing.T) {
	t.Parallel()
	text := fmt.Sprintf(assistant, "null", "m1", "claude-opus-4-8") + fmt.Sprintf(assistant, `"tool1"`, "m2", "claude-haiku-4-5") +
		fmt.Sprintf(result, "0.0033549999999999995", fmt.Sprintf(usedModel, "claude-opus-4-8[1m]", 20, 60, "0.0023549999999999995")+","+
			fmt.Sprintf(usedModel, "claude-haiku-4-5-20251001", 30, 70, "0.001"))
	records, report := readText(t, meter.Source{Format: meter.ClaudeStream}, text)
	if len(records) != 2 || sumOf(records) != (run.Tokens{Input: 50, Output: 130}) || !report.Ended || report.Session != "s" {
		t.Fatalf("%+v, %+v", records, report)
	}
	haiku, opus := records[0], records[1]
	if opus.Model != "claude-opus-4-8" || *opus.CostNanoUSD != 2_355_000 || !opus.Cumulative || opus.CostSource != run.AgentReported || opus.Rank != run.FromResult {
		t.Errorf("%+v", opus)
	}
	if haiku.Model != "claude-haiku-4-5-20251001" || *haiku.CostNanoUSD != 1_000_000 || haiku.Stream == opus.Stream {
		t.Errorf("%+v", haiku)
	}
}

// What a process did after its last result is booked beside it when it ends
// without another one, and replaced when there is one.
func TestMessagesAfterAResult(t *testing.T) {
	t.Parallel()
	first := fmt.Sprintf(assistant, "null", "m1", "m") + fmt.Sprintf(result, "0.1", fmt.Sprintf(usedModel, "m", 10, 50, "0.1"))
	second := fmt.Sprintf(assistant, "null", "m2", "m") + fmt.Sprintf(assistant, "null", "m2", "m")
	records, report := readText(t, meter.Source{Format: meter.ClaudeStream}, first+second)
	if sumOf(records) != (run.Tokens{Input: 20, Output: 51}) || records[len(records)-1].Provenance != run.Estimated || report.Ended || len(report.Incomplete) == 0 {
		t.Errorf("killed: %+v, %+v", records, report)
	}
	records, report = readText(t, meter.Source{Format: meter.ClaudeStream}, first+second+fmt.Sprintf(result, "0.3", fmt.Sprintf(usedModel, "m", 20, 90, "0.3")))
	if sumOf(records) != (run.Tokens{Input: 20, Output: 90}) || len(records) != 2 || !report.Ended || report.Turns != 2 || *records[1].CostNanoUSD != 200_000_000 {
		t.Errorf("ended: %+v, %+v", records, report)
	}
}

// A process that names no session has no totals over runs: the differences are
// made here.
func TestTotalsWithoutASession(t *testing.T) {
	t.Parallel()
	text := strings.ReplaceAll(fmt.Sprintf(result, "0.1", fmt.Sprintf(usedModel, "m", 10, 50, "0.1"))+
		fmt.Sprintf(result, "0.3", fmt.Sprintf(usedModel, "m", 20, 90, "0.3")), `"session_id":"s",`, "")
	records, _ := readText(t, meter.Source{Format: meter.ClaudeStream}, text)
	if len(records) != 2 || records[0].Cumulative || records[1].Tokens != (run.Tokens{Input: 10, Output: 40}) || *records[1].CostNanoUSD != 200_000_000 {
		t.Errorf("%+v", records)
	}
}

// Older versions tell the usage of each turn, and the cost of all.
func TestResultsWithoutModelUsage(t *testing.T) {
	t.Parallel()
	text := `{"type":"system","subtype":"init","session_id":"s","model":"m"}` + "\n" + fmt.Sprintf(result, "0.1", "") + fmt.Sprintf(result, "0.25", "")
	records, _ := readText(t, meter.Source{Format: meter.ClaudeStream}, text)
	if len(records) != 2 || sumOf(records) != (run.Tokens{Input: 20, Output: 100}) || *records[0].CostNanoUSD != 100_000_000 || *records[1].CostNanoUSD != 150_000_000 {
		t.Errorf("%+v", records)
	}
}

// An agent that says 0 for what it has no price for has not said a cost.
func TestNoCostIsNotZero(t *testing.T) {
	t.Parallel()
	records, _ := readText(t, meter.Source{Format: meter.ClaudeStream}, fmt.Sprintf(result, "0", fmt.Sprintf(usedModel, "m", 10, 50, "0")))
	if len(records) != 1 || records[0].CostNanoUSD != nil || records[0].CostSource != "" {
		t.Errorf("%+v", records)
	}
	for _, bad := range []string{"-1", `"1"`, "1e99", "1e-400000000", "99999999999", "1000000.000000001", "{}"} {
		records, report := readText(t, meter.Source{Format: meter.ClaudeStream}, fmt.Sprintf(result, "1", fmt.Sprintf(usedModel, "m", 10, 50, bad)))
		if len(records) != 1 || records[0].CostNanoUSD != nil || report.Rejected != 1 || sumOf(records).Output != 50 {
			t.Errorf("%s: %+v, %+v", bad, records, report)
		}
	}
}

// An answer that breaks off keeps what its start said, and an estimate of what
// was received.
func TestBrokenOffAnswers(t *testing.T) {
	t.Parallel()
	start := `data: {"type":"message_start","message":{"id":"a","model":"m","usage":{"input_tokens":43,"output_tokens":1}}}` + "\n"
	text := `data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"` + strings.Repeat("word ", 20) + `"}}` + "\n"
	end := `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":41,"output_tokens":26}}` + "\n"
	records, report := readText(t, meter.Source{Format: meter.AnthropicSSE}, start+text)
	if len(records) != 1 || records[0].Tokens != (run.Tokens{Input: 43, Output: 25}) || records[0].Provenance != run.Estimated || report.Ended {
		t.Errorf("%+v, %+v", records, report)
	}
	// The last value holds, also a smaller one.
	records, report = readText(t, meter.Source{Format: meter.AnthropicSSE}, start+text+end+`data: {"type":"message_stop"}`)
	if len(records) != 1 || records[0].Tokens != (run.Tokens{Input: 41, Output: 26}) || records[0].Provenance != run.Measured || !report.Ended {
		t.Errorf("%+v, %+v", records, report)
	}
	response := `data: {"type":"response.created","response":{"id":"r","model":"m"}}` + "\n" +
		`data: {"type":"response.output_text.delta","delta":"` + strings.Repeat("word ", 20) + `"}` + "\n"
	records, _ = readText(t, meter.Source{Format: meter.ResponsesSSE, Prompt: "four"}, response)
	if len(records) != 1 || records[0].Tokens != (run.Tokens{Input: 1, Output: 25}) || records[0].Provenance != run.Estimated || records[0].Model != "m" {
		t.Errorf("%+v", records)
	}
	gemini := `data: {"responseId":"g","modelVersion":"m","usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":%d,"totalTokenCount":%d},"candidates":[{%s}]}` + "\n"
	chunk := fmt.Sprintf(gemini, 3, 12, "")
	records, _ = readText(t, meter.Source{Format: meter.GeminiSSE}, chunk)
	if len(records) != 1 || records[0].Tokens != (run.Tokens{Input: 9, Output: 3}) || records[0].Provenance != run.Partial {
		t.Errorf("%+v", records)
	}
	records, _ = readText(t, meter.Source{Format: meter.GeminiSSE}, chunk+fmt.Sprintf(gemini, 8, 17, `"finishReason":"FINISH_REASON_UNSPECIFIED"`))
	if len(records) != 1 || records[0].Provenance != run.Partial {
		t.Errorf("%+v", records)
	}
	records, _ = readText(t, meter.Source{Format: meter.GeminiSSE}, chunk+fmt.Sprintf(gemini, 8, 17, `"finishReason":"STOP"`))
	if len(records) != 1 || records[0].Tokens != (run.Tokens{Input: 9, Output: 8}) || records[0].Provenance != run.Measured {
		t.Errorf("%+v", records)
	}
	// A refused prompt has no candidate that could end.
	blocked := `data: {"promptFeedback":{"blockReason":"SAFETY"},"modelVersion":"m","usageMetadata":{"promptTokenCount":9,"totalTokenCount":9}}` + "\n"
	records, report = readText(t, meter.Source{Format: meter.GeminiSSE}, blocked)
	if len(records) != 1 || records[0].Tokens != (run.Tokens{Input: 9}) || records[0].Provenance != run.Measured || len(report.Incomplete) != 0 {
		t.Errorf("%+v, %+v", records, report)
	}
}

// A stream that begins with a chunk without an id is one answer.
func TestStreamThatNamesItselfLater(t *testing.T) {
	t.Parallel()
	text := `data: {"id":"","model":"","choices":[],"prompt_filter_results":[{}]}
data: {"id":"c","model":"m","choices":[{"delta":{"content":"hi"}}]}
data: {"id":"c","model":"m","choices":[{"delta":{},"finish_reason":"stop"}]}
data: {"id":"c","model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}}
data: [DONE]`
	records, report := readText(t, meter.Source{Format: meter.ChatSSE}, text)
	if len(records) != 1 || records[0].RequestKey != "c" || records[0].Tokens.Input != 9 || records[0].Provenance != run.Measured || !report.Ended || len(report.Incomplete) > 0 {
		t.Errorf("%+v, %+v", records, report)
	}
}

// The time of a step is in milliseconds, more than any count.
func TestTimeOfAStep(t *testing.T) {
	t.Parallel()
	records, _ := readText(t, meter.Source{Format: meter.OpenCode}, `{"type":"step_finish","timestamp":1764000000123,"part":{"id":"p","tokens":{"input":9,"output":1}}}`)
	if len(records) != 1 || records[0].At.UnixMilli() != 1764000000123 || records[0].Tokens.Input != 9 {
		t.Errorf("%+v", records)
	}
}

// A number that is none takes nothing from what was known, and no total is
// taken for output when the prompt within it is not known.
func TestBadNumbersRaiseNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format meter.Format
		text   string
		want   run.Tokens
	}{
		{meter.AnthropicSSE, `data: {"type":"message_start","message":{"id":"a","model":"m","usage":{"input_tokens":43,"output_tokens":1}}}
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":-1,"output_tokens":26}}`, run.Tokens{Input: 43, Output: 26}},
		{meter.AnthropicSSE, `data: {"type":"message_start","message":{"id":"a","model":"m","usage":{"input_tokens":43}}}
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":-1}}`, run.Tokens{Input: 43}},
		{meter.ChatUsage, `{"usage":{"prompt_tokens":-1,"completion_tokens":3,"total_tokens":1000}}`, run.Tokens{Output: 3}},
		{meter.ChatUsage, `{"usage":{"completion_tokens":3,"total_tokens":1000}}`, run.Tokens{Output: 3}},
		{meter.GeminiUsage, `{"usageMetadata":{"promptTokenCount":1.5,"candidatesTokenCount":3,"totalTokenCount":1000}}`, run.Tokens{Output: 3}},
		{meter.GeminiCLI, `{"type":"result","stats":{"input_tokens":"x","output_tokens":3,"total_tokens":1000}}`, run.Tokens{Output: 3}},
	} {
		records, report := readText(t, meter.Source{Format: c.format}, c.text)
		if len(records) != 1 || records[0].Tokens != c.want || records[0].Provenance != run.Partial || len(report.Incomplete) == 0 {
			t.Errorf("%s: %+v, %+v", c.text, records, report)
		}
	}
}

// Where a service tier and billed calls show up.
func TestTiersAndCalls(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		format meter.Format
		tier   string
		calls  string
	}{
		`{"model":"m","usage":{"input_tokens":1,"service_tier":"batch","server_tool_use":{"web_search_requests":3}}}`: {meter.AnthropicUsage, "batch", "map[web_search:3]"},
		`{"model":"m","usage":{"input_tokens":1,"service_tier":"standard","speed":"fast"}}`:                           {meter.AnthropicUsage, "fast", "map[]"},
		`{"model":"m","service_tier":"default","usage":{"prompt_tokens":1}}`:                                          {meter.ChatUsage, "", "map[]"},
		`{"model":"m","service_tier":"fast","usage":{"prompt_tokens":1}}`:                                             {meter.ChatUsage, "priority", "map[]"},
		`{"model":"m","service_tier":"flex","usage":{"input_tokens":1},"output":[{"type":"web_search_call"},{"type":"message"},{"type":"file_search_call"},{"type":"web_search_call","action":{"type":"search"}},{"type":"web_search_call","action":{"type":"open_page"}}]}`: {meter.ResponsesUsage, "flex", "map[file_search:1 web_search:2]"},
		`{"modelVersion":"m","usageMetadata":{"promptTokenCount":1,"serviceTier":"unspecified"},"candidates":[{"groundingMetadata":{"webSearchQueries":["a","b"]}}]}`:                                                                                                        {meter.GeminiUsage, "", "map[grounding:2]"},
	} {
		records, _ := readText(t, meter.Source{Format: want.format}, text)
		if len(records) != 1 || records[0].Tier != want.tier || fmt.Sprint(records[0].ToolCalls) != want.calls {
			t.Errorf("%s: %+v", text, records)
		}
	}
}

// Cache writes of OpenAI have two lifetimes; what contradicts itself is said.
func TestBucketsStayDisjoint(t *testing.T) {
	t.Parallel()
	records, _ := readText(t, meter.Source{Format: meter.ResponsesUsage},
		`{"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":20,"cache_write_tokens":30,"cache_write_tokens_details":{"ttl_12h_tokens":10,"ttl_30m_tokens":20}},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":109}}`)
	if records[0].Tokens != (run.Tokens{Input: 50, CacheRead: 20, CacheWriteShort: 20, CacheWriteLong: 10, Output: 9, Reasoning: 4}) || records[0].Provenance != run.Measured {
		t.Errorf("%+v", records)
	}
	for format, text := range map[meter.Format]string{
		meter.ChatUsage:      `{"usage":{"prompt_tokens":10,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":20}}}`,
		meter.GeminiUsage:    `{"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":20}}`,
		meter.GeminiCLI:      `{"type":"result","stats":{"input_tokens":10,"cached":20,"total_tokens":10,"output_tokens":0}}`,
		meter.AnthropicUsage: `{"usage":{"input_tokens":0,"cache_read_input_tokens":20,"output_tokens":1,"output_tokens_details":{"thinking_tokens":5}}}`,
	} {
		records, report := readText(t, meter.Source{Format: format}, text)
		u := records[0]
		if u.Tokens.Input != 0 || u.Tokens.CacheRead != 20 || u.Tokens.Reasoning > u.Tokens.Output || u.Provenance != run.Partial || len(report.Incomplete) == 0 {
			t.Errorf("%s: %+v, %+v", format, u, report)
		}
	}
}
