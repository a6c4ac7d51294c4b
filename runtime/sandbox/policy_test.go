package sandbox_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

func TestDefaultsAreWithinTheCeilings(t *testing.T) {
	t.Parallel()
	p := sandbox.DefaultPolicy()
	c, err := p.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	want := sandbox.Choice{Backend: "local", Network: sandbox.NetworkNone, Limits: sandbox.Limits{
		Timeout: time.Hour, Grace: 5 * time.Second, MemoryMiB: 2048, CPUs: 2, PIDs: 256, DiskMiB: 1024, MaxOutputBytes: 64 << 20,
	}}
	if c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
}

func TestTheStrongerLayerCounts(t *testing.T) {
	t.Parallel()
	p := sandbox.DefaultPolicy()
	p.Ceilings.Networks = []string{sandbox.NetworkHost, "internal"}
	p.Ceilings.GPUs = []string{"T4"}
	p.Ceilings.Images = []string{"python:3.11"}
	p.Profiles = map[string]run.SandboxRequest{
		"big": {MemoryMiB: 8192, CPUs: 8, PIDs: 1000, Network: "internal", GPU: "T4", Image: "python:3.11", OnOutputLimit: sandbox.OnLimitTruncate},
	}
	c, err := p.Resolve(
		run.SandboxRequest{MemoryMiB: 100, GraceSeconds: 0.5},
		run.SandboxRequest{MemoryMiB: 200, CPUs: 3, Profile: "big"},
	)
	if err != nil {
		t.Fatal(err)
	}
	want := sandbox.Choice{Backend: "local", Network: "internal", GPU: "T4", Image: "python:3.11", Limits: sandbox.Limits{
		Timeout: time.Hour, Grace: 500 * time.Millisecond, MemoryMiB: 100, CPUs: 3, PIDs: 1000, DiskMiB: 1024, MaxOutputBytes: 64 << 20, Truncate: true,
	}}
	if c != want {
		t.Errorf("%+v\nwant %+v", c, want)
	}
	var s sandbox.Spec
	c.Apply(&s)
	if s.Limits != want.Limits || s.GPU != "T4" || s.Network != "internal" || s.Image != "python:3.11" {
		t.Errorf("spec %+v", s)
	}
}

func TestWhatARequestMayNotAsk(t *testing.T) {
	t.Parallel()
	p := sandbox.DefaultPolicy()
	p.Profiles = map[string]run.SandboxRequest{"small": {}, "big": {MemoryMiB: 1 << 20}}
	for name, c := range map[string]struct {
		in    run.SandboxRequest
		code  run.Code
		words []string
	}{
		"NegativeTimeout": {run.SandboxRequest{TimeoutSeconds: -1}, run.Invalid, []string{"sandbox.timeoutSeconds", "-1", "86400"}},
		"NaNTimeout":      {run.SandboxRequest{TimeoutSeconds: math.NaN()}, run.Invalid, []string{"timeoutSeconds", "NaN"}},
		"InfiniteTimeout": {run.SandboxRequest{TimeoutSeconds: math.Inf(1)}, run.Invalid, []string{"timeoutSeconds", "Inf"}},
		"AbsurdTimeout":   {run.SandboxRequest{TimeoutSeconds: 1e300}, run.Invalid, []string{"timeoutSeconds", "1e+300"}},
		"TinyTimeout":     {run.SandboxRequest{TimeoutSeconds: 1e-9}, run.Invalid, []string{"timeoutSeconds", "1e-09", "0.001"}},
		"LongTimeout":     {run.SandboxRequest{TimeoutSeconds: 90000}, run.Forbidden, []string{"timeoutSeconds", "90000", "86400"}},
		"NegativeGrace":   {run.SandboxRequest{GraceSeconds: -0.5}, run.Invalid, []string{"graceSeconds", "-0.5"}},
		"LongGrace":       {run.SandboxRequest{GraceSeconds: 61}, run.Forbidden, []string{"graceSeconds", "61", "60"}},
		"NegativeMemory":  {run.SandboxRequest{MemoryMiB: -1}, run.Invalid, []string{"memoryMiB", "-1"}},
		"MinMemory":       {run.SandboxRequest{MemoryMiB: math.MinInt64}, run.Invalid, []string{"memoryMiB", "-9223372036854775808"}},
		"AbsurdMemory":    {run.SandboxRequest{MemoryMiB: math.MaxInt64}, run.Invalid, []string{"memoryMiB", "9223372036854775807"}},
		"MuchMemory":      {run.SandboxRequest{MemoryMiB: 16385}, run.Forbidden, []string{"memoryMiB", "16385", "16384"}},
		"NegativeCPUs":    {run.SandboxRequest{CPUs: -2}, run.Invalid, []string{"cpus", "-2"}},
		"ManyCPUs":        {run.SandboxRequest{CPUs: 16.5}, run.Forbidden, []string{"cpus", "16.5", "16"}},
		"NegativePIDs":    {run.SandboxRequest{PIDs: -3}, run.Invalid, []string{"pids", "-3"}},
		"OnePID":          {run.SandboxRequest{PIDs: 1}, run.Invalid, []string{"pids", "1", "4"}},
		"NegativeDisk":    {run.SandboxRequest{DiskMiB: -4}, run.Invalid, []string{"diskMiB", "-4"}},
		"NegativeOutput":  {run.SandboxRequest{MaxOutputBytes: -5}, run.Invalid, []string{"maxOutputBytes", "-5"}},
		"MuchOutput":      {run.SandboxRequest{MaxOutputBytes: 1<<30 + 1}, run.Forbidden, []string{"maxOutputBytes", "1073741825", "1073741824"}},
		"OutputWord":      {run.SandboxRequest{OnOutputLimit: "DROP"}, run.Invalid, []string{"onOutputLimit", "DROP", "TRUNCATE"}},
		"Backend":         {run.SandboxRequest{Backend: "docker"}, run.Forbidden, []string{"backend", "docker", "local"}},
		"HostNetwork":     {run.SandboxRequest{Network: sandbox.NetworkHost}, run.Forbidden, []string{"network", "HOST", "NONE"}},
		"OtherNetwork":    {run.SandboxRequest{Network: "lan"}, run.Forbidden, []string{"network", "lan", "NONE"}},
		"Image":           {run.SandboxRequest{Image: "evil"}, run.Forbidden, []string{"image", "evil", "none"}},
		"GPU":             {run.SandboxRequest{GPU: "A100"}, run.Forbidden, []string{"gpu", "A100", "none"}},
		"Profile":         {run.SandboxRequest{Profile: "huge"}, run.Invalid, []string{"huge", "big, small"}},
		"ProfileTooBig":   {run.SandboxRequest{Profile: "big"}, run.Forbidden, []string{"memoryMiB", "1048576", "16384"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := p.Resolve(c.in)
			if err == nil || run.CodeOf(err) != c.code {
				t.Fatalf("error %v, code %s, want %s", err, run.CodeOf(err), c.code)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("no %q in %q", w, err)
				}
			}
			if _, err := p.Resolve(run.SandboxRequest{}, c.in); err == nil {
				t.Error("the weaker layer is not checked")
			}
		})
	}
}

