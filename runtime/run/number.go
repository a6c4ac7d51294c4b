package run

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// whole is how a whole number is written, wherever one is read. A fraction, an
// exponent, another base, separators and zeros in front are refused: what one
// reader cuts or takes for octal, another one does not.
var whole = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// ParseWhole reads a whole number of so many bits in decimal digits.
func ParseWhole(s string, bits int) (int64, error) {
	if !whole.MatchString(s) {
		return 0, fmt.Errorf("%.40q is not a whole number in decimal digits, such as 1000", s)
	}
	n, err := strconv.ParseInt(s, 10, bits)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%.40s is out of range: at most %d is possible", s, int64(1)<<(bits-1)-1)
	}
	return n, err
}
