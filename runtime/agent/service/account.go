package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

// batch is how many calls of a transcript are booked at once.
const batch = 500

// Transcripts finds what agents have written down of their model calls.
type Transcripts interface {
	// Open begins to read what an agent writes down since then; earlier calls are
	// another run's.
	Open(t agent.Transcript, since time.Time) (Reading, error)
}

// Reading is the reading of one transcript. It reads on where it has stopped.
type Reading interface {
	// Read gives a record for each model call that stands in the transcript by now,
	// under the call's own key. What is not there gives none. It opens regular files
	// below root only, and stops soon when ctx ends. An error may come with the records
	// that could be read. last: no more will come, so a line without an end counts.
	Read(ctx context.Context, root *os.Root, last bool) ([]run.UsageRecord, error)
}

// call is what a record of a call says.
type call struct {
	tokens     run.Tokens
	provenance run.Provenance
}

func callOf(u run.UsageRecord) call { return call{u.Tokens, u.Provenance} }

// account is what is known of the usage of one service from its start to its end.
// One look is taken at a time; whoever has the turn owns the fields below it.
type account struct {
	run         run.Run
	id          run.ExecutionID
	end         *endpoint
	service     agent.Service
	root        *os.Root
	transcripts Transcripts

	now   func() time.Time
	since time.Time // when it was started

	live    context.Context // of the looks while it works
	endLive context.CancelCauseFunc

	turn     chan struct{}   // holds one token: whose turn it is
	best     answer          // the largest count of each kind that was polled
	days     []day           // what of it is not booked to the end; the last one may still rise
	reading  Reading         // of the transcript; nil until it is opened
	written  map[string]call // what was booked from it
	answered bool            // the last poll, before the first signal, gave counts
	warned   bool
}

func newAccount(ctx context.Context, id run.ExecutionID, r run.Run, e *endpoint, c agent.Service, root *os.Root, d Driver) *account {
	a := &account{
		run: r, id: id, end: e, service: c, root: root, transcripts: d.transcripts, now: d.now,
		turn: make(chan struct{}, 1), since: d.now(), written: make(map[string]call),
	}
	a.live, a.endLive = context.WithCancelCause(ctx)
	a.turn <- struct{}{}
	return a
}

func (a *account) close() { a.endLive(errOver) }

