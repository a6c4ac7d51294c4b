package graph

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

func nano(n int64) *int64 { return &n }

// What is not grouped by is null, what has no value is empty, and the range, the
// dimensions and the filter arrive as asked.
func TestUsageRollups(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.rollups = []run.UsageRollup{
		{Day: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC), Model: "m1", Runs: 1 << 60, Usage: run.Usage{Tokens: run.Tokens{Input: 7}, CostNanoUSD: nano(1_500_000_000), Unpriced: 2}},
		{Day: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)},
	}
	api := setup(t, f)
	got := data(t, do(t, api, `{usageRollups(from:"2026-11-30",to:"2026-12-01",groupBy:[MODEL,DAY,MODEL],filter:{team:"",model:"m1"})
		{day agent team model provider backend runs usage{input costUsd costNanoUsd unpriced provenance}}}`, nil))
	const empty = `"agent":null,"team":null`
	if want := `{"usageRollups":[{"day":"2026-11-30",` + empty + `,"model":"m1","provider":null,"backend":null,"runs":"1152921504606846976",` +
		`"usage":{"input":7,"costUsd":1.5,"costNanoUsd":1500000000,"unpriced":2,"provenance":"UNKNOWN"}},` +
		`{"day":"2026-12-01",` + empty + `,"model":"","provider":null,"backend":null,"runs":0,"usage":{"input":0,"costUsd":null,"costNanoUsd":null,"unpriced":0,"provenance":"UNKNOWN"}}]}`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	q := f.rollupAsk
	if q.From.Format(time.RFC3339) != "2026-11-30T00:00:00Z" || q.To.Format(time.RFC3339) != "2026-12-01T00:00:00Z" ||
		!slices.Equal(q.GroupBy, []run.UsageDimension{run.ByModel, run.ByDay, run.ByModel}) || q.Filter.Agent != nil || *q.Filter.Team != "" || *q.Filter.Model != "m1" {
		t.Errorf("asked for %+v", q)
	}
}

// Every dimension of the API is one of the domain, and the other way round.
func TestUsageDimensions(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.rollups = []run.UsageRollup{{Day: noon, Agent: "a", Team: "t", Model: "m", Provider: "p", Backend: "b"}}
	var names []string
	for _, d := range run.UsageDimensions() {
		names = append(names, string(d))
	}
	got := data(t, do(t, setup(t, f), `{usageRollups(from:"2026-11-30",to:"2026-11-30",groupBy:[`+strings.Join(names, ",")+`]){day agent team model provider backend}}`, nil))
	if want := `{"usageRollups":[{"day":"2026-11-30","agent":"a","team":"t","model":"m","provider":"p","backend":"b"}]}`; got != want {
		t.Errorf("got %s", got)
	}
	if !slices.Equal(f.rollupAsk.GroupBy, run.UsageDimensions()) {
		t.Errorf("asked for %v", f.rollupAsk.GroupBy)
	}
}

func TestUsageRecordsAndSnapshots(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.usage = run.Usage{Tokens: run.Tokens{Output: 9}, Unpriced: 1, Records: 2, Provenance: run.Partial}
	f.records = []run.UsageRecord{
		{
			Run: runA, RequestKey: "msg_1", Kind: run.ModelCall, At: noon, Rank: run.FromStatusPoll, Provenance: run.Measured, Stream: "svc", Summed: true, Superseded: true,
			Provider: "anthropic", Model: "m", Tier: "batch", Tokens: run.Tokens{Input: 1, CacheWriteLong: 2}, ToolCalls: map[string]int64{"web_search": 3},
			CostNanoUSD: nano(5), CostSource: run.AgentReported, ComputedNanoUSD: nano(6), PriceID: "row-1", Raw: []byte(`{"hidden":1}`),
		},
		{Run: runA, RequestKey: "exe_1", Kind: run.ComputeUsage, At: noon, Rank: run.FromResult, Backend: "local", GPU: "T4", ComputeMicros: 1_500_000, IsError: true},
	}
	api := setup(t, f)
	got := data(t, do(t, api, `{run(id:"`+runA+`"){session{usage{output provenance unpriced}}
		usageRecords(first:2,after:"msg_0"){requestKey kind at source provider model tier usageStream backend gpu isError toolCalls computedNanoUsd priceId summed superseded
		usage{input cacheWriteLong computeSeconds costNanoUsd costSource provenance unpriced}}
		snapshots(after:"2026-11-30T11:00:00.000001Z"){at usage{output}}}}`, nil))
	at := `"at":"2026-11-30T12:00:00.123456Z"`
	if want := `{"run":{"session":{"usage":{"output":9,"provenance":"PARTIAL","unpriced":1}},` +
		`"usageRecords":[{"requestKey":"msg_1","kind":"MODEL",` + at + `,"source":"STATUS_POLL","provider":"anthropic","model":"m","tier":"batch","usageStream":"svc","backend":null,"gpu":null,"isError":false,` +
		`"toolCalls":{"web_search":3},"computedNanoUsd":6,"priceId":"row-1","summed":true,"superseded":true,` +
		`"usage":{"input":1,"cacheWriteLong":2,"computeSeconds":0,"costNanoUsd":5,"costSource":"AGENT_REPORTED","provenance":"MEASURED","unpriced":0}},` +
		`{"requestKey":"exe_1","kind":"COMPUTE",` + at + `,"source":"RESULT","provider":null,"model":null,"tier":null,"usageStream":null,"backend":"local","gpu":"T4","isError":true,` +
		`"toolCalls":null,"computedNanoUsd":null,"priceId":null,"summed":false,"superseded":false,` +
		`"usage":{"input":0,"cacheWriteLong":0,"computeSeconds":1.5,"costNanoUsd":null,"costSource":null,"provenance":"UNKNOWN","unpriced":1}}],` +
		`"snapshots":[{` + at + `,"usage":{"output":9}}]}}`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if q := (run.RecordQuery{Run: runA, After: "msg_0", First: 2}); f.recordAsk != q {
		t.Errorf("asked for the records %+v", f.recordAsk)
	}
	if q := f.snapshotAsk; q.Run != runA || q.First != defaultRecords || q.After.Format(time.RFC3339Nano) != "2026-11-30T11:00:00.000001Z" {
		t.Errorf("asked for the snapshots %+v", q)
	}
}

