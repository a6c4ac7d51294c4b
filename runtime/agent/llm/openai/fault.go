package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
)

// maxFault bounds what is read and shown of an error.
const (
	maxFault = 1 << 20
	maxText  = 2000
)

// problem is what a server says that went wrong.
type problem struct{ code, kind, param, text string }

// failed tells what it means that a request was refused.
func (c client) failed(ctx context.Context, answer *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxFault)) // what came is shown
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p := problemOf(body)
	e := chat.Of(answer.StatusCode, answer.Header, c.scrub(p.text), nil)
	p.classify(e)
	if c.without != nil && e.Class == chat.Invalid && c.without(p) {
		e.Class = chat.Passing
	}
	return e
}

// streams tells what is wrong with an answer that is no stream.
func (c client) streams(answer *http.Response) error {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if kind != "application/json" && kind != "text/html" { // servers of few manners call a stream anything
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxFault))
	var doc struct{ Error json.RawMessage }
	if kind == "application/json" && json.Unmarshal(body, &doc) == nil && !null(doc.Error) {
		return c.within(doc.Error)
	}
	return &chat.Error{
		Class: chat.Invalid, Status: answer.StatusCode,
		Text: "the server answered with " + kind + " and not with a stream of events; check that llm.baseUrl leads to the API, and that it streams",
	}
}

// within makes the error that a server reports inside an answer.
func (c client) within(raw json.RawMessage) error {
	p := problemOf(raw)
	e := &chat.Error{Class: chat.Passing}
	if status, err := strconv.Atoi(p.code); err == nil && status >= 400 && status < 600 {
		e = chat.Of(status, nil, "", nil)
	}
	e.Text = c.scrub(p.text)
	if e.Text == "" {
		e.Text = "the server reports an error and does not say which"
	}
	p.classify(e)
	return e
}

// problemOf reads the forms of errors that are about: an object under "error", a
// text there, the fields alone, "detail", and lists of these.
func problemOf(body []byte) problem {
	body = bytes.TrimSpace(body)
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(body, &top) != nil {
		text := ""
		if json.Unmarshal(body, &text) != nil && !bytes.HasPrefix(body, []byte("<")) { // a page says nothing
			text = string(body)
		}
		return problem{text: clip(text)}
	}
	in := top
	text := ""
	if e := top["error"]; !null(e) {
		var object map[string]json.RawMessage
		if json.Unmarshal(e, &object) == nil {
			in = object
		} else {
			text = plain(e)
		}
	}
	p := problem{code: plain(in["code"]), kind: plain(in["type"]), param: plain(in["param"])}
	for _, name := range []string{"message", "detail", "error"} {
		if text == "" {
			text = plain(in[name])
		}
	}
	var metadata struct{ Raw json.RawMessage } // OpenRouter: what the provider said
	if json.Unmarshal(in["metadata"], &metadata) == nil && !null(metadata.Raw) {
		text += ": " + plain(metadata.Raw)
	}
	p.text = clip(text)
	return p
}

// plain is a value in words.
func plain(raw json.RawMessage) string {
	var s string
	if null(raw) || json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

func clip(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if utf8.RuneCountInString(s) > maxText {
		s = string([]rune(s)[:maxText]) + "…"
	}
	return s
}

// classify sets the class of an error, as far as its words say more than its status.
func (p problem) classify(e *chat.Error) {
	is := func(names ...string) bool { return slices.Contains(names, p.code) || slices.Contains(names, p.kind) }
	switch {
	case is("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "exceeded_current_quota_error", "insufficient_credits"):
		e.Class = chat.NoCredit
	case is("context_length_exceeded", "exceed_context_size_error"), e.Class != chat.Denied && e.Status != http.StatusTooManyRequests && tooLong(e.Text):
		e.Class = chat.TooLong
	case e.Status >= 300:
	case is("rate_limit_exceeded", "server_error"):
		e.Class = chat.Passing
	case is("invalid_api_key", "authentication_error", "permission_error"):
		e.Class = chat.Denied
	case is("invalid_request_error", "invalid_prompt", "BadRequestError", "model_not_found"):
		e.Class = chat.Invalid
	}
	if !e.Again() {
		e.After = 0
	}
}

// tooLong knows the words of servers without a code for it.
func tooLong(text string) bool {
	text = strings.ToLower(text)
	for _, words := range []string{
		"maximum context length", "context_length_exceeded", "exceeds the context window", "exceeds the available context size",
		"prompt is too long", "maximum prompt length", "context length exceeded", "exceeds model context",
	} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// scrub takes the key out of a text: some servers repeat it.
func (c client) scrub(text string) string {
	if len(c.key) < 8 {
		return text
	}
	return strings.ReplaceAll(text, c.key, "(the key)")
}
