package pricebook

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/runtime/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// day is noon of a day.
func day(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.DateOnly, s)
	if err != nil {
		t.Fatal(err)
	}
	return at.Add(12 * time.Hour)
}

// book reads a file of the test alone, without the shipped prices.
func book(t testing.TB, text string) *Book {
	t.Helper()
	f, err := readYAML("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return newBook(f)
}

func ship(t testing.TB) *Book {
	t.Helper()
	b, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// usd gives the cost as a decimal number of USD, "null" for none.
func usd(t testing.TB, b run.Pricer, u run.UsageRecord) string {
	t.Helper()
	if u.Kind == "" {
		u.Kind = run.ModelCall
	}
	p, err := b.Price(u, nil)
	if err != nil {
		t.Fatal(err)
	}
	if (p.NanoUSD == nil) != (p.Price == nil) {
		t.Fatalf("half a price: %+v", p)
	}
	if p.NanoUSD == nil {
		return "null"
	}
	if again, err := b.Price(u, p.Price); err != nil || *again.NanoUSD != *p.NanoUSD || again.Price.ID != p.Price.ID {
		t.Errorf("the pinned row %s prices otherwise: %+v, %v", p.Price.ID, again, err)
	}
	return text(*p.NanoUSD, 9)
}

// contains is for messages.
func contains(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%q lacks %q", got, w)
		}
	}
}
