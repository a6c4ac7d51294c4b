package meter

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/weirhq/weir/runtime/run"
)

// synthetic is the model of texts that Claude Code wrote itself.
const synthetic = "<synthetic>"

// claudeMessage is a message as Claude Code prints and keeps it.
type claudeMessage struct {
	ID         string          `json:"id"`
	Model      string          `json:"model"`
	StopReason json.RawMessage `json:"stop_reason"`
	Usage      json.RawMessage `json:"usage"`
}

// unfinished: the message says that it has not stopped. Old versions say nothing.
func (m *claudeMessage) unfinished() bool { return string(m.StopReason) == "null" }

// claudeLine is a line of --output-format stream-json.
type claudeLine struct {
	Type       string                     `json:"type"`
	Subtype    string                     `json:"subtype"`
	Session    string                     `json:"session_id"`
	Parent     string                     `json:"parent_tool_use_id"`
	UUID       string                     `json:"uuid"`
	Timestamp  string                     `json:"timestamp"`
	Model      string                     `json:"model"` // system/init
	Message    claudeMessage              `json:"message"`
	Event      messageEvent               `json:"event"`
	Usage      json.RawMessage            `json:"usage"` // result
	ModelUsage map[string]json.RawMessage `json:"modelUsage"`
	Cost       money                      `json:"total_cost_usd"`
	IsError    bool                       `json:"is_error"`
	Errors     []string                   `json:"errors"`
}

// modelTotals is an entry of modelUsage: what the process used of a model so
// far, subagents included.
type modelTotals struct {
	Input    count  `json:"inputTokens"`
	Output   count  `json:"outputTokens"`
	Thinking count  `json:"thinkingTokens"`
	Read     count  `json:"cacheReadInputTokens"`
	Creation count  `json:"cacheCreationInputTokens"`
	Short    count  `json:"cacheCreationEphemeral5mInputTokens"`
	Long     count  `json:"cacheCreationEphemeral1hInputTokens"`
	Search   count  `json:"webSearchRequests"`
	Cost     money  `json:"costUSD"`
	Basis    string `json:"costBasis"`
}

func (u *modelTotals) counts() *anthropicCounts {
	c := &anthropicCounts{Input: u.Input, Creation: u.Creation, Read: u.Read, Output: u.Output}
	c.Split.Short, c.Split.Long = u.Short, u.Long
	c.Details.Thinking, c.Tools.WebSearch = u.Thinking, u.Search
	return c
}

// claudeStream reads what a Claude Code process prints. Each message is an
// estimate until a result tells the totals of the process per model: the
// result's record takes the place of the messages of its stream. What a process
// does after a result is held until the next one tells of it, or the end.
type claudeStream struct {
	r       *Reader
	live    map[string]*message // messages that are streamed, by the tool call they belong to
	results int
	open    bool     // something came after the last result
	held    []string // keys of messages after a result
	splits  *splits
}

func newClaudeStream(r *Reader) parser {
	return &claudeStream{r: r, live: map[string]*message{}, splits: newSplits()}
}

func (p *claudeStream) event(b []byte) bool {
	var l claudeLine
	if !decode(b, &l) {
		return false
	}
	// The totals are of the process, so its first session names them to the end.
	if p.r.rep.Session == "" {
		p.r.rep.Session = name(l.Session)
	}
	switch l.Type {
	case "system":
		switch l.Subtype {
		case "init":
			p.open = true
			if l.Model != "" {
				p.r.rep.Model = model(l.Model)
			}
		case "session_writes_lost":
			p.r.rep.TranscriptLost = true
		case "api_retry":
			p.r.rep.Warnings++
		}
	case "assistant":
		p.open = true
		p.message(&l)
	case "stream_event":
		p.open = true
		p.streamed(&l)
	case "result":
		p.result(&l)
	}
	p.r.rep.Ended = p.results > 0 && !p.open
	return true
}

// message reads an assistant event: one per block, with the usage of the start.
func (p *claudeStream) message(l *claudeLine) {
	m := l.Message
	if m.Model == synthetic || !object(m.Usage) {
		return
	}
	var u anthropicUsage
	decode(m.Usage, &u)
	id := m.ID
	if id == "" {
		id = l.UUID
	}
	if id == "" {
		id = p.r.scoped(p.r.next())
	}
	p.splits.message(name(id), m.Model, &u.anthropicCounts)
	p.put(l, p.r.anthropic(id, m.Model, &u, m.Usage), run.Estimated)
}

