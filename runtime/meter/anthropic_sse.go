package meter

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/run"
)

// messageEvent is an event of a streamed message.
type messageEvent struct {
	Type    string `json:"type"`
	Message struct {
		ID    string          `json:"id"`
		Model string          `json:"model"`
		Usage json.RawMessage `json:"usage"`
	} `json:"message"`
	Delta struct {
		StopReason *string `json:"stop_reason"`
		Text       string  `json:"text"`
		Thinking   string  `json:"thinking"`
		Arguments  string  `json:"partial_json"`
	} `json:"delta"`
	Usage json.RawMessage `json:"usage"`
}

// message is one that is being streamed. Its usage is told at the start and
// again, as a running total, with every message_delta: the last value of each
// field holds.
type message struct {
	key, model string
	usage      anthropicUsage
	raw        []byte
	chars      int // of text received
	stopped    bool
}

// take reads an event of the message; it tells whether the usage changed.
func (m *message) take(e *messageEvent) bool {
	raw := e.Usage
	if e.Type == "message_start" {
		raw = e.Message.Usage
	}
	m.chars += utf8.RuneCountInString(e.Delta.Text) + utf8.RuneCountInString(e.Delta.Thinking) + utf8.RuneCountInString(e.Delta.Arguments)
	stopped := m.stopped
	m.stopped = m.stopped || e.Type == "message_stop" || e.Type == "message_delta" && e.Delta.StopReason != nil
	if object(raw) {
		var u anthropicUsage
		decode(raw, &u)
		m.usage.over(u)
		m.raw = append([]byte(nil), raw...)
		return true
	}
	return m.stopped != stopped
}

// charsPerToken is the rule of thumb for text whose tokens nobody counted.
const charsPerToken = 4

func tokensOf(chars int) int64 { return int64((chars + charsPerToken - 1) / charsPerToken) }

type anthropicStream struct {
	r *Reader
	m *message
}

func newAnthropicSSE(r *Reader) parser { return &anthropicStream{r: r} }

func (p *anthropicStream) event(b []byte) bool {
	var e messageEvent
	if !decode(b, &e) {
		return false
	}
	if e.Type == "message_start" {
		p.finish()
		id := e.Message.ID
		if id == "" {
			id = p.r.next()
		}
		p.m = &message{key: p.r.scoped(id), model: e.Message.Model}
		p.r.rep.Ended = false
	}
	if e.Type == "error" {
		p.r.rep.Failed = errorText(b)
	}
	if p.m != nil && p.m.take(&e) {
		p.put(false)
	}
	if e.Type == "message_stop" {
		p.r.rep.Ended = true
	}
	return true
}

// put gives the message's records: exact ones once it has stopped.
func (p *anthropicStream) put(end bool) {
	for i, rec := range p.r.anthropic(p.m.key, p.m.model, &p.m.usage, p.m.raw) {
		if !p.m.stopped {
			rec.Rank = run.FromEstimate
			if i == 0 {
				rec.Provenance = rec.Provenance.Worse(run.Estimated)
				if guess := tokensOf(p.m.chars); end && guess > rec.Tokens.Output {
					rec.Tokens.Output, rec.Provenance = guess, run.Estimated
				}
			}
		}
		p.r.out.set(rec)
	}
}

// finish ends a message that never stopped: its output as far as it came.
func (p *anthropicStream) finish() {
	if p.m != nil && !p.m.stopped {
		p.r.incomplete("an answer that broke off")
		p.put(true)
	}
	p.m = nil
}

func (p *anthropicStream) close() { p.finish() }

// errorText finds the words of an error event.
func errorText(b []byte) string {
	var e struct {
		Message string `json:"message"`
		Error   struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	decode(b, &e)
	if e.Error.Message != "" {
		return clip(e.Error.Message, maxText)
	}
	if e.Message != "" {
		return clip(e.Message, maxText)
	}
	return "an error without words"
}
