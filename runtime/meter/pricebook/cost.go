package pricebook

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// sum is an exact sum of products in 128 bits, never negative.
type sum struct {
	hi, lo uint64
	over   bool
}

func (s *sum) add(count, rate int64) {
	hi, lo := bits.Mul64(uint64(count), uint64(rate))
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, lo, 0)
	s.hi, carry = bits.Add64(s.hi, hi, carry)
	s.over = s.over || carry != 0
}

// divide rounds once, half away from zero; false when the result is too large.
func (s *sum) divide(by uint64) (int64, bool) {
	if s.over || s.hi >= by {
		return 0, false
	}
	q, rest := bits.Div64(s.hi, s.lo, by)
	if rest >= by-rest {
		q++
	}
	return int64(q), q <= math.MaxInt64
}

const (
	picoPerNano  = 1_000
	microsPerSec = 1_000_000
)

// cost is what a record costs by the row, in nano-USD; false when the row does
// not say. The counts are not negative.
func (r *Row) cost(u *run.UsageRecord) (int64, bool, error) {
	if r.Local {
		return 0, true, nil
	}
	var total sum
	unit := uint64(picoPerNano)
	if r.isCompute() {
		total.add(u.ComputeMicros, r.Compute)
		unit *= uint64(r.Seconds) * microsPerSec
	} else if known := r.tokens(u, &total); !known {
		return 0, false, nil
	}
	nano, ok := total.divide(unit)
	if !ok {
		return 0, false, fmt.Errorf("the cost of the usage record %q of the run %s is beyond 9.2e9 USD; its counts or the price row %s cannot be right", u.RequestKey, u.Run, r.price.ID)
	}
	return nano, true, nil
}

// tokens adds up what a model call costs; false when a part has no price.
func (r *Row) tokens(u *run.UsageRecord, total *sum) bool {
	set := r.Set
	if tier := standardTier(u.Tier); tier != "" {
		var ok bool
		if set, ok = r.Tiers[tier]; !ok {
			return false
		}
	}
	rates := set.at(u.At, promptOf(u))
	reasoning := min(u.Tokens.Reasoning, u.Tokens.Output)
	perReasoning := rates.Output
	if rates.Reasoning != nil {
		perReasoning = rates.Reasoning
	}
	for _, b := range []struct {
		count int64
		rate  *int64
	}{
		{u.Tokens.Input, rates.Input},
		{u.Tokens.CacheRead, either(rates.CacheRead, rates.Input)},
		{u.Tokens.CacheWriteShort, writeRate(rates.CacheWriteShort, rates.CacheWriteLong, rates.Input)},
		{u.Tokens.CacheWriteLong, writeRate(rates.CacheWriteLong, rates.CacheWriteShort, rates.Input)},
		{u.Tokens.Output - reasoning, rates.Output},
		{reasoning, perReasoning},
	} {
		if b.count == 0 {
			continue
		}
		if b.rate == nil {
			return false
		}
		total.add(b.count, *b.rate)
	}
	for name, calls := range u.ToolCalls {
		if calls == 0 {
			continue
		}
		price, ok := r.Tools[name]
		if !ok {
			return false
		}
		total.add(calls, price)
	}
	return true
}

func either(rate, other *int64) *int64 {
	if rate != nil {
		return rate
	}
	return other
}

// writeRate: a row without any price for cache writes is of a provider that
// bills them as input. With a price for one kind, the other's is not known.
func writeRate(rate, other, input *int64) *int64 {
	if rate == nil && other == nil {
		return input
	}
	return rate
}

// standardTier gives "" for the words that providers have for no special tier.
func standardTier(tier string) string {
	switch tier {
	case "standard", "default":
		return ""
	}
	return tier
}

// at chooses the rates of one request: first by its time, then by the length of
// its prompt. The whole request is priced by them.
func (s *Set) at(at time.Time, prompt int64) Rates {
	rates, long := s.Rates, s.Long
	for i := range s.Windows {
		if s.Windows[i].holds(at) {
			rates, long = s.Windows[i].Rates, s.Windows[i].Long
			break
		}
	}
	for _, step := range long {
		if prompt > step.Above || (step.Inclusive && prompt == step.Above) {
			rates = step.Rates
		}
	}
	return rates
}

func (w *Window) holds(at time.Time) bool {
	at = at.UTC()
	if len(w.Weekdays) > 0 && !slices.Contains(w.Weekdays, at.Weekday()) {
		return false
	}
	if len(w.Except) > 0 && slices.Contains(w.Except, at.Format(time.DateOnly)) {
		return false
	}
	minute := at.Hour()*60 + at.Minute()
	return len(w.Hours) == 0 || slices.ContainsFunc(w.Hours, func(s Span) bool { return s.From <= minute && minute < s.To })
}

// promptOf is the length of the record's prompt, at most the largest number. Of
// several requests it is not known, and counts as short: the sum of their prompts
// is the prompt of none.
func promptOf(u *run.UsageRecord) int64 {
	if u.Summed {
		return 0
	}
	t, all := u.Tokens, int64(0)
	for _, n := range []int64{t.Input, t.CacheRead, t.CacheWriteShort, t.CacheWriteLong} {
		if n > math.MaxInt64-all {
			return math.MaxInt64
		}
		all += n
	}
	return all
}

// countable refuses counts that no provider can mean.
func countable(u *run.UsageRecord) error {
	t := u.Tokens
	counts := []int64{t.Input, t.CacheRead, t.CacheWriteShort, t.CacheWriteLong, t.Output, t.Reasoning, u.ComputeMicros}
	for _, n := range u.ToolCalls {
		counts = append(counts, n)
	}
	if least := slices.Min(counts); least < 0 {
		return fmt.Errorf("the usage record %q of the run %s has the count %d; counts are not negative", u.RequestKey, u.Run, least)
	}
	return nil
}
