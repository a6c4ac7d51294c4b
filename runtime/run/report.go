package run

import "time"

// UsageTotals is what all active runs, those that are RUNNING or WAITING, have
// used so far, each by itself.
type UsageTotals struct {
	At    time.Time
	Runs  int64
	Usage Usage
}

// UsageDimension is what a report on rollups can be grouped by.
type UsageDimension string

// The dimensions of a rollup.
const (
	ByDay      UsageDimension = "DAY"
	ByAgent    UsageDimension = "AGENT"
	ByTeam     UsageDimension = "TEAM"
	ByModel    UsageDimension = "MODEL"
	ByProvider UsageDimension = "PROVIDER"
	ByBackend  UsageDimension = "BACKEND"
)

// UsageDimensions lists every dimension once.
func UsageDimensions() []UsageDimension {
	return []UsageDimension{ByDay, ByAgent, ByTeam, ByModel, ByProvider, ByBackend}
}

// RollupQuery asks for the rollups of the days From to To, both included, UTC,
// summed up over everything that GroupBy does not name.
type RollupQuery struct {
	From, To time.Time
	GroupBy  []UsageDimension
	Filter   RollupFilter
}

// RollupFilter chooses rollups; nil fields choose all, "" those without a value.
type RollupFilter struct {
	Agent, Team, Model, Provider, Backend *string
}

// SnapshotQuery asks for the first First snapshots of a run after a moment.
type SnapshotQuery struct {
	Run   ID
	After time.Time // zero: from the first one on
	First int
}

// RecordQuery asks for the first First usage records of a run, in the order of
// their requests, after the one with the key After.
type RecordQuery struct {
	Run   ID
	After string // "": from the first one on
	First int
}
