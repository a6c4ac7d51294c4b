package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/meter/pricebook"
	"github.com/weirhq/weir/server/cli"
)

// pricesCommand shows what a server with the same settings would price by.
type pricesCommand struct {
	Check pricesCheck `cmd:"" help:"Check a price file, and name every fault with its line."`
	List  pricesList  `cmd:"" help:"List the prices in force."`
	Show  pricesShow  `cmd:"" help:"Show all prices of a model, past and coming ones too."`
}

// priceFile is the file above the shipped prices.
type priceFile struct {
	Prices string `help:"Price file; its models take the place of the shipped ones." setting:"WEIR_PRICES" section:"serve" placeholder:"FILE"`
	JSON   bool   `name:"json" help:"Print JSON with the API's field names."`
}

func (f *priceFile) book() (*pricebook.Book, error) {
	book, err := pricebook.ReadPath(f.Prices)
	if err != nil {
		return nil, cli.UsageError(fmt.Errorf("--prices: %w", err))
	}
	return book, nil
}

// pricesCheck checks a file.
type pricesCheck struct {
	priceFile `embed:""`

	File string `arg:"" optional:"" help:"Price file; default: that of --prices, else the shipped prices." type:"path"`
}

// Run implements the command.
func (p *pricesCheck) Run(i *cli.IO) error {
	if p.File == "" {
		p.File = p.Prices
	}
	book, err := pricebook.ReadPath(p.File)
	var faults pricebook.Faults
	if err != nil && !errors.As(err, &faults) {
		return err
	}
	if p.JSON {
		err = p.document(i, book, faults)
	} else {
		err = p.report(i, book, faults)
	}
	if err == nil && len(faults) > 0 {
		return fmt.Errorf("%s cannot be used: it has %s", p.File, count(len(faults), "fault"))
	}
	return err
}

func (p *pricesCheck) report(i *cli.IO, book *pricebook.Book, faults pricebook.Faults) error {
	var b strings.Builder
	for _, f := range faults {
		fmt.Fprintln(&b, f)
	}
	if book != nil {
		s := book.Summary()
		for _, note := range s.Notes {
			fmt.Fprintf(&b, "%s: %s\n", p.File, note)
		}
		rows := s.Rows
		if p.File != "" {
			own := book.RowsOf(p.File)
			fmt.Fprintf(&b, "%s: %s without a fault\n", p.File, count(own, "row"))
		}
		fmt.Fprintf(&b, "%s: %s, %s of %s in force; the newest source is of %s\n", strings.Join(s.Files, " and "),
			count(rows, "row"), count(s.Models, "model"), count(s.Providers, "provider"), s.Newest)
	}
	_, err := i.Out.Write([]byte(b.String()))
	return err
}

func (p *pricesCheck) document(i *cli.IO, book *pricebook.Book, faults pricebook.Faults) error {
	type fault struct {
		File   string `json:"file"`
		Line   int    `json:"line,omitempty"`
		Column int    `json:"column,omitempty"`
		Text   string `json:"text"`
	}
	doc := struct {
		OK           bool     `json:"ok"`
		Faults       []fault  `json:"faults"`
		Files        []string `json:"files,omitempty"`
		Rows         int      `json:"rows,omitempty"`
		Models       int      `json:"models,omitempty"`
		NewestSource string   `json:"newestSource,omitempty"`
		Notes        []string `json:"notes,omitempty"`
	}{OK: len(faults) == 0, Faults: []fault{}}
	for _, f := range faults {
		doc.Faults = append(doc.Faults, fault{f.File, f.Line, f.Col, f.Text})
	}
	if book != nil {
		s := book.Summary()
		doc.Files, doc.Rows, doc.Models, doc.NewestSource, doc.Notes = s.Files, s.Rows, s.Models, s.Newest, s.Notes
	}
	return printJSON(i, doc)
}

func printJSON(i *cli.IO, v any) error {
	e := json.NewEncoder(i.Out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("printing the prices: %w", err)
	}
	return nil
}

// pricesList lists what is in force.
type pricesList struct {
	priceFile `embed:""`

	Model string `help:"Only this model: its id, an alias, or provider/model." placeholder:"NAME"`
	At    string `help:"At this day or instant (UTC), such as 2026-10-07; default: now." placeholder:"TIME"`
}

// Run implements the command.
func (p *pricesList) Run(i *cli.IO) error {
	at, err := instantOf(p.At)
	if err != nil {
		return cli.UsageError(err)
	}
	book, err := p.book()
	if err != nil {
		return err
	}
	rows := book.InForce(at)
	if p.Model != "" {
		if rows, err = priced(book, p.Model, at); err != nil {
			return err
		}
		rows = pricebook.At(rows, at)
	}
	if p.JSON {
		models := []any{}
		for _, r := range rows {
			if !r.IsCompute() {
				models = append(models, modelInfo(book, r, at).Document())
			}
		}
		return printJSON(i, models)
	}
	table := [][]string{{"MODEL", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "LONG PROMPT", "ALSO", "FROM", "SOURCE OF"}}
	for _, r := range rows {
		table = append(table, listed(book, r, at))
	}
	if len(table) == 1 {
		i.Notice("no price of it is in force at " + at.Format(time.RFC3339))
		return nil
	}
	if err := i.Out.Columns(table, 8, 7, 6, 5, 4, 3); err != nil {
		return err
	}
	i.Notice("USD per million tokens; weir prices show MODEL has the rest")
	return nil
}