func TestTheTableHasEveryLimit(t *testing.T) {
	t.Parallel()
	inTable := map[string]sandbox.Setting{}
	for _, s := range sandbox.DefaultPolicy().Settings() {
		inTable[s.Name] = s
		if s.Default == "" || s.Ceiling == "" || s.Meaning == "" {
			t.Errorf("%+v", s)
		}
	}
	typ := reflect.TypeFor[run.SandboxRequest]()
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if _, ok := inTable[name]; !ok && name != "profile" {
			t.Errorf("no row for %s", name)
		}
	}
	if s := inTable["memoryMiB"]; s.Default != "2048" || s.Ceiling != "16384" {
		t.Errorf("%+v", s)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	good := sandbox.Spec{Workspace: "/w", Command: []string{"true"}}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("x", 1<<20+1)
	for name, c := range map[string]struct {
		change func(s *sandbox.Spec)
		words  string
	}{
		"Neither":       {func(s *sandbox.Spec) { s.Command = nil }, "either code or a command"},
		"Both":          {func(s *sandbox.Spec) { s.Code = "1" }, "exactly one"},
		"EmptyProgram":  {func(s *sandbox.Spec) { s.Command = []string{""} }, "first word is empty"},
		"Relative":      {func(s *sandbox.Spec) { s.Workspace = "w" }, `"w"`},
		"NoWorkspace":   {func(s *sandbox.Spec) { s.Workspace = "" }, "not an absolute path"},
		"NULInArgument": {func(s *sandbox.Spec) { s.Command = []string{"echo", "a\x00b"} }, `argument 1`},
		"BadArgument":   {func(s *sandbox.Spec) { s.Command = []string{"echo", "\xff"} }, `argument 1`},
		"LongCommand":   {func(s *sandbox.Spec) { s.Command = []string{"echo", big} }, "1048576"},
		"NULInCode":     {func(s *sandbox.Spec) { s.Command, s.Code = nil, "x\x00" }, "NUL byte at byte 1"},
		"BadCode":       {func(s *sandbox.Spec) { s.Command, s.Code = nil, "ab\xff" }, "UTF-8 at byte 2"},
		"LongCode":      {func(s *sandbox.Spec) { s.Command, s.Code = nil, big }, "1048577"},
		"NoName":        {func(s *sandbox.Spec) { s.Env = []run.EnvVar{{}} }, "no name"},
		"EqualsInName":  {func(s *sandbox.Spec) { s.Env = []run.EnvVar{{Name: "A=B"}} }, "A=B"},
		"NULInName":     {func(s *sandbox.Spec) { s.Env = []run.EnvVar{{Name: "A\x00"}} }, `A\x00`},
		"BadName":       {func(s *sandbox.Spec) { s.Env = []run.EnvVar{{Name: "\xff"}} }, `\xff`},
		"NULInValue":    {func(s *sandbox.Spec) { s.Env = []run.EnvVar{{Name: "A", Value: "x\x00"}} }, "A has a NUL"},
		"BadValue":      {func(s *sandbox.Spec) { s.Env = []run.EnvVar{{Name: "A", Value: "\xff"}} }, "A is not valid UTF-8"},
		"LongValue":     {func(s *sandbox.Spec) { s.Env = []run.EnvVar{{Name: "A", Value: big}} }, "1048577"},
		"Twice":         {func(s *sandbox.Spec) { s.Env = []run.EnvVar{{Name: "A"}, {Name: "A"}} }, "A is given twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := good
			c.change(&s)
			err := s.Validate()
			if err == nil || run.CodeOf(err) != run.Invalid || !strings.Contains(err.Error(), c.words) || len(err.Error()) > 400 {
				t.Errorf("error %v, want %q", err, c.words)
			}
			if _, e := sandbox.Run(t.Context(), &scripted{p: newProcess()}, s, &sink{}, sandbox.Options{}); e == nil {
				t.Error("Run takes it")
			}
		})
	}
}
