package meter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/meter"
	"github.com/weirhq/weir/runtime/run"
)

// writes is a message that wrote to a cache, and written the totals of a model.
func writes(id, model string, short, long int) string {
	return fmt.Sprintf(`{"type":"assistant","session_id":"s","message":{"id":%q,"model":%q,"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1,"cache_creation_input_tokens":%d,`+
		`"cache_creation":{"ephemeral_5m_input_tokens":%d,"ephemeral_1h_input_tokens":%d}}}}`+"\n", id, model, short+long, short, long)
}

func written(model string, all int, split string) string {
	return fmt.Sprintf(`{"type":"result","session_id":"s","modelUsage":{%q:{"inputTokens":9,"outputTokens":9,"cacheCreationInputTokens":%d%s,"costUSD":0.5}}}`+"\n", model, all, split)
}

// The totals of a model have the split of its messages only if these are all that
// wrote, and never fall in either kind.
func TestTheSplitOfMessagesFitsOrIsNotTaken(t *testing.T) {
	t.Parallel()
	const opus, haiku = "claude-opus-4-8", "claude-haiku-4-5"
	type want struct {
		short, long int64
		unsplit     bool
	}
	for name, c := range map[string]struct {
		text string
		want []want
	}{
		"all messages are there":     {writes("a", opus, 10, 200) + writes("a", opus, 10, 200) + writes("x", haiku, 7, 0) + writes("b", opus, 0, 40) + written(opus+"[1m]", 250, ""), []want{{10, 240, false}}},
		"one is missing":             {writes("a", opus, 10, 200) + written(opus, 211, ""), []want{{211, 0, true}}},
		"they say more":              {writes("a", opus, 10, 200) + written(opus, 209, ""), []want{{209, 0, true}}},
		"none says a split":          {fmt.Sprintf(assistant, "null", "a", opus) + written(opus, 30, ""), []want{{30, 0, true}}},
		"nothing was written":        {fmt.Sprintf(assistant, "null", "a", opus) + written(opus, 0, ""), []want{{0, 0, false}}},
		"the totals say it":          {writes("a", opus, 10, 200) + written(opus, 210, `,"cacheCreationEphemeral5mInputTokens":200,"cacheCreationEphemeral1hInputTokens":10`), []want{{200, 10, false}}},
		"it fits again and again":    {writes("a", opus, 10, 200) + written(opus, 210, "") + writes("b", opus, 5, 5) + written(opus, 220, ""), []want{{10, 200, false}, {15, 205, false}}},
		"it does not fit any more":   {writes("a", opus, 10, 200) + written(opus, 210, "") + written(opus, 300, ""), []want{{10, 200, false}, {100, 200, true}}},
		"it fits too late":           {written(opus, 50, "") + writes("a", opus, 10, 200) + written(opus, 210, ""), []want{{50, 0, true}, {210, 0, true}}},
		"a message came in a stream": {`{"type":"stream_event","session_id":"s","event":{"type":"message_start","message":{"id":"a","model":"` + opus + `","usage":{"input_tokens":1,"cache_creation_input_tokens":8,"cache_creation":{"ephemeral_1h_input_tokens":8}}}}}` + "\n" + writes("a", opus, 0, 8) + written(opus, 8, ""), []want{{0, 8, false}}},
	} {
		r, err := meter.NewReader(meter.Source{Format: meter.ClaudeStream})
		if err != nil {
			t.Fatal(err)
		}
		var got []want
		for line := range strings.Lines(c.text) {
			for _, u := range r.Line([]byte(line)) {
				if u.Rank == run.FromResult {
					got = append(got, want{u.Tokens.CacheWriteShort, u.Tokens.CacheWriteLong, u.Unsplit})
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: the results say %v, want %v", name, got, c.want)
		}
	}
}
