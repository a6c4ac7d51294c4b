package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestRepricedIsATable(t *testing.T) {
	t.Parallel()
	var out, notices bytes.Buffer
	none := func(string) string { return "" }
	i := &IO{Out: NewScreen(&out, none), Err: NewScreen(&notices, none), Getenv: none}
	var done repricing
	if err := json.Unmarshal([]byte(`{"applied":false,"lines":[
		{"day":"2026-11-30T00:00:00.000000Z","model":"m","records":3,"changed":2,"oldNanoUsd":7,"newNanoUsd":"1152921504606846976","oldUnpriced":1,"newUnpriced":0},
		{"day":"2026-12-01T00:00:00.000000Z","model":"n","records":1,"changed":0,"oldNanoUsd":null,"newNanoUsd":null,"oldUnpriced":1,"newUnpriced":1}]}`), &done); err != nil {
		t.Fatal(err)
	}
	if err := i.repriced(done); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2026-11-30", "0.000000007", "1152921504.606846976", "1 -> 0", "unknown", "2026-12-01"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if !strings.Contains(notices.String(), "nothing was changed; 2 of 4 records would get another price") {
		t.Errorf("the notice is %q", notices.String())
	}
	notices.Reset()
	done.Applied = true
	if err := i.repriced(done); err != nil || !strings.Contains(notices.String(), "2 of 4 records have another price now") {
		t.Errorf("the notice is %q, %v", notices.String(), err)
	}
}

func TestDayOfAFlag(t *testing.T) {
	t.Parallel()
	if d, err := day("--from", "2026-11-30"); err != nil || d.Unix() != 1795996800 {
		t.Errorf("the day is %v, %v", d, err)
	}
	for _, text := range []string{"30.11.2026", "2026-11-31", "yesterday"} {
		if _, err := day("--to", text); err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), "--to") {
			t.Errorf("%q gives %v", text, err)
		}
	}
}
