package pricebook

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// syntaxError gives the place and the words of a parser's error.
func syntaxError(err error) (place, string) {
	var y yaml.Error
	if !errors.As(err, &y) {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return place{}, first
	}
	var at place
	if t := y.GetToken(); t != nil && t.Position != nil {
		at = place{line: t.Position.Line, col: t.Position.Column}
	}
	return at, y.GetMessage()
}

// file is what one price file says.
type file struct {
	name      string
	providers map[string]*provider
	rows      []*Row
	aliases   []alias
	notes     []string // what was left out, of a foreign format
}

// provider is what holds for all models of a provider.
type provider struct {
	at                        place
	names, prefixes, suffixes []string
	tiers                     map[string]factor
	tools                     map[string]int64
	source, date              string
	local                     bool
}

// factor is a multiple of the standard rates, in 10^-factorPlaces.
type factor struct {
	n  int64
	at place
}

const factorPlaces = 6

// alias is another name of a model, for a time.
type alias struct {
	name     string
	from, to time.Time
	of       subject
	at       place
}

// subject is what rows are about.
type subject struct{ provider, model string }

// readYAML reads a price file in Weir's own format.
func readYAML(name string, data []byte) (*file, error) {
	r := &reader{file: name}
	f := &file{name: name, providers: map[string]*provider{}}
	root := r.parse(data)
	switch root.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		if len(r.faults.list) == 0 {
			r.add(place{file: name}, "the file is empty; it needs models, compute or providers")
		}
		return nil, r.err()
	}
	var models, compute []ast.Node
	r.fields(root, "a price file", map[string]func(entry){
		"providers": func(e entry) {
			list, _ := r.entries(e.value, "providers")
			for _, p := range list {
				f.providers[p.key] = r.provider(p)
			}
		},
		"models":  func(e entry) { models = r.list(e.value, "models") },
		"compute": func(e entry) { compute = r.list(e.value, "compute") },
	})
	for _, n := range models {
		r.model(f, n)
	}
	for _, n := range compute {
		r.compute(f, n)
	}
	f.addLocal()
	f.check(&r.faults)
	f.finish(&r.faults)
	return f, r.err()
}

// addLocal makes the row of each provider whose models cost nothing.
func (f *file) addLocal() {
	for name, p := range f.providers {
		if p.local {
			f.rows = append(f.rows, &Row{Provider: name, Model: anyModel, Local: true, Source: p.source, SourceDate: p.date, at: p.at})
		}
	}
}

func (r *reader) provider(e entry) *provider {
	p := &provider{at: e.at, tiers: map[string]factor{}}
	if strings.TrimSpace(e.key) == "" {
		r.add(e.at, "a provider has no name")
	}
	r.fields(e.value, "a provider", map[string]func(entry){
		"names":    func(e entry) { p.names = r.texts(e) },
		"prefixes": func(e entry) { p.prefixes = r.texts(e) },
		"suffixes": func(e entry) { p.suffixes = r.texts(e) },
		"tools":    func(e entry) { p.tools = r.tools(e) },
		"source":   func(e entry) { p.source = r.text(e) },
		"date":     func(e entry) { p.date = r.date(e) },
		"local":    func(e entry) { p.local = r.truth(e) },
		"tiers": func(e entry) {
			list, _ := r.entries(e.value, "tiers")
			for _, t := range list {
				r.fields(t.value, "a tier of a provider", map[string]func(entry){
					"factor": func(e entry) { p.tiers[t.key] = factor{r.price(e, factorPlaces), e.at} },
				})
			}
		},
	})
	return p
}

