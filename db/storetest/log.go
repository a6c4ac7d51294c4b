package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/run"
)

func testSessions(t *testing.T, s Subject) {
	ctx := context.Background()
	id := newSession(t, s.Store)
	got := must[run.Session](t)(s.Store.Session(ctx, id))
	equal(t, "the session", got, run.Session{ID: id, Title: "a session", CreatedAt: at(0), FirstSeq: 1})
	wantCode(t, s.Store.CreateSession(ctx, run.Session{ID: id}), run.Conflict)
	_, err := s.Store.Session(ctx, run.NewSessionID())
	wantCode(t, err, run.NotFound)
	r := liveIn(t, s.Store, id, "a")
	state := "train_running"
	must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{Session: id, Fence: fence(r), Update: &run.Update{Run: r.ID, From: []run.Status{run.Running}, SessionTo: &state}}))
	got = must[run.Session](t)(s.Store.Session(ctx, id))
	equal(t, "the state", got.State, state)
	equal(t, "the active run", got.ActiveRun, r.ID)
	finish(t, s.Store, r)
	equal(t, "the active run after its end", must[run.Session](t)(s.Store.Session(ctx, id)).ActiveRun, "")
}

func testSessionPages(t *testing.T, s Subject) {
	ctx := context.Background()
	var ids []run.SessionID
	for range 7 {
		ids = append(ids, newSession(t, s.Store))
	}
	sortIDs(ids)
	var got []run.SessionID
	after := ""
	for {
		p := must[run.Page[run.Session]](t)(s.Store.Sessions(ctx, run.SessionFilter{}, run.PageQuery{First: 3, After: after}))
		for _, n := range p.Nodes {
			got = append(got, n.ID)
		}
		if !p.HasMore {
			break
		}
		after = p.End
	}
	sortIDs(got)
	equal(t, "the sessions over all pages", fmt.Sprint(got), fmt.Sprint(ids))
	p := must[run.Page[run.Session]](t)(s.Store.Sessions(ctx, run.SessionFilter{}, run.PageQuery{First: 1}))
	equal(t, "the newest", p.Nodes[0].ID, ids[len(ids)-1])
	_, err := s.Store.Sessions(ctx, run.SessionFilter{}, run.PageQuery{After: "nonsense' OR 1=1"})
	wantCode(t, err, run.Invalid)
	_, err = s.Store.Sessions(ctx, run.SessionFilter{}, run.PageQuery{First: -1})
	wantCode(t, err, run.Invalid)
	_, err = s.Store.Sessions(ctx, run.SessionFilter{}, run.PageQuery{First: 1_000_000})
	wantCode(t, err, run.Invalid)
}

func testSessionFilters(t *testing.T, s Subject) {
	ctx := context.Background()
	create := func(title string) run.SessionID {
		id := run.NewSessionID()
		ok(t, s.Store.CreateSession(ctx, run.Session{ID: id, Title: title}))
		return id
	}
	a, b := create("Größe 100%_done!"), create("other")
	find := func(f run.SessionFilter) string {
		var out []string
		for _, n := range must[run.Page[run.Session]](t)(s.Store.Sessions(ctx, f, run.PageQuery{})).Nodes {
			out = append(out, string(n.ID))
		}
		return strings.Join(out, " ")
	}
	equal(t, "by title in another case", find(run.SessionFilter{Text: "GRÖSSE 100%"}), "")
	equal(t, "by title in capitals", find(run.SessionFilter{Text: "GRÖßE 100%"}), string(a))
	equal(t, "by wildcard characters", find(run.SessionFilter{Text: "%_D"}), string(a))
	equal(t, "an underscore is no wildcard", find(run.SessionFilter{Text: "oth_r"}), "")
	equal(t, "an exclamation mark", find(run.SessionFilter{Text: "done!"}), string(a))
	equal(t, "by a part of the id", find(run.SessionFilter{Text: string(b)[3:]}), string(b))
	yes, no := true, false
	r := liveIn(t, s.Store, b, "a")
	equal(t, "live ones", find(run.SessionFilter{Live: &yes}), string(b))
	equal(t, "the others", find(run.SessionFilter{Live: &no}), string(a))
	finish(t, s.Store, r)
	equal(t, "live ones after the end", find(run.SessionFilter{Live: &yes}), "")
	testSearchedRuns(t, s, find)
}

