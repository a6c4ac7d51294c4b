package graph

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gqlast "github.com/vektah/gqlparser/v2/ast"

	"github.com/weirhq/weir/graph/generated"
	"github.com/weirhq/weir/graph/model"
	"github.com/weirhq/weir/runtime/run"
)

func schema() *gqlast.Schema { return generated.NewExecutableSchema(generated.Config{}).Schema() }

// samples gives one event of every type, with every field of its payload set.
func samples(t *testing.T) []*run.Event {
	t.Helper()
	var events []*run.Event
	for i, typ := range run.EventTypes() {
		e := &run.Event{Type: typ, Body: []byte("{}")}
		p, err := e.Payload()
		if err != nil {
			t.Fatal(err)
		}
		fill(reflect.ValueOf(p).Elem())
		switch p := p.(type) {
		case *run.MediaLogged:
			p.Kind = "image_grid"
		case *run.StateChanged:
			p.Status = run.Running
		case *run.RunEnded:
			p.Status, p.ExitReason = run.Done, run.Completed
		case *run.OutputWritten:
			p.Stream = run.Stderr
		case *run.ExecutionFinished:
			p.ExitClass = run.ClassError
		case *run.QuestionAnswered:
			p.Outcome = run.QuestionIsAnswered
		case *run.BudgetReached:
			p.Scope, p.Action, p.Day = run.BudgetAgentDay, run.BudgetPause, "2026-12-01"
		case *run.UsageRecorded:
			p.Provenance, p.CostSource = run.Measured, run.Computed
		}
		events = append(events, event(int64(i+1), p))
	}
	return events
}

func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case json.RawMessage:
		v.Set(reflect.ValueOf(json.RawMessage(`{"b":1,"a":[12345678901234567890,"<&>"]}`)))
		return
	case time.Time:
		v.Set(reflect.ValueOf(noon))
		return
	case run.Point:
		v.Set(reflect.ValueOf(run.Point{Step: 1, Name: "loss", Value: 0.5, RunTag: "a", Stage: "train", At: noon}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.SetMapIndex(key, value)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	default:
		panic("a payload has a field of kind " + v.Kind().String())
	}
}

func typeName(t run.EventType) string {
	var b strings.Builder
	for part := range strings.SplitSeq(string(t), "_") {
		b.WriteString(part[:1] + strings.ToLower(part[1:]))
	}
	return b.String()
}

// allFields selects every field of every event type.
func allFields() string {
	s := schema()
	var b strings.Builder
	b.WriteString("__typename seq at type sessionId runId agent stage")
	for _, typ := range run.EventTypes() {
		def := s.Types[typeName(typ)]
		fmt.Fprintf(&b, " ... on %s {", def.Name)
		for _, f := range def.Fields {
			b.WriteString(" " + f.Name + selection(s, f.Type.Name()))
		}
		b.WriteString(" }")
	}
	return b.String()
}

func selection(s *gqlast.Schema, name string) string {
	def := s.Types[name]
	if def.Kind != gqlast.Object {
		return ""
	}
	var fields []string
	for _, f := range def.Fields {
		fields = append(fields, f.Name+selection(s, f.Type.Name()))
	}
	return "{" + strings.Join(fields, " ") + "}"
}

// Every event type has its GraphQL type, and everything its payload holds shows:
// with all of it set, no field is null but those that exclude each other.
func TestEveryEventTypeShowsWhole(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.events = samples(t)
	raw := data(t, do(t, setup(t, f), `{events(sessionId:"`+sesID+`"){nodes{`+allFields()+`}}}`, nil))
	var got struct {
		Events struct{ Nodes []map[string]any }
	}
	if err := json.Unmarshal([]byte(raw), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Events.Nodes) != len(run.EventTypes()) {
		t.Fatalf("got %d events, want %d", len(got.Events.Nodes), len(run.EventTypes()))
	}
	for i, typ := range run.EventTypes() {
		node := got.Events.Nodes[i]
		if node["__typename"] != typeName(typ) || node["type"] != string(typ) {
			t.Errorf("%s shows as %v of type %v", typ, node["__typename"], node["type"])
		}
		wantNoNull(t, string(typ), node)
	}
}

func wantNoNull(t *testing.T, at string, v any) {
	t.Helper()
	switch v := v.(type) {
	case nil:
		if !strings.HasSuffix(at, ".special") { // a finite value has no mark
			t.Errorf("%s is null although its payload sets it", at)
		}
	case map[string]any:
		for k, x := range v {
			wantNoNull(t, at+"."+k, x)
		}
	case []any:
		for i, x := range v {
			wantNoNull(t, at+"."+strconv.Itoa(i), x)
		}
	}
}

// Clients select several event types in one selection: a field name that had
// two types would make that an invalid document.
func TestAFieldNameHasOneType(t *testing.T) {
	t.Parallel()
	s := schema()
	types := map[string]string{}
	of := map[string]string{}
	for _, def := range s.GetPossibleTypes(s.Types["Event"]) {
		for _, f := range def.Fields {
			if known, ok := types[f.Name]; ok && known != f.Type.String() {
				t.Errorf("%s is %s in %s and %s in %s", f.Name, known, of[f.Name], f.Type, def.Name)
			}
			types[f.Name], of[f.Name] = f.Type.String(), def.Name
		}
	}
	if n := len(s.GetPossibleTypes(s.Types["Event"])); n != len(run.EventTypes()) {
		t.Errorf("the schema has %d event types, the log %d", n, len(run.EventTypes()))
	}
}

