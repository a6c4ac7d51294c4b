package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

const (
	// repricePage is how many records one transaction prices again: more would hold
	// up the runs that go on.
	repricePage = 500
	// repriceScan is how many records one query looks through: a filter that matches
	// few of them must not make it read all.
	repriceScan = 5000
)

// place is where a page of records ends.
type place struct {
	atUS     int64
	run, key string
}

// Reprice prices records again: see run.Reprice. It works in bounded
// transactions; what they did stays when a later one fails. Run totals follow
// in the same transaction, rollups with the next sweep. Each application leaves
// one row in usage_audit.
func (s *Store) Reprice(ctx context.Context, r run.Reprice) ([]run.RepriceLine, error) {
	if f := r.Filter; !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		return nil, run.Errorf(run.Invalid, "from %s is not before to %s: no record lies between them", f.From.UTC().Format(time.RFC3339), f.To.UTC().Format(time.RFC3339))
	}
	if s.pricer == nil {
		return nil, run.Errorf(run.Invalid, "this server has no price book: there is nothing to price by")
	}
	p := &repricing{s: s, Reprice: r, lines: lines{}}
	if !r.DryRun {
		if err := s.w.do(ctx, &op{logic: p.open}); err != nil {
			return nil, err
		}
	}
	for at, more := (place{atUS: -1 << 62}), true; more; {
		var end place
		var err error
		if end, more, err = p.stretch(ctx, at); err != nil {
			return nil, err
		}
		if !more {
			end = place{atUS: 1 << 62}
		}
		if err := p.between(ctx, at, end); err != nil {
			return nil, err
		}
		at = end
	}
	if !r.DryRun {
		if err := s.w.do(ctx, &op{logic: func(t *tx) error {
			_, err := t.exec("ending a repricing", "UPDATE usage_audit SET done = TRUE WHERE id = ?", p.audit)
			return err
		}}); err != nil {
			return nil, err
		}
	}
	return p.lines.sorted(), nil
}

type lineKey struct {
	day   int64
	model string
}

type lines map[lineKey]run.RepriceLine

func (l lines) sorted() []run.RepriceLine {
	keys := slices.SortedFunc(maps.Keys(l), func(a, b lineKey) int { return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.model, b.model)) })
	out := make([]run.RepriceLine, 0, len(keys))
	for _, k := range keys {
		out = append(out, l[k])
	}
	return out
}

// add counts a record; it tells whether its price becomes another.
func (l lines) add(old, now *usageRow) {
	k := lineKey{day: floorDay(old.AtUS), model: old.Model}
	if old.Kind == string(run.ComputeUsage) {
		k.model = old.Backend
	}
	line := run.RepriceLine{Day: time.UnixMicro(k.day * dayUS).UTC(), Model: k.model, Records: 1, OldNanoUSD: old.CostNanoUSD, NewNanoUSD: now.CostNanoUSD}
	if old.CostNanoUSD == nil {
		line.OldUnknown = 1
	}
	if now.CostNanoUSD == nil {
		line.NewUnknown = 1
	}
	if !equalMoney(old.CostNanoUSD, now.CostNanoUSD) || !equalMoney(old.ComputedNanoUSD, now.ComputedNanoUSD) {
		line.Changed = 1
	}
	l[k] = line.Add(l[k])
}

func equalMoney(a, b *int64) bool { return a == b || (a != nil && b != nil && *a == *b) }

const dayUS = 86_400_000_000

// floorDay is the UTC day of a moment, also before 1970.
func floorDay(us int64) int64 {
	day := us / dayUS
	if us%dayUS < 0 {
		day--
	}
	return day
}

type repricing struct {
	run.Reprice
	s     *Store
	lines lines
	audit int64
}

// scan reads records in the order of their time, from the index of it. The first
// comparison is the one that PostgreSQL takes the place in the index from.
func (p *repricing) scan(after place, model any) *bun.SelectQuery {
	q := p.s.read.NewSelect().Model(model).Where("at_us >= ?", after.atUS).
		Where("(at_us, run_id, request_key) > (?, ?, ?)", after.atUS, after.run, after.key).Order("at_us", "run_id", "request_key")
	if !p.Filter.From.IsZero() {
		q = q.Where("at_us >= ?", p.Filter.From.UnixMicro())
	}
	if !p.Filter.To.IsZero() {
		q = q.Where("at_us < ?", p.Filter.To.UnixMicro())
	}
	return q
}