// testSearchedRuns: a session is found once by what its root runs are, also by
// an early one, and no longer than it is there.
func testSearchedRuns(t *testing.T, s Subject, find func(run.SessionFilter) string) {
	start := func(session run.SessionID, agent, prompt string) {
		r := newRun(session)
		r.Agent, r.Input.Agent, r.Input.Prompt = agent, agent, prompt
		accept(t, s.Store, run.NewRun{Run: r, OnBusy: run.QueueBehind})
	}
	session := newSession(t, s.Store)
	text := func(part string) string { return find(run.SessionFilter{Text: part}) }
	start(session, "Botaniker", "Zähle die Blüten\n100% \"genau\"")
	start(session, "second", "and "+strings.Repeat("ü", 990)+" near far")
	equal(t, "by the agent", text("botan"), string(session))
	equal(t, "by the prompt in capitals", text("BLÜTEN"), string(session))
	equal(t, "by characters of JSON and wildcards", text("0% \"gen"), string(session))
	equal(t, "wildcards between", text("die%ten"), "")
	equal(t, "by a later run", text("second"), string(session))
	equal(t, "by the end of what is searched", text("ü nea"), string(session))
	equal(t, "beyond what is searched", text("far"), "")
	_, err := s.Store.Sessions(context.Background(), run.SessionFilter{Text: strings.Repeat("a", 1001)}, run.PageQuery{})
	wantCode(t, err, run.Invalid)
	yes, no := true, false
	equal(t, "with live", find(run.SessionFilter{Text: "botan", Live: &yes}), "")
	equal(t, "with not live", find(run.SessionFilter{Text: "botan", Live: &no}), string(session))
	other := newSession(t, s.Store)
	finish(t, s.Store, child(t, s.Store, liveIn(t, s.Store, other, "a")))
	equal(t, "rows of texts: only root runs have one", s.Count(t, "SELECT count(*) FROM session_texts WHERE session_id = '"+string(other)+"'"), 1)
	gone := newSession(t, s.Store)
	finish(t, s.Store, liveIn(t, s.Store, gone, "a"))
	ok(t, s.Store.DeleteSession(context.Background(), gone))
	equal(t, "texts after the deletion", s.Count(t, "SELECT count(*) FROM session_texts WHERE session_id = '"+string(gone)+"'"), 0)
}

func testAppend(t *testing.T, s Subject) {
	ctx := context.Background()
	rec := &recorder{}
	s.Listen(rec)
	r := live(t, s.Store, "a")
	got := must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{Session: r.Session, Fence: fence(r), Drafts: []run.Draft{
		text(r, "one"),
		run.DraftOf(r, at(2), &run.MetricsLogged{ExecutionID: "exe", Points: []run.Point{{Step: 1, Name: "loss", Value: 0.5, Stage: "train", At: at(2)}}}),
		{Payload: &run.Warning{Text: "of the session, now"}},
	}}))
	equal(t, "the number of events", len(got), 3)
	equal(t, "the first seq", got[0].Seq, 2)
	if got[2].At.IsZero() {
		t.Fatal("an event without a time got none")
	}
	log := checkLog(t, s.Store, r.Session)
	equal(t, "the log", types(log), "RUN_STARTED WARNING METRICS_LOGGED WARNING")
	same(t, "what was returned", got, log[1:])
	same(t, "what was published", rec.of(r.Session), log)
	if !rec.has(r.ID) {
		t.Fatal("the claim of the run was not published")
	}
	// A change without events takes no seq.
	words := "why"
	must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{Session: r.Session, Update: &run.Update{Run: r.ID, From: []run.Status{run.Running}, Error: &words}}))
	checkLog(t, s.Store, r.Session)
	equal(t, "the error", must[run.Run](t)(s.Store.Run(ctx, r.ID)).Error, words)
}

