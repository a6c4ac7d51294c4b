package graph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/introspection"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"github.com/weirhq/weir/graph/generated"
	"github.com/weirhq/weir/runtime/run"
)

func contextWithCancel(t *testing.T) (context.Context, func()) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	return ctx, func() { cancel(errors.New("the test is over")) }
}

// Bad arguments are INVALID or NOT_FOUND, name the value and reach nothing.
func TestBadArguments(t *testing.T) {
	t.Parallel()
	session := `sessionId:"` + sesID + `"`
	for name, c := range map[string]struct {
		query string
		code  run.Code
		says  string
	}{
		"FirstZero":          {`{runs(first:0){hasMore}}`, run.Invalid, "first is 0; it must be from 1 to 200"},
		"FirstNegative":      {`{sessions(first:-5){hasMore}}`, run.Invalid, "first is -5"},
		"FirstHuge":          {`{runs(first:201){hasMore}}`, run.Invalid, "first is 201"},
		"FirstOver32Bits":    {`{runs(first:99999999999){hasMore}}`, run.Invalid, "99999999999 is out of range"},
		"CursorMalformed":    {`{runs(after:"drop table"){hasMore}}`, run.Invalid, `"drop table"`},
		"CursorOfOtherKind":  {`{runs(after:"` + sesID + `"){hasMore}}`, run.Invalid, "no cursor"},
		"EventsFirstHuge":    {`{events(` + session + `,first:1001){lastSeq}}`, run.Invalid, "first is 1001; it must be from 1 to 1000"},
		"EventsLastNegative": {`{events(` + session + `,last:-1){lastSeq}}`, run.Invalid, "last is -1"},
		"EventsFirstAndLast": {`{events(` + session + `,first:1,last:1){lastSeq}}`, run.Invalid, "give one of them"},
		"EventsAfterWithLast": {
			`{events(` + session + `,after:3,last:1){lastSeq}}`, run.Invalid, "after is 3 together with last",
		},
		"EventsBeforeWithFirst": {`{events(` + session + `,before:3,first:1){lastSeq}}`, run.Invalid, "before is 3 without last"},
		"EventsBeforeZero":      {`{events(` + session + `,before:0,last:1){lastSeq}}`, run.Invalid, "before is 0"},
		"EventsAfterNegative":   {`{events(` + session + `,after:-1){lastSeq}}`, run.Invalid, "after is -1"},
		"EventsAfterWords":      {`{events(` + session + `,after:"soon"){lastSeq}}`, run.Invalid, `Long: "soon" is not a whole number in decimal digits`},
		"EventsAfterFraction":   {`{events(` + session + `,after:1.5){lastSeq}}`, run.Invalid, "1.5"},
		"SessionMalformed":      {`{session(id:"x"){id}}`, run.NotFound, `there is no session "x"`},
		"SessionUnknown":        {`{session(id:"` + sesID[:29] + `z"){id}}`, run.NotFound, "there is no session"},
		"RunUnknown":            {`{run(id:"` + runA[:29] + `z"){id}}`, run.NotFound, "there is no run"},
		"RunMalformed":          {`{run(id:"../../etc/passwd"){id}}`, run.NotFound, `"../../etc/passwd"`},
		"AbortUnknown":          {`mutation{abortRun(id:"nope"){outcome}}`, run.NotFound, `"nope"`},
		"QuestionMalformed":     {`mutation{answerQuestion(input:{id:"nope"}){id}}`, run.NotFound, `"nope"`},
		"DeleteMalformed":       {`mutation{deleteSession(id:"nope")}`, run.NotFound, `"nope"`},
		"StartInNoSession":      {`mutation{startRun(input:{agent:"a",sessionId:"nope"}){id}}`, run.NotFound, `"nope"`},
		"MessageInNoSession":    {`mutation{sendMessage(input:{sessionId:"nope",text:"t"}){id}}`, run.NotFound, `"nope"`},
		"ZeroTimeout":           {`mutation{startRun(input:{agent:"a",timeoutSeconds:0}){id}}`, run.Invalid, "timeoutSeconds is 0; it must be greater than 0"},
		"NegativeCPUs":          {`mutation{startRun(input:{agent:"a",sandbox:{cpus:-2.5}}){id}}`, run.Invalid, "sandbox.cpus is -2.5"},
		"ZeroMemory":            {`mutation{startRun(input:{agent:"a",sandbox:{memoryMiB:0}}){id}}`, run.Invalid, "sandbox.memoryMiB is 0"},
		"LabelsAreAList":        {`mutation{startRun(input:{agent:"a",labels:[1]}){id}}`, run.Invalid, "labels is [1]; it must be a JSON object"},
		"ConfigIsText":          {`mutation{startRun(input:{agent:"a",config:"lr=1"}){id}}`, run.Invalid, "config"},
		"TitleTooLong":          {`mutation{createSession(input:{title:"` + strings.Repeat("x", 1001) + `"}){id}}`, run.Invalid, "title has 1001 bytes"},
		"TitleWithNUL":          {`mutation{createSession(input:{title:"a\u0000b"}){id}}`, run.Invalid, "NUL byte (at byte 1)"},
		"SearchWithNUL":         {`{sessions(filter:{search:"\u0000"}){hasMore}}`, run.Invalid, "search contains a NUL"},
		"PointsHuge":            {`{run(id:"` + runA + `"){metrics(maxPoints:10001){name}}}`, run.Invalid, "maxPoints is 10001"},
		"PointsZero":            {`{run(id:"` + runA + `"){metrics(maxPoints:0){name}}}`, run.Invalid, "maxPoints is 0"},
		"StepsReversed":         {`{run(id:"` + runA + `"){metrics(fromStep:5,toStep:4){name}}}`, run.Invalid, "fromStep is 5 and toStep is 4"},
		"TooManyCompared": {
			`{compareMetrics(runIds:[` + strings.Repeat(`"`+runA+`",`, 51) + `]){name}}`, run.Invalid, "runIds has 51 ids",
		},
		"UnknownEnum":   {`{runs(filter:{status:[PAUSED]}){hasMore}}`, "GRAPHQL_VALIDATION_FAILED", "PAUSED"},
		"UnknownField":  {`{nope}`, "GRAPHQL_VALIDATION_FAILED", "nope"},
		"NotGraphQL":    {`{`, "GRAPHQL_PARSE_FAILED", ""},
		"TextAsInteger": {`{runs(first:"5"){hasMore}}`, "GRAPHQL_VALIDATION_FAILED", "Int"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			msg := refused(t, do(t, setup(t, f), c.query, nil), c.code)
			if !strings.Contains(msg, c.says) {
				t.Errorf("the message does not say %q: %s", c.says, msg)
			}
			if len(f.started)+len(f.messages)+len(f.aborts)+len(f.answers) > 0 {
				t.Error("the engine was called")
			}
		})
	}
}

