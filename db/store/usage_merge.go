package store

import (
	"cmp"
	"reflect"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

// mergeUsage gives the record of two reports of one request: a better source
// replaces a worse one, equal ones merge by field-wise maximum, in any order.
// The price is still that of the old one.
func mergeUsage(old, add usageRow) (usageRow, error) {
	m := add
	m.PriceID, m.ComputedNanoUSD = old.PriceID, old.ComputedNanoUSD
	if old.AtUS != 0 && (m.AtUS == 0 || old.AtUS < m.AtUS) {
		m.AtUS = old.AtUS // the time of the request is the first one seen
	}
	if add.Rank == old.Rank {
		a, err := old.booked()
		if err != nil {
			return m, err
		}
		b, err := add.booked()
		if err != nil {
			return m, err
		}
		m.count(a.highest(b))
		m.ComputeUS = max(old.ComputeUS, add.ComputeUS)
		m.IsError, m.Summed = old.IsError || add.IsError, old.Summed || add.Summed
		if p := run.Provenance(m.Provenance); p == "" || run.Provenance(old.Provenance) != "" && run.Provenance(old.Provenance).Worse(p) == p {
			m.Provenance = old.Provenance // the better of the two
		}
		m.Raw, m.Tier = cmp.Or(m.Raw, old.Raw), cmp.Or(m.Tier, old.Tier)
	}
	if m.Model == "" {
		m.Model = old.Model
	}
	m.Provider = cmp.Or(m.Provider, old.Provider)
	m.StreamTotals = cmp.Or(m.StreamTotals, old.StreamTotals)
	if !m.samePriced(&old) {
		m.PriceID = "" // that price is another one's
	}
	return m, nil
}

// samePriced tells whether one price row is right for both.
func (r *usageRow) samePriced(o *usageRow) bool {
	return r.Kind == o.Kind && r.Provider == o.Provider && r.Model == o.Model && r.Tier == o.Tier && r.Backend == o.Backend && r.GPU == o.GPU
}

// same tells whether a row says what the stored one says. What the store adds by
// itself, its price, is not compared: it follows from the rest.
func (r *usageRow) same(m *usageRow) bool {
	a, b := *r, *m
	for _, x := range []*usageRow{&a, &b} {
		x.BaseModel, x.PriceID, x.ComputedNanoUSD = bun.BaseModel{}, "", nil
		if x.reported() == nil {
			x.CostNanoUSD, x.CostSource = nil, ""
		}
	}
	return reflect.DeepEqual(a, b)
}
