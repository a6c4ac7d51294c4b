package storetest

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

// scenario is a change that is interrupted at each of its statements.
type scenario struct {
	name string
	// prepare gives the session it is about and the change.
	prepare func(t *testing.T, s Store) (run.SessionID, func(ctx context.Context) error)
	log     string // what the log says when it is done
}

func scenarios() []scenario {
	done := run.State{Status: run.Done, Reason: run.Completed}
	return []scenario{
		{"a full batch", func(t *testing.T, s Store) (run.SessionID, func(context.Context) error) {
			r := live(t, s, "a")
			result := "fine"
			points := make([]run.Point, 33)
			for i := range points {
				points[i] = run.Point{Step: int64(i), Name: "l", Value: 1}
			}
			q := run.Question{ID: run.NewKey("qst"), Run: r.ID, State: run.QuestionOpen}
			return r.Session, func(ctx context.Context) error {
				_, err := s.Append(ctx, run.Batch{
					Session: r.Session, Fence: fence(r),
					Drafts:     []run.Draft{run.DraftOf(r, at(1), &run.MetricsLogged{Points: points}), run.DraftOf(r, at(2), &run.RunEnded{})},
					Usage:      []run.UsageRecord{{Run: r.ID, RequestKey: "k", Model: "m", Stream: "s", Cumulative: true, Rank: run.FromResult, Tokens: run.Tokens{Input: 1}}},
					Executions: []run.Execution{{ID: run.ExecutionID("exe_" + string(r.ID)), Run: r.ID}}, Artifacts: []run.Artifact{{Run: r.ID, Path: "p"}},
					Questions: []run.Question{q}, Update: &run.Update{Run: r.ID, From: []run.Status{run.Running}, To: &done, EndedAt: at(3), Result: &result, SessionTo: &result},
				})
				return err
			}
		}, "RUN_STARTED USAGE_RECORDED METRICS_LOGGED RUN_ENDED"},
		{"accept", func(t *testing.T, s Store) (run.SessionID, func(context.Context) error) {
			id := newSession(t, s)
			r := newRun(id)
			return id, func(ctx context.Context) error {
				_, err := s.Accept(ctx, run.NewRun{Run: r, IdempotencyKey: string(r.ID), PayloadHash: "h"})
				return err
			}
		}, ""},
		{"replace", func(t *testing.T, s Store) (run.SessionID, func(context.Context) error) {
			r := live(t, s, "a")
			child(t, s, r)
			queued := newRun(r.Session)
			accept(t, s, run.NewRun{Run: queued, OnBusy: run.QueueBehind})
			n := newRun(r.Session)
			return r.Session, func(ctx context.Context) error {
				_, err := s.Accept(ctx, run.NewRun{Run: n, OnBusy: run.ReplaceCurrent})
				return err
			}
		}, "RUN_STARTED RUN_STARTED RUN_ENDED"},
		{"claim", func(t *testing.T, s Store) (run.SessionID, func(context.Context) error) {
			r := newRun(newSession(t, s))
			accept(t, s, run.NewRun{Run: r})
			return r.Session, func(ctx context.Context) error {
				_, err := s.Claim(ctx, "a", 1)
				return err
			}
		}, "RUN_STARTED"},
		{"a child", func(t *testing.T, s Store) (run.SessionID, func(context.Context) error) {
			r := live(t, s, "a")
			kid := newRun(r.Session)
			kid.Parent = r.ID
			return r.Session, func(ctx context.Context) error {
				_, err := s.Accept(ctx, run.NewRun{Run: kid})
				return err
			}
		}, "RUN_STARTED RUN_STARTED"},
		{"abort", func(t *testing.T, s Store) (run.SessionID, func(context.Context) error) {
			r := live(t, s, "a")
			child(t, s, r)
			return r.Session, func(ctx context.Context) error {
				_, err := s.RequestAbort(ctx, run.AbortRequest{Run: r.ID, Trigger: run.Abort})
				return err
			}
		}, "RUN_STARTED RUN_STARTED ABORT_REQUESTED ABORT_REQUESTED"},
		{"abort of a queued run", func(t *testing.T, s Store) (run.SessionID, func(context.Context) error) {
			r := newRun(newSession(t, s))
			accept(t, s, run.NewRun{Run: r})
			return r.Session, func(ctx context.Context) error {
				_, err := s.RequestAbort(ctx, run.AbortRequest{Run: r.ID, Trigger: run.Abort})
				return err
			}
		}, "ABORT_REQUESTED AGENT_ABORTED STATE_CHANGED RUN_ENDED"},
		{"answer", func(t *testing.T, s Store) (run.SessionID, func(context.Context) error) {
			r := live(t, s, "a")
			q := ask(t, s, r)
			return r.Session, func(ctx context.Context) error {
				_, err := s.Answer(ctx, q.ID, []byte("1"))
				return err
			}
		}, "RUN_STARTED QUESTION_ASKED QUESTION_ANSWERED"},
		{"delete", func(t *testing.T, s Store) (run.SessionID, func(context.Context) error) {
			r := live(t, s, "a")
			finish(t, s, r)
			return r.Session, func(ctx context.Context) error { return s.DeleteSession(ctx, r.Session) }
		}, "deleted"},
	}
}