// listed is a row of the table.
func listed(book *pricebook.Book, r *pricebook.Row, at time.Time) []string {
	from := ""
	if !r.From.IsZero() {
		from = r.From.Format(time.DateOnly)
	}
	line := []string{r.Key(), "0", "0", "", "", "", strings.Join(book.Aliases(r, at), " "), from, r.SourceDate}
	switch {
	case r.Local:
		line[5] = "local: costs nothing"
	case r.IsCompute():
		line[1], line[2] = r.PerTime(), ""
	default:
		rates := r.Standard(at)
		line[1], line[2], line[3] = perMillion(rates.Input), perMillion(rates.Output), perMillion(rates.CacheRead)
		line[4] = strings.Trim(perMillion(rates.CacheWriteShort)+" "+perMillion(rates.CacheWriteLong), " ")
		if len(r.Long) > 0 {
			line[5] = longWords(r.Long[0])
		}
	}
	return line
}

func longWords(s pricebook.Step) string {
	if s.Inclusive {
		return fmt.Sprintf("from %d", s.Above)
	}
	return fmt.Sprintf("over %d", s.Above)
}

// instantOf reads --at.
func instantOf(s string) (time.Time, error) {
	if s == "" {
		return time.Now(), nil
	}
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, fmt.Errorf("--at %q is not a day such as 2026-10-07, nor an instant such as 2026-10-07T16:00:00Z", s)
	}
	return t, nil
}

// priced gives all rows of a model.
func priced(book *pricebook.Book, name string, at time.Time) ([]*pricebook.Row, error) {
	rows := book.Of(name, at)
	if len(rows) > 0 {
		return rows, nil
	}
	var known []string
	for _, r := range book.Rows() {
		known = append(known, r.Model, r.Key())
	}
	return nil, fmt.Errorf("no price of a model %q is known%s; weir prices list shows all", name, cli.DidYouMean(name, known))
}

// pricesShow shows a model.
type pricesShow struct {
	priceFile `embed:""`

	Model string `arg:"" help:"Its id, an alias, or provider/model."`
}

// Run implements the command.
func (p *pricesShow) Run(i *cli.IO) error {
	book, err := p.book()
	if err != nil {
		return err
	}
	now := time.Now()
	rows, err := priced(book, p.Model, now)
	if err != nil {
		return err
	}
	if p.JSON {
		models := []any{}
		for _, r := range rows {
			models = append(models, modelInfo(book, r, now).Document())
		}
		return printJSON(i, models)
	}
	var parts []string
	for _, r := range rows {
		parts = append(parts, describe(book, r, now))
	}
	_, err = i.Out.Write([]byte(strings.Join(parts, "\n")))
	return err
}

// describe writes all that a row says.
func describe(book *pricebook.Book, r *pricebook.Row, at time.Time) string {
	var b strings.Builder
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-14s %s\n", label, text)
		}
	}
	fmt.Fprintf(&b, "%s\n", r.ID())
	line("also", strings.Join(book.Aliases(r, at), " "))
	line("in force", r.Period())
	switch {
	case r.Local:
		line("rates", "costs nothing: your own machine")
	case r.IsCompute():
		line("rates", r.PerTime()+" USD")
	default:
		line("rates", ratesWords(r.Rates)+" (USD per million tokens)")
		for _, s := range r.Long {
			line(longWords(s), ratesWords(s.Rates))
		}
		for _, w := range r.Windows {
			line("at hours", w.Words()+" UTC: "+ratesWords(w.Rates))
		}
		for _, name := range r.TierNames() {
			line("tier "+name, ratesWords(r.Tiers[name].Rates))
		}
		for _, name := range r.ToolNames() {
			line(name, pricebook.USD(r.Tools[name])+" per call")
		}
	}
	line("source", strings.TrimSuffix(r.Source+", "+r.SourceDate, ", "))
	line("note", r.Note)
	return b.String()
}

func ratesWords(r pricebook.Rates) string {
	var parts []string
	for _, n := range []struct {
		name string
		rate *int64
	}{
		{"input", r.Input},
		{"output", r.Output},
		{"cacheRead", r.CacheRead},
		{"cacheWriteShort", r.CacheWriteShort},
		{"cacheWriteLong", r.CacheWriteLong},
		{"reasoning", r.Reasoning},
	} {
		if n.rate != nil {
			parts = append(parts, n.name+" "+perMillion(n.rate))
		}
	}
	return strings.Join(parts, ", ")
}
