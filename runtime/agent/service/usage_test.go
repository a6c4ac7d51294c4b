//go:build linux

package service_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

const (
	zeros = `200 {"tokens_input": 0, "tokens_output": 0, "tokens_cache_read": 0, "tokens_cache_write": 0}`
	some  = `200 {"tokens_input": 111, "tokens_output": 222, "tokens_cache_read": 33, "tokens_cache_write": 44, "turns": 5, "tool_calls": 4}`
)

var (
	someTokens = run.Tokens{Input: 111, Output: 222, CacheRead: 33, CacheWriteShort: 44}
	someCost   = int64(111*3000 + 222*15000 + 33*300 + 44*3750)
)

func answers(text string) map[string]string { return map[string]string{"answer": text} }

// wantUsage checks a run's totals; cost nil: no money is known.
func wantUsage(t *testing.T, r run.Run, tokens run.Tokens, cost *int64, p run.Provenance) {
	t.Helper()
	u := r.Usage
	if u.Tokens != tokens || u.Provenance != p {
		t.Errorf("the usage is %+v %s, want %+v %s", u.Tokens, u.Provenance, tokens, p)
	}
	if (u.CostNanoUSD == nil) != (cost == nil) || cost != nil && *u.CostNanoUSD != *cost {
		t.Errorf("the cost is %v, want %v", deref(u.CostNanoUSD), deref(cost))
	}
}

func deref(n *int64) any {
	if n == nil {
		return nil
	}
	return *n
}

// unknown checks that nothing was learnt, and that this is told from zero.
func (b *bench) unknown(r run.Run) {
	b.t.Helper()
	wantUsage(b.t, r, run.Tokens{}, nil, run.UnknownProvenance)
	if r.Usage.Unpriced != 1 {
		b.t.Errorf("%d records are unpriced, want 1", r.Usage.Unpriced)
	}
	got := b.records(r)
	if u := got["status"]; keys(got) != "status" || u.Provenance != run.UnknownProvenance || u.CostNanoUSD != nil {
		b.t.Errorf("the records are %+v", got)
	}
}

func TestU1StopReadsTheEndpointExactly(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine()
		r := b.start(e, answers(zeros))
		b.looked(r, 1)
		b.put(r, "answer", some)
		r = b.abort(e, r)
		wantState(t, r, run.Cancelled, run.Aborted)
		wantUsage(t, r, someTokens, &someCost, run.Measured)
		got := b.records(r)
		if u := got["status"]; keys(got) != "status" || u.Model != "sonnet" || u.Provider != "anthropic" || u.Stream == "" || !u.Summed ||
			!strings.Contains(string(u.Raw), `"turns":5,"tool_calls":4`) {
			t.Errorf("the records are %+v", got)
		}
		if w := b.warnings(r); len(w) != 0 {
			t.Errorf("warned: %q", w)
		}
	})
}

func TestU2StopWithoutAnEndpoint(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine()
		r := b.start(e, answers(zeros))
		b.looked(r, 1)
		if err := os.Remove(b.path(r, "service.sock")); err != nil {
			t.Fatal(err)
		}
		r = b.abort(e, r)
		wantState(t, r, run.Cancelled, run.Aborted)
		b.unknown(r)
		if w := b.warnings(r); len(w) != 1 || !strings.Contains(w[0], "could not be read from /usage/status") {
			t.Errorf("warned: %q", w)
		}
	})
}

// msg is a call in a transcript.
func msg(id string, t run.Tokens) run.UsageRecord {
	return run.UsageRecord{RequestKey: id, Kind: run.ModelCall, Model: "sonnet", Provider: "anthropic", Tokens: t, Provenance: run.Measured}
}

func transcript(t *testing.T, list ...run.UsageRecord) string {
	t.Helper()
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestU3An503IsNoAnswer(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine()
		b.def.Service.Transcript = &agent.Transcript{}
		one := run.Tokens{Input: 7, Output: 9}
		with := b.start(e, map[string]string{"answer": "503 " + some, "transcript": transcript(t, msg("m1", one))})
		without := b.start(e, map[string]string{"answer": "503 " + some})
		b.looked(with, 1)
		b.looked(without, 1)
		with, without = b.abort(e, with), b.abort(e, without)
		cost := int64(7*3000 + 9*15000)
		wantUsage(t, with, one, &cost, run.Measured)
		b.unknown(without)
		for _, r := range []run.Run{with, without} {
			if w := b.warnings(r); len(w) != 1 || !strings.Contains(w[0], "status 503 came") {
				t.Errorf("warned: %q", w)
			}
		}
	})
}

