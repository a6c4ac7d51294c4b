package storetest

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"sync"

	"github.com/weirhq/weir/runtime/run"
)

// Book is a price book with one rate per model or backend: nano-USD for each
// token, call or microsecond.
type Book struct {
	// First is added to the number of each row: the rows of two books on one
	// database need other ids.
	First int

	mu   sync.Mutex
	rows map[string]row
	all  map[string]int64 // the rate of each row that there ever was
	n    int
}

type row struct {
	ID   string
	Rate int64
}

// Set changes the rate of a model or a backend; records that are priced keep theirs.
func (b *Book) Set(name string, rate int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rows == nil {
		b.rows, b.all = map[string]row{}, map[string]int64{}
	}
	b.n++
	r := row{ID: fmt.Sprintf("%s#%d", name, b.First+b.n), Rate: rate}
	b.rows[name], b.all[r.ID] = r, rate
}

// Price implements run.Pricer.
func (b *Book) Price(u run.UsageRecord, pinned *run.Price) (run.Pricing, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := u.Model
	if u.Kind == run.ComputeUsage {
		name = u.Backend
	}
	r, known := b.rows[name]
	if pinned != nil {
		known = true
		if err := json.Unmarshal(pinned.Body, &r); err != nil {
			return run.Pricing{}, fmt.Errorf("reading the pinned row %s: %w", pinned.ID, err)
		}
	}
	if !known {
		return run.Pricing{}, nil
	}
	n := u.Tokens.Prompt() + u.Tokens.Output + u.ComputeMicros
	for _, calls := range u.ToolCalls {
		n += calls
	}
	hi, lo := bits.Mul64(uint64(n), uint64(r.Rate))
	if hi != 0 || lo > math.MaxInt64 {
		return run.Pricing{}, run.Errorf(run.Invalid, "the cost of record %q does not fit", u.RequestKey)
	}
	body, err := json.Marshal(r)
	nano := int64(lo)
	return run.Pricing{Price: &run.Price{ID: r.ID, Body: body}, NanoUSD: &nano}, err
}

// Rate gives the rate of a row, also of one that was replaced.
func (b *Book) Rate(id string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all[id]
}

// Drop makes the book know a name no more.
func (b *Book) Drop(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.rows, name)
}
