package meter

import (
	"bytes"
	"encoding/json"

	"github.com/weirhq/weir/runtime/run"
)

// transcriptRow is a row of a Claude Code session file, or of the file of one
// of its subagents.
type transcriptRow struct {
	Type      string        `json:"type"`
	Session   string        `json:"sessionId"`
	Request   string        `json:"requestId"`
	UUID      string        `json:"uuid"`
	Timestamp string        `json:"timestamp"`
	Side      bool          `json:"isSidechain"`
	Message   claudeMessage `json:"message"`
	Cost      money         `json:"costUSD"` // older versions
}

// transcript reads session files. A message is one request, written row by row
// with growing counts; other files repeat it under other request ids. A message
// that never got a stop reason never got its final counts either.
type transcript struct{ r *Reader }

func newTranscript(r *Reader) parser {
	r.sums = true
	return transcript{r}
}

var usageField = []byte(`"usage"`)

func (p transcript) event(b []byte) bool {
	if !bytes.Contains(b, usageField) { // most of a transcript: what tools read
		return json.Valid(b)
	}
	var row transcriptRow
	if !decode(b, &row) {
		return false
	}
	m := row.Message
	if m.Model == synthetic || !object(m.Usage) {
		return true
	}
	at := timestamp(row.Timestamp)
	if !p.r.src.After.IsZero() && !at.IsZero() && at.Before(p.r.src.After) {
		return true
	}
	if p.r.rep.Session == "" {
		p.r.rep.Session = name(row.Session)
	}
	id := m.ID
	for _, other := range []string{row.Request, row.UUID} {
		if id == "" {
			id = other
		}
	}
	if id == "" {
		id = p.r.scoped(p.r.next())
	}
	var u anthropicUsage
	decode(m.Usage, &u)
	for i, rec := range p.r.anthropic(id, m.Model, &u, m.Usage) {
		rec.Rank = run.FromTranscript
		if m.unfinished() {
			rec.Provenance = rec.Provenance.Worse(run.Partial)
		}
		if i == 0 {
			p.r.cost(&rec, row.Cost)
		}
		if !at.IsZero() {
			rec.At = at
		}
		rec.Stream = p.stream(rec.Model)
		p.put(rec, row.Side)
	}
	return true
}

// stream is named as the process names it whose totals this stands in for.
func (p transcript) stream(m string) string {
	s := p.r.stream("claude", p.r.rep.Session)
	if s == "" || p.r.src.Stream != "" {
		return s
	}
	return name(s + "/" + sameModel(m))
}

// put prefers what the main conversation says of a message over a copy.
func (p transcript) put(rec run.UsageRecord, side bool) {
	before := p.r.out.entries[rec.RequestKey]
	first := before == nil
	e := p.r.out.put(rec)
	switch {
	case first:
		e.side = side
	case e.side && !side:
		e.side = false
		if e.rec.Model != rec.Model || !e.rec.At.Equal(rec.At) {
			e.rec.Model, e.rec.At, e.rec.Stream = rec.Model, rec.At, rec.Stream
			p.r.out.touch(e)
		}
	}
}

func (p transcript) close() {
	p.r.rep.Ended = true
	for _, e := range p.r.out.entries {
		if e.rec.Provenance == run.Partial {
			p.r.incomplete("messages without their final counts")
		}
	}
}
