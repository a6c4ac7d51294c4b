package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/server/cli"
	"github.com/weirhq/weir/server/config"
	"github.com/weirhq/weir/server/supervise"

	"github.com/weirhq/weir/runtime/textfile"
)

// serveCommand serves until it is told to stop.
type serveCommand struct {
	config.Serve `embed:""`
}

// Run implements the command.
func (s *serveCommand) Run(c *call) error {
	TuneGC(c.getenv)
	cfg := s.Serve
	if err := cfg.Check(c.getenv); err != nil {
		return cli.UsageError(err)
	}
	log := logger(c.streams, cfg.Level(), cfg.LogFormat)
	agents, err := loadAgents(cfg.Agents, log)
	if err != nil {
		return err
	}
	listener, err := listen(c.ctx, cfg.Listen)
	if err != nil {
		return err
	}
	srv, err := build(c.ctx, options{cfg: cfg, agents: agents, listener: listener, log: log, getenv: c.getenv})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	srv.announce()
	err = supervise.Run(c.ctx, log, srv.services()...)
	err = errors.Join(err, srv.close())
	if err == nil {
		log.Info("stopped")
	}
	return err
}

func logger(s streams, level slog.Level, format string) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(s.stderr, o))
	}
	return slog.New(slog.NewTextHandler(s.stderr, o))
}

// loadAgents reads the definitions; "" is only the built-in agent.
func loadAgents(dir string, log *slog.Logger) (*agent.Set, error) {
	if dir == "" {
		return agent.NewSet(), nil
	}
	set, err := agent.Load(textfile.Dir(dir))
	if err != nil {
		return nil, fmt.Errorf("--agents %s: %w", dir, err)
	}
	for _, p := range set.Problems() {
		if p.Unusable {
			log.Error("an agent definition cannot be used", "problem", p.String(), "folder", dir)
		} else {
			log.Warn("an agent definition has a fault", "problem", p.String(), "folder", dir)
		}
	}
	return set, nil
}

// listen opens the address before anything else is touched: a second server
// started by mistake must not disturb the first one's data.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	var dns *net.DNSError
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("the address %s is in use by another program: stop it, or choose another address with --listen", addr)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("this user may not listen on %s: ports below 1024 need a privilege; choose another address with --listen", addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("the address %s does not belong to this machine; choose another one with --listen", addr)
	case errors.As(err, &dns):
		return nil, fmt.Errorf("the host of %s has no address (%s); choose another one with --listen", addr, dns.Err)
	}
	return nil, fmt.Errorf("listening on %s: %w; choose another address with --listen", addr, err)
}
