package store

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/weirhq/weir/runtime/run"
)

// maxPrices is how many price rows are kept in memory.
const maxPrices = 4096

// price computes what a record costs and decides what is booked: the agent's own
// word where there is one. A record keeps the price row that it was first priced
// by, whatever the book says by now.
func (w *writer) price(t *tx, row *usageRow) error {
	var pinned *run.Price
	if row.PriceID != "" {
		var err error
		if pinned, err = w.pinned(t, row.PriceID); err != nil {
			return err
		}
	}
	pricing, err := t.s.priceOf(row, pinned)
	if err != nil {
		return err
	}
	if pricing.Price != nil {
		w.keepPrice(t, pricing.Price)
	}
	row.setPrice(pricing)
	return nil
}

// priceOf asks the price book.
func (s *Store) priceOf(row *usageRow, pinned *run.Price) (run.Pricing, error) {
	if s.pricer == nil || row.unknown() {
		return run.Pricing{}, nil
	}
	u, err := row.record()
	if err != nil {
		return run.Pricing{}, err
	}
	p, err := s.pricer.Price(u, pinned)
	if err != nil {
		return p, fmt.Errorf("pricing the usage record %.100q of run %s: %w", row.Key, row.Run, err)
	}
	if p.NanoUSD != nil && (*p.NanoUSD < 0 || *p.NanoUSD > maxNanoUSD) {
		return p, run.Errorf(run.Invalid, "the usage record %.100q of run %s was not booked: its cost is %d nano-USD; a record costs 0 to %d", row.Key, row.Run, *p.NanoUSD, maxNanoUSD)
	}
	if p.NanoUSD != nil && p.Price == nil {
		return p, fmt.Errorf("pricing the usage record %.100q of run %s: the price book names no row", row.Key, row.Run)
	}
	return p, nil
}

// setPrice makes a pricing the row's.
func (r *usageRow) setPrice(p run.Pricing) {
	reported := r.reported()
	r.PriceID, r.ComputedNanoUSD = "", p.NanoUSD
	if p.NanoUSD != nil {
		r.PriceID = clean(p.Price.ID)
	}
	switch {
	case r.unknown():
		r.CostNanoUSD, r.CostSource = nil, ""
	case reported != nil:
	case p.NanoUSD != nil:
		r.CostNanoUSD, r.CostSource = p.NanoUSD, string(run.Computed)
	default:
		r.CostNanoUSD, r.CostSource = nil, ""
	}
}

// pinned gives a price row as it was when it was first used.
func (w *writer) pinned(t *tx, id string) (*run.Price, error) {
	if p := t.prices[id]; p != nil {
		return p, nil
	}
	if p := w.prices[id]; p != nil {
		return p, nil
	}
	var p *run.Price
	err := t.query("reading a price", "SELECT body FROM prices WHERE id = ?", func(rows *sql.Rows) error {
		var body string
		err := rows.Scan(&body)
		p = &run.Price{ID: id, Body: []byte(body)}
		return err
	}, id)
	if err == nil && p == nil {
		err = fmt.Errorf("the price row %q, which records were priced by, is missing in the database", id)
	}
	t.after = append(t.after, func() { w.rememberPrice(p) })
	return p, err
}

// keepPrice notes a price row that is used for the first time.
func (w *writer) keepPrice(t *tx, p *run.Price) {
	id := clean(p.ID)
	if w.prices[id] != nil {
		return
	}
	if t.prices == nil {
		t.prices = map[string]*run.Price{}
	}
	t.prices[id] = &run.Price{ID: id, Body: p.Body}
}

// storePrices stores the price rows of a transaction beside the records that they
// price. One row may be new to several processes at once, and each waits for the
// other's: all take them in one order.
func (w *writer) storePrices(t *tx) error {
	for _, id := range slices.Sorted(maps.Keys(t.prices)) {
		p := t.prices[id]
		if _, err := t.exec("storing a price", "INSERT INTO prices (id, body, first_used_us) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING", id, cleanJSON(p.Body), t.now); err != nil {
			return err
		}
		t.after = append(t.after, func() { w.rememberPrice(p) })
	}
	return nil
}

func (w *writer) rememberPrice(p *run.Price) {
	if len(w.prices) >= maxPrices {
		clear(w.prices)
	}
	w.prices[p.ID] = p
}
