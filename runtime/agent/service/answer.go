package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/run"
)

const (
	// maxCount is more than any service can use; a larger number is a mistake.
	maxCount = 1_000_000_000_000
	maxModel = 256 // bytes
)

// answer is what a usage endpoint says: totals since the service started.
type answer struct {
	tokens    run.Tokens
	model     string
	turns     int64
	toolCalls int64
}

func (a answer) zero() bool { return a.tokens == run.Tokens{} }

// raw is the payload to keep: what was read of the answer, and no more.
func (a answer) raw() []byte {
	b, _ := json.Marshal(struct { // numbers and text always encode
		Input      int64  `json:"tokens_input"`
		Output     int64  `json:"tokens_output"`
		CacheRead  int64  `json:"tokens_cache_read"`
		CacheWrite int64  `json:"tokens_cache_write"`
		Turns      int64  `json:"turns"`
		ToolCalls  int64  `json:"tool_calls"`
		Model      string `json:"model,omitempty"`
	}{a.tokens.Input, a.tokens.Output, a.tokens.CacheRead, a.tokens.CacheWriteShort, a.turns, a.toolCalls, a.model})
	return b
}

// parse reads an answer. It is taken as a whole or not at all.
func parse(body []byte) (answer, error) {
	if bytes.HasPrefix(body, []byte("<")) {
		return answer{}, errors.New("an HTML page came, not JSON")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return answer{}, fmt.Errorf("no JSON object came, but %s", shown(body))
	}
	var a answer
	for _, f := range []struct {
		name     string
		to       *int64
		required bool
	}{
		{"tokens_input", &a.tokens.Input, true},
		{"tokens_output", &a.tokens.Output, true},
		{"tokens_cache_read", &a.tokens.CacheRead, true},
		// Without a split all of it counts as short-lived.
		{"tokens_cache_write", &a.tokens.CacheWriteShort, true},
		{"turns", &a.turns, false},
		{"tool_calls", &a.toolCalls, false},
	} {
		v, there := fields[f.name]
		switch {
		case !there && f.required:
			return answer{}, fmt.Errorf("%s was missing in %s", f.name, shown(body))
		case !there:
			continue
		}
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil || n < 0 || n > maxCount {
			return answer{}, fmt.Errorf("%s was %s, and not a whole number from 0 to %d", f.name, shown(v), int64(maxCount))
		}
		*f.to = n
	}
	if v, there := fields["model"]; there {
		if err := json.Unmarshal(v, &a.model); err != nil || len(a.model) > maxModel || strings.ContainsRune(a.model, 0) {
			return answer{}, fmt.Errorf("model was %s, and not a text of at most %d bytes", shown(v), maxModel)
		}
	}
	return a, nil
}

// shown is the beginning of what came.
func shown(b []byte) string {
	const most = 80
	s := strings.ToValidUTF8(string(b[:min(len(b), most)]), string(utf8.RuneError))
	if len(b) > most {
		s += "…"
	}
	return strconv.Quote(s)
}
