package sandbox

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// The networks that every backend knows.
const (
	NetworkNone = "NONE"
	NetworkHost = "HOST"
)

// The choices of what happens at the output limit.
const (
	OnLimitStop     = "STOP"
	OnLimitTruncate = "TRUNCATE"
)

// Policy is what the operator decides about sandboxes: what requests get by
// default, and how far they may go.
type Policy struct {
	Defaults run.SandboxRequest // every number is set
	Ceilings Ceilings
	Profiles map[string]run.SandboxRequest
}

// Ceilings are the most that a request may ask for. A number of 0 forbids
// nothing; a list holds what may be named.
type Ceilings struct {
	Backends       []string
	Images         []string
	Networks       []string // NONE is always allowed
	GPUs           []string
	TimeoutSeconds float64
	GraceSeconds   float64
	MemoryMiB      int64
	CPUs           float64
	PIDs           int64
	DiskMiB        int64
	MaxOutputBytes int64
}

// Choice is what a request came to: every limit decided.
type Choice struct {
	Backend string
	Image   string
	Network string
	GPU     string
	Limits  Limits
}

// Apply puts the choice into a spec.
func (c Choice) Apply(s *Spec) {
	s.Image, s.Network, s.GPU, s.Limits = c.Image, c.Network, c.GPU, c.Limits
}

// Setting is a row of the table of limits.
type Setting struct {
	Name             string // of the field in SandboxInput
	Default, Ceiling string
	Meaning          string
}

// DefaultPolicy is the policy of an operator who says nothing.
func DefaultPolicy() Policy {
	return Policy{
		Defaults: run.SandboxRequest{
			Backend: "local", TimeoutSeconds: 3600, GraceSeconds: 5, MemoryMiB: 2048, CPUs: 2, PIDs: 256, DiskMiB: 1024,
			MaxOutputBytes: 64 << 20, OnOutputLimit: OnLimitStop, Network: NetworkNone,
		},
		Ceilings: Ceilings{
			Backends: []string{"local"}, TimeoutSeconds: 86400, GraceSeconds: 60, MemoryMiB: 16384, CPUs: 16, PIDs: 4096, DiskMiB: 16384,
			MaxOutputBytes: 1 << 30,
		},
	}
}

// Settings is the table of the limits of p, for documentation.
func (p Policy) Settings() []Setting {
	d, c := p.Defaults, p.Ceilings
	return []Setting{
		{"backend", d.Backend, list(c.Backends), "where the command runs"},
		{"timeoutSeconds", plain(d.TimeoutSeconds), plain(c.TimeoutSeconds), "of one execution; then TERM, and KILL after the grace"},
		{"graceSeconds", plain(d.GraceSeconds), plain(c.GraceSeconds), "between TERM and KILL; at most 5 when the server itself stops"},
		{"memoryMiB", whole(d.MemoryMiB), whole(c.MemoryMiB), "of all its processes together, files in /tmp and /dev/shm included. On control groups of version 1, unread network messages may take as much again"},
		{"cpus", plain(d.CPUs), plain(c.CPUs), "processor time per time"},
		{"pids", whole(d.PIDs), whole(c.PIDs), "processes and threads at once"},
		{"diskMiB", whole(d.DiskMiB), whole(c.DiskMiB), "of the whole workspace, where each name counts 4 KiB at least; of each file, and of /tmp. Over it everything is killed"},
		{"maxOutputBytes", whole(d.MaxOutputBytes), whole(c.MaxOutputBytes), "of stdout and stderr together"},
		{"onOutputLimit", d.OnOutputLimit, "STOP, TRUNCATE", "STOP ends the command, TRUNCATE drops the rest and still reads metric lines"},
		{"network", d.Network, list(append([]string{NetworkNone}, c.Networks...)), "NONE has no network at all"},
		{"image", cmp.Or(d.Image, "none"), list(c.Images), "for backends that have images"},
		{"gpu", cmp.Or(d.GPU, "none"), list(c.GPUs), "for backends that have GPUs"},
	}
}

// bound is one limit with its range; a value below least is absurd.
type bound struct {
	name         string
	value        float64 // as asked, 0 for not at all
	least, most  float64
	ceiling      float64
	valueAsAsked string
}

// maxSeconds keeps a time within what a time.Duration can count.
const maxSeconds = 1e9

func (p Policy) bounds(r run.SandboxRequest) []bound {
	float := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	c := p.Ceilings
	return []bound{
		{"timeoutSeconds", r.TimeoutSeconds, 0.001, maxSeconds, c.TimeoutSeconds, float(r.TimeoutSeconds)},
		{"graceSeconds", r.GraceSeconds, 0.001, maxSeconds, c.GraceSeconds, float(r.GraceSeconds)},
		{"memoryMiB", float64(r.MemoryMiB), 8, 1 << 40, float64(c.MemoryMiB), whole(r.MemoryMiB)},
		{"cpus", r.CPUs, 0.01, 1 << 20, c.CPUs, float(r.CPUs)},
		{"pids", float64(r.PIDs), 4, 1 << 40, float64(c.PIDs), whole(r.PIDs)},
		{"diskMiB", float64(r.DiskMiB), 1, 1 << 40, float64(c.DiskMiB), whole(r.DiskMiB)},
		{"maxOutputBytes", float64(r.MaxOutputBytes), 1, 1 << 60, float64(c.MaxOutputBytes), whole(r.MaxOutputBytes)},
	}
}

