package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

func testExecutions(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	e := run.Execution{ID: run.NewExecutionID(), Run: r.ID, Backend: "local", Isolation: "UNSANDBOXED", Command: []string{"sh", "-c", "echo 'ä ?'"}, StartedAt: at(1), GPU: "T4"}
	store := func(e run.Execution) {
		t.Helper()
		must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{Session: r.Session, Fence: fence(r), Executions: []run.Execution{e}}))
		got := must[[]run.Execution](t)(s.Store.Executions(ctx, r.ID))
		equal(t, "the number of executions", len(got), 1)
		if e.ExitCode != nil {
			equal(t, "the exit code", *got[0].ExitCode, *e.ExitCode)
			got[0].ExitCode = e.ExitCode
		}
		equal(t, "the execution", fmt.Sprintf("%+v", got[0]), fmt.Sprintf("%+v", e))
	}
	store(e)
	code := 137
	e.EndedAt, e.Class, e.ExitCode, e.Signal, e.Elapsed, e.IsError, e.ErrMessage = at(3), run.ClassOOM, &code, "SIGKILL", 2*time.Second+3*time.Microsecond, true, "out of memory"
	e.Loss = run.Loss{BytesRead: 1 << 40, LinesRead: 3, LinesParsed: 2, LinesRejected: 1, BytesTruncated: 4, BytesNotKept: 5, RejectedSamples: []string{"{\"a\":\x1b 'x'"}}
	store(e)
	equal(t, "its session", must[run.SessionID](t)(s.Store.SessionOf(ctx, e.ID)), r.Session)
	_, err := s.Store.SessionOf(ctx, run.NewExecutionID())
	equal(t, "the session of an execution that is not there", run.CodeOf(err), run.NotFound)
}

func testArtifacts(t *testing.T, s Subject) {
	ctx := context.Background()
	first := live(t, s.Store, "a")
	put := func(r run.Run, path string, size int64) {
		t.Helper()
		must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{Session: r.Session, Fence: fence(r), Artifacts: []run.Artifact{{Run: r.ID, Path: path, Kind: "report", Size: size, SHA256: "ab", Modified: at(4)}}}))
	}
	list := func(all []run.Artifact) string {
		out := ""
		for _, a := range all {
			out += fmt.Sprint(a.Path, "=", a.Size, " ")
		}
		return out
	}
	put(first, "b.csv", 1)
	put(first, "a/report 'x'.md", 2)
	put(first, "b.csv", 3)
	equal(t, "the run's", list(must[[]run.Artifact](t)(s.Store.Artifacts(ctx, first.ID))), "a/report 'x'.md=2 b.csv=3 ")
	equal(t, "one of them", must[[]run.Artifact](t)(s.Store.Artifacts(ctx, first.ID))[1], run.Artifact{Run: first.ID, Path: "b.csv", Kind: "report", Size: 3, SHA256: "ab", Modified: at(4)})
	finish(t, s.Store, first)
	second := liveIn(t, s.Store, first.Session, "a")
	put(second, "b.csv", 9)
	equal(t, "the session's", list(must[[]run.Artifact](t)(s.Store.SessionArtifacts(ctx, first.Session))), "a/report 'x'.md=2 b.csv=9 ")
}

func testQuestions(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	q := ask(t, s.Store, r)
	q2 := ask(t, s.Store, r)
	got := must[[]run.Question](t)(s.Store.Questions(ctx, r.ID))
	equal(t, "the questions", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", []run.Question{q, q2}))
	q.State, q.AnsweredAt = run.QuestionCancelled, at(5)
	must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{Session: r.Session, Fence: fence(r), Questions: []run.Question{q}}))
	_, err := s.Store.Append(ctx, run.Batch{Session: r.Session, Fence: fence(r), Questions: []run.Question{q}})
	wantIs(t, err, run.ErrState)
	_, err = s.Store.Answer(ctx, q.ID, []byte("1"))
	wantCode(t, err, run.Conflict)
	equal(t, "the other", must[[]run.Question](t)(s.Store.Questions(ctx, r.ID))[1].State, run.QuestionOpen)
}