func TestBadVariables(t *testing.T) {
	t.Parallel()
	api := setup(t, newFake())
	const q = `query($f:Int,$a:String){runs(first:$f,after:$a){hasMore}}`
	refused(t, do(t, api, q, map[string]any{"f": "many"}), "GRAPHQL_VALIDATION_FAILED")
	refused(t, do(t, api, `query($n:Float!){run(id:"x"){id}}`, map[string]any{}), "GRAPHQL_VALIDATION_FAILED")
	refused(t, do(t, api, q, map[string]any{"f": -1}), run.Invalid)
}

// A subscription's arguments and its session are judged before it streams.
func TestASubscriptionIsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	unknown := sesID[:29] + "z"
	for name, c := range map[string]struct {
		query string
		code  run.Code
	}{
		"UnknownSession":   {`subscription{events(sessionId:"` + unknown + `"){seq}}`, run.NotFound},
		"MalformedSession": {`subscription{events(sessionId:"x"){seq}}`, run.NotFound},
		"NegativeAfter":    {`subscription{events(sessionId:"` + sesID + `",after:-1){seq}}`, run.Invalid},
		"WordsAfter":       {`subscription{events(sessionId:"` + sesID + `",after:"x"){seq}}`, run.Invalid},
		"MalformedRun":     {`subscription{events(sessionId:"` + sesID + `",runId:"x"){seq}}`, run.NotFound},
	} {
		f := newFake()
		f.follow = func(context.Context, int64, func([]*run.Event) error) error {
			t.Errorf("%s: the stream was opened", name)
			return nil
		}
		api := setup(t, f)
		r := open(t.Context(), t, api, c.query, nil)(t)
		refused(t, r, c.code)
		if string(r.Data) != "null" {
			t.Errorf("%s: data is %s", name, r.Data)
		}
		api.Wait()
	}
}