// constants reads the values of a string type's constants from the source of package run.
func constants(t *testing.T, name string) []string {
	t.Helper()
	files, err := filepath.Glob("../runtime/run/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("the source of package run is not where it was", err)
	}
	var values []string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if id, ok := spec.Type.(*ast.Ident); ok && id.Name == name {
				for _, v := range spec.Values {
					if lit, ok := v.(*ast.BasicLit); ok {
						s, _ := strconv.Unquote(lit.Value)
						if s != "" {
							values = append(values, s)
						}
					}
				}
			}
			return true
		})
	}
	if len(values) == 0 {
		t.Fatalf("package run has no constants of type %s", name)
	}
	return values
}

func texts[T ~string](list []T) []string {
	return each(list, func(v T) string { return string(v) })
}

func TestEnumsAreThoseOfPackageRun(t *testing.T) {
	t.Parallel()
	for name, have := range map[string][]string{
		"EventType":     texts(model.AllEventType),
		"Status":        texts(model.AllRunStatus),
		"ExitReason":    texts(model.AllExitReason),
		"ExitClass":     texts(model.AllExitClass),
		"OutputStream":  texts(model.AllOutputStream),
		"Provenance":    texts(model.AllProvenance),
		"CostSource":    texts(model.AllCostSource),
		"OnBusy":        texts(model.AllOnBusy),
		"AbortOutcome":  texts(model.AllAbortOutcome),
		"QuestionState": texts(model.AllQuestionState),
	} {
		want := constants(t, name)
		slices.Sort(want)
		slices.Sort(have)
		if !slices.Equal(have, want) {
			t.Errorf("%s: the schema has %v, package run %v", name, have, want)
		}
	}
}

// The same event has the same bytes in a page and in a stream.
func TestAnEventHasTheSameBytesEverywhere(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.events = samples(t)
	api := setup(t, f)
	fields := allFields()

	var page struct {
		Events struct{ Nodes []json.RawMessage }
	}
	raw := data(t, do(t, api, `{events(sessionId:"`+sesID+`"){nodes{`+fields+`}}}`, nil))
	if err := json.Unmarshal([]byte(raw), &page); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := contextWithCancel(t)
	next := open(ctx, t, api, `subscription{events(sessionId:"`+sesID+`"){`+fields+`}}`, nil)
	var live []json.RawMessage
	for len(live) < len(f.events) {
		var batch struct{ Events []json.RawMessage }
		if err := json.Unmarshal([]byte(data(t, next(t))), &batch); err != nil {
			t.Fatal(err)
		}
		live = append(live, batch.Events...)
	}
	cancel()
	api.Wait()
	for i := range live {
		if string(live[i]) != string(page.Events.Nodes[i]) {
			t.Errorf("event %d:\nlive %s\npage %s", i+1, live[i], page.Events.Nodes[i])
		}
	}
}

// An event that cannot be read neither ends a stream nor leaves a hole.
func TestAnUnreadableEventShowsAsWarning(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]*run.Event{
		"BrokenBody":   {Session: sesID, Seq: 1, At: noon, Type: run.TypeAgentMessage, Body: []byte(`{"text":`)},
		"UnknownType":  {Session: sesID, Seq: 1, At: noon, Type: "FROM_THE_FUTURE", Body: []byte(`{}`)},
		"UnknownMedia": event(1, &run.MediaLogged{Kind: "smell", Key: "k", Data: json.RawMessage(`1`)}),
	} {
		w, ok := toEvent(e).(*model.Warning)
		if !ok || w.Seq != 1 || w.Type != model.EventTypeWarning || w.Text == "" {
			t.Errorf("%s shows as %#v", name, toEvent(e))
		}
	}
}

func TestSpecialFloatsTravelAsNullWithAMark(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.events = []*run.Event{event(1, &run.MetricsLogged{Points: []run.Point{
		{Name: "loss", At: noon, Special: run.NaN},
		{Name: "loss", At: noon, Special: run.PositiveInfinity},
		{Name: "loss", At: noon, Special: run.NegativeInfinity},
		{Name: "loss", At: noon, Value: 0},
	}})}
	got := data(t, do(t, setup(t, f), `{events(sessionId:"`+sesID+`"){nodes{...on MetricsLogged{points{value special}}}}}`, nil))
	want := `{"events":{"nodes":[{"points":[{"value":null,"special":"NAN"},{"value":null,"special":"POSITIVE_INFINITY"},` +
		`{"value":null,"special":"NEGATIVE_INFINITY"},{"value":0,"special":null}]}]}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	small := make([]*run.Event, 200)
	for i := range small {
		small[i] = &run.Event{Body: make([]byte, 10)}
	}
	large := []*run.Event{{Body: make([]byte, batchBytes+1)}, {Body: make([]byte, 1)}}
	half := []*run.Event{{Body: make([]byte, batchBytes/2)}, {Body: make([]byte, batchBytes/2)}, {Body: make([]byte, 1)}}
	for name, c := range map[string]struct {
		events []*run.Event
		want   int
	}{
		"ByCount": {small, batchEvents}, "ALargeOneAlone": {large, 1}, "ByBytes": {half, 2}, "TheRest": {small[:3], 3},
	} {
		if got := batch(c.events); got != c.want {
			t.Errorf("%s: a batch of %d, want %d", name, got, c.want)
		}
	}
}
