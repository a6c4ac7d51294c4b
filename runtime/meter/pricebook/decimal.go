package pricebook

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// Rates are per token, but people write them per million tokens: 1 USD per
// million is 1e6 pico-USD per token.
const (
	picoPerMillion = 6  // decimal places from USD per million to pico-USD
	picoPerUSD     = 12 // and from USD
)

// maxPico bounds a price, so that sums of products stay within 128 bits: 1,000
// USD per token or call.
const maxPico = 1_000_000_000_000_000

// decimal reads a number such as 0.075 as an integer of 10^-places, exactly.
func decimal(text string, places int) (int64, error) {
	whole, fraction, dot := strings.Cut(text, ".")
	switch {
	case strings.HasPrefix(text, "-"):
		return 0, errors.New("a price is not negative")
	case !digits(whole) || (dot && !digits(fraction)):
		return 0, errors.New("it is not a decimal number such as 0.075")
	}
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > places {
		return 0, fmt.Errorf("it has more than %d decimal places", places)
	}
	n, ok := new(big.Int).SetString(whole+fraction+strings.Repeat("0", places-len(fraction)), 10)
	if !ok || n.Cmp(big.NewInt(maxPico)) > 0 {
		return 0, errors.New("it is too large to be a price")
	}
	return n.Int64(), nil
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// text writes an integer of 10^-places as a decimal number.
func text(n int64, places int) string {
	s := fmt.Sprintf("%0*d", places+1, n)
	whole, fraction := s[:len(s)-places], strings.TrimRight(s[len(s)-places:], "0")
	if fraction == "" {
		return whole
	}
	return whole + "." + fraction
}

// PerMillion writes a rate in USD per million tokens.
func PerMillion(pico int64) string { return text(pico, picoPerMillion) }

// USD writes an amount in USD.
func USD(pico int64) string { return text(pico, picoPerUSD) }

// times multiplies a rate by a factor of 10^-places; it is an error when that
// is no whole number of pico-USD.
func times(pico, factor int64, places int) (int64, error) {
	n := new(big.Int).Mul(big.NewInt(pico), big.NewInt(factor))
	q, rest := n.QuoRem(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil), new(big.Int))
	switch {
	case rest.Sign() != 0:
		return 0, fmt.Errorf("%s times %s is finer than 0.000001 USD per million tokens", PerMillion(pico), text(factor, places))
	case q.Cmp(big.NewInt(maxPico)) > 0:
		return 0, errors.New("it is too large to be a price")
	}
	return q.Int64(), nil
}
