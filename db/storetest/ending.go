package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

func testAbortLive(t *testing.T, s Subject) {
	ctx := context.Background()
	rec := &recorder{}
	s.Listen(rec)
	r := live(t, s.Store, "a")
	res := must[run.AbortResult](t)(s.Store.RequestAbort(ctx, run.AbortRequest{Run: r.ID, Reason: "enough", Trigger: run.Abort, At: at(5)}))
	equal(t, "ended", res.Ended, false)
	equal(t, "open", len(res.Open), 1)
	want := run.Receipt{Run: r.ID, RequestedAt: at(5), Outcome: run.AbortPending, Trigger: run.Abort, Reason: "enough"}
	equal(t, "the receipt", fmt.Sprintf("%+v", *res.Run.Abort), fmt.Sprintf("%+v", want))
	equal(t, "the log", types(checkLog(t, s.Store, r.Session)), "RUN_STARTED ABORT_REQUESTED")
	// A second one changes nothing, also a silent one.
	res = must[run.AbortResult](t)(s.Store.RequestAbort(ctx, run.AbortRequest{Run: r.ID, Silent: true, Trigger: run.Replace, At: at(6)}))
	equal(t, "the receipt again", fmt.Sprintf("%+v", *res.Run.Abort), fmt.Sprintf("%+v", want))
	equal(t, "open again", len(res.Open), 1)
	equal(t, "the log again", types(checkLog(t, s.Store, r.Session)), "RUN_STARTED ABORT_REQUESTED")
	// What the stop came to.
	receipt := run.Receipt{Run: r.ID, SignalledAt: at(6), ProcessGoneAt: at(7), SandboxGoneAt: at(8), Survivors: []int{12, 34}, Outcome: run.AbortSurvivors}
	to := run.State{Status: run.Cancelled, Reason: run.Aborted}
	must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{Session: r.Session, Fence: fence(r), Update: &run.Update{Run: r.ID, From: []run.Status{run.Running}, To: &to, EndedAt: at(9), Receipt: &receipt}}))
	now := must[run.Run](t)(s.Store.Run(ctx, r.ID))
	want.SignalledAt, want.ProcessGoneAt, want.SandboxGoneAt, want.Survivors, want.Outcome = at(6), at(7), at(8), []int{12, 34}, run.AbortSurvivors
	equal(t, "the receipt at the end", fmt.Sprintf("%+v", *now.Abort), fmt.Sprintf("%+v", want))
	equal(t, "the end", now.EndedAt, at(9))
	equal(t, "what was published", len(rec.of(r.Session)), 2)
}

func testAbortTree(t *testing.T, s Subject) {
	ctx := context.Background()
	root := live(t, s.Store, "a")
	kid := child(t, s.Store, root)
	grand := child(t, s.Store, kid)
	gone := child(t, s.Store, root)
	under := child(t, s.Store, gone)
	finish(t, s.Store, gone)
	other := live(t, s.Store, "a")
	res := must[run.AbortResult](t)(s.Store.RequestAbort(ctx, run.AbortRequest{Run: root.ID, Silent: true, Trigger: run.Abort, At: at(5)}))
	var got []run.ID
	for _, r := range res.Open {
		got = append(got, r.ID)
	}
	want := []run.ID{root.ID, kid.ID, grand.ID, under.ID}
	sortIDs(got)
	sortIDs(want)
	equal(t, "what carries the intent", fmt.Sprint(got), fmt.Sprint(want))
	for _, e := range checkLog(t, s.Store, root.Session) {
		if e.Type == run.TypeAbortRequested {
			t.Fatal("a silent abort spoke")
		}
	}
	if must[run.Run](t)(s.Store.Run(ctx, other.ID)).Abort != nil || must[run.Run](t)(s.Store.Run(ctx, gone.ID)).Abort != nil {
		t.Fatal("a run outside the tree or an ended one was asked to stop")
	}
}

