package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// askState keeps a run WAITING exactly while it waits for answers.
type askState struct {
	mu      sync.Mutex
	waiting bool // the row says WAITING
	open    int  // questions waited for
	any     bool // the run or a descendant has asked; of the root run
}

// Ask implements agent.Host.
func (h *host) Ask(ctx context.Context, key, text string, schema json.RawMessage) (json.RawMessage, error) {
	if err := h.gone(ctx); err != nil {
		return nil, err
	}
	switch {
	case key == "":
		return nil, run.Errorf(run.Invalid, "a question has no key")
	case len(schema) > 0 && !json.Valid(schema):
		return nil, run.Errorf(run.Invalid, "the schema of question %q is not JSON", key)
	}
	if err := checkText("question", text, maxInput); err != nil {
		return nil, err
	}
	ctx, release := h.both(ctx)
	defer release()
	return h.s.ask(ctx, key, text, schema)
}

func (s *supervisor) ask(ctx context.Context, key, text string, schema json.RawMessage) (json.RawMessage, error) {
	s.root().noteAsked()
	q, known, err := s.question(ctx, key)
	if err != nil {
		return nil, err
	}
	if !known {
		q = run.Question{
			ID: run.NewKey("qst"), Run: s.run.ID, Session: s.run.Session, Key: key, Text: text,
			Schema: schema, AskedAt: time.Now(), State: run.QuestionOpen,
		}
	}
	answered := s.e.expectAnswer(q.ID)
	defer s.e.forgetAnswer(q.ID)
	if err := s.wait(q, known); err != nil {
		return nil, err
	}
	for q.State == run.QuestionOpen {
		if q, err = s.pause(ctx, key, answered); err != nil {
			break
		}
	}
	if e := s.resume(); err == nil {
		err = e
	}
	switch {
	case err != nil:
		return nil, err
	case q.State == run.QuestionIsAnswered:
		return q.Answer, nil
	}
	return nil, fmt.Errorf("question %q was cancelled", key)
}

// question finds the question that the run has asked under key.
func (s *supervisor) question(ctx context.Context, key string) (run.Question, bool, error) {
	list, err := s.e.store.Questions(ctx, s.run.ID)
	if err != nil {
		return run.Question{}, false, fmt.Errorf("loading the questions of run %s: %w", s.run.ID, err)
	}
	for _, q := range list {
		if q.Key == key {
			return q, true, nil
		}
	}
	return run.Question{}, false, nil
}

// wait opens the question, unless it is known, and says that the run is WAITING.
// It takes no context: what the row says must be known here.
func (s *supervisor) wait(q run.Question, known bool) error {
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	x := entry{}
	if !known {
		x.questions = []run.Question{q}
		x.drafts = []run.Draft{s.draft(&run.QuestionAsked{QuestionID: q.ID, Text: q.Text, Schema: q.Schema})}
	}
	if !s.asked.waiting && q.State == run.QuestionOpen {
		to, err := run.Next(run.State{Status: run.Running}, run.Ask)
		if err != nil {
			return err
		}
		x.update = &run.Update{Run: s.run.ID, From: []run.Status{run.Running}, To: &to}
	}
	if !x.empty() {
		if err := s.emit.commit(s.e.write, x); err != nil {
			return err
		}
	}
	s.asked.waiting = s.asked.waiting || x.update != nil
	s.asked.open++
	s.parked.Store(s.asked.waiting)
	s.e.nudge()
	return nil
}

// resume says that the run is RUNNING again once nothing is waited for.
func (s *supervisor) resume() error {
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	s.asked.open--
	if !s.asked.waiting || s.asked.open > 0 || context.Cause(s.ctx) != nil {
		return nil
	}
	to, err := run.Next(run.State{Status: run.Waiting}, run.Resume)
	if err != nil {
		return err
	}
	err = s.emit.commit(s.e.write, entry{update: &run.Update{Run: s.run.ID, From: []run.Status{run.Waiting}, To: &to}})
	if err != nil && !errors.Is(err, run.ErrState) {
		return err
	}
	s.asked.waiting = false
	s.parked.Store(false)
	return nil
}

// pause waits for the answer, given here or on another replica.
func (s *supervisor) pause(ctx context.Context, key string, answered <-chan struct{}) (run.Question, error) {
	t := time.NewTimer(s.e.opts.Poll)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return run.Question{State: run.QuestionOpen}, context.Cause(ctx)
	case <-answered:
	case <-t.C:
	}
	q, known, err := s.question(ctx, key)
	if err == nil && !known {
		err = fmt.Errorf("question %q of run %s is gone", key, s.run.ID)
	}
	return q, err
}

// Answer answers an open question.
func (e *Engine) Answer(ctx context.Context, id string, answer json.RawMessage) (run.Question, error) {
	if err := checkID("qst", "question", id); err != nil {
		return run.Question{}, err
	}
	if len(answer) == 0 {
		answer = json.RawMessage("null")
	}
	if len(answer) > maxPayload {
		return run.Question{}, run.Errorf(run.Invalid, "the answer has %d bytes; at most %d are allowed", len(answer), maxPayload)
	}
	if !json.Valid(answer) {
		return run.Question{}, run.Errorf(run.Invalid, "the answer is not JSON: %q", clip(clean(string(answer), maxPayload), 60))
	}
	q, err := e.store.Answer(ctx, id, answer)
	if err != nil {
		return run.Question{}, fmt.Errorf("answering question %s: %w", id, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if ch, ok := e.answers[id]; ok {
		close(ch)
		delete(e.answers, id)
	}
	return q, nil
}

func (e *Engine) expectAnswer(id string) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	ch := make(chan struct{})
	e.answers[id] = ch
	return ch
}

func (e *Engine) forgetAnswer(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.answers, id)
}

func (s *supervisor) root() *supervisor {
	for s.parent != nil {
		s = s.parent
	}
	return s
}

func (s *supervisor) noteAsked() {
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	s.asked.any = true
}

// cancelQuestions gives the questions that the run and its descendants leave
// open, as cancelled, with what to say about them. Only a root run's end cancels
// questions (R10).
func (s *supervisor) cancelQuestions(ctx context.Context, now time.Time) (open []run.Question, drafts []run.Draft) {
	s.asked.mu.Lock()
	asked := s.asked.any
	s.asked.mu.Unlock()
	if !asked {
		return nil, nil
	}
	for after, more := "", true; more; {
		p, err := s.e.store.Runs(ctx, run.RunFilter{Session: s.run.Session}, run.PageQuery{First: 100, After: after})
		if err != nil {
			s.e.log.Warn("Looking for open questions failed", "run", s.run.ID, "error", err)
			return open, drafts
		}
		for _, r := range p.Nodes { // newest first, so the descendants come before the root run
			list, err := s.e.store.Questions(ctx, r.ID)
			if err != nil {
				s.e.log.Warn("Looking for open questions failed", "run", r.ID, "error", err)
			}
			for _, q := range list {
				if q.State == run.QuestionOpen {
					q.State, q.AnsweredAt = run.QuestionCancelled, now
					open = append(open, q)
					drafts = append(drafts, run.DraftOf(r, now, &run.QuestionAnswered{QuestionID: q.ID, Outcome: q.State}))
				}
			}
			if r.ID == s.run.ID {
				return open, drafts
			}
		}
		after, more = p.End, p.HasMore && len(p.Nodes) > 0
	}
	return open, drafts
}