func testAppendRefused(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	other := live(t, s.Store, "a")
	append1 := func(b run.Batch) error {
		b.Drafts = append(b.Drafts, run.Draft{Payload: &run.Warning{Text: "never"}})
		_, err := s.Store.Append(ctx, b)
		return err
	}
	wantCode(t, append1(run.Batch{}), run.Invalid)
	wantCode(t, append1(run.Batch{Session: run.NewSessionID()}), run.NotFound)
	wantCode(t, append1(run.Batch{Session: r.Session, Fence: fence(other)}), run.Invalid)
	wantIs(t, append1(run.Batch{Session: r.Session, Fence: run.Fence{Run: run.NewID(), Token: 1}}), run.ErrFenced)
	wantCode(t, append1(run.Batch{Session: r.Session, Update: &run.Update{Run: other.ID, From: []run.Status{run.Running}}}), run.NotFound)
	wantCode(t, append1(run.Batch{Session: r.Session, Usage: []run.UsageRecord{{Run: other.ID, RequestKey: "k"}}}), run.Invalid)
	wantCode(t, append1(run.Batch{Session: r.Session, Drafts: []run.Draft{{}}}), run.Invalid)
	wantCode(t, append1(run.Batch{Session: r.Session, Drafts: []run.Draft{{Payload: &run.GapEvent{}}}}), run.Invalid)
	wantCode(t, append1(run.Batch{Session: r.Session, Drafts: []run.Draft{{Payload: &run.MetricsLogged{Points: []run.Point{{Name: "x"}}}}}}), run.Invalid)
	equal(t, "the log", types(checkLog(t, s.Store, r.Session)), "RUN_STARTED")
}

// testPayloads stores every kind of event with text that is hard to keep.
func testPayloads(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	hard := "'quoted' \"double\" \\ ?0 ? $1 :x <b>&amp;\u2028 \x00 \xff\xfe \x1b[31m \U0001F600 {{}} %s \r\n\t"
	raw := json.RawMessage("{\"a\":\"\xff ' ? \\u0000\",\"n\":9007199254740993}")
	zero := 0
	drafts := []run.Draft{}
	for _, p := range []run.Payload{
		&run.RunStarted{Prompt: hard, Driver: hard}, &run.StateChanged{State: hard}, &run.MessageDelta{MessageID: "m", Text: hard},
		&run.AgentMessage{Text: hard}, &run.AgentThought{Text: hard}, &run.ToolCallStarted{Name: hard, Arguments: raw}, &run.ToolCallFinished{Text: hard},
		&run.ExecutionStarted{Command: []string{hard}}, &run.OutputWritten{Stream: run.Stdout, Text: hard}, &run.ExecutionFinished{ExitCode: &zero},
		&run.MetricsLogged{ExecutionID: "e'\"x", Points: []run.Point{{Name: hard, RunTag: hard, Stage: hard, Value: -0.1}}},
		&run.ChartConfigured{Config: raw}, &run.MediaLogged{Key: hard, Data: raw}, &run.UsageRecorded{RequestKey: hard}, &run.QuestionAsked{Text: hard, Schema: raw},
		&run.QuestionAnswered{Answer: raw}, &run.ReportReady{Path: hard}, &run.FilesReady{Files: []run.FileInfo{{Path: hard}}}, &run.HookFinished{Text: hard},
		&run.AbortRequested{Reason: hard}, &run.AgentAborted{Reason: hard}, &run.AgentTimedOut{Text: hard}, &run.AgentErrored{Text: hard},
		&run.RunEnded{Error: hard}, &run.Warning{Text: hard}, &run.AgentEscalated{Text: hard, Crashes: 3}, &run.BudgetReached{Action: run.BudgetAction(hard)},
	} {
		drafts = append(drafts, run.Draft{At: at(3), Run: r.ID, Agent: hard, Stage: hard, Payload: p})
	}
	equal(t, "the number of kinds tried", len(drafts), len(run.EventTypes())-1) // all but GapEvent
	got := must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{Session: r.Session, Drafts: drafts}))
	log := checkLog(t, s.Store, r.Session)[1:]
	same(t, "what was stored", log, got)
	for i, e := range log {
		if !utf8.Valid(e.Body) || !json.Valid(e.Body) {
			t.Fatalf("the body of a %s is not JSON in UTF-8: %q", e.Type, e.Body)
		}
		if _, err := e.Payload(); err != nil {
			t.Fatal(err)
		}
		equal(t, "the type", e.Type, drafts[i].Payload.Type())
	}
	p := must[run.Payload](t)(log[11].Payload())
	if c, isChart := p.(*run.ChartConfigured); !isChart || !strings.Contains(string(c.Config), "9007199254740993") {
		t.Fatalf("raw JSON lost digits: %+v", p)
	}
}

