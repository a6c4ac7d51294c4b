package app

import (
	"time"

	"github.com/weirhq/weir/graph"
	"github.com/weirhq/weir/runtime/meter/pricebook"
)

// modelInfo shows a price row to clients.
func modelInfo(book *pricebook.Book, r *pricebook.Row, at time.Time) graph.ModelInfo {
	info := graph.ModelInfo{
		Provider: r.Provider, Model: r.Model, Aliases: book.Aliases(r, at), Local: r.Local, PriceID: r.ID(),
		Price: priceSet(r.Rates, r.Long), From: r.From, To: r.To, Source: r.Source, SourceDate: r.SourceDate,
	}
	for _, w := range r.Windows {
		info.Windows = append(info.Windows, graph.WindowInfo{When: w.Words(), PriceSet: priceSet(w.Rates, w.Long)})
	}
	for _, name := range r.TierNames() {
		set := r.Tiers[name]
		info.Tiers = append(info.Tiers, graph.TierInfo{Name: name, PriceSet: priceSet(set.Rates, set.Long)})
	}
	for _, name := range r.ToolNames() {
		info.Tools = append(info.Tools, graph.ToolInfo{Name: name, USD: pricebook.USD(r.Tools[name])})
	}
	return info
}

func priceSet(r pricebook.Rates, long []pricebook.Step) graph.PriceSet {
	set := graph.PriceSet{Rates: rateInfo(r)}
	for _, s := range long {
		set.Long = append(set.Long, graph.LongInfo{Above: s.Above, Inclusive: s.Inclusive, Rates: rateInfo(s.Rates)})
	}
	return set
}

func rateInfo(r pricebook.Rates) graph.RateInfo {
	return graph.RateInfo{
		Input: perMillion(r.Input), Output: perMillion(r.Output), CacheRead: perMillion(r.CacheRead),
		CacheWriteShort: perMillion(r.CacheWriteShort), CacheWriteLong: perMillion(r.CacheWriteLong), Reasoning: perMillion(r.Reasoning),
	}
}

// perMillion writes a rate, "" for none.
func perMillion(pico *int64) string {
	if pico == nil {
		return ""
	}
	return pricebook.PerMillion(*pico)
}
