package app

import (
	"encoding/json"
	"fmt"

	"github.com/weirhq/weir/graph"
	"github.com/weirhq/weir/server/cli"
)

// clientCommands talk to a server.
type clientCommands struct {
	Run      runCommand          `cmd:"" help:"Run a command in the current folder, or at a server, and watch it." group:"Runs"`
	Tail     cli.TailCommand     `cmd:"" help:"Show a run or a session as it goes on." group:"Runs"`
	Abort    cli.AbortCommand    `cmd:"" help:"End a run, and prove it." group:"Runs"`
	Show     cli.ShowCommand     `cmd:"" help:"Show what is known about a run or a session." group:"Runs"`
	Runs     cli.RunsCommand     `cmd:"" help:"List runs, the newest first." group:"Runs"`
	Sessions cli.SessionsCommand `cmd:"" help:"List sessions, the newest first." group:"Runs"`
	Agents   cli.AgentsCommand   `cmd:"" help:"List the agents of a server." group:"Runs"`
	Usage    usageCommands       `cmd:"" help:"Report what runs have used, and what it cost." group:"Runs"`
}

// usageCommands are about the bill.
type usageCommands struct {
	Report  cli.UsageCommand   `cmd:"" default:"withargs" help:"Report what closed runs have used, and what it cost."`
	Reprice cli.RepriceCommand `cmd:"" help:"Price usage records again by the price book of now, and show the difference."`
}

// schemaCommand prints the API's schema; it needs no server.
type schemaCommand struct {
	JSON bool `name:"json" help:"Print it as the field sdl of a JSON document."`
}

// Run implements the command.
func (s *schemaCommand) Run(c *call) error {
	sdl, err := graph.SDL()
	if err != nil {
		return err
	}
	if s.JSON {
		doc, err := json.Marshal(map[string]string{"sdl": sdl})
		if err != nil {
			return fmt.Errorf("encoding the schema: %w", err)
		}
		sdl = string(doc) + "\n"
	}
	_, err = fmt.Fprint(c.stdout, sdl)
	return err
}