func testAbortQueued(t *testing.T, s Subject) {
	ctx := context.Background()
	// In a free session it ends aloud, and the session's state with it.
	r := accept(t, s.Store, run.NewRun{Run: newRun(newSession(t, s.Store))}).Run
	res := must[run.AbortResult](t)(s.Store.RequestAbort(ctx, run.AbortRequest{Run: r.ID, Reason: "no", Trigger: run.Abort, At: at(5)}))
	equal(t, "the result", fmt.Sprint(res.Ended, len(res.Open), res.Run.State, res.Run.Abort.Outcome), fmt.Sprint(false, 0, run.State{Status: run.Cancelled, Reason: run.Aborted}, run.AbortStopped))
	equal(t, "the log", types(checkLog(t, s.Store, r.Session)), "ABORT_REQUESTED AGENT_ABORTED STATE_CHANGED RUN_ENDED")
	equal(t, "the session's state", must[run.Session](t)(s.Store.Session(ctx, r.Session)).State, "cancelled")
	if res.Run.EndedAt.IsZero() || !res.Run.StartedAt.IsZero() {
		t.Fatalf("it started at %v and ended at %v", res.Run.StartedAt, res.Run.EndedAt)
	}
	equal(t, "claims afterwards", len(must[[]run.Run](t)(s.Store.Claim(ctx, "a", 9))), 0)
	// Behind a live run it must not touch that one's state.
	busy := live(t, s.Store, "a")
	behind := accept(t, s.Store, run.NewRun{Run: newRun(busy.Session), OnBusy: run.QueueBehind}).Run
	must[run.AbortResult](t)(s.Store.RequestAbort(ctx, run.AbortRequest{Run: behind.ID, Trigger: run.Abort}))
	equal(t, "the log behind a live run", types(checkLog(t, s.Store, busy.Session)), "RUN_STARTED ABORT_REQUESTED AGENT_ABORTED RUN_ENDED")
	equal(t, "the session's state", must[run.Session](t)(s.Store.Session(ctx, busy.Session)).State, "")
	equal(t, "the live one", state(t, s.Store, busy.ID), "RUNNING ")
	// Silently, only the end shows.
	quiet := accept(t, s.Store, run.NewRun{Run: newRun(newSession(t, s.Store))}).Run
	must[run.AbortResult](t)(s.Store.RequestAbort(ctx, run.AbortRequest{Run: quiet.ID, Silent: true, Trigger: run.Replace}))
	equal(t, "the silent log", types(checkLog(t, s.Store, quiet.Session)), "RUN_ENDED")
	equal(t, "the silent end", state(t, s.Store, quiet.ID), "CANCELLED REPLACED")
}

func testAbortEnded(t *testing.T, s Subject) {
	r := live(t, s.Store, "a")
	finish(t, s.Store, r)
	before := len(checkLog(t, s.Store, r.Session))
	res := must[run.AbortResult](t)(s.Store.RequestAbort(context.Background(), run.AbortRequest{Run: r.ID, Silent: true, Trigger: run.Abort}))
	equal(t, "ended", res.Ended, true)
	if res.Run.Abort != nil || len(res.Open) != 0 || len(checkLog(t, s.Store, r.Session)) != before {
		t.Fatal("an abort of an ended run left something behind")
	}
}

func ask(t *testing.T, s Store, r run.Run) run.Question {
	t.Helper()
	q := run.Question{ID: run.NewKey("qst"), Run: r.ID, Session: r.Session, Key: "k", Text: "which?", Schema: []byte(`{"type":"string"}`), AskedAt: at(3), State: run.QuestionOpen}
	must[[]*run.Event](t)(s.Append(context.Background(), run.Batch{
		Session: r.Session, Fence: fence(r), Questions: []run.Question{q},
		Drafts: []run.Draft{run.DraftOf(r, at(3), &run.QuestionAsked{QuestionID: q.ID, Text: q.Text, Schema: q.Schema})},
	}))
	return q
}