func fill(t *testing.T, s Store, session run.SessionID, n int) {
	t.Helper()
	for n > 0 {
		var b run.Batch
		b.Session = session
		for range min(n, 400) {
			b.Drafts = append(b.Drafts, run.Draft{At: at(1), Payload: &run.Warning{Text: fmt.Sprint("event ", n)}})
			n--
		}
		must[[]*run.Event](t)(s.Append(context.Background(), b))
	}
}

func testLogPages(t *testing.T, s Subject) {
	ctx := context.Background()
	id := newSession(t, s.Store)
	empty := must[run.EventPage](t)(s.Store.Events(ctx, run.EventQuery{Session: id}))
	equal(t, "an empty log", fmt.Sprint(len(empty.Events), empty.LastSeq, empty.HasMore, empty.Scanned), "0 0 false 0")
	fill(t, s.Store, id, 1205)
	check := func(q run.EventQuery, from, to int64, more bool) {
		t.Helper()
		q.Session = id
		p := must[run.EventPage](t)(s.Store.Events(ctx, q))
		equal(t, "lastSeq", p.LastSeq, 1205)
		equal(t, "hasMore", p.HasMore, more)
		if from == 0 {
			equal(t, "the number of events", len(p.Events), 0)
			return
		}
		equal(t, "the number of events", int64(len(p.Events)), to-from+1)
		for i, e := range p.Events {
			equal(t, "a seq", e.Seq, from+int64(i))
		}
	}
	check(run.EventQuery{}, 1, 200, true)
	check(run.EventQuery{First: 1000}, 1, 1000, true)
	check(run.EventQuery{First: 1000, After: 1000}, 1001, 1205, false)
	check(run.EventQuery{First: 5, After: 1200}, 1201, 1205, false)
	check(run.EventQuery{First: 5, After: 1205}, 0, 0, false)
	check(run.EventQuery{First: 5, After: 99999}, 0, 0, false)
	check(run.EventQuery{First: 50, After: 10, Before: 21}, 11, 20, false)
	check(run.EventQuery{Last: 3}, 1203, 1205, true)
	check(run.EventQuery{Last: 1000}, 206, 1205, true)
	check(run.EventQuery{Last: 1000, Before: 206}, 1, 205, false)
	check(run.EventQuery{Last: 10, Before: 5}, 1, 4, false)
	check(run.EventQuery{Last: 10, Before: 1}, 0, 0, false)
	check(run.EventQuery{Last: 10, Before: 20, After: 15}, 16, 19, false)
	check(run.EventQuery{Last: 10, Before: 5000}, 1196, 1205, true)
}

