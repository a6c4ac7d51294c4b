// Package pricebook is what models and sandboxes cost: the prices that Weir
// ships, with those of the operator above them, and the sums.
//
// Guarantees:
//   - A record is priced by the row in force at the time of its request, whole
//     and with one rounding, half away from zero, to nano-USD. Sums that do not
//     fit are an error.
//   - What is not known is not guessed: a model is found by its exact id, an
//     alias, a listed prefix or suffix, or a date behind its id, never by a part
//     of it. A record with a part that has no price has none.
//   - A row's stored form prices alike in every later version.
//
// A Book never changes and is safe for concurrent use; Live follows its file.
package pricebook

import (
	_ "embed" // the shipped prices
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/weirhq/weir/runtime/run"
)

// ShippedName stands for the shipped prices where a file is named.
const ShippedName = "prices.yaml"

//go:embed prices.yaml
var shippedText []byte

// shipped is read once: it is part of the program and always the same.
var shipped = sync.OnceValues(func() (*file, error) { return readYAML(ShippedName, shippedText) }) //nolint:gochecknoglobals // a constant that takes a function

var shippedBook = sync.OnceValues(func() (*Book, error) { //nolint:gochecknoglobals // as above
	base, err := shipped()
	if err != nil {
		return nil, fmt.Errorf("the shipped prices: %w", err)
	}
	return newBook(base), nil
})

// Book finds prices.
type Book struct {
	rows      map[subject][]*Row // by time
	owners    map[string][]string
	aliases   map[string][]alias
	providers map[string]string // other names of providers
	prefixes  []affix           // the longest first
	suffixes  []affix
	compute   map[subject][]*Row // backend and gpu
	files     []string
	notes     []string
}

// affix is what a provider's resellers write around the id of a model.
type affix struct{ text, provider string }

var _ run.Pricer = (*Book)(nil)

// Shipped gives the prices that come with the program.
func Shipped() (*Book, error) { return shippedBook() }

// Read gives the shipped prices with those of a file above them: its rows
// replace all shipped rows of the same model, its aliases all of that name. An
// error of type Faults tells everything that is wrong with the file.
func Read(name string, data []byte) (*Book, error) {
	base, err := shipped()
	if err != nil {
		return nil, fmt.Errorf("the shipped prices: %w", err)
	}
	own, err := readFile(name, data)
	if err != nil {
		return nil, err
	}
	return newBook(base, own), nil
}

// newBook puts files above each other, the last one on top.
func newBook(files ...*file) *Book {
	b := &Book{
		rows: map[subject][]*Row{}, owners: map[string][]string{}, aliases: map[string][]alias{},
		providers: map[string]string{}, compute: map[subject][]*Row{},
	}
	for _, f := range files {
		b.files = append(b.files, f.name)
		b.notes = append(b.notes, f.notes...)
		b.addProviders(f)
		rows, compute := map[subject][]*Row{}, map[subject][]*Row{}
		for _, r := range f.rows {
			if r.isCompute() {
				key := subject{r.Backend, r.GPU}
				compute[key] = append(compute[key], r)
			} else {
				key := subject{r.Provider, r.Model}
				rows[key] = append(rows[key], r)
			}
		}
		maps.Copy(b.rows, rows)
		maps.Copy(b.compute, compute)
		aliases := map[string][]alias{}
		for _, a := range f.aliases {
			aliases[a.name] = append(aliases[a.name], a)
		}
		maps.Copy(b.aliases, aliases)
	}
	for key, list := range b.rows {
		sortRows(list)
		b.owners[key.model] = append(b.owners[key.model], key.provider)
		b.prefixes = append(b.prefixes, affix{key.provider + "/", key.provider})
	}
	for _, owners := range b.owners {
		slices.Sort(owners)
	}
	for _, list := range b.compute {
		sortRows(list)
	}
	longest := func(x, y affix) int {
		if n := len(y.text) - len(x.text); n != 0 {
			return n
		}
		return strings.Compare(x.text+x.provider, y.text+y.provider)
	}
	slices.SortFunc(b.prefixes, longest)
	b.prefixes = slices.Compact(b.prefixes)
	slices.SortFunc(b.suffixes, longest)
	b.suffixes = slices.Compact(b.suffixes)
	return b
}

func (b *Book) addProviders(f *file) {
	for _, name := range f.sortedProviders() {
		p := f.providers[name]
		for _, other := range p.names {
			b.providers[other] = name
			b.prefixes = append(b.prefixes, affix{other + "/", name})
		}
		for _, prefix := range p.prefixes {
			b.prefixes = append(b.prefixes, affix{prefix, name})
		}
		for _, suffix := range p.suffixes {
			b.suffixes = append(b.suffixes, affix{suffix, name})
		}
	}
}

// Price implements run.Pricer.
func (b *Book) Price(u run.UsageRecord, pinned *run.Price) (run.Pricing, error) {
	if err := countable(&u); err != nil {
		return run.Pricing{}, err
	}
	if u.Kind == run.ModelCall && u.Provenance == run.UnknownProvenance {
		return run.Pricing{}, nil // its counts say nothing
	}
	var row *Row
	if pinned != nil {
		var err error
		if row, err = thaw(pinned); err != nil {
			return run.Pricing{}, err
		}
		if row.isCompute() != (u.Kind == run.ComputeUsage) {
			return run.Pricing{}, fmt.Errorf("the price row %s is not for the usage record %q of the run %s, which is of the kind %s", pinned.ID, u.RequestKey, u.Run, u.Kind)
		}
	} else if row = b.Find(u); row == nil {
		return run.Pricing{}, nil
	}
	nano, known, err := row.cost(&u)
	if err != nil || !known {
		return run.Pricing{}, err
	}
	price := *row.price
	return run.Pricing{Price: &price, NanoUSD: &nano}, nil
}

// same tells whether two rows price every record alike.
func same(a, b *Row) bool {
	return a.Local == b.Local && reflect.DeepEqual(a.Set, b.Set) &&
		reflect.DeepEqual(a.Tiers, b.Tiers) && reflect.DeepEqual(a.Tools, b.Tools)
}
