package store

import (
	"context"

	"github.com/weirhq/weir/runtime/run"
)

// RequestAbort writes the durable intent to stop a run and its open
// descendants; a queued run is closed at once. The first intent of a run stays.
func (s *Store) RequestAbort(ctx context.Context, a run.AbortRequest) (run.AbortResult, error) {
	var out run.AbortResult
	err := s.w.do(ctx, &op{logic: func(t *tx) error {
		out = run.AbortResult{}
		if a.At.IsZero() {
			a.At = timeOf(t.now)
		}
		r, err := t.run(a.Run)
		if err != nil {
			return err
		}
		switch {
		case r.State.Status.Final():
			out.Run, out.Ended = r, true
			return nil
		case r.State.Status == run.Queued:
			if err := s.w.closeQueued(t, r, a); err != nil {
				return err
			}
		default:
			if out.Open, err = s.w.markTree(t, r, a); err != nil {
				return err
			}
		}
		now, err := t.runs("reading a run again", "id = ?", string(a.Run))
		if err != nil {
			return err
		}
		out.Run = now[0]
		return nil
	}})
	if err != nil {
		return run.AbortResult{}, err
	}
	return out, nil
}

// closeQueued ends a run that never began. It changes the session's state only
// when no other run holds the slot.
func (w *writer) closeQueued(t *tx, r run.Run, a run.AbortRequest) error {
	to, err := run.Next(r.State, a.Trigger)
	if err != nil {
		return run.ErrState
	}
	n, err := t.exec("closing a queued run", "UPDATE runs SET status = ?, reason = ?, ended_us = ?, abort_requested_us = ?, abort_outcome = ?, abort_silent = ?, abort_trigger = ?, abort_reason = ? WHERE id = ? AND status = 'QUEUED'",
		string(to.Status), string(to.Reason), t.now, micros(a.At), string(run.AbortStopped), a.Silent, string(a.Trigger), clean(a.Reason), string(r.ID))
	if err != nil {
		return err
	}
	if n != 1 {
		return run.ErrState
	}
	t.touch(r.ID)
	if err := t.markRollup(r.ID); err != nil {
		return err
	}
	now := timeOf(t.now)
	var drafts []run.Draft
	if !a.Silent {
		drafts = append(drafts, run.DraftOf(r, now, &run.AbortRequested{Reason: a.Reason}), run.DraftOf(r, now, &run.AgentAborted{Reason: a.Reason}))
		busy, err := t.exists("looking for a live run", "SELECT 1 FROM runs WHERE session_id = ? AND parent_id = '' AND status IN ('RUNNING', 'WAITING')", string(r.Session))
		if err != nil {
			return err
		}
		if !busy && r.Parent == "" {
			drafts = append(drafts, run.DraftOf(r, now, &run.StateChanged{State: stateCancelled, Status: to.Status}))
			if _, err := t.exec("setting the session's state", "UPDATE sessions SET state = ? WHERE id = ?", stateCancelled, string(r.Session)); err != nil {
				return err
			}
		}
	}
	drafts = append(drafts, run.DraftOf(r, now, &run.RunEnded{Status: to.Status, ExitReason: to.Reason}))
	return w.appendEvents(t, r.Session, drafts...)
}

const stateCancelled = "cancelled"

// markTree writes the intent into a live run and all its live descendants, which
// it gives, and says so in the log unless it is silent.
func (w *writer) markTree(t *tx, root run.Run, a run.AbortRequest) ([]run.Run, error) {
	tree, err := t.runs("reading a run's descendants", "id IN ("+treeOf+") AND status IN ('RUNNING', 'WAITING')", string(root.ID))
	if err != nil {
		return nil, err
	}
	var drafts []run.Draft
	for i := range tree {
		r := &tree[i]
		if r.Abort != nil {
			continue
		}
		n, err := t.exec("writing the intent to stop", "UPDATE runs SET abort_requested_us = ?, abort_outcome = ?, abort_silent = ?, abort_trigger = ?, abort_reason = ? WHERE id = ? AND abort_requested_us = 0 AND status IN ('RUNNING', 'WAITING')",
			micros(a.At), string(run.AbortPending), a.Silent, string(a.Trigger), clean(a.Reason), string(r.ID))
		if err != nil {
			return nil, err
		}
		if n != 1 {
			return nil, run.ErrState
		}
		r.Abort = &run.Receipt{Run: r.ID, RequestedAt: timeOf(micros(a.At)), Outcome: run.AbortPending, Silent: a.Silent, Trigger: a.Trigger, Reason: clean(a.Reason)}
		t.touch(r.ID)
		if !a.Silent {
			drafts = append(drafts, run.DraftOf(*r, timeOf(t.now), &run.AbortRequested{Reason: a.Reason}))
		}
	}
	return tree, w.appendEvents(t, root.Session, drafts...)
}

// treeOf gives the ids of a run and of everything it delegated to.
const treeOf = "WITH RECURSIVE tree (id) AS (SELECT id FROM runs WHERE id = ? UNION ALL SELECT c.id FROM runs c JOIN tree ON c.parent_id = tree.id WHERE c.parent_id <> '') SELECT id FROM tree"

// Answer closes an open question.
func (s *Store) Answer(ctx context.Context, id string, answer []byte) (run.Question, error) {
	var out run.Question
	err := s.w.do(ctx, &op{size: int64(len(answer)) + 512, logic: func(t *tx) error {
		q, err := t.question(id)
		if err != nil {
			return err
		}
		r, err := t.run(q.Run) // locks the session
		if err != nil {
			return err
		}
		if q, err = t.question(id); err != nil { // again, under the lock
			return err
		}
		if q.State != run.QuestionOpen {
			return run.Errorf(run.Conflict, "question %s is not open any more: it is %s", id, q.State)
		}
		q.State, q.Answer, q.AnsweredAt = run.QuestionIsAnswered, rawJSON(cleanJSON(answer)), timeOf(t.now)
		n, err := t.exec("answering a question", "UPDATE questions SET state = ?, answer = ?, answered_us = ? WHERE id = ? AND state = ?",
			string(q.State), string(q.Answer), t.now, id, string(run.QuestionOpen))
		if err != nil {
			return err
		}
		if n != 1 {
			return run.ErrState
		}
		t.touch(r.ID)
		out = q
		return s.w.appendEvents(t, q.Session, run.DraftOf(r, q.AnsweredAt, &run.QuestionAnswered{QuestionID: id, Outcome: q.State, Answer: q.Answer}))
	}})
	if err != nil {
		return run.Question{}, err
	}
	return out, nil
}

func (t *tx) question(id string) (run.Question, error) {
	var rows []questionRow
	if err := t.models("reading a question", t.conn.NewSelect().Model(&rows).Where("id = ?", id)); err != nil {
		return run.Question{}, err
	}
	if len(rows) == 0 {
		return run.Question{}, run.Errorf(run.NotFound, "there is no question %q", id)
	}
	return rows[0].question(), nil
}
