package store

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/runtime/run"
)

// counts are what a cumulative source adds up.
type counts struct {
	run.Tokens
	Calls map[string]int64 `json:",omitempty"`
	Cost  *int64           `json:",omitempty"` // as the agent states it
}

func countsOf(text string) (counts, error) {
	var c counts
	if text == "" {
		return c, nil
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, fmt.Errorf("decoding the totals of a stream %.100q: %w", text, err)
	}
	return c, nil
}

func (c counts) text() string {
	b, _ := json.Marshal(c) // strings and integers always encode
	return string(b)
}

// booked gives the counts of a row; its cost only when the agent stated it.
func (r *usageRow) booked() (counts, error) {
	calls, err := callsOf(r.ToolCalls)
	return counts{Tokens: r.tokens(), Calls: calls, Cost: r.reported()}, err
}

// count makes c the counts of a row.
func (r *usageRow) count(c counts) {
	t := c.Tokens
	r.Input, r.CacheRead, r.CacheWriteShort, r.CacheWriteLong, r.Output, r.Reasoning = t.Input, t.CacheRead, t.CacheWriteShort, t.CacheWriteLong, t.Output, t.Reasoning
	r.ToolCalls = callsJSON(c.Calls)
	r.CostNanoUSD, r.CostSource = c.Cost, ""
	if c.Cost != nil {
		r.CostSource = string(run.AgentReported)
	}
}

// zero tells whether nothing was counted.
func (c counts) zero() bool { return c.Tokens == run.Tokens{} && len(c.Calls) == 0 }

// each pairs the counts of two sides; the cost is not among them.
func each(a, b counts, f func(a, b int64) int64) counts {
	out := counts{Tokens: run.Tokens{
		Input: f(a.Input, b.Input), CacheRead: f(a.CacheRead, b.CacheRead), CacheWriteShort: f(a.CacheWriteShort, b.CacheWriteShort),
		CacheWriteLong: f(a.CacheWriteLong, b.CacheWriteLong), Output: f(a.Output, b.Output), Reasoning: f(a.Reasoning, b.Reasoning),
	}}
	for _, side := range []map[string]int64{a.Calls, b.Calls} {
		for name := range side {
			if out.Calls == nil {
				out.Calls = map[string]int64{}
			}
			out.Calls[name] = f(a.Calls[name], b.Calls[name])
		}
	}
	return out
}

// within tells whether c has risen over b in nothing.
func (c counts) within(b counts) bool {
	ok := true
	each(c, b, func(c, b int64) int64 { ok = ok && c <= b; return 0 })
	return ok && (c.Cost == nil || (b.Cost != nil && *c.Cost <= *b.Cost))
}

// rise gives by how much c is above the last totals, field by field; what fell
// counts as no rise. A cost is unknown when the last totals had none but were
// not zero: then the part of it that is new cannot be told.
func (c counts) rise(last counts) counts {
	out := each(c, last, func(c, last int64) int64 { return max(c-last, 0) })
	switch {
	case c.Cost == nil:
	case last.Cost != nil:
		out.Cost = new(int64)
		*out.Cost = max(*c.Cost-*last.Cost, 0)
	case last.zero():
		out.Cost = c.Cost
	}
	return out
}

// fell tells whether the source began anew: a running total never falls.
func (c counts) fell(last counts) bool {
	fell := false
	each(c, last, func(c, last int64) int64 { fell = fell || c < last; return 0 })
	return fell || (c.Cost != nil && last.Cost != nil && *c.Cost < *last.Cost)
}

// highest gives the field-wise maximum.
func (c counts) highest(b counts) counts {
	out := each(c, b, func(c, b int64) int64 { return max(c, b) })
	out.Cost = c.Cost
	if c.Cost == nil || (b.Cost != nil && *b.Cost > *c.Cost) {
		out.Cost = b.Cost
	}
	return out
}

// plus adds what the same source was booked with before. The sum of a stated and
// an unknown cost is unknown, unless the latter is of nothing.
func (c counts) plus(b counts) counts {
	out := each(c, b, func(c, b int64) int64 { return c + b })
	switch {
	case c.Cost != nil && b.Cost != nil:
		sum := *c.Cost + *b.Cost
		out.Cost = &sum
	case c.Cost == nil && c.zero():
		out.Cost = b.Cost
	case b.Cost == nil && b.zero():
		out.Cost = c.Cost
	}
	return out
}

// streams are the running totals that a transaction works on, by the stored id.
type streams map[string]counts

