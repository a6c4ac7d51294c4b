package pricebook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// LiteLLM's model_prices_and_context_window.json: an object by model, prices in
// USD per token as binary fractions, no dates. What has no price per token
// (images, audio, rerankers) is left out, and so is what cannot be expressed
// here; keys that are not known are ignored. A wrong number is a fault.

// jsonEntry is one key of a JSON object.
type jsonEntry struct {
	key    string
	offset int64 // of the key's end
	value  json.RawMessage
	begin  int64 // of the value
}

// jsonEntries gives the entries of an object in their order.
func jsonEntries(data []byte, base int64) ([]jsonEntry, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, cmp.Or(err, errors.New("it is not an object"))
	}
	var all []jsonEntry
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if !ok {
			return nil, errors.New("a key is not a text")
		}
		e := jsonEntry{key: key, offset: base + dec.InputOffset()}
		if err := dec.Decode(&e.value); err != nil {
			return nil, err
		}
		e.begin = base + dec.InputOffset() - int64(len(e.value))
		all = append(all, e)
	}
	return all, nil
}

// foreign reads a LiteLLM file.
type foreign struct {
	faults
	name string
	data []byte
	out  *file
	left map[string]int // why entries were left out
}

func (l *foreign) at(offset int64) place {
	offset = min(max(offset, 0), int64(len(l.data)))
	before := l.data[:offset]
	return place{l.name, bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')}
}

func readLiteLLM(name string, data []byte) (*file, error) {
	l := &foreign{name: name, data: data, out: &file{name: name, providers: map[string]*provider{}}, left: map[string]int{}}
	entries, err := jsonEntries(data, 0)
	if err != nil {
		at := place{file: name}
		if s := new(json.SyntaxError); errors.As(err, &s) {
			at = l.at(s.Offset - 1) // it counts from 1
		}
		l.add(at, "the file is not valid JSON: %v", err)
		return nil, l.err()
	}
	known, err := shippedProviders()
	if err != nil {
		return nil, err
	}
	seen := map[subject]bool{}
	for _, e := range entries {
		if e.key == "sample_spec" {
			continue
		}
		row := l.row(e)
		if row == nil {
			continue
		}
		bare := known.bare(subject{row.Provider, row.Model})
		row.Provider, row.Model = bare.provider, bare.model
		if seen[bare] {
			l.left["the same model under another name"]++
			continue
		}
		seen[bare] = true
		l.out.rows = append(l.out.rows, row)
	}
	if len(l.out.rows) == 0 && len(l.list) == 0 {
		l.add(place{file: name}, "no model in it has a price per token; is it LiteLLM's model_prices_and_context_window.json?")
	}
	for _, why := range slices.Sorted(maps.Keys(l.left)) {
		l.out.notes = append(l.out.notes, fmt.Sprintf("left out %d: %s", l.left[why], why))
	}
	l.out.finish(&l.faults)
	return l.out, l.err()
}

// shippedProviders knows the providers that ship under all their names, so that
// a foreign row of such a model takes the shipped row's place.
func shippedProviders() (*Book, error) {
	base, err := shipped()
	if err != nil {
		return nil, err
	}
	b := &Book{providers: map[string]string{}}
	b.addProviders(base)
	for _, r := range base.rows {
		b.prefixes = append(b.prefixes, affix{r.Provider + "/", r.Provider})
		b.providers[r.Provider] = r.Provider
	}
	return b, nil
}

func (b *Book) bare(s subject) subject {
	name, ok := b.providers[s.provider]
	if !ok {
		return s
	}
	for _, p := range b.prefixes {
		if rest, ok := strings.CutPrefix(s.model, p.text); ok && p.provider == name {
			return subject{name, rest}
		}
	}
	return subject{name, s.model}
}

// rateKey is the name of a rate: what it is of, over which prompt, in which tier.
var rateKey = regexp.MustCompile(`^(input_cost_per_token|output_cost_per_token|output_cost_per_reasoning_token|cache_read_input_token_cost|cache_creation_input_token_cost)(_above_1hr)?(?:_above_(\d{1,6})(k?)_tokens)?(?:_(flex|priority|batches))?$`)

// rateNames are the fields of Rates.
var rateNames = map[string]string{
	"input_cost_per_token": "input", "output_cost_per_token": "output", "output_cost_per_reasoning_token": "reasoning",
	"cache_read_input_token_cost": "cacheRead", "cache_creation_input_token_cost": "cacheWriteShort",
}

// keyed is a rate with what its name says.
type keyed struct {
	name  string
	above int64
	tier  string
	pico  int64
}

// rates reads the rates among the fields of an object.
func (l *foreign) rates(fields []jsonEntry) []keyed {
	var all []keyed
	for _, f := range fields {
		m := rateKey.FindStringSubmatch(f.key)
		if m == nil || string(f.value) == "null" {
			continue
		}
		k := keyed{name: rateNames[m[1]], tier: strings.Replace(m[5], "batches", "batch", 1)}
		if m[2] != "" {
			if k.name != "cacheWriteShort" {
				continue
			}
			k.name = "cacheWriteLong"
		}
		if m[3] != "" {
			k.above, _ = strconv.ParseInt(m[3], 10, 64) // six digits
			if m[4] != "" {
				k.above *= 1000
			}
		}
		var ok bool
		if k.pico, ok = l.pico(f); ok {
			all = append(all, k)
		}
	}
	return all
}

// pico reads a price in USD: the nearest whole number of pico-USD, since the
// file holds binary fractions such as 4.0000000000000003e-07.
func (l *foreign) pico(f jsonEntry) (int64, bool) {
	raw := strings.Trim(string(f.value), `"`)
	if len(raw) > 40 || !looksNumeric.MatchString(raw) {
		l.add(l.at(f.begin), "%s %s is not a number", f.key, clip(string(f.value)))
		return 0, false
	}
	v, ok := new(big.Rat).SetString(raw)
	if !ok {
		l.add(l.at(f.begin), "%s %s is not a number", f.key, clip(string(f.value)))
		return 0, false
	}
	exact := new(big.Rat).Mul(v, big.NewRat(1_000_000_000_000, 1))
	half := exact.Add(exact, big.NewRat(1, 2))
	n := new(big.Int).Div(half.Num(), half.Denom())
	switch {
	case v.Sign() < 0:
		l.add(l.at(f.begin), "%s %s: a price is not negative", f.key, raw)
		return 0, false
	case n.Sign() == 0 && v.Sign() > 0:
		l.add(l.at(f.begin), "%s %s is finer than 1e-12 USD; is it per token?", f.key, raw)
		return 0, false
	case n.Cmp(big.NewInt(maxPico)) > 0:
		l.add(l.at(f.begin), "%s %s is too large to be a price in USD per token", f.key, raw)
		return 0, false
	}
	return n.Int64(), true
}

// looksNumeric bounds the exponent: a number of a thousand digits is no price.
var looksNumeric = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,2})?$`)

// build makes a set from rates: what a long prompt's step does not name costs as before.
func build(all []keyed, tier string, base *Set) Set {
	set := Set{}
	if base != nil {
		set.Rates = base.Rates
	}
	steps := map[int64][]keyed{}
	for _, k := range all {
		switch {
		case k.tier != tier:
		case k.above == 0:
			set.Rates.set(k.name, k.pico)
		default:
			steps[k.above] = append(steps[k.above], k)
		}
	}
	if base != nil && len(steps) == 0 {
		// A tier without steps of its own: the standard ones do not hold for it.
		return set
	}
	rates := set.Rates
	for _, above := range slices.Sorted(maps.Keys(steps)) {
		for _, k := range steps[above] {
			rates.set(k.name, k.pico)
		}
		set.Long = append(set.Long, Step{Above: above, Rates: rates})
	}
	return set
}

func (r *Rates) set(name string, pico int64) {
	for _, n := range r.named() {
		if n.name == name {
			*n.rate = &pico
		}
	}
}