// stretch gives the end of the next records to look through, whether they match or
// not; false when it is that of all.
func (p *repricing) stretch(ctx context.Context, after place) (place, bool, error) {
	var ends []usageRow
	if err := p.scan(after, &ends).Column("at_us", "run_id", "request_key").Offset(repriceScan - 1).Limit(1).Scan(ctx); err != nil {
		return place{}, false, p.s.readError("reading usage records", err)
	}
	if len(ends) == 0 {
		return place{}, false, nil
	}
	return place{ends[0].AtUS, ends[0].Run, ends[0].Key}, true, nil
}

// between prices the records of a stretch that match, page by page.
func (p *repricing) between(ctx context.Context, at, end place) error {
	for {
		rows, err := p.page(ctx, at, end)
		if err != nil || len(rows) == 0 {
			return err
		}
		if p.DryRun {
			err = p.try(rows)
		} else {
			err = p.s.w.do(ctx, &op{logic: func(t *tx) error { return p.apply(t, rows) }})
		}
		if err != nil || len(rows) < repricePage {
			return err
		}
		last := rows[len(rows)-1]
		at = place{last.AtUS, last.Run, last.Key}
	}
}

// page reads the next records of a stretch that match.
func (p *repricing) page(ctx context.Context, after, end place) ([]usageRow, error) {
	var rows []usageRow
	q := p.scan(after, &rows).Where("at_us <= ?", end.atUS).Where("(at_us, run_id, request_key) <= (?, ?, ?)", end.atUS, end.run, end.key).
		Where("NOT superseded").Limit(repricePage)
	f := p.Filter
	if f.Model != "" {
		q = q.Where("model = ?", f.Model)
	}
	if f.Provider != "" {
		q = q.Where("provider = ?", f.Provider)
	}
	if f.OnlyUnpriced {
		q = q.Where("cost_nano_usd IS NULL")
	}
	if err := q.Scan(ctx); err != nil {
		return nil, p.s.readError("reading usage records", err)
	}
	return rows, nil
}

// try prices a page without changing anything.
func (p *repricing) try(rows []usageRow) error {
	for i := range rows {
		now := rows[i]
		pricing, err := p.s.priceOf(&now, nil)
		if err != nil {
			return err
		}
		now.setPrice(pricing)
		p.lines.add(&rows[i], &now)
	}
	return nil
}

// filterJSON is how the audit keeps the filter.
func (p *repricing) filterJSON() string {
	f := map[string]any{}
	if !p.Filter.From.IsZero() {
		f["from"] = p.Filter.From.UTC()
	}
	if !p.Filter.To.IsZero() {
		f["to"] = p.Filter.To.UTC()
	}
	if p.Filter.Model != "" {
		f["model"] = p.Filter.Model
	}
	if p.Filter.Provider != "" {
		f["provider"] = p.Filter.Provider
	}
	if p.Filter.OnlyUnpriced {
		f["onlyUnpriced"] = true
	}
	b, _ := json.Marshal(f) // strings, times and booleans always encode
	return string(b)
}

// open begins the audit row, so that a repricing that breaks off is seen too.
func (p *repricing) open(t *tx) error {
	return t.query("beginning a repricing", "INSERT INTO usage_audit (at_us, who, filter, records, changed, done) VALUES (?, ?, ?, 0, 0, FALSE) RETURNING id", func(rows *sql.Rows) error {
		return rows.Scan(&p.audit)
	}, t.now, clean(p.Who), clean(p.filterJSON()))
}