// streamID keeps a stream's name, which may tell of content, out of the table
// that outlives sessions.
func streamID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// lockStreams reads where the cumulative sources of a group stand and keeps other
// processes from moving them. All are taken at once, in one order.
func (t *tx) lockStreams(ops []*op) (streams, error) {
	var ids []string
	for _, o := range ops {
		for i := range o.batch.Usage {
			if u := &o.batch.Usage[i]; u.Cumulative && u.Stream != "" {
				ids = append(ids, streamID(clean(u.Stream)))
			}
		}
	}
	if len(ids) == 0 {
		return nil, nil //nolint:nilnil // nothing reads it
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var values strings.Builder
	args := make([]any, 0, 2*len(ids))
	for i, id := range ids {
		if i > 0 {
			values.WriteString(", ")
		}
		values.WriteString("(?, '', ?)")
		args = append(args, id, t.now)
	}
	if _, err := t.exec("opening streams", "INSERT INTO usage_streams (stream, totals, updated_us) VALUES "+values.String()+" ON CONFLICT (stream) DO NOTHING", args...); err != nil {
		return nil, err
	}
	out := make(streams, len(ids))
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(ids)), ", ")
	args = args[:0]
	for _, id := range ids {
		args = append(args, id)
	}
	err := t.query("locking streams", "SELECT stream, totals FROM usage_streams WHERE stream IN ("+marks+") ORDER BY stream"+t.d.forUpdate(), func(rows *sql.Rows) error {
		var id, totals string
		if err := rows.Scan(&id, &totals); err != nil {
			return err
		}
		c, err := countsOf(totals)
		out[id] = c
		return err
	}, args...)
	return out, err
}

// difference turns running totals into what they rose by, and moves the stream
// on. It gives false when they say nothing new.
//
// Whatever the order of runs, sources and repeats, the records of a stream that
// count add up to what its totals rose by: a better source takes over what the
// worse ones of its run were booked with, and a worse one moves nothing.
func (t *tx) difference(row *usageRow, old *usageRow, s streams, best int64) (bool, error) {
	totals, err := row.booked()
	if err != nil {
		return false, err
	}
	id := streamID(row.Stream)
	last, known := s[id]
	if !known {
		return false, fmt.Errorf("the stream of the usage record %.100q is not locked", row.Key)
	}
	said := totals
	rise, next := totals.rise(last), totals
	if old != nil && old.StreamTotals != "" { // a repeat is never a new start
		before, err := countsOf(old.StreamTotals)
		if err != nil {
			return false, err
		}
		if totals.within(before) && row.Rank == old.Rank {
			return false, nil
		}
		said, next = totals.highest(before), totals.highest(last)
	} else if totals.fell(last) {
		rise = totals
	}
	if next.Cost == nil {
		next.Cost = last.Cost
	}
	row.StreamTotals = said.text()
	if row.Rank < best {
		row.count(rise)
		return true, nil
	}
	taken, err := t.takeOver(row)
	if err != nil {
		return false, err
	}
	if old != nil && !old.Superseded {
		own, err := old.booked()
		if err != nil {
			return false, err
		}
		taken = taken.plus(own)
	}
	// All that the stream told so far is this run's: its stated cost is, too.
	whole := rise.Cost == nil && totals.Cost != nil && last.Cost == nil && each(taken, last, func(a, b int64) int64 { return a - b }).same()
	sum := rise.plus(taken)
	if whole {
		sum.Cost = totals.Cost
	}
	row.count(sum)
	s[id] = next
	_, err = t.exec("moving a stream on", "UPDATE usage_streams SET totals = ?, updated_us = ? WHERE stream = ?", next.text(), t.now, id)
	return true, err
}

// same tells whether all differences are zero.
func (c counts) same() bool {
	for _, n := range c.Calls {
		if n != 0 {
			return false
		}
	}
	return c.Tokens == run.Tokens{}
}

// takeOver sums up what worse sources of the same run and stream were booked with.
func (t *tx) takeOver(row *usageRow) (counts, error) {
	var rows []usageRow
	if err := t.models("reading what a better source replaces", t.conn.NewSelect().Model(&rows).Where(worseThan, row.Run, row.Stream, row.Rank).
		Where("request_key <> ?", row.Key).Where("stream_totals <> ''")); err != nil {
		return counts{}, err
	}
	var sum counts
	for i := range rows {
		c, err := rows[i].booked()
		if err != nil {
			return counts{}, err
		}
		sum = sum.plus(c)
	}
	return sum, nil
}
