package meter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// Source says where a payload comes from, and what it may not say of itself.
type Source struct {
	Format Format

	Model    string    // of records whose payload names none
	Provider string    // likewise; "": the one that the format belongs to
	At       time.Time // of requests without a time; zero: when they are read
	After    time.Time // requests before it were booked by an earlier run: left out
	// The prompt of an answer that may break off, or its size: its share is estimated.
	Prompt      string
	PromptChars int

	// Scope comes before request keys that are unique only within this source,
	// such as the ids of an answer: one scope, one conversation.
	Scope string
	// Stream names the source in place of the session or thread that it names
	// itself: a start of a service, whose polls and transcript tell of the same.
	Stream string
	// StreamPrefix comes before every stream, to keep what is played again apart.
	StreamPrefix string
}

// Report is what a reader found beside the records.
type Report struct {
	Events    int // JSON objects
	Skipped   int // lines that are no JSON object, blank ones not counted
	Oversized int // lines over MaxLine
	Rejected  int // numbers that are no counts and no amounts
	Turns     int // turns that came to an end
	Warnings  int // errors that the source went on after

	Session string // session or thread
	Model   string // the last one that was named
	Ended   bool   // what ends a source of this format was there and nothing came after it
	Failed  string // the error that the source ended with

	// TranscriptLost: the agent says that its transcript lost lines.
	TranscriptLost bool
	// Incomplete says, once each, why the figures may be too low.
	Incomplete []string
}

// maxReasons bounds Report.Incomplete.
const maxReasons = 16

// parser reads the events of one format.
type parser interface {
	// event takes a JSON object, as bytes that hold until it returns. It gives
	// false when it is none after all.
	event(b []byte) bool
	// close notes what is missing at the end.
	close()
}

// Reader reads one source. Feed it lines as they come and book what Line gives;
// Close tells what only the end can tell.
type Reader struct {
	src      Source
	framing  framing
	provider string
	p        parser
	join     joiner
	out      *window
	rep      Report
	done     func() // what [DONE] of a stream tells the parser, or nil
	sums     bool   // a lost line is lost usage: all lines are summed up
	lost     int    // such lines
	totals   map[string]run.UsageRecord
	ordinal  int
}

// NewReader makes a reader.
func NewReader(src Source) (*Reader, error) {
	if err := src.Format.Check(); err != nil {
		return nil, err
	}
	f := formats[src.Format]
	src.Model, src.Provider = model(src.Model), name(src.Provider)
	r := &Reader{src: src, framing: f.framing, provider: f.provider, out: newWindow(), totals: map[string]run.UsageRecord{}}
	if src.Provider != "" {
		r.provider = src.Provider
	}
	r.p = f.parser(r)
	return r, nil
}

// Line reads one line and gives the records that are new or have changed.
func (r *Reader) Line(b []byte) []run.UsageRecord {
	r.feed(b)
	return r.out.drain()
}

// Close gives the records that are left. Call it once, at the end.
func (r *Reader) Close() ([]run.UsageRecord, Report) {
	r.fileEnd()
	r.p.close()
	if r.lost > 0 {
		r.incomplete(strconv.Itoa(r.lost) + " lines could not be read")
		r.mark("lost", run.Partial)
	}
	if r.out.emitted == 0 && len(r.out.dirty) == 0 {
		r.incomplete("nothing says what was used")
		r.mark("unknown", run.UnknownProvenance)
	}
	return r.out.drain(), r.rep
}

// Report gives what is known of the source so far.
func (r *Reader) Report() Report { return r.rep }

// batch is how many changed requests Read hands over at once.
const batch = 512

// Read reads a whole file, or one of several that tell of the same source. book
// gets the records in batches, each request once per batch.
func (r *Reader) Read(ctx context.Context, src io.Reader, book func([]run.UsageRecord) error) error {
	in := newLines(src)
	for ctx.Err() == nil {
		line, over, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading usage: %w", err)
		}
		if over {
			r.tooLong()
		} else {
			r.feed(line)
		}
		if len(r.out.dirty) >= batch {
			if records := r.out.drain(); len(records) > 0 {
				if err := book(records); err != nil {
					return err
				}
			}
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	r.fileEnd()
	if records := r.out.drain(); len(records) > 0 {
		return book(records)
	}
	return nil
}

// fileEnd ends a document that was begun.
func (r *Reader) fileEnd() {
	if len(r.join.buf) > 0 {
		r.join.buf = nil
		r.skip()
	}
}

func (r *Reader) tooLong() {
	r.rep.Oversized++
	r.lose()
}

func (r *Reader) skip() {
	r.rep.Skipped++
	r.lose()
}

func (r *Reader) lose() {
	if r.sums {
		r.lost++
	}
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// feed reads one line.
func (r *Reader) feed(b []byte) {
	if len(b) > MaxLine {
		r.tooLong()
		return
	}
	b = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(b), byteOrderMark))
	if r.framing == sse || (r.framing == document && len(r.join.buf) == 0) {
		var ok bool
		if b, ok = r.data(b); !ok {
			return
		}
	}
	if len(b) == 0 {
		return
	}
	if r.framing == document {
		if len(r.join.buf) > 0 && request(b) { // the one before was torn
			r.fileEnd()
		}
		if len(r.join.buf) == 0 && b[0] != '{' {
			r.skip()
			return
		}
		doc, complete := r.join.add(b, MaxLine)
		if !complete {
			return
		}
		if doc == nil {
			r.tooLong()
			return
		}
		b = doc
	}
	if b[0] != '{' || !r.p.event(b) {
		r.skip()
		return
	}
	r.rep.Events++
}

