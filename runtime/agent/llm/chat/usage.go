package chat

import (
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/meter"
	"github.com/weirhq/weir/runtime/run"
)

// Meter reads the usage of one request from its events, as they came.
type Meter struct {
	r       *meter.Reader
	records []run.UsageRecord
	events  int
}

// NewMeter makes the meter of a request. Ids of answers need not be unique
// beyond it: not every server's are.
func NewMeter(format meter.Format, provider string, q Request) (*Meter, error) {
	r, err := meter.NewReader(meter.Source{
		Format: format, Provider: provider, Model: q.Model, Scope: run.NewKey("req"), PromptChars: chars(q),
	})
	if err != nil {
		return nil, err
	}
	return &Meter{r: r}, nil
}

// Event reads the JSON of an event.
func (m *Meter) Event(raw string) {
	m.events++
	m.keep(m.r.Line([]byte(raw)))
}

// Settle puts into the reply what was used. Without an event there was no answer,
// which costs nothing.
func (m *Meter) Settle(reply *Reply) {
	if m.events == 0 {
		return
	}
	records, report := m.r.Close()
	m.keep(records)
	reply.Usage, reply.Incomplete = m.records, report.Incomplete
}

// keep takes what the reader gives: a record takes the place of the one before
// it with the same key.
func (m *Meter) keep(records []run.UsageRecord) {
next:
	for _, r := range records {
		for i := range m.records {
			if m.records[i].RequestKey == r.RequestKey {
				m.records[i] = r
				continue next
			}
		}
		m.records = append(m.records, r)
	}
}

// chars is the size of what is sent, by which an answer without counts is estimated.
func chars(q Request) int {
	n := utf8.RuneCountInString(q.Instructions)
	for _, m := range q.Messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case Text:
				n += utf8.RuneCountInString(p.Text)
			case Call:
				n += utf8.RuneCount(p.Arguments)
			case Result:
				n += utf8.RuneCountInString(p.Text)
			}
		}
	}
	return n
}
