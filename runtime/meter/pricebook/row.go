package pricebook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// Rates are prices in pico-USD per token; nil where the row names none. Input
// and Output are always there, but in a local row.
type Rates struct {
	Input           *int64 `json:"input,omitempty"`
	Output          *int64 `json:"output,omitempty"`
	CacheRead       *int64 `json:"cacheRead,omitempty"`
	CacheWriteShort *int64 `json:"cacheWriteShort,omitempty"`
	CacheWriteLong  *int64 `json:"cacheWriteLong,omitempty"`
	Reasoning       *int64 `json:"reasoning,omitempty"` // nil: as Output
}

// named gives the rates by the names that files use.
func (r *Rates) named() []namedRate {
	return []namedRate{
		{"input", &r.Input},
		{"output", &r.Output},
		{"cacheRead", &r.CacheRead},
		{"cacheWriteShort", &r.CacheWriteShort},
		{"cacheWriteLong", &r.CacheWriteLong},
		{"reasoning", &r.Reasoning},
	}
}

type namedRate struct {
	name string
	rate **int64
}

// Step is the price of a whole request whose prompt is long.
type Step struct {
	Above     int64 `json:"above"`               // tokens of the prompt, cache reads and writes included
	Inclusive bool  `json:"inclusive,omitempty"` // a prompt of exactly Above is long
	Rates     Rates `json:"rates"`
}

// Window is the price at certain hours, in UTC.
type Window struct {
	Hours    []Span         `json:"hours,omitempty"`    // none: all day
	Weekdays []time.Weekday `json:"weekdays,omitempty"` // none: every day
	Except   []string       `json:"except,omitempty"`   // days, as 2026-10-01
	Rates    Rates          `json:"rates"`
	Long     []Step         `json:"long,omitempty"`
}

// Span is a part of a day in minutes since midnight UTC; To is not in it.
type Span struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Set is what tokens cost: in general, when the prompt is long, and at hours.
type Set struct {
	Rates   Rates    `json:"rates"`
	Long    []Step   `json:"long,omitempty"` // ascending
	Windows []Window `json:"windows,omitempty"`
}

// Row is the price of one model, or of one kind of sandbox, over a time. It is
// complete: with it a record is priced without any book.
type Row struct {
	// Of a model.
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	Set
	Tiers map[string]Set   `json:"tiers,omitempty"` // by service tier
	Tools map[string]int64 `json:"tools,omitempty"` // pico-USD per call

	// Of a sandbox.
	Backend string `json:"backend,omitempty"`
	GPU     string `json:"gpu,omitempty"`
	Compute int64  `json:"compute,omitempty"` // pico-USD per Seconds
	Seconds int64  `json:"seconds,omitempty"`

	Local      bool      `json:"local,omitempty"` // costs nothing: the operator's own machine
	From       time.Time `json:"from,omitzero"`
	To         time.Time `json:"to,omitzero"` // not included
	Source     string    `json:"source,omitempty"`
	SourceDate string    `json:"sourceDate,omitempty"`

	Note string `json:"-"`

	at    place
	price *run.Price
}

// anyModel stands for every model of a provider that costs nothing.
const anyModel = "*"

// inForce tells whether the row holds at an instant.
func (r *Row) inForce(at time.Time) bool {
	return (r.From.IsZero() || !at.Before(r.From)) && (r.To.IsZero() || at.Before(r.To))
}

func (r *Row) isCompute() bool { return r.Backend != "" }

// title is how messages and ids name the row's subject.
func (r *Row) title() string {
	if r.isCompute() {
		if r.GPU == "" {
			return "compute/" + r.Backend
		}
		return "compute/" + r.Backend + "/" + r.GPU
	}
	return r.Provider + "/" + r.Model
}

// Key is the row's subject, as provider/model or compute/backend/gpu.
func (r *Row) Key() string { return r.title() }

// ID is the id that priced records keep.
func (r *Row) ID() string { return r.price.ID }

// body is the stored form. Version changes when an older program would read a
// body wrongly.
type body struct {
	Version int `json:"version"`
	*Row
}

const bodyVersion = 1

// freeze makes the stored form and the id, which tells every other content apart.
func (r *Row) freeze() error {
	data, err := json.Marshal(body{bodyVersion, r})
	if err != nil {
		return fmt.Errorf("encoding it: %w", err)
	}
	sum := sha256.Sum256(data)
	id := r.title()
	if !r.From.IsZero() {
		id += "@" + instant(r.From)
	}
	r.price = &run.Price{ID: id + "#" + hex.EncodeToString(sum[:4]), Body: data}
	return nil
}

// thaw reads a stored row.
func thaw(p *run.Price) (*Row, error) {
	b := body{Row: new(Row)}
	if err := json.Unmarshal(p.Body, &b); err != nil {
		return nil, fmt.Errorf("reading the price row %s: %w", p.ID, err)
	}
	if b.Version != bodyVersion {
		return nil, fmt.Errorf("the price row %s has version %d, this program reads %d: it was written by another version of weir", p.ID, b.Version, bodyVersion)
	}
	if err := b.sound(); err != nil {
		return nil, fmt.Errorf("the price row %s is damaged: %w", p.ID, err)
	}
	b.price = p
	return b.Row, nil
}

// sound refuses a stored row that would price wrongly.
func (r *Row) sound() error {
	if (r.Model == "") == (r.Backend == "") {
		return fmt.Errorf("it is of neither a model nor a sandbox")
	}
	if r.Local {
		return nil
	}
	if r.isCompute() {
		if r.Compute < 0 || r.Seconds < 1 || r.Seconds > 86400 {
			return fmt.Errorf("%d pico-USD per %d s is no price", r.Compute, r.Seconds)
		}
		return nil
	}
	sets := []Set{r.Set}
	for _, s := range r.Tiers {
		sets = append(sets, s)
	}
	for _, s := range sets {
		for _, rates := range s.all() {
			if rates.Input == nil || rates.Output == nil {
				return fmt.Errorf("a rate for input or output is missing")
			}
			for _, n := range rates.named() {
				if *n.rate != nil && **n.rate < 0 {
					return fmt.Errorf("the rate %s is %d", n.name, **n.rate)
				}
			}
		}
	}
	for name, price := range r.Tools {
		if price < 0 {
			return fmt.Errorf("the price of the tool %s is %d", name, price)
		}
	}
	return nil
}

// all gives every group of rates of a set.
func (s *Set) all() []*Rates {
	list := []*Rates{&s.Rates}
	for i := range s.Long {
		list = append(list, &s.Long[i].Rates)
	}
	for i := range s.Windows {
		list = append(list, &s.Windows[i].Rates)
		for j := range s.Windows[i].Long {
			list = append(list, &s.Windows[i].Long[j].Rates)
		}
	}
	return list
}

// instant writes a day as a day, and anything else in full.
func instant(t time.Time) string {
	if t.Truncate(24 * time.Hour).Equal(t) {
		return t.Format(time.DateOnly)
	}
	return t.Format(time.RFC3339)
}
