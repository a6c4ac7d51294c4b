package cli

import (
	"errors"

	"github.com/alecthomas/kong"
)

// Number is the text of a flag's number. One below zero is taken as its value,
// not as another flag, so that the error can name it.
type Number string

// Decode implements kong.MapperValue.
func (n *Number) Decode(ctx *kong.DecodeContext) error {
	token := ctx.Scan.Pop()
	if token.IsEOL() {
		return errors.New("missing value: give a number")
	}
	*n = Number(token.String())
	return nil
}
