package run

import "time"

// RepriceFilter chooses the usage records that are priced again; zero fields
// choose all. Superseded records are left as they are.
type RepriceFilter struct {
	From, To     time.Time // of the request: from From to before To
	Model        string
	Provider     string
	OnlyUnpriced bool
}

// Reprice is a pricing again by the price book of now, each record at the time of
// its request. What an agent stated that it cost stays booked; only the computed
// cost beside it changes.
type Reprice struct {
	Filter RepriceFilter
	DryRun bool   // changes nothing
	Who    string // asked for it; kept with what was done
}

// RepriceLine is what a pricing again makes of the records of one model and day.
type RepriceLine struct {
	Day        time.Time // midnight UTC
	Model      string    // of an execution: its backend
	Records    int64
	Changed    int64  // whose booked or computed cost becomes another
	OldNanoUSD *int64 // what is booked; nil when none is priced
	NewNanoUSD *int64
	OldUnknown int64 // records without a booked cost
	NewUnknown int64
}

// Add gives the sum of two lines.
func (l RepriceLine) Add(m RepriceLine) RepriceLine {
	l.Records, l.Changed = l.Records+m.Records, l.Changed+m.Changed
	l.OldNanoUSD, l.NewNanoUSD = addMoney(l.OldNanoUSD, m.OldNanoUSD), addMoney(l.NewNanoUSD, m.NewNanoUSD)
	l.OldUnknown, l.NewUnknown = l.OldUnknown+m.OldUnknown, l.NewUnknown+m.NewUnknown
	return l
}
