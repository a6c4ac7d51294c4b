package cli

import "github.com/alecthomas/kong"

// GPU is a flag with a type, or without one for any.
type GPU string

const anyGPU GPU = "any"

// IsBool lets the flag stand alone.
func (GPU) IsBool() bool { return true }

// Decode implements kong.MapperValue.
func (g *GPU) Decode(ctx *kong.DecodeContext) error {
	*g = anyGPU
	if ctx.Scan.Peek().Type == kong.FlagValueToken {
		*g = GPU(ctx.Scan.Pop().String())
	}
	return nil
}