func testAnswer(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	q := ask(t, s.Store, r)
	got := must[run.Question](t)(s.Store.Answer(ctx, q.ID, []byte(`"blue"`)))
	equal(t, "the state", got.State, run.QuestionIsAnswered)
	stored := must[[]run.Question](t)(s.Store.Questions(ctx, r.ID))
	equal(t, "what is stored", fmt.Sprintf("%+v", stored), fmt.Sprintf("%+v", []run.Question{got}))
	log := checkLog(t, s.Store, r.Session)
	equal(t, "the log", types(log), "RUN_STARTED QUESTION_ASKED QUESTION_ANSWERED")
	equal(t, "the answer in the log", string(log[2].Body), `{"questionId":"`+q.ID+`","outcome":"ANSWERED","answer":"blue"}`)
	_, err := s.Store.Answer(ctx, q.ID, []byte(`"red"`))
	wantCode(t, err, run.Conflict)
	// The engine's own closing comes too late as well.
	q.State = run.QuestionCancelled
	_, err = s.Store.Append(ctx, run.Batch{Session: r.Session, Questions: []run.Question{q}, Drafts: []run.Draft{text(r, "never")}})
	wantIs(t, err, run.ErrState)
	equal(t, "the log at the end", types(checkLog(t, s.Store, r.Session)), "RUN_STARTED QUESTION_ASKED QUESTION_ANSWERED")
}

func testAnswerRace(t *testing.T, s Subject) {
	all := stores(t, s)
	r := live(t, s.Store, "a")
	q := ask(t, s.Store, r)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, errs[i] = all[i%2].Answer(context.Background(), q.ID, fmt.Append(nil, i)) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			wantCode(t, err, run.Conflict)
		}
	}
	equal(t, "answers that counted", won, 1)
	equal(t, "the log", types(checkLog(t, s.Store, r.Session)), "RUN_STARTED QUESTION_ASKED QUESTION_ANSWERED")
}

func testDeleteSession(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	kept := live(t, s.Store, "a")
	fill(t, s.Store, kept.Session, 10)
	ask(t, s.Store, r)
	must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{
		Session: r.Session, Fence: fence(r),
		Drafts:     []run.Draft{run.DraftOf(r, at(1), &run.MetricsLogged{Points: []run.Point{{Step: 1, Name: "loss", Value: 1}}})},
		Executions: []run.Execution{{ID: run.NewExecutionID(), Run: r.ID}}, Artifacts: []run.Artifact{{Run: r.ID, Path: "x"}},
		Usage: []run.UsageRecord{{Run: r.ID, RequestKey: "k", Rank: run.FromResult, Tokens: run.Tokens{Input: 7}, Raw: []byte(`{"secret":1}`)}},
	}))
	wantCode(t, s.Store.DeleteSession(ctx, r.Session), run.Busy)
	finish(t, s.Store, r)
	ok(t, s.Store.Fold(ctx))
	ok(t, s.Store.DeleteSession(ctx, r.Session))
	_, err := s.Store.Session(ctx, r.Session)
	wantCode(t, err, run.NotFound)
	_, err = s.Store.Events(ctx, run.EventQuery{Session: r.Session})
	wantCode(t, err, run.NotFound)
	_, err = s.Store.Append(ctx, run.Batch{Session: r.Session, Drafts: []run.Draft{text(r, "late")}})
	wantCode(t, err, run.NotFound)
	wantCode(t, s.Store.DeleteSession(ctx, r.Session), run.NotFound)
	now := must[run.Run](t)(s.Store.Run(ctx, r.ID))
	equal(t, "what stays of the run", fmt.Sprint(now.Input.Prompt, string(now.Definition), now.Agent, now.Usage.Input), "trainer7")
	records := must[[]run.UsageRecord](t)(s.Store.UsageRecords(ctx, r.ID))
	equal(t, "what stays of its usage", fmt.Sprint(len(records), records[0].Tokens.Input, string(records[0].Raw)), "1 7")
	equal(t, "executions", len(must[[]run.Execution](t)(s.Store.Executions(ctx, r.ID))), 0)
	equal(t, "artifacts", len(must[[]run.Artifact](t)(s.Store.Artifacts(ctx, r.ID))), 0)
	equal(t, "questions", len(must[[]run.Question](t)(s.Store.Questions(ctx, r.ID))), 0)
	equal(t, "curves", len(must[[]run.Series](t)(s.Store.Metrics(ctx, r.ID, run.MetricQuery{}))), 0)
	// The rows behind it go as well: the count fails the statement when one is left.
	s.Store = s.Reopen(t)
	poll(t, func() error {
		for _, q := range []string{"SELECT count(*) FROM session_purges", "SELECT count(*) FROM series WHERE run_id = '" + string(r.ID) + "'", "SELECT count(*) FROM metric_points", "SELECT count(*) FROM metric_buckets"} {
			if n := s.Count(t, q); n != 0 {
				return fmt.Errorf("%s gives %d", q, n)
			}
		}
		if n := s.Count(t, "SELECT count(*) FROM events"); n != 11 {
			return fmt.Errorf("%d events are left, want the 11 of the other session", n)
		}
		return nil
	})
	checkLog(t, s.Store, kept.Session)
}