// Resolve decides every limit: a field of the first layer that sets it counts
// (the request, then the agent's own), then that of the named profile, then the
// default. A value that makes no sense is INVALID, one beyond the operator's
// ceilings FORBIDDEN; the error names the value and what is allowed.
func (p Policy) Resolve(layers ...run.SandboxRequest) (Choice, error) {
	for _, l := range layers {
		if err := p.check(l); err != nil {
			return Choice{}, err
		}
	}
	var r run.SandboxRequest
	for _, l := range layers {
		r = over(r, l)
	}
	if r.Profile != "" {
		profile, ok := p.Profiles[r.Profile]
		if !ok {
			return Choice{}, run.Errorf(run.Invalid, "there is no sandbox profile %q; there are: %s", short(r.Profile), list(slices.Sorted(maps.Keys(p.Profiles))))
		}
		r = over(r, profile)
	}
	r = over(r, p.Defaults)
	if err := p.permit(r); err != nil {
		return Choice{}, err
	}
	return Choice{
		Backend: r.Backend, Image: r.Image, Network: r.Network, GPU: r.GPU,
		Limits: Limits{
			Timeout: seconds(r.TimeoutSeconds), Grace: seconds(r.GraceSeconds), MemoryMiB: r.MemoryMiB, CPUs: r.CPUs, PIDs: r.PIDs,
			DiskMiB: r.DiskMiB, MaxOutputBytes: r.MaxOutputBytes, Truncate: r.OnOutputLimit == OnLimitTruncate,
		},
	}, nil
}

// over gives strong where it says something, else weak.
func over(strong, weak run.SandboxRequest) run.SandboxRequest {
	return run.SandboxRequest{
		Backend:        cmp.Or(strong.Backend, weak.Backend),
		Image:          cmp.Or(strong.Image, weak.Image),
		Profile:        cmp.Or(strong.Profile, weak.Profile),
		TimeoutSeconds: cmp.Or(strong.TimeoutSeconds, weak.TimeoutSeconds),
		MemoryMiB:      cmp.Or(strong.MemoryMiB, weak.MemoryMiB),
		CPUs:           cmp.Or(strong.CPUs, weak.CPUs),
		PIDs:           cmp.Or(strong.PIDs, weak.PIDs),
		DiskMiB:        cmp.Or(strong.DiskMiB, weak.DiskMiB),
		MaxOutputBytes: cmp.Or(strong.MaxOutputBytes, weak.MaxOutputBytes),
		OnOutputLimit:  cmp.Or(strong.OnOutputLimit, weak.OnOutputLimit),
		Network:        cmp.Or(strong.Network, weak.Network),
		GPU:            cmp.Or(strong.GPU, weak.GPU),
		GraceSeconds:   cmp.Or(strong.GraceSeconds, weak.GraceSeconds),
	}
}

// check refuses what makes no sense in any sandbox.
func (p Policy) check(r run.SandboxRequest) error {
	for _, b := range p.bounds(r) {
		switch {
		case b.value == 0:
		case math.IsNaN(b.value), b.value < b.least, b.value > b.most:
			return run.Errorf(run.Invalid, "sandbox.%s is %s: it must be a number from %s to %s", b.name, b.valueAsAsked, plain(b.least), plain(cmp.Or(b.ceiling, b.most)))
		}
	}
	switch r.OnOutputLimit {
	case "", OnLimitStop, OnLimitTruncate:
	default:
		return run.Errorf(run.Invalid, "sandbox.onOutputLimit is %q: it must be STOP or TRUNCATE", short(r.OnOutputLimit))
	}
	return nil
}

// permit refuses what the operator does not allow.
func (p Policy) permit(r run.SandboxRequest) error {
	for _, b := range p.bounds(r) {
		if b.ceiling > 0 && b.value > b.ceiling {
			return run.Errorf(run.Forbidden, "sandbox.%s is %s; this server allows at most %s", b.name, b.valueAsAsked, plain(b.ceiling))
		}
	}
	for _, c := range []struct {
		name, value string
		allowed     []string
	}{
		{"backend", r.Backend, p.Ceilings.Backends},
		{"image", r.Image, p.Ceilings.Images},
		{"network", r.Network, append([]string{NetworkNone}, p.Ceilings.Networks...)},
		{"gpu", r.GPU, p.Ceilings.GPUs},
	} {
		if c.value != "" && !slices.Contains(c.allowed, c.value) {
			return run.Errorf(run.Forbidden, "sandbox.%s is %q; this server allows: %s", c.name, short(c.value), list(c.allowed))
		}
	}
	return nil
}

func list(names []string) string { return cmp.Or(strings.Join(names, ", "), "none") }

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func whole(n int64) string { return strconv.FormatInt(n, 10) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
