package gemini

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
)

// fault tells what an error means: the SDK's, or what the exchange has noted.
func fault(ctx context.Context, x *exchange, err error) error {
	if ctx.Err() != nil {
		return chat.Broke(ctx, "", nil)
	}
	var syntax *json.SyntaxError
	var sent *url.Error
	switch f := failed(x.fault); {
	case errors.As(err, &sent): // also when a redirect was answered
		return chat.Broke(ctx, "the connection broke", sent)
	case f != nil:
		return f.explain(x, err)
	case x.status >= 300:
		return (&failure{Message: strings.TrimSpace(string(x.fault))}).explain(x, err)
	case x.err != nil:
		return chat.Broke(ctx, "the connection broke", x.err)
	case x.status == 0:
		return &chat.Error{Class: chat.Invalid, Text: err.Error(), Cause: err}
	case errors.As(err, &syntax):
		return malformed(syntax.Error(), err)
	}
	return malformed(err.Error(), err)
}

// explain makes the Error. An error within a stream has the status in its text.
func (f *failure) explain(x *exchange, cause error) error {
	status := x.status
	if status < 300 {
		status = f.Code
	}
	c := chat.Of(status, x.header, f.Message, cause)
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
	text := strings.ToLower(f.Message)
	switch {
	case c.Class == chat.Invalid && strings.Contains(text, "api key not valid"):
		c.Class = chat.Denied
	case c.Class == chat.Invalid && strings.Contains(text, "token count") && strings.Contains(text, "exceed"):
		c.Class = chat.TooLong
	case strings.Contains(text, "enable billing"), strings.Contains(text, "credits are depleted"):
		c.Class = chat.NoCredit
	}
	return c
}
