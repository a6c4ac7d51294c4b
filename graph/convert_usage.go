package graph

import (
	"slices"
	"strings"

	"github.com/weirhq/weir/graph/model"
	"github.com/weirhq/weir/runtime/run"
)

func toTotals(n run.UsageTotals) *model.UsageTotals {
	return &model.UsageTotals{At: n.At, Runs: int(n.Runs), Usage: toUsage(n.Usage)}
}

// toRollup leaves null what the report is not grouped by.
func toRollup(u run.UsageRollup, by []run.UsageDimension) *model.UsageRollup {
	shown := func(d run.UsageDimension, text string) *string {
		if !slices.Contains(by, d) {
			return nil
		}
		return &text
	}
	out := &model.UsageRollup{
		Agent: shown(run.ByAgent, u.Agent), Team: shown(run.ByTeam, u.Team), Model: shown(run.ByModel, u.Model),
		Provider: shown(run.ByProvider, u.Provider), Backend: shown(run.ByBackend, u.Backend), Runs: u.Runs, Usage: toUsage(u.Usage),
	}
	if slices.Contains(by, run.ByDay) {
		out.Day = &u.Day
	}
	return out
}

func toRecord(u run.UsageRecord) *model.UsageRecord {
	one := run.Usage{Tokens: u.Tokens, ComputeMicros: u.ComputeMicros, CostNanoUSD: u.CostNanoUSD, CostSource: u.CostSource, Provenance: u.Provenance, Records: 1}
	if u.CostNanoUSD == nil {
		one.Unpriced = 1
	}
	return &model.UsageRecord{
		RequestKey: u.RequestKey, Kind: model.UsageKind(strings.ToUpper(string(u.Kind))), At: u.At, Source: source(u.Rank),
		Provider: text(u.Provider), Model: text(u.Model), Tier: text(u.Tier), UsageStream: text(u.Stream), Backend: text(u.Backend), Gpu: text(u.GPU),
		IsError: u.IsError, Usage: toUsage(one), ToolCalls: callCounts(u.ToolCalls), ComputedNanoUsd: u.ComputedNanoUSD, PriceID: text(u.PriceID),
		Summed: u.Summed, Superseded: u.Superseded,
	}
}

// source is null for a record of which it was not said.
func source(r run.SourceRank) *model.UsageSource {
	var s model.UsageSource
	switch r {
	case run.FromResult:
		s = model.UsageSourceResult
	case run.FromTranscript:
		s = model.UsageSourceTranscript
	case run.FromStatusPoll:
		s = model.UsageSourceStatusPoll
	case run.FromEstimate:
		s = model.UsageSourceEstimate
	default:
		return nil
	}
	return &s
}
