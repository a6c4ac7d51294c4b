package meter

import (
	"encoding/json"
	"strconv"

	"github.com/weirhq/weir/runtime/run"
)

// codexExec reads codex exec --json. turn.completed tells the totals of the
// thread, also when the process resumed it; a turn that failed or was
// interrupted tells nothing, and no event names the model.
type codexExec struct {
	r       *Reader
	open    bool // a turn is under way
	unknown int  // turns of which nothing is known
}

func newCodexExec(r *Reader) parser { return &codexExec{r: r} }

func (p *codexExec) event(b []byte) bool {
	var e struct {
		Type   string          `json:"type"`
		Thread string          `json:"thread_id"`
		Usage  json.RawMessage `json:"usage"`
		Error  struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if !decode(b, &e) {
		return false
	}
	switch e.Type {
	case "thread.started":
		p.close()
		p.r.rep.Session = name(e.Thread)
	case "turn.started":
		p.close()
		p.open, p.r.rep.Ended, p.r.rep.Failed = true, false, ""
	case "error":
		p.r.rep.Warnings++
	case "turn.failed":
		p.open = true
		p.close()
		p.r.rep.Ended, p.r.rep.Failed = true, clip(e.Error.Message, maxText)
	case "turn.completed":
		p.open, p.r.rep.Ended = false, true
		p.r.rep.Turns++
		var u inclusive
		decode(e.Usage, &u)
		f, t := u.tokens()
		rec := p.r.record(p.key(p.r.rep.Turns), "", f, t, e.Usage)
		rec.Stream, rec.Summed = p.r.stream("codex", p.r.rep.Session), true
		p.r.total(rec, p.r.rep.Session)
	}
	return true
}

// key names the n-th turn of the thread.
func (p *codexExec) key(n int) string {
	key := "turn-" + strconv.Itoa(n)
	if p.r.rep.Session != "" {
		key = p.r.rep.Session + "/" + key
	}
	return p.r.scoped(key)
}

// close notes a turn of which nothing is known. The rollout can take its place
// while no other turn of the thread is booked.
func (p *codexExec) close() {
	if !p.open {
		return
	}
	p.open = false
	p.unknown++
	rec := p.r.record(p.key(p.r.rep.Turns+1)+"/unknown-"+strconv.Itoa(p.unknown), "", figures{}, run.Tokens{}, nil)
	rec.Rank = run.FromEstimate
	if rec.Stream = p.r.stream("codex", p.r.rep.Session); p.r.rep.Turns > 0 {
		rec.Stream = ""
	}
	p.r.incomplete("a turn that did not complete")
	p.r.out.put(rec)
}

// rollout reads the session file of Codex. token_count events repeat; every rise
// of total_token_usage is a request.
type rollout struct {
	r      *Reader
	model  string
	last   run.Tokens
	begun  int // how often the totals began anew
	forked bool
}

func newRollout(r *Reader) parser { return &rollout{r: r} }

func (p *rollout) event(b []byte) bool {
	var row struct {
		Type      string `json:"type"`
		Timestamp string `json:"timestamp"`
		Payload   struct {
			Type   string `json:"type"`
			ID     string `json:"id"`
			Forked string `json:"forked_from_id"`
			Model  string `json:"model"`
			Info   struct {
				Model string          `json:"model"`
				Total json.RawMessage `json:"total_token_usage"`
			} `json:"info"`
		} `json:"payload"`
	}
	if !decode(b, &row) {
		return false
	}
	switch {
	case row.Type == "session_meta" && row.Payload.ID != "" && p.r.rep.Session == "":
		p.r.rep.Session, p.forked = name(row.Payload.ID), row.Payload.Forked != ""
	case row.Type == "turn_context" && row.Payload.Model != "":
		p.model = row.Payload.Model
	case row.Type == "event_msg" && row.Payload.Type == "token_count" && object(row.Payload.Info.Total):
		if row.Payload.Info.Model != "" {
			p.model = row.Payload.Info.Model
		}
		p.count(row.Timestamp, row.Payload.Info.Total)
	}
	return true
}

func (p *rollout) count(timestampText string, raw []byte) {
	var u inclusive
	decode(raw, &u)
	f, t := u.tokens()
	if t == p.last || !f.known {
		return
	}
	if t.Max(p.last) != t {
		p.begun++
	}
	p.last = t
	at := timestamp(timestampText)
	if !p.r.src.After.IsZero() && !at.IsZero() && at.Before(p.r.src.After) {
		p.r.totals[p.r.rep.Session] = run.UsageRecord{Tokens: t} // where a fork stands when it begins
		return
	}
	key := strconv.Itoa(p.begun) + "/" + strconv.FormatInt(t.Prompt()+t.Output, 10)
	if key = "rollout/" + key; p.r.rep.Session != "" {
		key = p.r.rep.Session + "/" + key
	} else {
		key = p.r.scoped(key)
	}
	rec := p.r.record(key, p.model, f, t, raw)
	rec.Rank = run.FromTranscript
	if !at.IsZero() {
		rec.At = at
	}
	if !p.forked { // the totals of a fork began in the thread that it left
		rec.Stream = p.r.stream("codex", p.r.rep.Session)
	}
	p.r.total(rec, p.r.rep.Session)
}

func (p *rollout) close() { p.r.rep.Ended = true }
