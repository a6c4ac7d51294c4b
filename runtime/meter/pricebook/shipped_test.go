package pricebook

import (
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// What ships is facts: each row says from where and from when they are.
func TestShippedRowsHaveTheirSource(t *testing.T) {
	t.Parallel()
	s := ship(t).Summary()
	if s.Rows < 95 || s.Models < 85 || s.Providers < 13 {
		t.Errorf("it holds only %+v", s)
	}
	for _, r := range ship(t).Rows() {
		if r.Local {
			continue
		}
		if r.Source == "" || r.SourceDate == "" {
			t.Errorf("%s has no source or no date", r.ID())
		}
		if r.Provider != "anthropic" {
			continue
		}
		for _, rates := range r.all() {
			if rates.CacheWriteShort == nil || *rates.CacheWriteShort < *rates.Input || *rates.CacheWriteLong < *rates.CacheWriteShort || *rates.CacheRead > *rates.Input {
				t.Errorf("%s: the cache rates %+v cannot be right", r.ID(), rates)
			}
		}
	}
}

// Each rate of each row is what a million tokens cost at its time, and its id
// finds it.
func TestEveryShippedRate(t *testing.T) {
	t.Parallel()
	const m = 1_000_000
	buckets := map[string]run.Tokens{
		"input": {Input: m}, "output": {Output: m}, "cacheRead": {CacheRead: m},
		"cacheWriteShort": {CacheWriteShort: m}, "cacheWriteLong": {CacheWriteLong: m},
	}
	for _, r := range ship(t).Rows() {
		if r.isCompute() || r.Local {
			continue
		}
		at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC) // a Sunday: no window holds
		if !r.inForce(at) {
			at = r.From
			if at.IsZero() {
				at = r.To.Add(-time.Second)
			}
		}
		u := run.UsageRecord{Kind: run.ModelCall, Provider: r.Provider, Model: r.Model, At: at}
		if found := ship(t).Find(u); found == nil || found.ID() != r.ID() {
			t.Errorf("%s is not found on %s", r.ID(), at)
			continue
		}
		for name, tokens := range buckets {
			u.Tokens = tokens
			rates := r.Set.at(at, tokens.Prompt())
			for _, n := range rates.named() {
				if n.name != name || *n.rate == nil {
					continue
				}
				if got := usd(t, ship(t), u); got != PerMillion(**n.rate) {
					t.Errorf("%s %s: %s, want %s", r.ID(), name, got, PerMillion(**n.rate))
				}
			}
		}
	}
}
