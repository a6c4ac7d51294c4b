package app

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"

	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local"
	"github.com/weirhq/weir/server/config"
)

// sandboxes are the backends that this server has, and what was found out
// about them at the start.
type sandboxes struct {
	backends map[string]sandbox.Backend
	found    []sandbox.Status
	policy   sandbox.Policy
	// examplesOnly: there are plain processes only, and only for the shipped examples.
	examplesOnly bool
	unsandboxed  string // why there are plain processes only
	closers      []io.Closer
}

// openSandboxes tries the sandbox for real. Where it does not work, plain
// processes take its place if the operator allows that; else every run that
// needs it fails with the reason and the remedy.
func openSandboxes(ctx context.Context, o options) *sandboxes {
	lo := local.Options{Python: o.cfg.Python, Place: o.cfg.Data, Helpers: filepath.Join(o.cfg.Data, "lib"), Log: o.log}
	s := &sandboxes{policy: newPolicy(o.cfg.Sandbox)}
	if o.typed != nil {
		s.policy = o.typed.policy()
		lo.UID, lo.GID = o.typed.uid, o.typed.gid
		if o.typed.plain != nil {
			s.usePlain(ctx, lo, o.typed.plain.Error())
			return s
		}
	}
	bwrap := local.NewBubblewrap(lo)
	s.closers = append(s.closers, bwrap)
	status := bwrap.Probe(ctx)
	if !status.Available && (o.cfg.AllowUnsandboxed || o.examplesOnly || o.typed != nil) {
		why := status.Reason
		if p := status.Problem; p != nil && o.typed != nil { // one line, which does not say that nothing can run
			why = p.What
			if p.Remedy != "" {
				why += "; to mend it: " + p.Remedy
			}
		}
		s.usePlain(ctx, lo, "no sandbox works here: "+why)
		s.examplesOnly = o.examplesOnly
		return s
	}
	s.use(bwrap, status)
	return s
}

func (s *sandboxes) use(b sandbox.Backend, status sandbox.Status) {
	s.backends = map[string]sandbox.Backend{b.Name(): b}
	s.found = append(s.found, status)
}

// usePlain takes plain processes, and keeps why there is no sandbox.
func (s *sandboxes) usePlain(ctx context.Context, lo local.Options, why string) {
	plain := local.NewPlain(lo)
	s.closers = append(s.closers, plain)
	status := plain.Probe(ctx)
	status.Reason += "; " + why
	s.unsandboxed = why
	s.use(plain, status)
}

// work tells whether commands run in sandboxes.
func (s *sandboxes) work() bool {
	return s.unsandboxed == "" && slices.ContainsFunc(s.found, func(st sandbox.Status) bool { return st.Available })
}

func (s *sandboxes) close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// newPolicy is the operator's word about sandboxes.
func newPolicy(c config.Sandbox) sandbox.Policy {
	p := sandbox.DefaultPolicy()
	d := &p.Defaults
	// A default above the operator's bound would refuse every run.
	lower(&p.Ceilings.TimeoutSeconds, &d.TimeoutSeconds, c.MaxSeconds)
	lower(&p.Ceilings.MemoryMiB, &d.MemoryMiB, c.MaxMemoryMiB)
	lower(&p.Ceilings.CPUs, &d.CPUs, c.MaxCPUs)
	lower(&p.Ceilings.PIDs, &d.PIDs, c.MaxPIDs)
	lower(&p.Ceilings.DiskMiB, &d.DiskMiB, c.MaxDiskMiB)
	lower(&p.Ceilings.MaxOutputBytes, &d.MaxOutputBytes, c.MaxOutputBytes)
	if c.AllowHost {
		p.Ceilings.Networks = append(p.Ceilings.Networks, sandbox.NetworkHost)
	}
	p.Ceilings.GPUs = append(p.Ceilings.GPUs, c.GPUs...)
	return p
}

// lower sets a ceiling, if one is given, and keeps the default under it.
func lower[N int64 | float64](ceiling, def *N, given N) {
	if given > 0 {
		*ceiling = given
		*def = min(*def, given)
	}
}