func (r *reader) model(f *file, n ast.Node) {
	row := &Row{at: r.start(n)}
	var rates, local bool
	var aliases, tiers []entry
	ok := r.fields(n, "a model", map[string]func(entry){
		"provider": func(e entry) { row.Provider = r.text(e) },
		"model":    func(e entry) { row.Model = r.text(e) },
		"aliases":  func(e entry) { aliases = append(aliases, e) },
		"from":     func(e entry) { row.From = r.from(e) },
		"to":       func(e entry) { row.To = r.to(e) },
		"rates":    func(e entry) { rates = true; row.Rates = r.rates(e) },
		"long":     func(e entry) { row.Long = r.long(e) },
		"windows":  func(e entry) { row.Windows = r.windows(e) },
		"tiers":    func(e entry) { tiers, _ = r.entries(e.value, "tiers") },
		"tools":    func(e entry) { row.Tools = r.tools(e) },
		"local":    func(e entry) { local = r.truth(e) },
		"source":   func(e entry) { row.Source = r.text(e) },
		"date":     func(e entry) { row.SourceDate = r.date(e) },
		"note":     func(e entry) { row.Note = r.text(e) },
	})
	row.Local = local
	switch {
	case !ok:
		return
	case row.Provider == "" || row.Model == "":
		r.add(row.at, "a model needs provider and model")
		return
	case row.Model == anyModel:
		r.add(row.at, "the model * is not a model; for a provider whose models cost nothing set local: true under providers")
	case local && (rates || len(row.Long)+len(row.Windows)+len(tiers) > 0):
		r.add(row.at, "%s is local, which means that it costs nothing, and has rates; leave one of them out", row.title())
	case !local && !rates:
		r.add(row.at, "%s has no rates; give input and output in USD per million tokens", row.title())
	}
	r.sameRates(row.at, row.title(), &row.Set)
	p := f.providers[row.Provider]
	if p == nil {
		p = &provider{}
	}
	if !local {
		r.tiers(row, tiers, p)
	}
	for name, price := range p.tools {
		if _, own := row.Tools[name]; !own && !local {
			row.addTool(name, price)
		}
	}
	if row.Source == "" {
		row.Source = p.source
	}
	if row.SourceDate == "" {
		row.SourceDate = p.date
	}
	for _, e := range aliases {
		for _, n := range r.list(e.value, "aliases") {
			f.aliases = append(f.aliases, r.alias(n, subject{row.Provider, row.Model}))
		}
	}
	f.rows = append(f.rows, row)
}

func (r *Row) addTool(name string, price int64) {
	if r.Tools == nil {
		r.Tools = map[string]int64{}
	}
	r.Tools[name] = price
}

// alias reads a name, or a name with the time that it holds.
func (r *reader) alias(n ast.Node, of subject) alias {
	a := alias{of: of, at: r.start(n)}
	if name, ok := plain(n); ok {
		a.name = name
	} else {
		r.fields(n, "an alias", map[string]func(entry){
			"name": func(e entry) { a.name = r.text(e) },
			"from": func(e entry) { a.from = r.from(e) },
			"to":   func(e entry) { a.to = r.to(e) },
		})
	}
	if a.name == "" {
		r.add(a.at, "an alias of %s/%s has no name", of.provider, of.model)
	}
	return a
}

func (r *reader) compute(f *file, n ast.Node) {
	row := &Row{at: r.start(n)}
	var prices int
	ok := r.fields(n, "a compute row", map[string]func(entry){
		"backend":      func(e entry) { row.Backend = r.text(e) },
		"gpu":          func(e entry) { row.GPU = r.text(e) },
		"from":         func(e entry) { row.From = r.from(e) },
		"to":           func(e entry) { row.To = r.to(e) },
		"local":        func(e entry) { row.Local = r.truth(e) },
		"usdPerSecond": func(e entry) { prices++; row.Compute, row.Seconds = r.price(e, picoPerUSD), 1 },
		"usdPerHour":   func(e entry) { prices++; row.Compute, row.Seconds = r.price(e, picoPerUSD), 3600 },
		"source":       func(e entry) { row.Source = r.text(e) },
		"date":         func(e entry) { row.SourceDate = r.date(e) },
		"note":         func(e entry) { row.Note = r.text(e) },
	})
	if row.Local {
		prices++
	}
	switch {
	case !ok:
		return
	case row.Backend == "":
		r.add(row.at, "a compute row needs backend, for example modal")
		return
	case prices != 1:
		r.add(row.at, "%s needs one of usdPerSecond, usdPerHour and local: true", row.title())
	}
	f.rows = append(f.rows, row)
}

// count reads a number of tokens.
func (r *reader) count(e entry) int64 {
	s, ok := r.scalar(e)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		r.add(r.start(e.value), "%s %q is not a number of tokens such as 200000", e.key, clip(s))
	}
	return n
}
