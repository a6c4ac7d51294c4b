package gemini

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
)

// failure is an error as the API tells it.
type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Details []struct {
		Reason     string `json:"reason"`     // of ErrorInfo
		RetryDelay string `json:"retryDelay"` // of RetryInfo
	} `json:"details"`
}

// failed gives the error that a JSON text tells, or nil. It may stand in a list.
func failed(text []byte) *failure {
	type body struct {
		Error *failure `json:"error"`
	}
	var one body
	if json.Unmarshal(text, &one) == nil {
		return one.Error
	}
	var list []body
	if json.Unmarshal(text, &list) == nil && len(list) > 0 {
		return list[0].Error
	}
	return nil
}

// explain makes the Error. One within a stream has the status in its text.
func explain(answered *http.Response, text []byte) error {
	f := failed(text)
	if f == nil {
		f = &failure{Message: strings.TrimSpace(string(text))}
	}
	status := answered.StatusCode
	if status < 300 {
		status = f.Code
	}
	c := chat.Of(status, answered.Header, f.Message, nil)
	for _, d := range f.Details {
		switch d.Reason {
		case "API_KEY_INVALID":
			c.Class = chat.Denied
		case "BILLING_DISABLED":
			c.Class = chat.NoCredit
		}
		if wait, err := time.ParseDuration(d.RetryDelay); err == nil && c.Class == chat.Passing {
			c.After = max(c.After, wait)
		}
	}
	lower := strings.ToLower(f.Message)
	switch {
	case c.Class == chat.Invalid && strings.Contains(lower, "api key not valid"):
		c.Class = chat.Denied
	case c.Class == chat.Invalid && strings.Contains(lower, "token count") && strings.Contains(lower, "exceed"):
		c.Class = chat.TooLong
	case strings.Contains(lower, "enable billing"), strings.Contains(lower, "credits are depleted"):
		c.Class = chat.NoCredit
	}
	return c
}
