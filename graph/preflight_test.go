package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/weirhq/weir/runtime/run"
)

// A number that 64 bits do not hold is refused wherever it stands, with its
// place and value, before anything reads it.
func TestNumbersOutOfRange(t *testing.T) {
	t.Parallel()
	const big, small, huge = "9223372036854775808", "-9223372036854775809", "1e400"
	for _, c := range []struct{ query, says string }{
		{`subscription{events(sessionId:"` + sesID + `",after:` + big + `){seq}}`, "after is " + big},
		{`{events(sessionId:"` + sesID + `",after:` + small + `){lastSeq}}`, "after is " + small},
		{`{run(id:"` + runA + `"){metrics(toStep:` + big + `){name}}}`, "toStep is " + big},
		{`{run(id:"` + runA + `"){metrics(fromStep:` + huge + `){name}}}`, "fromStep is " + huge},
		{`{run(id:"` + runA + `"){...on Run{...f}}} fragment f on Run{metrics(fromStep:` + huge + `){name}}`, "fromStep is " + huge},
		{`{runs(first:` + big + `){hasMore}}`, "first is " + big},
		{`{session(id:` + big + `){id}}`, "id is " + big},
		{`{compareMetrics(runIds:["a",` + big + `]){name}}`, "runIds is " + big},
		{`{server @include(if:` + big + `){version}}`, "if is " + big},
		{`query($a:Long=` + big + `){events(sessionId:"` + sesID + `",after:$a){lastSeq}}`, "the default of $a is " + big},
		{`mutation{startRun(input:{agent:"a",timeoutSeconds:1e999}){id}}`, "input.timeoutSeconds is 1e999"},
		{`mutation{startRun(input:{agent:"a",labels:{a:[{b:` + big + `}]}}){id}}`, "input.labels.a.b is " + big},
		{`mutation{answerQuestion(input:{id:"q",answer:` + strings.Repeat("9", 100) + `}){id}}`, "input.answer is " + strings.Repeat("9", 60) + "..."},
	} {
		f := newFake()
		msg := refused(t, do(t, setup(t, f), c.query, nil), run.Invalid)
		if !strings.Contains(msg, c.says) || !strings.Contains(msg, "out of range") {
			t.Errorf("%s: %s; want %q", c.query, msg, c.says)
		}
	}
	api := setup(t, newFake())
	data(t, do(t, api, `{events(sessionId:"`+sesID+`",after:9223372036854775807){lastSeq}}`, nil))
	data(t, do(t, api, `{run(id:"`+runA+`"){metrics(fromStep:-9223372036854775808){name}}}`, nil))
}

// A small document must not cost seconds: what takes the validation long, or
// makes it find thousands of faults, is refused before.
func TestDocumentsThatAreSlowToValidate(t *testing.T) {
	t.Parallel()
	repeat := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	fields := func(n int) string { return strings.Repeat("server{version} ", n) }
	cycle := repeat(100, "...f%d ")
	for i := range 100 {
		cycle += fmt.Sprintf("} fragment f%d on Query{...f%d server{version}", i, (i+1)%100)
	}
	for name, c := range map[string]struct{ query, says string }{
		"Tokens":         {"{" + fields(4500) + "}", "over 5000 tokens"},
		"Selections":     {"{" + repeat(1001, "a%d:__typename ") + "}", "over 1000 selections"},
		"SameField":      {"{" + fields(490) + "}", "(version is one)"},
		"SameLeaf":       {"{server{" + strings.Repeat("version ", 990) + "}}", "(version is one)"},
		"InFragments":    {"{" + repeat(300, "...f%d ") + "}" + repeat(300, "fragment f%d on Query{server{version}} "), "over and over"},
		"InlineFragment": {"{" + strings.Repeat("...{server{version}} ", 200) + "}", "over and over"},
		"Conflicts":      {"{" + repeat(300, `a:session(id:"%d"){id} `) + "}", "(id is one)"},
		"Cycle":          {"{" + cycle + "}", "over and over"},
		"Spread":         {"{" + repeat(20, "a%d:server{...f} ") + "} fragment f on ServerInfo{" + repeat(300, "b%d:version ") + "}", "over 5000 fields"},
		"LongName":       {"{" + strings.Repeat("x", 101) + "}", "has 101 bytes"},
		"LongEnum":       {"{events(sessionId:\"s\",types:[" + strings.Repeat("X", 5000) + "]){lastSeq}}", "has 5000 bytes"},
	} {
		start := time.Now()
		r := do(t, setup(t, newFake()), c.query, nil)
		if len(r.Errors) != 1 || !strings.Contains(r.Errors[0].Message, c.says) {
			t.Errorf("%s: %d errors, want one with %q: %.300v", name, len(r.Errors), c.says, r.Errors)
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("%s took %s to refuse", name, d)
		}
	}
	// Many selections with names of their own are fine.
	api := setup(t, newFake())
	data(t, do(t, api, "{"+repeat(300, `a%d:server{version store}`)+"}", nil))
	// A cycle is named as such.
	r := do(t, api, `{...a} fragment a on Query{...b} fragment b on Query{...a}`, nil)
	if len(r.Errors) == 0 || !strings.Contains(r.Errors[0].Message, "itself") {
		t.Errorf("a cycle: %+v", r.Errors)
	}
}