func TestU4TheTranscriptStandsIn(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine()
		b.def.Service.Transcript = &agent.Transcript{}
		one, two := run.Tokens{Input: 10, Output: 20, CacheWriteLong: 5}, run.Tokens{Input: 1, CacheRead: 2}
		r := b.start(e, map[string]string{"answer": zeros, "transcript": transcript(t, msg("m1", one))})
		b.until("the live totals", func() bool { return b.get(r.ID).Usage.Tokens == one })
		b.put(r, "transcript", transcript(t, msg("m1", one), msg("m2", two)))
		if err := os.Remove(b.path(r, "service.sock")); err != nil {
			t.Fatal(err)
		}
		r = b.abort(e, r)
		cost := int64(11*3000 + 20*15000 + 2*300 + 5*6000)
		wantUsage(t, r, one.Add(two), &cost, run.Measured)
		if got := b.records(r); keys(got) != "m1 m2" {
			t.Errorf("the records are %+v", got)
		}
	})
}

// TestATornTranscriptIsPartial: also when its calls were booked, as measured, while
// the service worked.
func TestATornTranscriptIsPartial(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine()
		b.def.Service.Transcript = &agent.Transcript{}
		one := run.Tokens{Input: 10, Output: 20}
		r := b.start(e, map[string]string{"answer": zeros, "transcript": transcript(t, msg("m1", one)) + `{"torn`})
		b.until("the live totals", func() bool { return b.get(r.ID).Usage.Tokens == one })
		r = b.abort(e, r)
		cost := int64(10*3000 + 20*15000)
		wantUsage(t, r, one, &cost, run.Partial)
		if got := b.records(r); keys(got) != "m1 status/rest" || got["status/rest"].Tokens != (run.Tokens{}) {
			t.Errorf("the records are %+v", got)
		}
		if w := b.warnings(r); len(w) != 1 || !strings.Contains(w[0], "1 of its lines could not be read") {
			t.Errorf("warned: %q", w)
		}
	})
}

func TestU5AnAnswerIsUsedAsItIs(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine()
		b.def.Service.Transcript = &agent.Transcript{}
		r := b.start(e, map[string]string{"answer": some, "transcript": transcript(t, msg("m1", run.Tokens{Input: 1 << 30}))})
		b.until("the live totals", func() bool { return b.get(r.ID).Usage.Tokens == someTokens })
		r = b.abort(e, r)
		wantUsage(t, r, someTokens, &someCost, run.Measured)
		if got := b.records(r); keys(got) != "status" {
			t.Errorf("the records are %+v", got)
		}
	})
}

func TestU7NothingUsedIsNoRow(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine()
		b.def.Service.Transcript = &agent.Transcript{}
		b.def.Service.PollSeconds = 0.05
		none := b.start(e, answers(zeros))
		empty := b.start(e, map[string]string{"answer": zeros, "transcript": "[]"})
		for _, r := range []run.Run{none, empty} {
			b.looked(r, 3)
			if got := b.records(r); len(got) != 0 {
				t.Errorf("the records are %+v", got)
			}
			if slices.ContainsFunc(b.events(r), func(p run.Payload) bool { return p.Type() == run.TypeUsageRecorded }) {
				t.Error("usage was told")
			}
			b.unknown(b.abort(e, r))
		}
	})
}