// streamed reads an event of the API that is passed on.
func (p *claudeStream) streamed(l *claudeLine) {
	e := &l.Event
	if e.Type == "message_start" && len(p.live) < windowSize {
		id := e.Message.ID
		if id == "" {
			id = p.r.scoped(p.r.next())
		}
		p.live[l.Parent] = &message{key: id, model: e.Message.Model}
	}
	m := p.live[l.Parent]
	if m == nil {
		return
	}
	changed := m.take(e)
	if changed {
		provenance := run.Estimated
		if m.stopped {
			provenance = run.Measured
		}
		p.splits.message(name(m.key), m.model, &m.usage.anthropicCounts)
		p.put(l, p.r.anthropic(m.key, m.model, &m.usage, m.raw), provenance)
	}
	if e.Type == "message_stop" {
		delete(p.live, l.Parent)
	}
}

// put books what a message says so far.
func (p *claudeStream) put(l *claudeLine, records []run.UsageRecord, provenance run.Provenance) {
	for _, rec := range records {
		rec.Rank, rec.Provenance = run.FromEstimate, rec.Provenance.Worse(provenance)
		rec.Stream = p.stream(rec.Model)
		if at := timestamp(l.Timestamp); !at.IsZero() {
			rec.At = at
		}
		if p.results == 0 {
			p.r.out.put(rec)
			continue
		}
		if known := p.r.out.entries[rec.RequestKey]; known == nil && len(p.held) == windowSize {
			p.r.incomplete("more messages after a result than are held")
			continue
		} else if known == nil {
			p.held = append(p.held, name(rec.RequestKey))
			p.r.out.put(rec).held = true
		} else if known.held {
			p.r.out.put(rec)
		}
	}
}

// stream names what is totalled: a session's use of a model.
func (p *claudeStream) stream(m string) string {
	s := p.r.stream("claude", p.r.rep.Session)
	if s == "" {
		return ""
	}
	return name(s + "/" + sameModel(m))
}

// result reads the end of a turn.
func (p *claudeStream) result(l *claudeLine) {
	p.results++
	p.r.rep.Turns++
	p.open = false
	for _, key := range p.held {
		p.r.out.drop(key)
	}
	p.held = nil
	p.r.rep.Failed = ""
	if l.IsError {
		p.r.rep.Failed = clip(l.Subtype, maxText)
		if len(l.Errors) > 0 {
			p.r.rep.Failed = clip(l.Errors[0], maxText)
		}
	}
	key := p.r.scoped("result-" + strconv.Itoa(p.results))
	if len(l.ModelUsage) == 0 {
		p.turn(key, l)
		return
	}
	for i, m := range slices.Sorted(maps.Keys(l.ModelUsage)) {
		if i == windowSize/16 {
			p.r.incomplete("more models than are read")
			break
		}
		var u modelTotals
		decode(l.ModelUsage[m], &u)
		unsplit := p.splits.fill(m, &u)
		c := u.counts()
		f, t := c.tokens()
		calls := c.calls(&f)
		rec := p.r.record(key+"/"+model(m), m, f, t, l.ModelUsage[m])
		rec.ToolCalls, rec.Stream, rec.Summed, rec.Unsplit = calls, p.stream(m), true, unsplit
		if u.Basis != "unknown" {
			p.r.cost(&rec, u.Cost)
		}
		p.r.total(rec, model(m))
	}
}

// turn reads the result of an older version: usage is of this turn and of the
// main conversation alone, the cost is the total of the process.
func (p *claudeStream) turn(key string, l *claudeLine) {
	var u anthropicUsage
	decode(l.Usage, &u)
	m := p.r.rep.Model
	records := p.r.anthropic(key+"/"+model(m), m, &u, l.Usage)
	rec := &records[0]
	rec.Summed = true
	p.r.cost(rec, l.Cost)
	if total := rec.CostNanoUSD; total != nil {
		if before := p.r.totals["cost"].CostNanoUSD; before != nil && *before <= *total {
			rise := *total - *before
			rec.CostNanoUSD = &rise
		}
		p.r.totals["cost"] = run.UsageRecord{CostNanoUSD: total}
	}
	for _, rec := range records {
		rec.Stream = p.stream(rec.Model)
		p.r.out.put(rec)
	}
}

func (p *claudeStream) close() {
	if p.results > 0 && !p.open {
		return
	}
	p.r.incomplete("no result at the end")
	// No result will tell of them: they are booked beside the turns before.
	for _, key := range p.held {
		if e := p.r.out.entries[key]; e != nil && e.held {
			e.held = false
			if e.rec.Stream != "" {
				e.rec.Stream = name(e.rec.Stream + "/after-" + strconv.Itoa(p.results))
			}
			p.r.out.touch(e)
		}
	}
	p.held = nil
}
