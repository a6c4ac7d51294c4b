package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

// repricePage is how many records one transaction prices again: more would hold
// up the runs that go on.
const repricePage = 500

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
	at := place{atUS: -1 << 62}
	for {
		rows, err := p.page(ctx, at)
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			break
		}
		last := rows[len(rows)-1]
		at = place{last.AtUS, last.Run, last.Key}
		if r.DryRun {
			err = p.try(rows)
		} else {
			err = s.w.do(ctx, &op{logic: func(t *tx) error { return p.apply(t, rows) }})
		}
		if err != nil {
			return nil, err
		}
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

// page reads the next records in the order of their time.
func (p *repricing) page(ctx context.Context, after place) ([]usageRow, error) {
	var rows []usageRow
	q := p.s.read.NewSelect().Model(&rows).Where("(at_us, run_id, request_key) > (?, ?, ?)", after.atUS, after.run, after.key).
		Where("NOT superseded").Order("at_us", "run_id", "request_key").Limit(repricePage)
	f := p.Filter
	if !f.From.IsZero() {
		q = q.Where("at_us >= ?", f.From.UnixMicro())
	}
	if !f.To.IsZero() {
		q = q.Where("at_us < ?", f.To.UnixMicro())
	}
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
	done := maps.Clone(p.lines) // an earlier try may have failed at its commit
	drafts := map[run.SessionID][]run.Draft{}
	changed := map[run.ID]bool{}
	for i := range page {
		old, err := t.usageRow(page[i].Run, page[i].Key)
		if err != nil {
			return err
		}
		if old == nil || old.Superseded || (p.Filter.OnlyUnpriced && old.CostNanoUSD != nil) {
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
		if _, err := t.exec("pricing a record again", "UPDATE usage_records SET cost_nano_usd = ?, cost_source = ?, computed_nano_usd = ?, price_id = ? WHERE run_id = ? AND request_key = ?",
			now.CostNanoUSD, now.CostSource, now.ComputedNanoUSD, now.PriceID, now.Run, now.Key); err != nil {
			return err
		}
		r := owners[run.ID(now.Run)]
		changed[r.ID] = true
		told, err := now.recorded()
		if err != nil {
			return err
		}
		drafts[r.Session] = append(drafts[r.Session], run.DraftOf(r, timeOf(t.now), told))
	}
	if err := p.s.w.storePrices(t); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(changed)) {
		if err := t.sumUsage(id); err != nil {
			return err
		}
		if err := t.markRollup(id); err != nil {
			return err
		}
		t.touch(id)
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

// usageRow reads one record; nil when there is none.
func (t *tx) usageRow(id, key string) (*usageRow, error) {
	var stored []usageRow
	err := t.models("reading a usage record", t.conn.NewSelect().Model(&stored).Where("run_id = ?", id).Where("request_key = ?", key))
	if err != nil || len(stored) == 0 {
		return nil, err
	}
	return &stored[0], nil
}