// What the engine and the store are asked is what the client sent.
func TestArgumentsArrive(t *testing.T) {
	t.Parallel()
	f := newFake()
	api := setup(t, f)
	data(t, do(t, api, `mutation($in:StartRunInput!){startRun(input:$in){id}}`, map[string]any{"in": map[string]any{
		"agent": "trainer", "sessionId": sesID, "prompt": "p", "stage": "", "model": "m", "command": []any{"echo", "hi"},
		"env": []any{map[string]any{"name": "A", "value": "1"}}, "timeoutSeconds": 1.5, "onBusy": "QUEUE", "idempotencyKey": "k",
		"labels": map[string]any{"team": "x"}, "config": map[string]any{"lr": 0.1},
		"sandbox": map[string]any{"backend": "local", "cpus": 0.5, "memoryMiB": 64, "maxOutputBytes": "9007199254740993", "onOutputLimit": "TRUNCATE", "network": "NONE", "gpu": "T4", "graceSeconds": 2},
	}}))
	empty := ""
	want := run.StartRequest{
		Session: sesID, OnBusy: run.QueueBehind, IdempotencyKey: "k",
		Input: run.Input{
			Agent: "trainer", Prompt: "p", Stage: &empty, Model: "m", Command: []string{"echo", "hi"},
			Env: []run.EnvVar{{Name: "A", Value: "1"}}, TimeoutSeconds: 1.5,
			Labels: []byte(`{"team":"x"}`), Config: []byte(`{"lr":0.1}`),
			Sandbox: run.SandboxRequest{
				Backend: "local", CPUs: 0.5, MemoryMiB: 64, MaxOutputBytes: 9007199254740993, OnOutputLimit: "TRUNCATE",
				Network: "NONE", GPU: "T4", GraceSeconds: 2,
			},
		},
	}
	if got, want := fmt.Sprintf("%+v", stageless(f.started[0])), fmt.Sprintf("%+v", stageless(want)); got != want {
		t.Errorf("startRun asks\n%s\nwant\n%s", got, want)
	}
	if s := f.started[0].Input.Stage; s == nil || *s != "" {
		t.Errorf("an empty stage arrives as %v: it must differ from an absent one", s)
	}

	data(t, do(t, api, `mutation{startRun(input:{agent:"a"}){id}}`, nil))
	if got := f.started[1]; got.OnBusy != run.Reject || got.Input.Stage != nil || got.Input.Labels != nil {
		t.Errorf("the defaults arrive as %+v", got)
	}
	data(t, do(t, api, `mutation{sendMessage(input:{sessionId:"`+sesID+`",text:"t",onBusy:REPLACE}){id}}`, nil))
	if got := f.messages[0]; got.Session != sesID || got.Text != "t" || got.OnBusy != run.ReplaceCurrent {
		t.Errorf("sendMessage asks %+v", got)
	}
	data(t, do(t, api, `mutation{answerQuestion(input:{id:"qst_01jq0v6h3k8m5x2t9w4c7y1n6b",answer:{yes:true}}){answer}}`, nil))
	if f.answers[0] != `{"yes":true}` {
		t.Errorf("the answer arrives as %s", f.answers[0])
	}
	data(t, do(t, api, `{events(sessionId:"`+sesID+`",before:"9",last:2,types:[RUN_ENDED],runId:"`+runB+`"){lastSeq}}`, nil))
	if q := f.eventAsk; q.Before != 9 || q.Last != 2 || q.First != 0 || q.Filter.Run != runB || len(q.Filter.Types) != 1 {
		t.Errorf("events asks %+v", q)
	}
	data(t, do(t, api, `{events(sessionId:"`+sesID+`"){lastSeq}}`, nil))
	if q := f.eventAsk; q.First != 200 || q.After != 0 {
		t.Errorf("events without arguments asks %+v", q)
	}
	data(t, do(t, api, `{runs(first:7,after:"`+runB+`",filter:{status:[DONE],agent:"a",rootOnly:true,ids:["`+runA+`"]}){hasMore}}`, nil))
	if f.pageAsk.First != 7 || f.pageAsk.After != runB || !f.runsAsk.RootOnly || f.runsAsk.Statuses[0] != run.Done {
		t.Errorf("runs asks %+v %+v", f.pageAsk, f.runsAsk)
	}
	data(t, do(t, api, `{run(id:"`+runA+`"){metrics(names:["loss"],fromStep:3){name}}}`, nil))
	if q := f.metricAsk; q.MaxPoints != 1000 || *q.FromStep != 3 || q.ToStep != nil || q.Names[0] != "loss" {
		t.Errorf("metrics asks %+v", q)
	}
}