func testLogFilters(t *testing.T, s Subject) {
	ctx := context.Background()
	r := live(t, s.Store, "a")
	fill(t, s.Store, r.Session, 6000)
	must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{Session: r.Session, Drafts: []run.Draft{run.DraftOf(r, at(1), &run.ReportReady{Path: "r"}), {Payload: &run.ReportReady{Path: "s"}}}}))
	fill(t, s.Store, r.Session, 10)
	find := func(q run.EventQuery) string {
		t.Helper()
		q.Session = r.Session
		p := must[run.EventPage](t)(s.Store.Events(ctx, q))
		out := ""
		for _, e := range p.Events {
			out += fmt.Sprint(e.Seq, " ")
		}
		return fmt.Sprint(out, p.HasMore, " ", p.Scanned)
	}
	reports := run.EventFilter{Types: []run.EventType{run.TypeReportReady}}
	equal(t, "a type beyond the first window", find(run.EventQuery{Filter: reports}), "6002 6003 false 6013")
	equal(t, "one of it", find(run.EventQuery{Filter: reports, First: 1}), "6002 true 6002")
	equal(t, "the rest", find(run.EventQuery{Filter: reports, First: 1, After: 6002}), "6003 true 6003")
	equal(t, "after the last", find(run.EventQuery{Filter: reports, First: 1, After: 6003}), "false 6013")
	equal(t, "the last one", find(run.EventQuery{Filter: reports, Last: 1}), "6003 true 6013")
	equal(t, "both from behind", find(run.EventQuery{Filter: reports, Last: 3}), "6002 6003 false 6013")
	equal(t, "by run", find(run.EventQuery{Filter: run.EventFilter{Run: r.ID}}), "1 6002 false 6013")
	equal(t, "by run and type", find(run.EventQuery{Filter: run.EventFilter{Run: r.ID, Types: reports.Types}}), "6002 false 6013")
	equal(t, "by an unknown run", find(run.EventQuery{Filter: run.EventFilter{Run: "x' OR 1=1 --"}}), "false 6013")
	equal(t, "by an unknown type", find(run.EventQuery{Filter: run.EventFilter{Types: []run.EventType{"NO_SUCH"}}}), "false 6013")
}

// testLogBytes: a page ends when it is large, not only when it is long.
func testLogBytes(t *testing.T, s Subject) {
	ctx := context.Background()
	id := newSession(t, s.Store)
	big := strings.Repeat("x", 1<<20)
	for range 9 {
		must[[]*run.Event](t)(s.Store.Append(ctx, run.Batch{Session: id, Drafts: []run.Draft{{Payload: &run.Warning{Text: big}}}}))
	}
	var seqs []int64
	after, pages := int64(0), 0
	for {
		p := must[run.EventPage](t)(s.Store.Events(ctx, run.EventQuery{Session: id, After: after, First: 1000}))
		pages++
		if len(p.Events) == 0 || len(p.Events) > 5 {
			t.Fatalf("a page has %d events of 1 MiB", len(p.Events))
		}
		for _, e := range p.Events {
			seqs = append(seqs, e.Seq)
		}
		if !p.HasMore {
			break
		}
		after = p.Scanned
	}
	equal(t, "the seqs", fmt.Sprint(seqs), "[1 2 3 4 5 6 7 8 9]")
	p := must[run.EventPage](t)(s.Store.Events(ctx, run.EventQuery{Session: id, Last: 1000}))
	equal(t, "the last seq of the last page", p.Events[len(p.Events)-1].Seq, 9)
	equal(t, "hasMore of the last page", p.HasMore, true)
	q := must[run.EventPage](t)(s.Store.Events(ctx, run.EventQuery{Session: id, Last: 1000, Before: p.Events[0].Seq}))
	equal(t, "the page before ends where the last begins", q.Events[len(q.Events)-1].Seq, p.Events[0].Seq-1)
}

