package store

import (
	"context"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

// Accept takes a new run in: see run.NewRun.
func (s *Store) Accept(ctx context.Context, n run.NewRun) (run.Acceptance, error) {
	if n.Run.ID == "" || n.Run.Session == "" {
		return run.Acceptance{}, run.Errorf(run.Invalid, "a run needs an id and a session")
	}
	var out run.Acceptance
	err := s.w.do(ctx, &op{size: int64(len(n.Run.Definition)+len(n.Run.Input.Code)+len(n.Run.Input.Prompt)) + 2048, logic: func(t *tx) error {
		out = run.Acceptance{} // an earlier try may have failed at its commit
		return s.w.accept(t, n, &out)
	}})
	if err != nil {
		return run.Acceptance{}, err
	}
	return out, nil
}

func (w *writer) accept(t *tx, n run.NewRun, out *run.Acceptance) error {
	if n.IdempotencyKey != "" {
		earlier, err := t.earlier(n)
		if err != nil || earlier != nil {
			if earlier != nil {
				out.Run, out.Repeated = *earlier, true
			}
			return err
		}
	}
	if n.NewSession != nil {
		if err := t.insertSession(*n.NewSession); err != nil {
			return err
		}
	} else if _, err := t.lockSession(n.Run.Session); err != nil {
		return err
	}
	r := n.Run
	r.Attempt = max(r.Attempt, 1)
	if r.CreatedAt.IsZero() {
		r.CreatedAt = timeOf(t.now)
	}
	if r.Parent != "" {
		return w.acceptChild(t, n, r, out)
	}
	stopping, err := w.makeRoom(t, n)
	if err != nil {
		return err
	}
	r.State = run.State{Status: run.Queued}
	r.Owner, r.Token = "", 0
	if err := t.insertRun(n, r); err != nil {
		return err
	}
	out.Run, out.Stopping = r, stopping
	return nil
}

// earlier finds the run of a known idempotency key.
func (t *tx) earlier(n run.NewRun) (*run.Run, error) {
	var rows []runRow
	if err := t.models("looking for an idempotency key", t.conn.NewSelect().Model(&rows).Where("team = ?", clean(n.Run.Team)).Where("idem_key = ?", clean(n.IdempotencyKey))); err != nil || len(rows) == 0 {
		return nil, err
	}
	if rows[0].IdemHash != n.PayloadHash {
		return nil, run.Errorf(run.Conflict, "the idempotency key %q was used for run %s with other input; use another key for another run", n.IdempotencyKey, rows[0].ID)
	}
	r, err := rows[0].run()
	return &r, err
}

func (t *tx) insertRun(n run.NewRun, r run.Run) error {
	row, err := rowOfRun(r)
	if err != nil {
		return err
	}
	if n.IdempotencyKey != "" {
		key := clean(n.IdempotencyKey)
		row.IdemKey, row.IdemHash = &key, n.PayloadHash
	}
	t.touch(r.ID)
	if err := t.insert("inserting a run", row); err != nil || r.Parent != "" {
		return err
	}
	_, err = t.exec("inserting what is searched", "INSERT INTO session_texts (session_id, run_id, text_fold) VALUES (?, ?, ?)",
		string(r.Session), string(r.ID), searchText(r))
	return err
}

// searchedRunes of a prompt are found by a search: a search reads all of them.
const searchedRunes = 1000

func searchText(r run.Run) string {
	prompt := clean(r.Input.Prompt)
	n := 0
	for i := range prompt {
		if n++; n > searchedRunes {
			prompt = prompt[:i]
			break
		}
	}
	return strings.ToLower(clean(r.Agent) + "\n" + prompt)
}

// acceptChild starts a child at once, in the hands of its parent's owner.
func (w *writer) acceptChild(t *tx, n run.NewRun, r run.Run, out *run.Acceptance) error {
	parents, err := t.runs("reading the parent run", "id = ?", string(r.Parent))
	if err != nil {
		return err
	}
	if len(parents) == 0 {
		return noRun(r.Parent)
	}
	parent := parents[0]
	if parent.Session != r.Session {
		return run.Errorf(run.Invalid, "the child run is of session %s, its parent %s of session %s", r.Session, parent.ID, parent.Session)
	}
	if !parent.State.Status.Live() || parent.Abort != nil {
		return run.ErrState
	}
	r.State = run.State{Status: run.Running}
	if r.Owner == "" {
		r.Owner = parent.Owner
	}
	r.Token = max(r.Token, 1)
	if r.StartedAt.IsZero() {
		r.StartedAt = timeOf(t.now)
	}
	if err := t.insertRun(n, r); err != nil {
		return err
	}
	out.Run = r
	return w.appendEvents(t, r.Session, started(r))
}

func started(r run.Run) run.Draft {
	return run.DraftOf(r, r.StartedAt, &run.RunStarted{Prompt: r.Input.Prompt, Parent: r.Parent, Driver: r.Driver, Model: r.Model, Attempt: r.Attempt})
}

// makeRoom applies OnBusy to the session's slot and gives the live runs that
// were asked to stop.
func (w *writer) makeRoom(t *tx, n run.NewRun) ([]run.Run, error) {
	open, err := t.runs("looking for open runs", "session_id = ? AND parent_id = '' AND status IN (?)", string(n.Run.Session), bun.List(openStatuses()))
	if err != nil || len(open) == 0 {
		return nil, err
	}
	switch n.OnBusy {
	case run.QueueBehind:
		return nil, nil
	case run.ReplaceCurrent:
	case run.Reject, "":
		return nil, run.Errorf(run.Busy, "session %s is busy with run %s (%s); wait for it, abort it, or say onBusy: QUEUE or REPLACE", n.Run.Session, open[0].ID, open[0].State.Status)
	default:
		return nil, run.Errorf(run.Invalid, "onBusy is %q; it can be REJECT, QUEUE or REPLACE", n.OnBusy)
	}
	var stopping []run.Run
	for _, r := range open {
		if r.State.Status == run.Queued {
			if err := w.closeQueued(t, r, run.AbortRequest{Run: r.ID, Silent: true, Trigger: run.Replace, At: timeOf(t.now)}); err != nil {
				return nil, err
			}
			continue
		}
		marked, err := w.markTree(t, r, run.AbortRequest{Run: r.ID, Silent: true, Trigger: run.Replace, At: timeOf(t.now)})
		if err != nil {
			return nil, err
		}
		stopping = append(stopping, marked...)
	}
	return stopping, nil
}

// Claim moves queued root runs to RUNNING: see engine.Store. Of several
// processes that claim at once, each run goes to one.
func (s *Store) Claim(ctx context.Context, owner string, n int) ([]run.Run, error) {
	if n <= 0 {
		return nil, nil
	}
	var out []run.Run
	err := s.w.do(ctx, &op{logic: func(t *tx) error {
		var err error
		out, err = s.w.claim(t, owner, n)
		return err
	}})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// claimable chooses the oldest queued run of each session whose slot is free,
// once its time has come. Until then it keeps its place before the others.
const claimable = `r.status = 'QUEUED' AND r.parent_id = '' AND r.not_before_us <= ?
 AND NOT EXISTS (SELECT 1 FROM runs l WHERE l.session_id = r.session_id AND l.parent_id = '' AND l.status IN ('RUNNING', 'WAITING'))
 AND NOT EXISTS (SELECT 1 FROM runs o WHERE o.session_id = r.session_id AND o.parent_id = '' AND o.status = 'QUEUED' AND (o.created_us, o.id) < (r.created_us, r.id))`

func (w *writer) claim(t *tx, owner string, n int) ([]run.Run, error) {
	var rows []runRow
	if err := t.models("looking for queued runs", t.conn.NewSelect().Model(&rows).Where(claimable, t.now).Order("r.created_us", "r.id").Limit(n)); err != nil {
		return nil, err
	}
	found, err := toRuns(rows)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b run.Run) int { // the order of all locks
		if a.Session < b.Session {
			return -1
		}
		return 1
	})
	var out []run.Run
	for _, r := range found {
		if _, err := t.lockSession(r.Session); err != nil {
			if run.CodeOf(err) == run.NotFound {
				continue
			}
			return nil, err
		}
		// The choice is made again under the lock: another process may have claimed.
		changed, err := t.exec("claiming a run", "UPDATE runs AS r SET status = 'RUNNING', owner = ?, token = token + 1, started_us = ? WHERE r.id = ? AND "+claimable, clean(owner), t.now, string(r.ID), t.now)
		if err != nil {
			return nil, err
		}
		if changed == 0 {
			continue
		}
		r.State = run.State{Status: run.Running}
		r.Owner, r.Token, r.StartedAt = owner, r.Token+1, timeOf(t.now)
		if err := w.appendEvents(t, r.Session, started(r)); err != nil {
			return nil, err
		}
		t.touch(r.ID)
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b run.Run) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return out, nil
}
