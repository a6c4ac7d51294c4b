package engine

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

// TestARaisedBudgetStaysALimit: a sum beyond all numbers is no way around one.
func TestARaisedBudgetStaysALimit(t *testing.T) {
	t.Parallel()
	l := &limit{budget: run.Budget{USD: 5, Tokens: 1500}}
	for range 2 {
		m, err := readMore(json.RawMessage(`{"extraUsd": "9223372036.854775807", "extraTokens": 9223372036854775807}`))
		if err != nil {
			t.Fatal(err)
		}
		l.raise(m)
		if l.budget.USD != math.MaxInt64 || l.budget.Tokens != math.MaxInt64 {
			t.Errorf("the budget is %+v", l.budget)
		}
	}
}

// TestAnswersThatCannotBeRead are explained in words of the API.
func TestAnswersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`"garbage"`:             "the whole is a string",
		`5`:                     "the whole is a number",
		`{"extraTokens": 1.5}`:  "extraTokens is a number 1.5",
		`{"extraTokens": "10"}`: "extraTokens is a string",
		`{"extraUsd": "-1"}`:    "must be above 0",
		`{"stop": false}`:       "adds nothing",
		`{"extraTokens": -5}`:   "adds nothing",
	} {
		_, err := readMore(json.RawMessage(answer))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: %v", answer, err)
		}
	}
}
