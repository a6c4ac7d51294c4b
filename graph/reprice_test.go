package graph

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

func TestRepriceUsage(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := setup(t, f)
	const fields = `{applied lines{day model records changed oldNanoUsd newNanoUsd oldUnpriced newUnpriced}}`
	got := data(t, do(t, h, `mutation{repriceUsage(input:{})`+fields+`}`, nil))
	const lines = `"lines":[{"day":"2026-11-30T00:00:00.000000Z","model":"m","records":3,"changed":2,"oldNanoUsd":7,"newNanoUsd":"1152921504606846976","oldUnpriced":1,"newUnpriced":0},` +
		`{"day":"2026-11-30T00:00:00.000000Z","model":"n","records":1,"changed":0,"oldNanoUsd":null,"newNanoUsd":null,"oldUnpriced":1,"newUnpriced":1}]`
	if want := `{"repriceUsage":{"applied":false,` + lines + `}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	got = data(t, do(t, h, `mutation{repriceUsage(input:{from:"2026-11-30T00:00:00Z",to:"2026-12-01T00:00:00Z",model:"m",provider:"p",onlyUnpriced:true,apply:true,by:"me"}){applied}}`, nil))
	if want := `{"repriceUsage":{"applied":true}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	day := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	want := []run.Reprice{{DryRun: true}, {Filter: run.RepriceFilter{From: day, To: day.AddDate(0, 0, 1), Model: "m", Provider: "p", OnlyUnpriced: true}, Who: "me"}}
	if fmt.Sprint(f.repriced) != fmt.Sprint(want) {
		t.Errorf("asked for %+v, want %+v", f.repriced, want)
	}
}