// digest says everything that is stored of a session.
func digest(t *testing.T, s Store, session run.SessionID) string {
	t.Helper()
	ctx := context.Background()
	var b strings.Builder
	sess, err := s.Session(ctx, session)
	if run.CodeOf(err) == run.NotFound && err != nil {
		b.WriteString("deleted\n")
	} else {
		ok(t, err)
		fmt.Fprintf(&b, "%+v\n", sess)
		for _, e := range checkLog(t, s, session) {
			b.WriteString(show(e) + "\n")
		}
		fmt.Fprintf(&b, "%+v\n", must[[]run.Artifact](t)(s.SessionArtifacts(ctx, session)))
	}
	for _, r := range must[run.Page[run.Run]](t)(s.Runs(ctx, run.RunFilter{Session: session}, run.PageQuery{})).Nodes {
		abort := ""
		if r.Abort != nil {
			abort = fmt.Sprintf("%+v", *r.Abort)
			r.Abort = nil
		}
		fmt.Fprintf(&b, "%+v %s\n%+v\n%+v\n%+v\n", r, abort, must[[]run.Question](t)(s.Questions(ctx, r.ID)), must[[]run.Execution](t)(s.Executions(ctx, r.ID)), must[[]run.UsageRecord](t)(s.UsageRecords(ctx, r.ID)))
		for _, c := range must[[]run.Series](t)(s.Metrics(ctx, r.ID, run.MetricQuery{})) {
			fmt.Fprintf(&b, "%+v\n", c)
		}
	}
	return b.String()
}

// interrupt runs each scenario with an error at its first statement, then at its
// second, and so on until there is none left.
func interrupt(t *testing.T, s Subject, err error, check func(t *testing.T, what string, session run.SessionID, sc scenario, before string, got error)) {
	t.Helper()
	for _, sc := range scenarios() {
		for k := int64(1); ; k++ {
			if k > 200 {
				t.Fatalf("%s does not end", sc.name)
			}
			ok(t, s.Store.Fold(context.Background())) // so that no folding comes between
			session, change := sc.prepare(t, s.Store)
			ok(t, s.Store.Fold(context.Background()))
			before := digest(t, s.Store, session)
			var n atomic.Int64
			var over atomic.Bool // what comes after the commit is not this change
			where := ""
			s.Fail(func(statement string) error {
				if over.Load() {
					return nil
				}
				if n.Add(1) == k {
					where = statement
					return err
				}
				over.Store(statement == "answer to the commit" || (statement == "commit" && s.Second == nil))
				return nil
			})
			got := change(context.Background())
			s.Fail(nil)
			what := fmt.Sprintf("%s, interrupted at statement %d (%s)", sc.name, k, where)
			if n.Load() < k {
				ok(t, got)
				break
			}
			check(t, what, session, sc, before, got)
		}
	}
}

// testFaultEachStatement: a change that fails at any statement left nothing.
func testFaultEachStatement(t *testing.T, s Subject) {
	injected := errors.New("injected")
	rec := &recorder{}
	s.Listen(rec)
	interrupt(t, s, injected, func(t *testing.T, what string, session run.SessionID, sc scenario, before string, got error) {
		t.Helper()
		if strings.HasSuffix(what, "(answer to the commit)") {
			return // then it is committed: testCommitAnswerLost
		}
		if !errors.Is(got, injected) {
			t.Fatalf("%s: the error is %v", what, got)
		}
		equal(t, what, digest(t, s.Store, session), before)
		if before[0] == '{' {
			same(t, what+": what was published", rec.of(session), checkLog(t, s.Store, session))
		}
	})
}

// testRetryEachStatement: when the connection is lost at any statement, the
// change is made once all the same.
func testRetryEachStatement(t *testing.T, s Subject) {
	rec := &recorder{}
	s.Listen(rec)
	interrupt(t, s, driver.ErrBadConn, func(t *testing.T, what string, session run.SessionID, sc scenario, _ string, got error) {
		t.Helper()
		if got != nil {
			t.Fatalf("%s: %v", what, got)
		}
		if sc.log == "deleted" {
			_, err := s.Store.Session(context.Background(), session)
			wantCode(t, err, run.NotFound)
			return
		}
		log := checkLog(t, s.Store, session)
		equal(t, what, types(log), sc.log)
		same(t, what+": what was published", rec.of(session), log)
	})
}

// testCommitAnswerLost: the commit happened, and its answer got lost. The change
// must not be made again. A SQLite commit answers always.
func testCommitAnswerLost(t *testing.T, s Subject) {
	if s.Second == nil {
		return
	}
	rec := &recorder{}
	s.Listen(rec)
	for _, sc := range scenarios() {
		session, change := sc.prepare(t, s.Store)
		var once atomic.Bool
		s.Fail(func(statement string) error {
			if statement == "answer to the commit" && once.CompareAndSwap(false, true) {
				return driver.ErrBadConn
			}
			return nil
		})
		err := change(context.Background())
		s.Fail(nil)
		ok(t, err)
		equal(t, "the answer was lost", once.Load(), true)
		if sc.log == "deleted" {
			continue
		}
		log := checkLog(t, s.Store, session)
		equal(t, sc.name, types(log), sc.log)
		same(t, sc.name+": what was published", rec.of(session), log)
	}
}