// request tells whether a line is a document with usage by itself.
func request(b []byte) bool {
	var doc struct {
		Usage    json.RawMessage `json:"usage"`
		Metadata json.RawMessage `json:"usageMetadata"`
	}
	return decode(b, &doc) && (object(doc.Usage) || object(doc.Metadata))
}

// data takes the payload out of a line of an event stream; false: it has none.
func (r *Reader) data(b []byte) ([]byte, bool) {
	for _, field := range []string{":", "event:", "id:", "retry:"} {
		if bytes.HasPrefix(b, []byte(field)) {
			return nil, false
		}
	}
	b = bytes.TrimSpace(bytes.TrimPrefix(b, []byte("data:")))
	if string(b) == "[DONE]" {
		if r.done != nil {
			r.done()
		}
		return nil, false
	}
	return b, true
}

// next numbers what has no id of its own.
func (r *Reader) next() string {
	r.ordinal++
	return strconv.Itoa(r.ordinal)
}

// scoped makes a request key of an id that is unique within this source.
func (r *Reader) scoped(id string) string {
	if r.src.Scope == "" {
		return name(id)
	}
	return name(r.src.Scope + "/" + id)
}

// stream names this source for what is totalled under id; "" when nothing names it.
func (r *Reader) stream(kind, id string) string {
	base := r.src.Stream
	if base == "" {
		if id == "" {
			return ""
		}
		base = kind + "/" + id
	}
	return name(r.src.StreamPrefix + base)
}

// record makes a record of what was learnt of a request.
func (r *Reader) record(key string, m string, f figures, t run.Tokens, raw []byte) run.UsageRecord {
	if m = model(m); m == "" {
		m = r.src.Model
	}
	if m != "" {
		r.rep.Model = m
	}
	rec := run.UsageRecord{
		RequestKey: name(key), Kind: run.ModelCall, At: r.src.At, Rank: run.FromResult, Provenance: run.Measured,
		Provider: r.provider, Model: m, Tokens: t, Raw: kept(raw),
	}
	if rec.At.IsZero() {
		rec.At = time.Now()
	}
	r.rep.Rejected += len(f.bad)
	switch {
	case !f.known:
		rec.Provenance = run.UnknownProvenance
		r.incomplete("a request without counts")
	case len(f.bad) > 0:
		rec.Provenance = run.Partial
		r.incomplete("no count of tokens: " + strings.Join(f.bad, ", "))
	case f.odd != "":
		rec.Provenance = run.Partial
		r.incomplete(f.odd)
	}
	return rec
}

// cost notes what the agent says that a request cost. Agents that do not know a
// price say 0: that is no cost.
func (r *Reader) cost(rec *run.UsageRecord, m money) {
	switch {
	case m.bad:
		r.rep.Rejected++
	case m.set && (m.nano > 0 || rec.Tokens == run.Tokens{}):
		rec.CostNanoUSD, rec.CostSource = &m.nano, run.AgentReported
	}
}

// total puts a record whose counts and cost are running totals of its stream.
// Without a stream that holds over runs it is made a difference here.
func (r *Reader) total(rec run.UsageRecord, within string) {
	if rec.Stream != "" {
		rec.Cumulative = true
		r.out.put(rec)
		return
	}
	before, total := r.totals[within], rec
	t, b := &rec.Tokens, before.Tokens
	if t.Max(b) == *t {
		*t = run.Tokens{
			Input: t.Input - b.Input, CacheRead: t.CacheRead - b.CacheRead, CacheWriteShort: t.CacheWriteShort - b.CacheWriteShort,
			CacheWriteLong: t.CacheWriteLong - b.CacheWriteLong, Output: t.Output - b.Output, Reasoning: t.Reasoning - b.Reasoning,
		}
		if rec.CostNanoUSD != nil && before.CostNanoUSD != nil {
			rise := max(*rec.CostNanoUSD-*before.CostNanoUSD, 0)
			rec.CostNanoUSD = &rise
		}
		for tool, n := range before.ToolCalls {
			if rise := rec.ToolCalls[tool] - n; rise >= 0 {
				calls := maxCalls(nil, rec.ToolCalls)
				calls[tool] = rise
				rec.ToolCalls = calls
			}
		}
	}
	if len(r.totals) < windowSize {
		r.totals[within] = total
	}
	r.out.put(rec)
}

// mark puts a record without counts that says how much is known.
func (r *Reader) mark(what string, p run.Provenance) {
	rec := r.out.last
	rec.RequestKey, rec.Provenance = r.scoped(what), p
	rec.Tokens, rec.ToolCalls, rec.CostNanoUSD, rec.CostSource, rec.Cumulative, rec.Raw = run.Tokens{}, nil, nil, "", false, nil
	if rec.Kind == "" { // nothing was read
		rec = r.record(rec.RequestKey, r.rep.Model, figures{}, run.Tokens{}, nil)
		rec.Provenance, rec.Rank = p, run.FromEstimate
	}
	r.out.put(rec)
}

// incomplete notes why figures may be too low.
func (r *Reader) incomplete(why string) {
	why = clip(why, maxText)
	for _, known := range r.rep.Incomplete {
		if known == why {
			return
		}
	}
	if len(r.rep.Incomplete) < maxReasons {
		r.rep.Incomplete = append(r.rep.Incomplete, why)
	}
}