// TestStatusThenTranscript: zeros while the service is taken down change nothing,
// and the transcript replaces what was polled, without adding to it. What it
// lacks of that is kept as a rest of its own.
func TestStatusThenTranscript(t *testing.T) {
	const poll = `200 {"tokens_input": 120, "tokens_output": 300, "tokens_cache_read": 5000, "tokens_cache_write": 800, "turns": 3, "tool_calls": 2}`
	polled := run.Tokens{Input: 120, Output: 300, CacheRead: 5000, CacheWriteShort: 800}
	calls := []run.UsageRecord{
		msg("msg_U1", run.Tokens{Input: 60, CacheWriteLong: 800, CacheRead: 2000, Output: 150}),
		msg("msg_U2", run.Tokens{Input: 60, CacheRead: 3000, Output: 150}),
		msg("msg_U3", run.Tokens{Input: 20, CacheRead: 3900, Output: 90}),
	}
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine()
		b.def.Service.Transcript = &agent.Transcript{}
		full := b.start(e, answers(poll))
		short := b.start(e, answers(poll))
		for _, r := range []run.Run{full, short} {
			b.until("the poll is booked", func() bool { return b.get(r.ID).Usage.Tokens == polled })
			b.put(r, "answer", zeros)
		}
		b.put(full, "transcript", transcript(t, calls...))
		b.put(short, "transcript", transcript(t, calls[0]))
		full, short = b.abort(e, full), b.abort(e, short)
		cost := int64(140*3000 + 390*15000 + 8900*300 + 800*6000)
		wantUsage(t, full, run.Tokens{Input: 140, CacheRead: 8900, CacheWriteLong: 800, Output: 390}, &cost, run.Measured)
		if got := b.records(full); keys(got) != "msg_U1 msg_U2 msg_U3 status" || !got["status"].Superseded {
			t.Errorf("the records are %+v", got)
		}
		cost = 120*3000 + 300*15000 + 5000*300 + 800*6000
		wantUsage(t, short, run.Tokens{Input: 120, CacheRead: 5000, CacheWriteLong: 800, Output: 300}, &cost, run.Partial)
		got := b.records(short)
		if rest := got["status/rest"]; keys(got) != "msg_U1 status status/rest" || rest.Provenance != run.Partial ||
			rest.Tokens != (run.Tokens{Input: 60, CacheRead: 3000, Output: 150}) {
			t.Errorf("the records are %+v", got)
		}
	})
}

// index gives the place of the first event of a type, -1 for none.
func index(events []run.Payload, typ run.EventType, also func(run.Payload) bool) int {
	return slices.IndexFunc(events, func(p run.Payload) bool { return p.Type() == typ && (also == nil || also(p)) })
}

func isModel(p run.Payload) bool { return p.(*run.UsageRecorded).Kind == run.ModelCall }

func TestU10FinalisedOnceBeforeTheSignal(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine()
		b.def.Service.PollSeconds = 3600 // after the one when it is ready
		r := b.start(e, answers(zeros))
		b.looked(r, 1)
		b.put(r, "answer", some)
		r = b.abort(e, r)
		if seen := b.file(r, "seen"); seen != "started\nasked\nasked\nterm\n" {
			t.Errorf("the service saw %q", seen)
		}
		events := b.events(r)
		usage, gone := index(events, run.TypeUsageRecorded, isModel), index(events, run.TypeExecutionFinished, nil)
		if usage < 0 || usage > gone {
			t.Errorf("usage is event %d, the end of the execution %d", usage, gone)
		}
		u := b.records(r)["status"]
		if u.At.After(r.Abort.SignalledAt) || u.At.Before(r.Abort.RequestedAt) {
			t.Errorf("asked for the end at %s, read at %s, signalled at %s", r.Abort.RequestedAt, u.At, r.Abort.SignalledAt)
		}
		wantUsage(t, r, someTokens, &someCost, run.Measured)
	})
}

// A service that answers nothing any more holds its own end up for 3 s.
func TestU10AnEndpointThatHangs(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		e := b.engine()
		r := b.start(e, answers(some))
		b.until("the poll is booked", func() bool { return b.get(r.ID).Usage.Tokens == someTokens })
		fifo := filepath.Join(b.dir, "fifo")
		if err := syscall.Mkfifo(fifo, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(fifo, b.path(r, "answer")); err != nil {
			t.Fatal(err)
		}
		r = b.abort(e, r)
		wantState(t, r, run.Cancelled, run.Aborted)
		if took := r.Abort.SignalledAt.Sub(r.Abort.RequestedAt); took < 2900*time.Millisecond || took > 10*time.Second {
			t.Errorf("the signal came after %s, want 3 s", took)
		}
		wantUsage(t, r, someTokens, &someCost, run.Partial)
		if w := b.warnings(r); len(w) != 1 || !strings.Contains(w[0], "no answer came within 3s") {
			t.Errorf("warned: %q", w)
		}
	})
}
