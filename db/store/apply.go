package store

import (
	"reflect"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

// applyRows writes the rows of a batch beside its events and points. The facts
// were checked before, under the locks that are still held.
func (w *writer) applyRows(t *tx, b *prepared) error {
	for i := range b.Executions {
		row, err := rowOfExecution(b.Executions[i])
		if err != nil {
			return err
		}
		if err := t.upsert("storing an execution", row, "id"); err != nil {
			return err
		}
	}
	for i := range b.Artifacts {
		a := &b.Artifacts[i]
		row := &artifactRow{Run: string(a.Run), Path: clean(a.Path), Session: string(b.Session), Kind: clean(a.Kind), Size: a.Size, SHA256: clean(a.SHA256), ModifiedUS: micros(a.Modified)}
		if err := t.upsert("storing an artifact", row, "run_id, path"); err != nil {
			return err
		}
	}
	for i := range b.Questions {
		q := b.Questions[i]
		q.Session = b.Session
		if err := t.upsert("storing a question", rowOfQuestion(q), "id"); err != nil {
			return err
		}
	}
	if b.Update != nil {
		if err := t.applyUpdate(b); err != nil {
			return err
		}
	}
	if b.Successor != nil {
		// Who asked for the end of this run, or for its slot, asked for no other attempt.
		asked, err := t.exists("looking for an intent to stop", "SELECT 1 FROM runs WHERE id = ? AND abort_requested_us <> 0", string(b.Fence.Run))
		if err != nil || asked {
			return err
		}
		r := *b.Successor
		r.Session, r.Parent, r.Owner, r.Token = b.Session, "", "", 0
		r.State = run.State{Status: run.Queued}
		return t.insertRun(run.NewRun{}, r)
	}
	return nil
}

func typeOf(model any) reflect.Type { return reflect.TypeOf(model).Elem() }

// upsert inserts a model or replaces the row with the same key.
func (t *tx) upsert(name string, model any, key string) error {
	return t.step(name, func() error {
		q := t.conn.NewInsert().Model(model).On("CONFLICT (" + key + ") DO UPDATE")
		for _, field := range t.conn.Dialect().Tables().Get(typeOf(model)).DataFields {
			q = q.Set("? = excluded.?", field.SQLName, field.SQLName)
		}
		_, err := q.Exec(t.ctx)
		return err
	})
}

// applyUpdate changes the run's row. The old state stands in the WHERE clause as
// well as in the facts, so that even a change that took no lock cannot be lost.
func (t *tx) applyUpdate(b *prepared) error {
	u := b.Update
	q := t.conn.NewUpdate().Table("runs").Where("id = ?", string(u.Run)).Where("status IN (?)", bun.List(u.From))
	set := false
	with := func(query string, args ...any) {
		q, set = q.Set(query, args...), true
	}
	if u.To != nil {
		with("status = ?", string(u.To.Status))
		with("reason = ?", string(u.To.Reason))
		if u.To.Status.Final() {
			ended := micros(u.EndedAt)
			if ended == 0 {
				ended = t.now
			}
			with("ended_us = ?", ended)
		}
	}
	if u.Error != nil {
		with("error = ?", clean(*u.Error))
	}
	if u.Result != nil {
		with("result = ?", clean(*u.Result))
	}
	if r := u.Receipt; r != nil {
		with("abort_signalled_us = ?", micros(r.SignalledAt))
		with("abort_process_gone_us = ?", micros(r.ProcessGoneAt))
		with("abort_sandbox_gone_us = ?", micros(r.SandboxGoneAt))
		with("abort_survivors = ?", survivorsJSON(r.Survivors))
		with("abort_outcome = ?", string(r.Outcome))
	}
	if set {
		err := t.step("updating a run", func() error {
			res, err := q.Exec(t.ctx)
			if err != nil {
				return err
			}
			if n, err := res.RowsAffected(); err != nil || n != 1 {
				return run.ErrState
			}
			return nil
		})
		if err != nil {
			return err
		}
		t.touch(u.Run)
	}
	if u.SessionTo != nil {
		if _, err := t.exec("setting the session's state", "UPDATE sessions SET state = ? WHERE id = ?", clean(*u.SessionTo), string(b.Session)); err != nil {
			return err
		}
	}
	if u.To != nil && u.To.Status.Final() {
		return t.markRollup(u.Run)
	}
	return nil
}

// markRollup makes the sweep count a closed run (again). Marks are only ever
// added here and deleted by the sweep: one that is made while a sweep runs
// survives it.
func (t *tx) markRollup(id run.ID) error {
	_, err := t.exec("marking a rollup", "INSERT INTO rollup_dirty (day, agent, team) SELECT day, agent, team FROM runs WHERE id = ? AND ended_us IS NOT NULL", string(id))
	return err
}
