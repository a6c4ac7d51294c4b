// Package app puts the server together. It is the only package that sees all
// others; it constructs and orders them, and decides nothing else.
//
// Layers, from the ground: store, stream, engine, HTTP. They start in this
// order and stop in reverse, each waited for: the listener first, then the runs
// (they may go on for a while, then they are cancelled), then the log.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/weirhq/weir/server/cli"
	"github.com/weirhq/weir/server/config"
)

// commandLine is what weir understands.
type commandLine struct {
	Serve   serveCommand   `cmd:"" help:"Serve the API and the page."`
	Demo    demoCommand    `cmd:"" help:"Serve with examples that run at once: no key, no network, nothing kept."`
	Doctor  doctorCommand  `cmd:"" section:"serve" help:"Check this machine as serve would use it, and say what mends it."`
	Version versionCommand `cmd:"" help:"Print the version."`

	clientCommands

	Prices     pricesCommand     `cmd:"" help:"Show and check the prices of models and sandboxes; needs no server."`
	Schema     schemaCommand     `cmd:"" help:"Print the API's schema in GraphQL's schema language."`
	Completion completionCommand `cmd:"" help:"Print the completion script of a shell."`

	PrintVersion kong.VersionFlag `name:"version" help:"Print the version."`

	Config string `help:"Configuration file (YAML); default: ~/.config/weir/weir.yaml if it exists. $$WEIR_CONFIG_FILE" placeholder:"FILE"`
}

// streams are where a command writes and what it was started with.
type streams struct {
	stdout, stderr io.Writer
	getenv         func(string) string
}

// errHelp ends the parsing after the help was printed.
var errHelp = errors.New("help was printed")

// newParser makes the parser of the command line.
func newParser(line *commandLine, getenv func(string) string, stdout, stderr io.Writer) (*kong.Kong, error) {
	parser, err := kong.New(line,
		kong.Name("weir"),
		kong.Description("The run server for AI agents: starts them, streams everything they do, meters what they cost."),
		kong.Vars{"data": config.DefaultData(getenv), "version": versionLine()},
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { panic(errHelp) }), // kong goes on otherwise
		kong.Resolvers(&settings{getenv: getenv}),
		kong.ValueFormatter(withSetting),
		numbers(),
		kong.Help(helpOfDefault),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		return nil, fmt.Errorf("reading the command line: %w", err)
	}
	return parser, nil
}

// helpOfDefault shows for a command that stands for one of its own commands what
// that one takes.
func helpOfDefault(o kong.HelpOptions, c *kong.Context) error {
	if cmd := c.Selected(); cmd != nil && cmd.DefaultCmd != nil {
		c.Path = append(c.Path, &kong.Path{Parent: cmd, Command: cmd.DefaultCmd})
	}
	return kong.DefaultHelpPrinter(o, c)
}

// Run is the weir program: it parses args and runs the command until it has
// done its work or ctx ends. Its error is one for the user; cli.Exit tells the
// code to end with.
func Run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) (err error) {
	var line commandLine
	parser, err := newParser(&line, getenv, stdout, stderr)
	if err != nil {
		return err
	}
	defer func() {
		switch r := recover(); r {
		case nil:
		case errHelp: // this very value was thrown
			err = nil
		default:
			panic(r)
		}
	}()
	if len(args) > 0 && args[0] == completeCommand {
		return complete(parser.Model, args[1:], stdout)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	cmd, err := parser.Parse(args)
	var file *fileError
	switch {
	case errors.As(err, &file):
		return cli.UsageError(file.error)
	case err != nil:
		return cli.UsageError(fmt.Errorf("%w (see weir --help)", err))
	}
	cmd.BindTo(ctx, (*context.Context)(nil))
	return cmd.Run(
		&call{ctx: ctx, streams: streams{stdout: stdout, stderr: stderr, getenv: getenv}},
		&cli.IO{Out: cli.NewScreen(stdout, getenv), Err: cli.NewScreen(stderr, getenv), Getenv: getenv},
	)
}

// call is what kong hands to a command.
type call struct {
	ctx context.Context //nolint:containedctx // the only way through kong
	streams
}

// withSetting adds the default and the environment variable to a flag's help.
func withSetting(v *kong.Value) string {
	text := strings.TrimSpace(v.Help)
	var notes []string
	if v.HasDefault {
		notes = append(notes, "default "+v.Default)
	}
	if v.Tag != nil {
		if name := v.Tag.Get("setting"); name != "" {
			notes = append(notes, "$"+name)
		}
	}
	if len(notes) == 0 {
		return text
	}
	return text + " (" + strings.Join(notes, ", ") + ")"
}
