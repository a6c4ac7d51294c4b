package run

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// NanoUSD is an amount in 1e-9 USD. As text it is a decimal number of USD.
type NanoUSD int64

// ParseUSD reads a decimal number of USD exactly: above 0, with at most 9 decimals.
func ParseUSD(s string) (NanoUSD, error) {
	r, ok := new(big.Rat), false
	if len(s) <= 40 && !strings.ContainsAny(s, "/eEpPxX_") {
		r, ok = r.SetString(s)
	}
	if !ok {
		return 0, fmt.Errorf("%.40q is not a decimal number of USD, such as 0.25", s)
	}
	r.Mul(r, big.NewRat(1e9, 1))
	if !r.IsInt() || !r.Num().IsInt64() || r.Sign() <= 0 {
		return 0, fmt.Errorf("%s USD must be above 0, below 9 billion and have at most 9 decimals", s)
	}
	return NanoUSD(r.Num().Int64()), nil
}

// ErrNoBudget refuses a limit of 0, which could be meant as nothing or as no limit.
var ErrNoBudget = errors.New("a budget of 0 would end every run at once; leave it out for no limit")

// ParseLimit reads the money of a budget as ParseUSD does.
func ParseLimit(s string) (NanoUSD, error) {
	n, err := ParseUSD(s)
	if r, ok := new(big.Rat).SetString(s); err != nil && len(s) <= 40 && ok && r.Sign() == 0 {
		return 0, ErrNoBudget
	}
	return n, err
}

// String writes the amount without rounding it.
func (n NanoUSD) String() string {
	sign, s := "", strconv.FormatInt(int64(n), 10)
	if n < 0 {
		sign, s = "-", s[1:]
	}
	if len(s) < 10 {
		s = strings.Repeat("0", 10-len(s)) + s
	}
	whole, part := s[:len(s)-9], strings.TrimRight(s[len(s)-9:], "0")
	if part == "" {
		return sign + whole
	}
	return sign + whole + "." + part
}

// MarshalText implements encoding.TextMarshaler.
func (n NanoUSD) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *NanoUSD) UnmarshalText(b []byte) (err error) {
	*n, err = ParseUSD(string(b))
	return err
}

// UnmarshalJSON takes a number as well as a string.
func (n *NanoUSD) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	return n.UnmarshalText([]byte(strings.Trim(string(b), `"`)))
}

// BudgetAction is what happens when a budget is used up.
type BudgetAction string

// The actions.
const (
	BudgetWarn  BudgetAction = "WARN"  // an event, once
	BudgetPause BudgetAction = "PAUSE" // the run waits for an answer to how much more
	BudgetAbort BudgetAction = "ABORT" // the run ends CANCELLED BUDGET
)

// BudgetScope says whose use a budget counts.
type BudgetScope string

// The scopes. A day is the UTC day of the records.
const (
	BudgetRun      BudgetScope = "RUN" // a run and everything it delegated to
	BudgetSession  BudgetScope = "SESSION"
	BudgetAgentDay BudgetScope = "AGENT_DAY"
	BudgetDay      BudgetScope = "DAY" // all that is booked in the database
)

// Budget is a limit on use. It is used up when what was used reaches one of its
// limits; 0 is no limit.
type Budget struct {
	USD    NanoUSD      `yaml:"usd" json:"usd,omitempty"`
	Tokens int64        `yaml:"tokens" json:"tokens,omitempty"` // input, cache and output together
	Action BudgetAction `yaml:"action" json:"action,omitempty"` // "": ABORT
}

// None tells whether there is no limit at all.
func (b Budget) None() bool { return b.USD == 0 && b.Tokens == 0 }

// Reached tells whether the budget is used up.
func (b Budget) Reached(s Spent) bool {
	return (b.USD > 0 && s.USD >= b.USD) || (b.Tokens > 0 && s.Tokens >= b.Tokens)
}

// Check refuses a budget that cannot be meant.
func (b Budget) Check() error {
	switch {
	case b.USD < 0:
		return fmt.Errorf("usd is %s; it is above 0", b.USD)
	case b.Tokens < 0:
		return fmt.Errorf("tokens is %d; it is above 0", b.Tokens)
	}
	switch b.Action {
	case "", BudgetWarn, BudgetPause, BudgetAbort:
	default:
		return fmt.Errorf("action is %.40q; it is WARN, PAUSE or ABORT", string(b.Action))
	}
	if b.None() {
		return errors.New("a budget needs usd or tokens, or both")
	}
	return nil
}

// Spent is what budgets count. What has no price counts as 0 USD.
type Spent struct {
	USD      NanoUSD
	Tokens   int64
	Unpriced int64 // records without a price
}

// Add gives the sum of two.
func (s Spent) Add(t Spent) Spent {
	return Spent{s.USD + t.USD, s.Tokens + t.Tokens, s.Unpriced + t.Unpriced}
}

// Count gives all tokens of the buckets; reasoning is in Output.
func (t Tokens) Count() int64 { return t.Prompt() + t.Output }

// Spent is what budgets count of a sum.
func (u Usage) Spent() Spent {
	s := Spent{Tokens: u.Count(), Unpriced: u.Unpriced}
	if u.CostNanoUSD != nil {
		s.USD = NanoUSD(*u.CostNanoUSD)
	}
	return s
}

// BudgetState is a budget of a day and what was used of it.
type BudgetState struct {
	Scope  BudgetScope
	Day    time.Time // midnight UTC
	Agent  string    // of AGENT_DAY
	Budget Budget
	Spent  Spent
}
