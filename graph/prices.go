package graph

import (
	"time"

	"github.com/weirhq/weir/graph/model"
)

// PriceInfo is the price book as clients see it.
type PriceInfo struct {
	Files        []string
	Rows, Models int
	Newest       string // the day of the newest source
	Problem      string // of the file's newest version; "" when that is in force
}

// ModelInfo is a model with its price. Prices are decimal numbers of USD, rates
// per million tokens; empty fields show as null.
type ModelInfo struct {
	Provider, Model    string
	Aliases            []string
	Local              bool // without prices
	Price              PriceSet
	Windows            []WindowInfo
	Tiers              []TierInfo
	Tools              []ToolInfo
	From, To           time.Time
	Source, SourceDate string
	PriceID            string
}

// PriceSet is what tokens cost, also behind long prompts.
type PriceSet struct {
	Rates RateInfo
	Long  []LongInfo
}

// RateInfo are rates in USD per million tokens.
type RateInfo struct {
	Input, Output, CacheRead, CacheWriteShort, CacheWriteLong, Reasoning string
}

// LongInfo are the rates behind a long prompt.
type LongInfo struct {
	Above     int64
	Inclusive bool
	Rates     RateInfo
}

// WindowInfo are the prices at certain hours.
type WindowInfo struct {
	When string
	PriceSet
}

// TierInfo are the prices of a service tier.
type TierInfo struct {
	Name string
	PriceSet
}

// ToolInfo is the price of a call.
type ToolInfo struct{ Name, USD string }

// Document is the model as the API shows it.
func (m ModelInfo) Document() any { return toModel(m) }

func toModel(m ModelInfo) *model.Model {
	out := &model.Model{
		ID: m.Provider + "/" + m.Model, Provider: m.Provider, Model: m.Model, Aliases: append([]string{}, m.Aliases...), Local: m.Local,
		LongContext: each(m.Price.Long, toLong),
		Windows: each(m.Windows, func(w WindowInfo) *model.PriceWindow {
			return &model.PriceWindow{When: w.When, Rates: toRates(w.Rates), LongContext: each(w.Long, toLong)}
		}),
		Tiers: each(m.Tiers, func(t TierInfo) *model.PriceTier {
			return &model.PriceTier{Name: t.Name, Rates: toRates(t.Rates), LongContext: each(t.Long, toLong)}
		}),
		Tools: each(m.Tools, func(t ToolInfo) *model.ToolPrice { return &model.ToolPrice{Name: t.Name, Usd: t.USD} }),
		From:  instant(m.From), To: instant(m.To),
		Source: text(m.Source), SourceDate: text(m.SourceDate), PriceID: m.PriceID,
	}
	if !m.Local {
		out.Rates = toRates(m.Price.Rates)
	}
	return out
}

func toRates(r RateInfo) *model.Rates {
	return &model.Rates{
		Input: r.Input, Output: r.Output, CacheRead: text(r.CacheRead),
		CacheWriteShort: text(r.CacheWriteShort), CacheWriteLong: text(r.CacheWriteLong), Reasoning: text(r.Reasoning),
	}
}

func toLong(l LongInfo) *model.LongContext {
	return &model.LongContext{Above: l.Above, Inclusive: l.Inclusive, Rates: toRates(l.Rates)}
}

func toPrices(p PriceInfo) *model.PriceBook {
	return &model.PriceBook{
		Files: append([]string{}, p.Files...), Rows: p.Rows, Models: p.Models, NewestSource: text(p.Newest), Problem: text(p.Problem),
	}
}
