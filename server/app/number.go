package app

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/alecthomas/kong"

	"github.com/weirhq/weir/runtime/run"
)

// numbers are the rules for flags that take a number, or an amount, a size or a
// time in words (type:"number"): an empty value, which an unset variable of a
// script leaves behind, does not pass for none, and a whole number is written in
// decimal digits.
func numbers() kong.Option {
	whole := kong.MapperFunc(decodeWhole)
	return kong.OptionFunc(func(k *kong.Kong) error {
		for _, o := range []kong.Option{
			kong.NamedMapper("number", kong.MapperFunc(decodeNumber)),
			kong.KindMapper(reflect.Int, whole),
			kong.KindMapper(reflect.Int64, whole),
		} {
			if err := o.Apply(k); err != nil {
				return err
			}
		}
		return nil
	})
}

var errNoNumber = errors.New("the value is empty; give a number, or leave the flag out")

// number takes what follows a flag. One below zero is its value, not another
// flag, so that the error can name it.
func number(ctx *kong.DecodeContext) (string, error) {
	token := ctx.Scan.Pop()
	if token.IsEOL() {
		return "", errors.New("missing value: give a number")
	}
	text := fmt.Sprint(token.Value)
	if text == "" {
		return "", errNoNumber
	}
	return text, nil
}

func decodeNumber(ctx *kong.DecodeContext, target reflect.Value) error {
	text, err := number(ctx)
	if err != nil {
		return err
	}
	target.SetString(text)
	return nil
}

func decodeWhole(ctx *kong.DecodeContext, target reflect.Value) error {
	text, err := number(ctx)
	if err != nil {
		return err
	}
	n, err := run.ParseWhole(text, target.Type().Bits())
	if err != nil {
		return err
	}
	target.SetInt(n)
	return nil
}