// Every source of a record has a name in the API.
func TestUsageSources(t *testing.T) {
	t.Parallel()
	f := newFake()
	for _, rank := range []run.SourceRank{run.FromEstimate, run.FromStatusPoll, run.FromTranscript, run.FromResult, 0} {
		f.records = append(f.records, run.UsageRecord{Kind: run.ModelCall, Rank: rank})
	}
	got := data(t, do(t, setup(t, f), `{run(id:"`+runA+`"){usageRecords{source}}}`, nil))
	if want := `{"run":{"usageRecords":[{"source":"ESTIMATE"},{"source":"STATUS_POLL"},{"source":"TRANSCRIPT"},{"source":"RESULT"},{"source":null}]}}`; got != want {
		t.Errorf("got %s", got)
	}
}

func TestUsageSubscription(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.usage = run.Usage{Tokens: run.Tokens{Input: 3}, CostNanoUSD: nano(2_000_000_000)}
	api := setup(t, f)
	ctx, cancel := contextWithCancel(t)
	next := open(ctx, t, api, `subscription{usage{at runs usage{input costUsd}}}`, nil)
	for n := 1; n <= 2; n++ {
		if got := data(t, next(t)); got != fmt.Sprintf(`{"usage":{"at":"2026-11-30T12:00:00.123456Z","runs":%d,"usage":{"input":3,"costUsd":2}}}`, n) {
			t.Error(got)
		}
	}
	cancel()
	api.Wait()
}

func TestBadUsageArguments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		query string
		code  run.Code
		says  string
	}{
		"Reversed":      {`{usageRollups(from:"2026-11-30",to:"2026-11-29",groupBy:[]){runs}}`, run.Invalid, "from is 2026-11-30 and to is 2026-11-29"},
		"NoDay":         {`{usageRollups(from:"2026-11-31",to:"2026-12-31",groupBy:[]){runs}}`, run.Invalid, `"2026-11-31" is not a day`},
		"AnInstant":     {`{usageRollups(from:"2026-11-30T00:00:00Z",to:"2026-12-31",groupBy:[]){runs}}`, run.Invalid, "for example 2026-11-30"},
		"ANumber":       {`{usageRollups(from:20261130,to:"2026-12-31",groupBy:[]){runs}}`, run.Invalid, "20261130 is not a day"},
		"Dimension":     {`{usageRollups(from:"2026-11-30",to:"2026-12-31",groupBy:[HOUR]){runs}}`, "GRAPHQL_VALIDATION_FAILED", "HOUR"},
		"ManyDimension": {`{usageRollups(from:"2026-11-30",to:"2026-12-31",groupBy:[` + strings.Repeat("DAY,", 201) + `]){runs}}`, run.Invalid, "groupBy has 201 entries"},
		"FilterWithNUL": {`{usageRollups(from:"2026-11-30",to:"2026-12-31",groupBy:[],filter:{agent:"\u0000"}){runs}}`, run.Invalid, "filter.agent contains a NUL"},
		"FirstHuge":     {`{run(id:"` + runA + `"){usageRecords(first:1001){at}}}`, run.Invalid, "first is 1001; it must be from 1 to 1000"},
		"AfterWithNUL":  {`{run(id:"` + runA + `"){usageRecords(after:"\u0000"){at}}}`, run.Invalid, "after contains a NUL"},
		"FirstZero":     {`{run(id:"` + runA + `"){snapshots(first:0){at}}}`, run.Invalid, "first is 0"},
		"AfterADay":     {`{run(id:"` + runA + `"){snapshots(after:"2026-11-30"){at}}}`, run.Invalid, `"2026-11-30" is not a time`},
		"TooMuch":       {`{runs(first:200){nodes{usageRecords(first:1000){at kind isError requestKey model}}}}`, run.Invalid, "may yield"},
		"TooManyShots":  {`{runs(first:200){nodes{snapshots(first:1000){at usage{input output reasoning cacheRead}}}}}`, run.Invalid, "may yield"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			msg := refused(t, do(t, setup(t, newFake()), c.query, nil), c.code)
			if !strings.Contains(msg, c.says) {
				t.Errorf("the message does not say %q: %s", c.says, msg)
			}
		})
	}
}