func stageless(r run.StartRequest) run.StartRequest {
	r.Input.Stage = nil
	return r
}

func TestAbortReceipts(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.receipt = run.Receipt{RequestedAt: noon, Outcome: run.AbortStopped}
	api := setup(t, f)
	const q = `mutation{abortRun(id:"` + runA + `",silent:true,wait:true,reason:"enough"){runId requestedAt signalledAt survivors outcome}}`
	f.live = true
	if got, want := data(t, do(t, api, q, nil)), `{"abortRun":{"runId":"`+runA+`","requestedAt":"2026-11-30T12:00:00.123456Z","signalledAt":null,"survivors":[],"outcome":"STOPPED"}}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := f.aborts[0]; got != (run.AbortOrder{Run: runA, Silent: true, Wait: true, Reason: "enough"}) {
		t.Errorf("the order is %+v", got)
	}
	f.live = false
	if got := data(t, do(t, api, q, nil)); !strings.Contains(got, `"ALREADY_ENDED"`) {
		t.Errorf("the abort of an ended run gives %s", got)
	}
}

func TestRunShowsWhole(t *testing.T) {
	t.Parallel()
	f := newFake()
	cost, code := int64(1_500_000_000), 2
	r := f.runs[runA]
	r.Usage = run.Usage{Tokens: run.Tokens{Input: 1 << 60, Output: 5}, ComputeMicros: 2_500_000, CostNanoUSD: &cost, CostSource: run.Computed, Provenance: run.Measured, Unpriced: 1}
	r.Input = run.Input{Agent: "trainer", Env: []run.EnvVar{{Name: "SECRET", Value: "hunter2"}}, Labels: []byte(`{"a":1}`), Sandbox: run.SandboxRequest{CPUs: 2}}
	r.Abort = &run.Receipt{Run: runA, RequestedAt: noon, Survivors: []int{42}, Outcome: run.AbortSurvivors}
	f.runs[runA] = r
	f.execs = []run.Execution{{ID: "exe_1", Backend: "local", StartedAt: noon, EndedAt: noon, Elapsed: 1500 * time.Millisecond, Class: run.ClassError, ExitCode: &code, Loss: run.Loss{BytesRead: 7, BytesNotKept: 1}}, {ID: "exe_2", StartedAt: noon}}
	// The row of an execution that has ended wins over what is still in memory.
	f.losses = map[run.ExecutionID]run.Loss{"exe_1": {BytesRead: 6}, "exe_2": {BytesRead: 9, RejectedSamples: []string{"x"}}}
	f.outputs = map[string][]run.Output{sesID + "/exe_1": {{Stream: run.Stderr, Bytes: 6}}}
	f.series = []run.Series{{Key: run.SeriesKey{Run: runA, Attempt: 1, Name: "loss"}, AsOfSeq: 9, Buckets: []run.Bucket{
		{FromStep: 0, ToStep: 1, Count: 3, NaN: 1, Min: 1, Max: 3, First: 1, Last: 3, FirstAt: noon, LastAt: noon},
		{FromStep: 2, ToStep: 3, Count: 1, PositiveInfinity: 1, FirstAt: noon, LastAt: noon},
	}}}
	got := data(t, do(t, setup(t, f), `{run(id:"`+runA+`"){session{title activeRun{id} runs{nodes{id}}} parent{id} children{parent{id} exitReason}
		labels config input{sandbox command} usage{input computeSeconds costUsd costNanoUsd costSource provenance unpriced}
		usageInclusive{costUsd provenance} executions{exitClass exitCode seconds command loss{bytesRead bytesNotKept rejectedSamples} outputs{stream bytes url}}
		abort{survivors outcome} metrics{asOfSeq buckets{count nan positiveInfinity min last}} startedAt}}`, nil))
	want := `{"run":{"session":{"title":"one","activeRun":{"id":"` + runA + `"},"runs":{"nodes":[{"id":"` + runA + `"}]}},"parent":null,` +
		`"children":[{"parent":{"id":"` + runA + `"},"exitReason":"COMPLETED"}],"labels":{"a":1},"config":null,"input":{"sandbox":{"cpus":2},"command":null},` +
		`"usage":{"input":"1152921504606846976","computeSeconds":2.5,"costUsd":1.5,"costNanoUsd":1500000000,"costSource":"COMPUTED","provenance":"MEASURED","unpriced":1},` +
		`"usageInclusive":{"costUsd":null,"provenance":"UNKNOWN"},` +
		`"executions":[{"exitClass":"ERROR","exitCode":2,"seconds":1.5,"command":[],"loss":{"bytesRead":7,"bytesNotKept":1,"rejectedSamples":[]},"outputs":[{"stream":"STDERR","bytes":6,"url":"/executions/exe_1/stderr"}]},` +
		`{"exitClass":null,"exitCode":null,"seconds":null,"command":[],"loss":{"bytesRead":9,"bytesNotKept":0,"rejectedSamples":["x"]},"outputs":[]}],` +
		`"abort":{"survivors":[42],"outcome":"SURVIVORS"},` +
		`"metrics":[{"asOfSeq":9,"buckets":[{"count":3,"nan":1,"positiveInfinity":0,"min":1,"last":3},{"count":1,"nan":0,"positiveInfinity":1,"min":null,"last":null}]}],"startedAt":null}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if strings.Contains(got, "hunter2") {
		t.Error("the environment shows")
	}
}

func TestARunOutlivesItsSession(t *testing.T) {
	t.Parallel()
	f := newFake()
	delete(f.sessions, sesID)
	got := data(t, do(t, setup(t, f), `{run(id:"`+runA+`"){session{id title}}}`, nil))
	if got != `{"run":{"session":{"id":"`+sesID+`","title":null}}}` {
		t.Error(got)
	}
}

func TestErrorsOfTheEngineShowTheirCode(t *testing.T) {
	t.Parallel()
	for _, code := range []run.Code{run.NotFound, run.Conflict, run.Invalid, run.Forbidden, run.Busy, run.Unavailable, run.Unauthenticated} {
		f := newFake()
		f.err = fmt.Errorf("starting: %w", run.Errorf(code, "the session is busy: %w", errBoom))
		msg := refused(t, do(t, setup(t, f), `mutation{startRun(input:{agent:"a"}){id}}`, nil), code)
		if !strings.Contains(msg, "the session is busy") {
			t.Errorf("%s shows as %q", code, msg)
		}
	}
}

// What nobody meant to show goes to the log under an id, and nothing else shows.
func TestUnexpectedErrorsAreHidden(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(f *fake){
		"Plain":    func(f *fake) { f.err = errBoom },
		"Internal": func(f *fake) { f.err = run.Errorf(run.Internal, "table runs: %w", errBoom) },
		"Panic":    func(f *fake) { f.runs = nil; f.agents = nil; f.err = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			f := newFake()
			fail(f)
			o := Options{Runs: f, Reader: f, Feed: f, Agents: f, Server: f, Log: slog.New(slog.NewTextHandler(&log, nil))}
			if name == "Panic" {
				o.Runs = nil // a call of a nil interface
			}
			msg := refused(t, do(t, New(o), `mutation{startRun(input:{agent:"a"}){id}}`, nil), run.Internal)
			if strings.Contains(msg, "fire") || strings.Contains(msg, "nil") {
				t.Errorf("the client sees %q", msg)
			}
			_, rest, ok := strings.Cut(msg, "id ")
			id, _, _ := strings.Cut(rest, ")")
			if !ok || !strings.Contains(log.String(), id) {
				t.Errorf("the log does not have the id of %q:\n%s", msg, &log)
			}
			if name != "Panic" && !strings.Contains(log.String(), "disk on fire") {
				t.Errorf("the log does not have the cause:\n%s", &log)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	api := setup(t, newFake())
	deep := "id"
	for range 12 {
		deep = "parent{" + deep + "}"
	}
	bomb := `{runs{...f0}} `
	for i := range 60 {
		bomb += fmt.Sprintf("fragment f%d on RunConnection{...f%d ...f%d} ", i, i+1, i+1)
	}
	bomb += "fragment f60 on RunConnection{hasMore}"
	types := `{__schema{types{...t0}}} `
	for i := range 60 {
		types += fmt.Sprintf("fragment t%d on __Type{...t%d ...t%d} ", i, i+1, i+1)
	}
	types += "fragment t60 on __Type{name}"
	for name, c := range map[string]struct{ query, says string }{
		"Depth":             {`{run(id:"` + runA + `"){` + deep + `}}`, "levels deep"},
		"Complexity":        {`{sessions(first:200){nodes{runs(first:200){nodes{children{id agent executions{id}}}}}}}`, "may yield"},
		"MetricsOfManyRuns": {`{runs(first:200){nodes{metrics{buckets{min max first last}}}}}`, "may yield"},
		"FragmentBomb":      {bomb, "over and over"},
		"IntrospectionBomb": {types, "over and over"},
	} {
		start := time.Now()
		msg := refused(t, do(t, api, c.query, nil), run.Invalid)
		if !strings.Contains(msg, c.says) {
			t.Errorf("%s: %s", name, msg)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%s took %s to refuse", name, d)
		}
	}
}

// What GraphiQL and the dashboard ask stays within the limits.
func TestUsualOperationsAreWithinTheLimits(t *testing.T) {
	t.Parallel()
	f := newFake()
	api := setup(t, f)
	if got := data(t, do(t, api, introspection.Query, nil)); !strings.Contains(got, `"StartRunInput"`) {
		t.Error("introspection does not show the schema")
	}
	data(t, do(t, api, `{events(sessionId:"`+sesID+`",first:1000){nodes{`+allFields()+`}}}`, nil))
	data(t, do(t, api, `{run(id:"`+runA+`"){metrics(maxPoints:10000){name buckets{fromStep toStep count min max first last firstAt lastAt nan}}}}`, nil))
	data(t, do(t, api, `{server{version store sandboxes{backend available reason isolation}} agents{name problem}}`, nil))
}

// A feed that fails ends the stream, and the transport is told why.
func TestAFailingFeedIsReported(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func() error{
		"ByAnError": func() error { return errBoom },
		"ByAPanic":  func() error { panic(errBoom) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.follow = func(_ context.Context, _ int64, send func([]*run.Event) error) error {
				if err := send([]*run.Event{event(1, &run.Warning{Text: "w"})}); err != nil {
					return err
				}
				return end()
			}
			api := setup(t, f)
			ctx, outcome := Watch(t.Context())
			next := open(ctx, t, api, `subscription{events(sessionId:"`+sesID+`"){seq}}`, nil)
			data(t, next(t))
			if r := next(t); r.Data != nil {
				t.Fatalf("the stream goes on: %s", r.Data)
			}
			api.Wait()
			if err := outcome(); err == nil || !strings.Contains(err.Error(), errBoom.Error()) {
				t.Errorf("the outcome is %v", err)
			}
		})
	}
}

// The goroutine of a subscription ends with its context, whether it waits for
// news or for its reader, and says nothing then.
func TestPipeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]bool{"WaitingForNews": true, "WaitingForItsReader": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := new(resolver)
				ctx, outcome := Watch(t.Context())
				ctx, cancel := context.WithCancelCause(ctx)
				out := pipe(ctx, &r.feeds, func(send func(int) error) error {
					if err := send(1); err != nil {
						return err
					}
					<-ctx.Done()
					return ctx.Err()
				})
				if read {
					<-out
				}
				synctest.Wait()
				cancel(errors.New("the client left"))
				r.feeds.Wait()
				if _, ok := <-out; ok {
					t.Error("the channel is not closed")
				}
				if err := outcome(); err != nil {
					t.Errorf("a cancelled stream reports %v", err)
				}
			})
		})
	}
}