func TestManyFaultsAreNotAllListed(t *testing.T) {
	t.Parallel()
	q := "{"
	for i := range 900 {
		q += fmt.Sprintf("nope%d ", i)
	}
	r := do(t, setup(t, newFake()), q+"}", nil)
	if len(r.Errors) != maxErrors || !strings.Contains(r.Errors[maxErrors-1].Message, "881 more errors") {
		t.Errorf("%d errors, the last is %q", len(r.Errors), r.Errors[len(r.Errors)-1].Message)
	}
}

// A document that was judged once is not read again; one of a client that is
// gone is not read at all.
func TestPreflightIsSpared(t *testing.T) {
	t.Parallel()
	p := preflight{valid: lru.New[*ast.QueryDocument](2)}
	bad := &graphql.RawParams{Query: `{runs(first:9223372036854775808){hasMore}}`}
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := p.MutateOperationParameters(ctx, bad); err == nil || err.Extensions["code"] != string(run.Invalid) {
		t.Fatalf("refused with %v", err)
	}
	p.valid.Add(ctx, bad.Query, new(ast.QueryDocument))
	if err := p.MutateOperationParameters(ctx, bad); err != nil {
		t.Errorf("judged again: %v", err)
	}
	gone := errors.New("the client is gone")
	cancel(gone)
	if err := p.MutateOperationParameters(ctx, bad); !errors.Is(err, gone) {
		t.Errorf("without a client: %v", err)
	}
}

// A subscription has one stream; what leaves it with none or two is the
// client's mistake.
func TestASubscriptionSelectsOneStream(t *testing.T) {
	t.Parallel()
	events := `events(sessionId:"` + sesID + `")`
	for query, says := range map[string]string{
		`subscription{a:` + events + `{seq} b:` + events + `{seq}}`:                "selects 2 fields, a and b among them",
		`subscription{...on Subscription{a:runs{id}} b:runs{id}}`:                  "selects 2 fields",
		`subscription{` + events + ` @skip(if:true){seq}}`:                         "selects nothing",
		`subscription{...on Subscription @include(if:false){` + events + `{seq}}}`: "selects nothing",
	} {
		msg := refused(t, do(t, setup(t, newFake()), query, nil), run.Invalid)
		if !strings.Contains(msg, says) {
			t.Errorf("%s: %s; want %q", query, msg, says)
		}
	}
	api := setup(t, newFake())
	ctx, cancel := contextWithCancel(t)
	next := open(ctx, t, api, `subscription($no:Boolean!){a:runs{id} b:runs @skip(if:$no){id}}`, map[string]any{"no": true})
	if got := data(t, next(t)); got != `{"a":{"id":"`+runA+`"}}` {
		t.Error(got)
	}
	cancel()
	api.Wait()
}

// A wrong variable is named, with the kind of value that the client sent.
func TestVariablesAreNamed(t *testing.T) {
	t.Parallel()
	const start = `mutation($i:StartRunInput!){startRun(input:$i){id}}`
	input := func(name string, v any) map[string]any {
		return map[string]any{"i": map[string]any{"agent": "a", name: v}}
	}
	const validation = run.Code("GRAPHQL_VALIDATION_FAILED")
	for name, c := range map[string]struct {
		query string
		vars  map[string]any
		code  run.Code
		says  string
	}{
		"UnknownField": {start, input("colour", "red"), validation, "the variable $i.colour: unknown field"},
		"InAList":      {start, input("env", []any{map[string]any{"name": "A"}}), validation, "$i.env[0].value: must be defined"},
		"Boolean": {
			`query($b:Boolean!){server @skip(if:$b){version}}`,
			map[string]any{"b": json.Number("5")},
			validation,
			"the variable $b: cannot use the number 5 as Boolean",
		},
		"BooleanText":  {`query($b:Boolean!){server @skip(if:$b){version}}`, map[string]any{"b": "yes"}, validation, "cannot use string as Boolean"},
		"Missing":      {start, nil, validation, "the variable $i: must be defined"},
		"NumberAsText": {start, map[string]any{"i": map[string]any{"agent": json.Number("5")}}, run.Invalid, "5 is not text"},
		"ArgumentText": {`query($n:String!){__type(name:$n){name}}`, map[string]any{"n": json.Number("5")}, run.Invalid, "5 is not text"},
	} {
		f := newFake()
		msg := refused(t, do(t, setup(t, f), c.query, c.vars), c.code)
		if !strings.Contains(msg, c.says) {
			t.Errorf("%s: %s; want %q", name, msg, c.says)
		}
		if len(f.started) > 0 {
			t.Errorf("%s: the engine was called", name)
		}
	}
}

// Who follows a session learns that it was deleted, and only then.
func TestDeletingASessionEndsItsSubscriptions(t *testing.T) {
	t.Parallel()
	f := newFake()
	api := setup(t, f)
	f.err = run.Errorf(run.Busy, "a run is open")
	refused(t, do(t, api, `mutation{deleteSession(id:"`+sesID+`")}`, nil), run.Busy)
	if len(f.deleted) != 0 {
		t.Error("the session is still there")
	}
	f.err = nil
	data(t, do(t, api, `mutation{deleteSession(id:"`+sesID+`")}`, nil))
	if len(f.deleted) != 1 || f.deleted[0] != sesID {
		t.Errorf("the followers of %v end", f.deleted)
	}
}