func testFenced(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	s.Exec(t, "UPDATE runs SET token = token + 1, owner = 'b' WHERE id = '"+string(r.ID)+"'") // a takeover
	to := run.State{Status: run.Done, Reason: run.Completed}
	_, err := s.Store.Append(ctx, run.Batch{
		Session: r.Session, Fence: fence(r), Drafts: []run.Draft{text(r, "stale")},
		Usage: []run.UsageRecord{{Run: r.ID, RequestKey: "stale"}}, Update: &run.Update{Run: r.ID, From: []run.Status{run.Running}, To: &to},
	})
	wantIs(t, err, run.ErrFenced)
	equal(t, "the run", state(t, s.Store, r.ID), "RUNNING ")
	equal(t, "the records", len(must[[]run.UsageRecord](t)(s.Store.UsageRecords(ctx, r.ID))), 0)
	equal(t, "the log", types(checkLog(t, s.Store, r.Session)), "RUN_STARTED")
	r.Token++
	must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{Session: r.Session, Fence: fence(r), Drafts: []run.Draft{text(r, "fresh")}}))
}

// testStateRace: of many that end a run, one does, and only its events are there.
func testStateRace(t *testing.T, s Subject) {
	all := stores(t, s)
	r := live(t, s.Store, "a")
	var wg sync.WaitGroup
	errs := make([]error, 10)
	for i := range errs {
		wg.Go(func() {
			to := run.State{Status: run.Failed, Reason: run.ExitError}
			_, errs[i] = all[i%2].Append(context.Background(), run.Batch{
				Session: r.Session,
				Drafts:  []run.Draft{run.DraftOf(r, at(9), &run.RunEnded{Status: to.Status, ExitReason: to.Reason})},
				Update:  &run.Update{Run: r.ID, From: []run.Status{run.Running, run.Waiting}, To: &to},
			})
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, run.ErrState) {
			t.Fatal(err)
		}
	}
	equal(t, "ends", won, 1)
	equal(t, "the log", types(checkLog(t, s.Store, r.Session)), "RUN_STARTED RUN_ENDED")
}

func testRunPages(t *testing.T, s Subject) {
	ctx := context.Background()
	session := newSession(t, s.Store)
	var want []run.ID
	for i := range 7 {
		r := newRun(session)
		if i%2 == 1 {
			r.Agent = "other"
		}
		want = append(want, accept(t, s.Store, run.NewRun{Run: r, OnBusy: run.QueueBehind}).Run.ID)
	}
	sortIDs(want)
	slices.Reverse(want)
	var got []run.ID
	p := run.PageQuery{First: 2}
	for {
		page := must[run.Page[run.Run]](t)(s.Store.Runs(ctx, run.RunFilter{Session: session}, p))
		for _, r := range page.Nodes {
			got = append(got, r.ID)
		}
		if !page.HasMore {
			break
		}
		p.After = page.End
	}
	equal(t, "all pages", fmt.Sprint(got), fmt.Sprint(want))
	count := func(f run.RunFilter) int {
		return len(must[run.Page[run.Run]](t)(s.Store.Runs(ctx, f, run.PageQuery{})).Nodes)
	}
	equal(t, "by agent", count(run.RunFilter{Agent: "other"}), 3)
	equal(t, "by id", count(run.RunFilter{IDs: want[:2]}), 2)
	equal(t, "by status", count(run.RunFilter{Statuses: []run.Status{run.Queued, run.Done}}), 7)
	equal(t, "by another status", count(run.RunFilter{Statuses: []run.Status{run.Done}}), 0)
	r := must[[]run.Run](t)(s.Store.Claim(ctx, "a", 1))[0]
	child(t, s.Store, r)
	equal(t, "all", count(run.RunFilter{Session: session}), 8)
	equal(t, "roots", count(run.RunFilter{Session: session, RootOnly: true}), 7)
}

// testRunFields: everything of a run comes back.
func testRunFields(t *testing.T, s Subject) {
	ctx := context.Background()
	r := newRun(newSession(t, s.Store))
	stage := ""
	r.Stage, r.Provider, r.Model, r.Attempt, r.RestartOf, r.CreatedAt = "", "anthropic", "m'o\"del", 3, run.NewID(), at(0)
	r.Input = run.Input{
		Agent: "trainer", Prompt: "p ' ? \x00", Stage: &stage, Code: "print('x')\n", Env: []run.EnvVar{{Name: "A", Value: "b"}}, TimeoutSeconds: 1.5,
		Sandbox: run.SandboxRequest{Backend: "local", CPUs: 0.5}, Labels: []byte(`{"a":1}`), Config: []byte(`{"lr":0.1}`),
	}
	accept(t, s.Store, run.NewRun{Run: r})
	got := must[run.Run](t)(s.Store.Run(ctx, r.ID))
	r.State = run.State{Status: run.Queued}
	equal(t, "the run", fmt.Sprintf("%+v", got.Input.Sandbox), fmt.Sprintf("%+v", r.Input.Sandbox))
	if got.Input.Stage == nil || *got.Input.Stage != "" {
		t.Fatal("no stage became another stage")
	}
	got.Input.Stage, r.Input.Stage = nil, nil
	equal(t, "the run", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", r))
	claimed := must[[]run.Run](t)(s.Store.Claim(ctx, "a", 1))[0]
	result, failure := "all's well", "no ' it is not"
	to := run.State{Status: run.TimedOut, Reason: run.Timeout}
	must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{Session: r.Session, Fence: fence(claimed), Update: &run.Update{Run: r.ID, From: []run.Status{run.Running}, To: &to, EndedAt: at(9), Error: &failure, Result: &result}}))
	got = must[run.Run](t)(s.Store.Run(ctx, r.ID))
	equal(t, "the end", fmt.Sprint(got.State, got.EndedAt, got.Error, got.Result, got.Attempt, got.Owner, got.Token), fmt.Sprint(to, at(9), failure, result, 3, "a", 1))
}

func testOwned(t *testing.T, s Subject) {
	ctx := context.Background()
	root := live(t, s.Store, "a")
	kid := child(t, s.Store, root)
	grand := child(t, s.Store, kid)
	live(t, s.Store, "b")
	finish(t, s.Store, live(t, s.Store, "a"))
	got := must[[]run.Run](t)(s.Store.Owned(ctx, "a"))
	var ids []run.ID
	for _, r := range got {
		ids = append(ids, r.ID)
	}
	equal(t, "the owned runs, children first", fmt.Sprint(ids), fmt.Sprint([]run.ID{grand.ID, kid.ID, root.ID}))
}