func TestRunsSubscription(t *testing.T) {
	t.Parallel()
	api := setup(t, newFake())
	ctx, cancel := contextWithCancel(t)
	next := open(ctx, t, api, `subscription{runs(filter:{sessionId:"`+sesID+`"}){id status}}`, nil)
	if got := data(t, next(t)); got != `{"runs":{"id":"`+runA+`","status":"RUNNING"}}` {
		t.Error(got)
	}
	cancel()
	api.Wait()
}

// The page's own operations pass validation and the limits, with all defaults.
func TestOperationsOfThePage(t *testing.T) {
	t.Parallel()
	const file = "../web/src/app/api/operations.graphql"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := generated.NewExecutableSchema(generated.Config{Complexity: complexity()})
	doc, errs := gqlparser.LoadQueryWithRules(s.Schema(), string(text), rules.NewDefaultRules())
	if errs != nil {
		t.Fatalf("%s: %v", file, errs)
	}
	if err := (preflight{valid: graphql.NoCache[*ast.QueryDocument]{}}).MutateOperationParameters(t.Context(), &graphql.RawParams{Query: string(text)}); err != nil {
		t.Errorf("all of %s: %s", file, err.Message)
	}
	l := limit{schema: s, depth: defaultDepth, complexity: defaultComplexity}
	for _, op := range doc.Operations {
		if err := l.MutateOperationContext(t.Context(), &graphql.OperationContext{Operation: op}); err != nil {
			t.Errorf("%s: %s", op.Name, err.Message)
		}
	}
}
