package run

import "time"

// Provenance says how far a usage figure can be trusted.
type Provenance string

// The provenances, best first.
const (
	Measured          Provenance = "MEASURED"
	Partial           Provenance = "PARTIAL"
	Estimated         Provenance = "ESTIMATED"
	UnknownProvenance Provenance = "UNKNOWN"
)

// Worse gives the less trustworthy of two provenances; "" counts as nothing said.
func (p Provenance) Worse(q Provenance) Provenance {
	rank := map[Provenance]int{"": 0, Measured: 1, Partial: 2, Estimated: 3, UnknownProvenance: 4}
	if rank[q] > rank[p] {
		return q
	}
	return p
}

// CostSource says who computed a cost.
type CostSource string

// The cost sources.
const (
	AgentReported CostSource = "AGENT_REPORTED"
	Computed      CostSource = "COMPUTED"
)

// SourceRank orders the sources of one request's usage: a higher rank replaces
// a lower one, equal ranks merge by field-wise maximum.
type SourceRank int

// The ranks. They are stored.
const (
	FromEstimate   SourceRank = 1
	FromStatusPoll SourceRank = 2
	FromTranscript SourceRank = 3
	FromResult     SourceRank = 4
)

// Tokens are disjoint buckets; Reasoning is the part of Output that was reasoning.
type Tokens struct {
	Input           int64 // uncached
	CacheRead       int64
	CacheWriteShort int64
	CacheWriteLong  int64
	Output          int64
	Reasoning       int64
}

// Add gives the sum of two counts.
func (t Tokens) Add(u Tokens) Tokens {
	return Tokens{
		t.Input + u.Input, t.CacheRead + u.CacheRead, t.CacheWriteShort + u.CacheWriteShort,
		t.CacheWriteLong + u.CacheWriteLong, t.Output + u.Output, t.Reasoning + u.Reasoning,
	}
}

// Max gives the field-wise maximum of two counts of the same request.
func (t Tokens) Max(u Tokens) Tokens {
	return Tokens{
		max(t.Input, u.Input), max(t.CacheRead, u.CacheRead), max(t.CacheWriteShort, u.CacheWriteShort),
		max(t.CacheWriteLong, u.CacheWriteLong), max(t.Output, u.Output), max(t.Reasoning, u.Reasoning),
	}
}

// UsageKind tells model calls from sandbox executions.
type UsageKind string

// The kinds of usage records.
const (
	ModelCall    UsageKind = "model"
	ComputeUsage UsageKind = "compute"
)

// UsageRecord is the usage of one model call or one execution; all totals are
// sums of records. (Run, RequestKey) is unique.
type UsageRecord struct {
	Run        ID
	RequestKey string // the provider's response id, or the execution's id
	Kind       UsageKind
	At         time.Time // of the request: prices and budgets go by it
	Rank       SourceRank
	Provenance Provenance

	// Stream names a source that tells of the same calls more than once, such as
	// the polls of one service and its transcript; "" for none. Of one run and
	// stream only the records of the best rank count.
	Stream string
	// Cumulative: Tokens, ToolCalls and a reported cost are running totals of
	// Stream, over all runs. The store books what they rose by since the last ones.
	Cumulative bool
	// Superseded: a better source of the same stream has taken its place. It is
	// kept to explain the bill and counts in no sum.
	Superseded bool
	// Summed: the counts are of several requests, and how long the prompt of each
	// was is not known. The rates of long prompts are not for it.
	Summed bool
	// Unsplit: the source does not tell how long its cache writes last, so all count
	// as short-lived. It is not kept.
	Unsplit bool

	Provider  string
	Model     string
	Tier      string // service tier as price rows name them: batch, flex, priority, fast; "" is standard
	Tokens    Tokens
	ToolCalls map[string]int64 // calls that the provider bills by number, such as web_search

	Backend       string // of an execution
	GPU           string
	ComputeMicros int64 // microseconds of compute
	IsError       bool

	CostNanoUSD     *int64 // what is booked; nil: no price known
	CostSource      CostSource
	ComputedNanoUSD *int64 // what the price row says, also beside a reported cost
	PriceID         string // of the row that ComputedNanoUSD comes from; "" for none
	Raw             []byte // the payload it was read from, JSON
}

// Prompt is what a context threshold is compared with.
func (t Tokens) Prompt() int64 { return t.Input + t.CacheRead + t.CacheWriteShort + t.CacheWriteLong }

// Price is one row of a price book as it was when a record was priced. It is
// kept with the records: what a book says later changes none of them.
type Price struct {
	ID   string // tells rows of other content apart
	Body []byte // JSON, for the pricer alone
}

// Pricing is what a record costs; the zero value means that no price is known.
type Pricing struct {
	Price   *Price
	NanoUSD *int64
}

// Pricer turns counts into money. It is safe for concurrent use.
type Pricer interface {
	// Price finds what u costs at the time of its request. A pinned row, which an
	// earlier report of the same request was priced by, is used whatever the book
	// says by now; it is an error when that row cannot be read.
	Price(u UsageRecord, pinned *Price) (Pricing, error)
}

// Usage is a sum of usage records, superseded ones left out.
type Usage struct {
	Tokens
	ComputeMicros int64
	// CostNanoUSD is the sum over the priced records: nil when none is priced, and
	// when it is 0 while something is unpriced, which says nothing.
	CostNanoUSD *int64
	CostSource  CostSource
	Provenance  Provenance
	Records     int64
	Unpriced    int64 // records without a price
}

// Add gives the sum of two usages. Sources that differ leave CostSource COMPUTED.
func (u Usage) Add(v Usage) Usage {
	sum := Usage{
		Tokens:        u.Tokens.Add(v.Tokens),
		ComputeMicros: u.ComputeMicros + v.ComputeMicros,
		CostNanoUSD:   addMoney(u.CostNanoUSD, v.CostNanoUSD),
		CostSource:    u.CostSource,
		Provenance:    u.Provenance.Worse(v.Provenance),
		Records:       u.Records + v.Records,
		Unpriced:      u.Unpriced + v.Unpriced,
	}
	if sum.CostNanoUSD != nil && *sum.CostNanoUSD == 0 && sum.Unpriced > 0 {
		sum.CostNanoUSD = nil
	}
	if u.CostSource == "" {
		sum.CostSource = v.CostSource
	} else if v.CostSource != "" && v.CostSource != u.CostSource {
		sum.CostSource = Computed
	}
	return sum
}

func addMoney(a, b *int64) *int64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	s := *a + *b
	return &s
}

// UsageSnapshot is a run's cumulative usage at a moment.
type UsageSnapshot struct {
	Run   ID
	At    time.Time
	Usage Usage
}

// SnapshotMark is a place in the order of all snapshots: behind that of a run and
// moment, or behind all of a run when At is zero. The zero mark is their beginning.
type SnapshotMark struct {
	Run ID
	At  time.Time
}

// UsageRollup sums up the records of the runs that ended on a day. A run is
// counted under its own model and provider, with no backend.
type UsageRollup struct {
	Day      time.Time // midnight UTC
	Agent    string
	Team     string
	Model    string
	Provider string
	Backend  string
	Runs     int64
	Usage    Usage
}