// begin takes the turn; the other ends it.
func (a *account) begin(ctx context.Context) error {
	select {
	case <-a.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *account) done() { a.turn <- struct{}{} }

// look books what the service has used by now. Its error is why the endpoint
// gave nothing.
func (a *account) look(ctx context.Context, h agent.Host) error {
	if a.live.Err() != nil {
		return nil // it has ended, and nobody answers
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errOver)
	defer context.AfterFunc(a.live, func() { cancel(context.Cause(a.live)) })()
	if err := a.begin(ctx); err != nil {
		return err
	}
	defer a.done()
	got, err := a.poll(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && !a.warned {
		a.warned = true
		if err := h.Emit(ctx, &run.Warning{Text: a.words(err)}); err != nil {
			return err
		}
	}
	if err == nil && !got.zero() && len(a.written) == 0 {
		return a.bookPolled(ctx, h)
	}
	return errors.Join(err, a.bookTranscript(ctx, h))
}

// bookTranscript books what stands in the transcript while the service works,
// as far as it is no less than what was polled.
func (a *account) bookTranscript(ctx context.Context, h agent.Host) error {
	list, err := a.read(ctx, false) // an agent may be writing a line: the end tells
	if ctx.Err() != nil || a.missing(list) != (run.Tokens{}) {
		return err // the rest is settled at the end
	}
	for part := range slices.Chunk(a.unwritten(list), batch) { // a look that is cut off loses no more than one
		if err := h.Usage(ctx, part...); err != nil {
			return err
		}
		for _, u := range part {
			a.written[u.RequestKey] = callOf(u)
		}
	}
	return err
}

// unwritten gives the calls that are not booked, or not as they stand there now.
func (a *account) unwritten(list []run.UsageRecord) []run.UsageRecord {
	var out []run.UsageRecord
	for _, u := range list {
		if known, ok := a.written[u.RequestKey]; !ok || known != callOf(u) {
			out = append(out, u)
		}
	}
	return out
}

// poll asks the endpoint and remembers the largest counts: a total of one start
// never goes back.
func (a *account) poll(ctx context.Context) (answer, error) {
	at := a.now()
	body, err := a.end.get(ctx, a.service.UsagePath)
	if err != nil {
		return answer{}, err
	}
	got, err := parse(body)
	if err != nil {
		return answer{}, err
	}
	before := a.best.tokens
	a.best = answer{
		tokens: before.Max(got.tokens), turns: max(a.best.turns, got.turns), toolCalls: max(a.best.toolCalls, got.toolCalls),
		model: cmp.Or(got.model, a.best.model),
	}
	a.rise(before, at)
	return got, nil
}

func (a *account) words(err error) string {
	return fmt.Sprintf("The usage of agent %s could not be read from %s on %s: %v. This is said once; look at what it answers there", a.run.Agent, a.service.UsagePath, a.end, err)
}

// read gives the calls of this run from the transcript.
func (a *account) read(ctx context.Context, last bool) ([]run.UsageRecord, error) {
	if a.service.Transcript == nil {
		return nil, nil
	}
	if a.reading == nil {
		var err error
		if a.reading, err = a.transcripts.Open(*a.service.Transcript, a.since); err != nil {
			return nil, err
		}
	}
	list, err := a.reading.Read(ctx, a.root, last)
	for i := range list {
		u := &list[i]
		u.Stream, u.Rank = a.stream(), run.FromTranscript
		if known, ok := a.written[u.RequestKey]; ok && known == callOf(*u) {
			u.Raw = nil // the store has it: a reading holds many calls for long
		}
	}
	return list, err
}

// missing is what was polled and does not stand in the transcript. Endpoints do
// not part cache writes by how long they last.
func (a *account) missing(list []run.UsageRecord) run.Tokens {
	var sum run.Tokens
	for _, u := range list {
		sum = sum.Add(u.Tokens)
	}
	best := a.best.tokens
	return run.Tokens{
		Input: max(0, best.Input-sum.Input), Output: max(0, best.Output-sum.Output), CacheRead: max(0, best.CacheRead-sum.CacheRead),
		CacheWriteShort: max(0, best.CacheWriteShort-sum.CacheWriteShort-sum.CacheWriteLong),
	}
}

func (a *account) stream() string { return "service/" + string(a.id) }
func (a *account) key() string    { return "status/" + string(a.id) }

// record is one of this service, without counts.
func (a *account) record(key string, rank run.SourceRank, p run.Provenance) run.UsageRecord {
	u := run.UsageRecord{
		RequestKey: key, Kind: run.ModelCall, At: a.now(), Stream: a.stream(), Rank: rank, Provenance: p,
		Provider: a.run.Provider, Model: a.run.Model,
	}
	if u.Model == "" {
		u.Model = a.best.model
	}
	return u
}

// stopping is the last poll, before the first signal.
func (a *account) stopping(ctx context.Context) (s agent.Settlement) {
	a.endLive(errOver)
	if err := a.begin(ctx); err != nil {
		s.Warnings = append(s.Warnings, fmt.Sprintf("The usage of agent %s could not be asked for before it was stopped: an earlier look at it has not come back. What it used since then is missing, unless its transcript tells", a.run.Agent))
		return s
	}
	defer a.done()
	got, err := a.poll(ctx)
	switch {
	case err != nil && !a.warned:
		a.warned = true
		s.Warnings = append(s.Warnings, a.words(err))
	case err == nil && !got.zero():
		a.answered = true
		if len(a.written) == 0 {
			s.Usage = a.polled(run.Measured)
		}
	}
	return s
}

// final settles the account when the process is gone. The endpoint is not asked
// any more: what answers there now is not the service.
func (a *account) final(ctx context.Context) (s agent.Settlement) {
	a.endLive(errOver)
	if err := a.begin(ctx); err != nil {
		s.Warnings = append(s.Warnings, fmt.Sprintf("The last usage of agent %s could not be settled: an earlier look at it has not come back. The bill has what was booked before", a.run.Agent))
		return s
	}
	defer a.done()
	if a.answered && len(a.written) == 0 {
		return s
	}
	list, err := a.read(ctx, true)
	if err != nil {
		s.Warnings = append(s.Warnings, fmt.Sprintf("The transcript of agent %s could not be read, or not all of it: %v", a.run.Agent, err))
	}
	switch {
	case len(list) > 0:
		s.Usage = a.unwritten(list)
		// A record of its own says that something is missing: those of the calls may
		// have been booked while it worked, and what is measured stays so.
		if rest := a.missing(list); err != nil || rest != (run.Tokens{}) {
			u := a.record(a.key()+"/rest", run.FromTranscript, run.Partial)
			u.Tokens, u.Summed = rest, true
			s.Usage = append(s.Usage, u)
		}
	case !a.best.zero():
		s.Usage = a.polled(run.Partial) // once more: a look may have been cut off
	default:
		s.Usage = append(s.Usage, a.record(a.key(), run.FromEstimate, run.UnknownProvenance))
	}
	return s
}
