package store

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

// rejected says which batches of a group were refused, and why. The others are
// tried again without them.
type rejected map[*op]error

func (rejected) Error() string { return "some changes of the group were refused" }

// pointsError is a failure that the metric points caused.
type pointsError struct{ err error }

func (e *pointsError) Error() string { return e.err.Error() }
func (e *pointsError) Unwrap() error { return e.err }

// writeGroup commits batches in one transaction. One that is refused or cannot
// be stored does not fail the others; while the database is gone, all of them
// wait, in their order.
func (w *writer) writeGroup(ops []*op) {
	for attempt := 0; len(ops) > 0; attempt++ {
		t, err := w.transact(func(t *tx) error { return w.apply(t, ops) })
		if err == nil {
			w.s.publish(t.events, t.changed)
			for _, o := range ops {
				w.finish(o, nil)
			}
			return
		}
		var refused rejected
		if errors.As(err, &refused) {
			kept := ops[:0]
			for _, o := range ops {
				if why, ok := refused[o]; ok {
					w.finish(o, why)
				} else {
					kept = append(kept, o)
				}
			}
			ops = kept
			continue
		}
		if classify(err).retry() {
			if !w.pause(attempt, err) {
				for _, o := range ops {
					w.finish(o, unavailable(err))
				}
				return
			}
			continue
		}
		if len(ops) > 1 {
			half := len(ops) / 2
			w.writeGroup(ops[:half:half])
			w.writeGroup(ops[half:])
			return
		}
		var pe *pointsError
		if errors.As(err, &pe) && w.dropBadPoints(ops[0].batch, pe.err) {
			continue
		}
		w.finish(ops[0], fmt.Errorf("storing a batch of session %s: %w", ops[0].batch.Session, err))
		return
	}
}

// facts are the rows that decide whether batches may be applied, read under the
// locks of their sessions and kept up to date while the group is checked.
type facts struct {
	runs      map[run.ID]*runFact
	questions map[string]run.QuestionState
	streams   streams
}

type runFact struct {
	session run.SessionID
	status  run.Status
	token   int64
	attempt int
	ended   bool
	agent   string
	stage   string
}

// apply writes a group in the transaction.
func (w *writer) apply(t *tx, ops []*op) error {
	wants := w.wants(ops)
	sessions, err := t.d.reserve(t, wants)
	if err != nil {
		return err
	}
	f, err := w.facts(t, ops)
	if err != nil {
		return err
	}
	refused := rejected{}
	for _, o := range ops {
		if _, ok := sessions[o.batch.Session]; !ok {
			refused[o] = run.Errorf(run.NotFound, "there is no session %q (any more)", o.batch.Session)
		} else if err := f.check(o.batch); err != nil {
			refused[o] = err
		}
	}
	if len(refused) > 0 {
		return refused
	}
	if err := w.book(t, ops, wants, sessions, f); err != nil {
		return err
	}
	if err := w.number(t, ops, wants, sessions); err != nil {
		return err
	}
	if err := w.applyPoints(t, ops, sessions, f); err != nil {
		return err
	}
	for _, o := range ops {
		if err := w.applyRows(t, o.batch); err != nil {
			return err
		}
	}
	for _, want := range wants {
		w.noteFold(t, want, sessions[want.session])
	}
	return nil
}

// book books the usage of a group and takes the seqs of the events that tell of
// it: how many there are shows only then.
func (w *writer) book(t *tx, ops []*op, wants []reserve, sessions map[run.SessionID]reserved, f *facts) error {
	var err error
	if f.streams, err = t.lockStreams(ops); err != nil {
		return err
	}
	more, sums := map[run.SessionID]int{}, tallies{}
	for _, o := range ops {
		if err := w.bookUsage(t, o.batch, f, sums); err != nil {
			return err
		}
		more[o.batch.Session] += len(o.batch.booked)
	}
	if err := t.settle(sums, func(id run.ID) bool { return f.runs[id].ended }); err != nil {
		return err
	}
	if err := w.storePrices(t); err != nil {
		return err
	}
	for i := range wants {
		n := more[wants[i].session]
		if n == 0 {
			continue
		}
		again, err := t.d.reserve(t, []reserve{{session: wants[i].session, n: n, points: wants[i].points}})
		if err != nil {
			return err
		}
		sessions[wants[i].session] = again[wants[i].session]
		wants[i].n += n
	}
	return nil
}

// wants sums up what each session needs, sorted by session.
func (w *writer) wants(ops []*op) []reserve {
	at := make(map[run.SessionID]int, 4)
	var wants []reserve
	for _, o := range ops {
		i, ok := at[o.batch.Session]
		if !ok {
			i = len(wants)
			at[o.batch.Session] = i
			wants = append(wants, reserve{session: o.batch.Session})
		}
		wants[i].n += len(o.batch.events)
		wants[i].points = wants[i].points || len(o.batch.points) > 0
	}
	slices.SortFunc(wants, func(a, b reserve) int {
		if a.session < b.session {
			return -1
		}
		return 1
	})
	return wants
}

