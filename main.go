// Weir is the run server for AI agents: it starts them, streams what they do
// and meters what they cost.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/weirhq/weir/server/app"
	"github.com/weirhq/weir/server/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal stops in good order; the next one ends the process.
	context.AfterFunc(ctx, stop)
	err := app.Run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	code, say := cli.Exit(err)
	if say != nil {
		fmt.Fprintln(os.Stderr, cli.Line(say))
	}
	os.Exit(code)
}
