package storetest

import (
	"context"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

func testSessions(t *testing.T, s Subject) {
	ctx := context.Background()
	id := newSession(t, s.Store)
	got := must[run.Session](t)(s.Store.Session(ctx, id))
	want := run.Session{ID: id, Title: "a session", CreatedAt: at(0), FirstSeq: 1}
	equal(t, "the session", got, want)
	wantCode(t, s.Store.CreateSession(ctx, run.Session{ID: id}), run.Conflict)
	_, err := s.Store.Session(ctx, "ses_unknown")
	wantCode(t, err, run.NotFound)
}

func testAppend(t *testing.T, s Subject) {
	ctx := context.Background()
	rec := &recorder{}
	s.Listen(rec)
	r := live(t, s.Store, "a")
	got := must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{Session: r.Session, Fence: fence(r), Drafts: []run.Draft{
		text(r, "it's \"quoted\" \\ ? $1 \x00 <b> \u2028 \xff"),
		run.DraftOf(r, at(2), &run.MetricsLogged{ExecutionID: "exe", Points: []run.Point{{Step: 1, Name: "loss", Value: 0.5, Stage: "train", At: at(2)}}}),
	}}))
	equal(t, "the number of events", len(got), 2)
	equal(t, "the first seq", got[0].Seq, 2)
	log := checkLog(t, s.Store, r.Session)
	equal(t, "the log", types(log), "RUN_STARTED WARNING METRICS_LOGGED")
	same(t, "what was returned", got, log[1:])
	same(t, "what was published", rec.of(r.Session), log)
}