// facts reads the rows that the group's conditions are about.
func (w *writer) facts(t *tx, ops []*op) (*facts, error) {
	f := &facts{runs: map[run.ID]*runFact{}, questions: map[string]run.QuestionState{}}
	var ids []run.ID
	var questions []string
	need := func(id run.ID) {
		if id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, o := range ops {
		b := o.batch
		need(b.Fence.Run)
		if b.Update != nil {
			need(b.Update.Run)
		}
		for i := range b.Usage {
			need(b.Usage[i].Run)
		}
		for i := range b.points {
			if i == 0 || b.points[i].key.Run != b.points[i-1].key.Run {
				if _, known := w.attempts[b.points[i].key.Run]; !known {
					need(b.points[i].key.Run)
				}
			}
		}
		for _, q := range b.Questions {
			questions = append(questions, q.ID)
		}
	}
	if len(ids) > 0 {
		// Locked until the commit: whoever takes the run over has to wait, and
		// FOR SHARE is the weakest lock that makes it.
		slices.Sort(ids)
		err := t.query("reading runs", "SELECT id, session_id, status, token, attempt, ended_us IS NOT NULL, agent, stage FROM runs WHERE id IN (?) ORDER BY id"+t.d.forShare(), func(rows *sql.Rows) error {
			var id run.ID
			var r runFact
			if err := rows.Scan(&id, &r.session, &r.status, &r.token, &r.attempt, &r.ended, &r.agent, &r.stage); err != nil {
				return err
			}
			f.runs[id] = &r
			return nil
		}, bun.List(ids))
		if err != nil {
			return nil, err
		}
	}
	if len(questions) > 0 {
		err := t.query("reading questions", "SELECT id, state FROM questions WHERE id IN (?)", func(rows *sql.Rows) error {
			var id string
			var state run.QuestionState
			if err := rows.Scan(&id, &state); err != nil {
				return err
			}
			f.questions[id] = state
			return nil
		}, bun.List(questions))
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

// check tells whether a batch may be applied, and applies it to the facts.
func (f *facts) check(b *prepared) error {
	if b.Fence.Run != "" {
		r := f.runs[b.Fence.Run]
		if r == nil || r.token != b.Fence.Token {
			return run.ErrFenced
		}
		if r.session != b.Session {
			return run.Errorf(run.Invalid, "run %s is not of session %s", b.Fence.Run, b.Session)
		}
	}
	for i := range b.Usage {
		if r := f.runs[b.Usage[i].Run]; r == nil || r.session != b.Session {
			return run.Errorf(run.Invalid, "the usage record %q is of run %q, which is not in session %s", b.Usage[i].RequestKey, b.Usage[i].Run, b.Session)
		}
	}
	for _, q := range b.Questions {
		if state, known := f.questions[q.ID]; known && state != run.QuestionOpen {
			return run.ErrState
		}
	}
	if u := b.Update; u != nil {
		r := f.runs[u.Run]
		if r == nil || r.session != b.Session {
			return run.Errorf(run.NotFound, "there is no run %q in session %s", u.Run, b.Session)
		}
		if !slices.Contains(u.From, r.status) {
			return run.ErrState
		}
		if u.To != nil {
			r.status = u.To.Status
			r.ended = u.To.Status.Final()
		}
	}
	for _, q := range b.Questions {
		f.questions[q.ID] = q.State
	}
	return nil
}

// number gives the events their seqs and inserts them.
func (w *writer) number(t *tx, ops []*op, wants []reserve, sessions map[run.SessionID]reserved) error {
	next := make(map[run.SessionID]int64, len(wants))
	for _, want := range wants {
		next[want.session] = sessions[want.session].last - int64(want.n) + 1
	}
	n := 0
	for _, o := range ops {
		n += len(o.batch.events) + len(o.batch.booked)
	}
	rows := make([]eventRow, 0, n)
	now := timeOf(t.now)
	for _, o := range ops {
		b := o.batch
		seq := next[b.Session]
		for i, e := range b.events {
			if b.zeroAt[i] {
				e.At = now
			}
		}
		for _, e := range b.log() {
			e.Seq = seq
			seq++
			rows = append(rows, eventRow{sid: sessions[b.Session].sid, seq: e.Seq, atUS: e.At.UnixMicro(), kind: e.Type.Code(), e: e})
			t.events = append(t.events, e)
		}
		next[b.Session] = seq
	}
	t.after = append(t.after, func() { w.s.stats.events.Add(int64(len(rows))) })
	return t.d.insertEvents(t, rows)
}

// appendEvents is number for a transaction with logic: it takes seqs of one
// session for drafts and inserts them.
func (w *writer) appendEvents(t *tx, session run.SessionID, drafts ...run.Draft) error {
	if len(drafts) == 0 {
		return nil
	}
	b := &prepared{Batch: run.Batch{Session: session}}
	for _, d := range drafts {
		if d.At.IsZero() {
			d.At = time.UnixMicro(t.now)
		}
		e, err := newEvent(session, d)
		if err != nil {
			return err
		}
		b.events, b.zeroAt = append(b.events, e), append(b.zeroAt, false)
	}
	wants := []reserve{{session: session, n: len(b.events)}}
	sessions, err := t.d.reserve(t, wants)
	if err != nil {
		return err
	}
	if _, ok := sessions[session]; !ok {
		return noSession(session)
	}
	if err := w.number(t, []*op{{batch: b}}, wants, sessions); err != nil {
		return err
	}
	w.noteFold(t, wants[0], sessions[session])
	return nil
}

func noSession(id run.SessionID) error {
	return run.Errorf(run.NotFound, "there is no session %q", id)
}

func noRun(id run.ID) error { return run.Errorf(run.NotFound, "there is no run %q", id) }