// apply prices a page again in a transaction. The rows are read once more under
// the locks of their sessions and runs.
func (p *repricing) apply(t *tx, page []usageRow) error {
	owners, err := t.lockRunsOf(page)
	if err != nil {
		return err
	}
	again, err := t.reread(page)
	if err != nil {
		return err
	}
	done := maps.Clone(p.lines) // an earlier try may have failed at its commit
	drafts, sums := map[run.SessionID][]run.Draft{}, tallies{}
	var changed []*usageRow
	for i := range again {
		old := &again[i]
		if old.Superseded || (p.Filter.OnlyUnpriced && old.CostNanoUSD != nil) {
			continue
		}
		now := *old
		pricing, err := p.s.priceOf(&now, nil)
		if err != nil {
			return err
		}
		now.setPrice(pricing)
		done.add(old, &now)
		if now.PriceID == old.PriceID && equalMoney(now.CostNanoUSD, old.CostNanoUSD) && equalMoney(now.ComputedNanoUSD, old.ComputedNanoUSD) {
			continue
		}
		if pricing.Price != nil {
			p.s.w.keepPrice(t, pricing.Price)
		}
		changed = append(changed, &now)
		if err := sums.replace(old, &now); err != nil {
			return fmt.Errorf("summing up run %s: %w", now.Run, err)
		}
		r := owners[run.ID(now.Run)]
		told, err := now.recorded()
		if err != nil {
			return err
		}
		drafts[r.Session] = append(drafts[r.Session], run.DraftOf(r, timeOf(t.now), told))
	}
	if err := t.setPrices(changed); err != nil {
		return err
	}
	if err := p.s.w.storePrices(t); err != nil {
		return err
	}
	if err := t.settle(sums, func(run.ID) bool { return true }); err != nil {
		return err
	}
	for _, session := range slices.Sorted(maps.Keys(drafts)) {
		if err := p.s.w.appendEvents(t, session, drafts[session]...); err != nil && run.CodeOf(err) != run.NotFound {
			return err
		}
	}
	var sum run.RepriceLine
	for _, l := range done {
		sum = sum.Add(l)
	}
	if _, err := t.exec("noting a repricing", "UPDATE usage_audit SET records = ?, changed = ?, old_nano_usd = ?, new_nano_usd = ? WHERE id = ?",
		sum.Records, sum.Changed, sum.OldNanoUSD, sum.NewNanoUSD, p.audit); err != nil {
		return err
	}
	t.after = append(t.after, func() { p.lines = done })
	return nil
}

// lockRunsOf locks the sessions of records, then their runs, both in the order of
// their ids. A run outlives its session.
func (t *tx) lockRunsOf(rows []usageRow) (map[run.ID]run.Run, error) {
	var ids []string
	for i := range rows {
		ids = append(ids, rows[i].Run)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if _, err := t.exec("locking sessions", "SELECT sid FROM sessions WHERE id IN (SELECT session_id FROM runs WHERE id IN (?)) ORDER BY id"+t.d.forUpdate(), bun.List(ids)); err != nil {
		return nil, err
	}
	if _, err := t.exec("locking runs", "SELECT id FROM runs WHERE id IN (?) ORDER BY id"+t.d.forUpdate(), bun.List(ids)); err != nil {
		return nil, err
	}
	found, err := t.runs("reading runs", "id IN (?)", bun.List(ids))
	out := make(map[run.ID]run.Run, len(found))
	for _, r := range found {
		out[r.ID] = r
	}
	return out, err
}

// reread reads the records of a page once more, in its order.
func (t *tx) reread(page []usageRow) ([]usageRow, error) {
	var keys strings.Builder
	args := make([]any, 0, 2*len(page))
	for i := range page {
		keys.WriteString(", (?, ?)")
		args = append(args, page[i].Run, page[i].Key)
	}
	var rows []usageRow
	err := t.models("reading usage records", t.conn.NewSelect().Model(&rows).
		Where("(run_id, request_key) IN (VALUES "+keys.String()[2:]+")", args...).Order("at_us", "run_id", "request_key"))
	return rows, err
}

// setPrices stores the prices of records that are stored.
func (t *tx) setPrices(rows []*usageRow) error {
	if len(rows) == 0 {
		return nil
	}
	var values strings.Builder
	args := make([]any, 0, 6*len(rows))
	for _, r := range rows {
		values.WriteString(", (?, ?, ?, ?, ?, ?)")
		args = append(args, r.Run, r.Key, r.CostNanoUSD, r.CostSource, r.ComputedNanoUSD, r.PriceID)
	}
	// A column of NULLs alone is text to PostgreSQL.
	_, err := t.exec("pricing records again", "WITH priced (run, k, cost, source, computed, price) AS (VALUES "+values.String()[2:]+")"+
		" UPDATE usage_records SET cost_nano_usd = CAST(cost AS BIGINT), cost_source = source, computed_nano_usd = CAST(computed AS BIGINT), price_id = price"+
		" FROM priced WHERE run_id = run AND request_key = k", args...)
	return err
}

// usageRow reads one record; nil when there is none.
func (t *tx) usageRow(id, key string) (*usageRow, error) {
	var stored []usageRow
	err := t.models("reading a usage record", t.conn.NewSelect().Model(&stored).Where("run_id = ?", id).Where("request_key = ?", key))
	if err != nil || len(stored) == 0 {
		return nil, err
	}
	return &stored[0], nil
}