// testLogGap cuts history as retention will.
func testLogGap(t *testing.T, s Subject) {
	ctx := context.Background()
	id := newSession(t, s.Store)
	fill(t, s.Store, id, 30)
	s.Exec(t, "DELETE FROM events WHERE seq <= 10 AND sid = (SELECT sid FROM sessions WHERE id = '"+string(id)+"')")
	s.Exec(t, "UPDATE sessions SET first_seq = 11 WHERE id = '"+string(id)+"'")
	page := func(q run.EventQuery) string {
		t.Helper()
		q.Session = id
		p := must[run.EventPage](t)(s.Store.Events(ctx, q))
		out := ""
		for _, e := range p.Events {
			if e.Type == run.TypeGapEvent {
				g, isGap := must[run.Payload](t)(e.Payload()).(*run.GapEvent)
				if !isGap || g.To != e.Seq {
					t.Fatalf("a gap event with seq %d: %+v", e.Seq, g)
				}
				out += fmt.Sprintf("gap(%d-%d) ", g.From, g.To)
				continue
			}
			out += fmt.Sprint(e.Seq, " ")
		}
		return fmt.Sprint(out, p.HasMore)
	}
	equal(t, "from the start", page(run.EventQuery{First: 2}), "gap(1-10) 11 12 true")
	equal(t, "from within the gap", page(run.EventQuery{First: 2, After: 4}), "gap(5-10) 11 12 true")
	equal(t, "from its end", page(run.EventQuery{First: 2, After: 10}), "11 12 true")
	equal(t, "with a filter", page(run.EventQuery{First: 2, Filter: run.EventFilter{Types: []run.EventType{run.TypeReportReady}}}), "gap(1-10) false")
	equal(t, "from behind", page(run.EventQuery{Last: 3, Before: 13}), "gap(1-10) 11 12 false")
	equal(t, "from behind, not down to it", page(run.EventQuery{Last: 1, Before: 13}), "12 true")
	equal(t, "before the gap's end", page(run.EventQuery{Last: 3, Before: 5}), "gap(1-4) false")
	equal(t, "a range within the gap", page(run.EventQuery{First: 3, After: 2, Before: 5}), "gap(3-4) false")
}

func testBadQueries(t *testing.T, s Subject) {
	ctx := context.Background()
	id := newSession(t, s.Store)
	for _, q := range []run.EventQuery{{After: -1}, {Before: -1}, {First: -1}, {Last: -1}, {First: 1, Last: 1}, {First: 1001}, {Last: 1001}} {
		q.Session = id
		_, err := s.Store.Events(ctx, q)
		wantCode(t, err, run.Invalid)
	}
	_, err := s.Store.Events(ctx, run.EventQuery{Session: "ses_'; DROP TABLE events; --"})
	wantCode(t, err, run.NotFound)
	unknown := run.NewID()
	_, err = s.Store.Run(ctx, unknown)
	wantCode(t, err, run.NotFound)
	_, err = s.Store.Children(ctx, unknown)
	wantCode(t, err, run.NotFound)
	_, err = s.Store.InclusiveUsage(ctx, unknown)
	wantCode(t, err, run.NotFound)
	_, err = s.Store.Executions(ctx, unknown)
	wantCode(t, err, run.NotFound)
	_, err = s.Store.Artifacts(ctx, unknown)
	wantCode(t, err, run.NotFound)
	_, err = s.Store.Questions(ctx, unknown)
	wantCode(t, err, run.NotFound)
	_, err = s.Store.Metrics(ctx, unknown, run.MetricQuery{})
	wantCode(t, err, run.NotFound)
	_, err = s.Store.SessionArtifacts(ctx, run.NewSessionID())
	wantCode(t, err, run.NotFound)
	_, err = s.Store.Runs(ctx, run.RunFilter{}, run.PageQuery{After: "run_x"})
	wantCode(t, err, run.Invalid)
	_, err = s.Store.RequestAbort(ctx, run.AbortRequest{Run: unknown, Trigger: run.Abort})
	wantCode(t, err, run.NotFound)
	_, err = s.Store.Answer(ctx, "qst_unknown", nil)
	wantCode(t, err, run.NotFound)
	wantCode(t, s.Store.DeleteSession(ctx, run.NewSessionID()), run.NotFound)
	for _, n := range []int{-1, 1 << 30} {
		_, err = s.Store.Metrics(ctx, unknown, run.MetricQuery{MaxPoints: n})
		wantCode(t, err, run.Invalid)
	}
}
