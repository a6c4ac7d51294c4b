package graph

import (
	"strings"
	"testing"
	"time"
)

// The prices of models come through with what is not known as null.
func TestModels(t *testing.T) {
	t.Parallel()
	f := newFake()
	long := []LongInfo{{Above: 100_000, Inclusive: true, Rates: RateInfo{Input: "3", Output: "4"}}}
	f.models = []ModelInfo{
		{
			Provider: "acme", Model: "m", Aliases: []string{"mine"}, PriceID: "acme/m#1",
			Price:   PriceSet{Rates: RateInfo{Input: "1.5", Output: "2", CacheRead: "0.1"}, Long: long},
			Windows: []WindowInfo{{When: "mon 01:00-04:00", PriceSet: PriceSet{Rates: RateInfo{Input: "9", Output: "9"}}}},
			Tiers:   []TierInfo{{Name: "batch", PriceSet: PriceSet{Rates: RateInfo{Input: "0.75", Output: "1"}, Long: long}}},
			Tools:   []ToolInfo{{Name: "web_search", USD: "0.01"}},
			From:    noon, Source: "a contract", SourceDate: "2026-11-02",
		},
		{Provider: "ollama", Model: "*", Local: true, PriceID: "ollama/*#2", To: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
	const rates = `{input output cacheRead cacheWriteLong}`
	got := data(t, do(t, setup(t, f), `{models{id provider model aliases local rates`+rates+` longContext{above inclusive rates`+rates+`} windows{when rates`+rates+` longContext{above}} tiers{name rates`+rates+` longContext{above}} tools{name usd} from to source sourceDate priceId} server{prices{files rows models newestSource problem}}}`, nil))
	for _, want := range []string{
		`{"id":"acme/m","provider":"acme","model":"m","aliases":["mine"],"local":false,"rates":{"input":"1.5","output":"2","cacheRead":"0.1","cacheWriteLong":null},`,
		`"longContext":[{"above":100000,"inclusive":true,"rates":{"input":"3","output":"4","cacheRead":null,"cacheWriteLong":null}}]`,
		`"windows":[{"when":"mon 01:00-04:00","rates":{"input":"9","output":"9","cacheRead":null,"cacheWriteLong":null},"longContext":[]}]`,
		`"tiers":[{"name":"batch","rates":{"input":"0.75","output":"1","cacheRead":null,"cacheWriteLong":null},"longContext":[{"above":100000}]}]`,
		`"tools":[{"name":"web_search","usd":"0.01"}],"from":"2026-11-30T12:00:00.123456Z","to":null,"source":"a contract","sourceDate":"2026-11-02","priceId":"acme/m#1"}`,
		`{"id":"ollama/*","provider":"ollama","model":"*","aliases":[],"local":true,"rates":null,"longContext":[],"windows":[],"tiers":[],"tools":[],"from":null,"to":"2027-01-01T00:00:00.000000Z","source":null,"sourceDate":null,`,
		`"prices":{"files":["prices.yaml"],"rows":2,"models":1,"newestSource":"2026-11-19","problem":null}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks\n%s", got, want)
		}
	}
}
