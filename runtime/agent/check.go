package agent

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/weirhq/weir/runtime/run"
)

const (
	maxLabel    = 64      // of names and stages
	maxSeconds  = 1 << 25 // a bit over a year: more is a slip of the pen
	maxFilesSum = 4 << 20
)

// check notes everything that a definition says wrongly.
func (f *file) check() {
	d := &f.def
	switch {
	case d.Name == "":
		f.add("", "name is missing")
	case !IsLabel(d.Name):
		f.add("$.name", "the name %q may have letters, digits, _ and - only, at most %d", clip(d.Name), maxLabel)
	}
	if d.Stage != nil && *d.Stage != "" && !IsLabel(*d.Stage) {
		f.add("$.stage", "the stage %q may have letters, digits, _ and - only, at most %d", clip(*d.Stage), maxLabel)
	}
	f.seconds("$.timeoutSeconds", d.Timeout)
	f.checkEnv(d.Env)
	f.checkSandbox(d.Sandbox)
	f.checkFiles(d.Files)
	f.checkBudget(d.Budget)
	for i, h := range d.Hooks {
		at := fmt.Sprintf("$.hooks[%d]", i)
		if h.Name == "" {
			f.add(at, "hook %d has no name", i+1)
		}
		if len(h.Command) == 0 || h.Command[0] == "" {
			f.add(at, "hook %d has no command", i+1)
		}
	}
	if d.LLM != nil && d.Driver != DriverLLM {
		f.add("$.llm", "llm belongs to driver %s", DriverLLM)
	}
	if d.Service != nil && d.Driver != DriverService {
		f.add("$.service", "service belongs to driver %s", DriverService)
	}
	switch d.Driver {
	case "":
		f.add("", "driver is missing; it is %s, %s, %s or %s", DriverScript, DriverReplay, DriverService, DriverLLM)
	case DriverService:
		f.checkService()
	case DriverLLM:
		f.checkLLM()
	case DriverScript:
		if len(d.Command) > 0 && d.Code != "" {
			f.add("$.command", "command and code are both set; set one of them")
		}
		if len(d.Turns) > 0 {
			f.add("$.turns", "turns belong to driver %s, not to %s", DriverReplay, DriverScript)
		}
	case DriverReplay:
		if len(d.Command) > 0 || d.Code != "" {
			f.add("", "command and code belong to driver %s; a replayed agent has turns", DriverScript)
		}
		if len(d.Turns) == 0 {
			f.add("", "a replayed agent needs at least one entry in turns")
		}
		for i, t := range d.Turns {
			f.checkTurn(i, t)
		}
	default:
		f.add("$.driver", "unknown driver %q; it is %s, %s, %s or %s", clip(d.Driver), DriverScript, DriverReplay, DriverService, DriverLLM)
	}
}

func (f *file) checkTurn(i int, t Turn) {
	at := fmt.Sprintf("$.turns[%d]", i)
	var set []string
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"text", t.Text != nil},
		{"thought", t.Thought != ""},
		{"tool", t.Tool != nil},
		{"delegate", t.Delegate != nil},
		{"ask", t.Ask != nil},
		{"usage", t.Usage != nil},
		{"delaySeconds", t.Delay != 0},
		{"warning", t.Warning != ""},
		{"error", t.Error != ""},
		{"timeout", t.Timeout != ""},
	} {
		if field.set {
			set = append(set, field.name)
		}
	}
	switch {
	case len(set) == 0:
		f.add(at, "turn %d sets nothing; set one of text, thought, tool, delegate, ask, usage, delaySeconds, warning, error, timeout", i+1)
	case len(set) > 1:
		f.add(at, "turn %d sets %s; make a turn of each", i+1, strings.Join(set, " and "))
	}
	f.seconds(at+".delaySeconds", t.Delay)
	if t.Text != nil && (t.Text.Pace < 0 || math.IsNaN(t.Text.Pace) || math.IsInf(t.Text.Pace, 0)) {
		f.add(at+".text", "turn %d has the pace %v; it is in characters per second, 0 for all at once", i+1, t.Text.Pace)
	}
	if t.Tool != nil {
		if (t.Tool.Code == "") == (len(t.Tool.Command) == 0) {
			f.add(at+".tool", "the tool of turn %d needs either code or command", i+1)
		}
		f.seconds(at+".tool.timeoutSeconds", t.Tool.Timeout)
	}
	if t.Delegate != nil && t.Delegate.Agent == "" {
		f.add(at+".delegate", "turn %d does not say to which agent it delegates", i+1)
	}
	if t.Ask != nil && t.Ask.Text == "" {
		f.add(at+".ask", "turn %d asks without a text", i+1)
	}
	if t.Usage != nil {
		f.checkUsage(at+".usage", i, *t.Usage)
	}
}

func (f *file) checkUsage(at string, i int, u UsageTurn) {
	f.checkUsageFiles(at, i, u)
	for _, n := range []int64{u.Input, u.CacheRead, u.CacheWriteShort, u.CacheWriteLong, u.Output, u.Reasoning} {
		if n < 0 {
			f.add(at, "turn %d counts %d tokens; counts are 0 or more", i+1, n)
		}
	}
	if u.Reasoning > u.Output {
		f.add(at, "turn %d has %d reasoning tokens but %d output tokens; reasoning is a part of output", i+1, u.Reasoning, u.Output)
	}
	if _, err := NanoUSD(u.CostUSD); err != nil {
		f.add(at, "turn %d: %v", i+1, err)
	}
}

// checkUsageFiles checks a turn that reads its usage.
func (f *file) checkUsageFiles(at string, i int, u UsageTurn) {
	names := u.Names()
	if u.Format == "" {
		if len(names) > 0 || u.Stream != "" {
			f.add(at, "turn %d names a file of usage but no format", i+1)
		}
		return
	}
	if err := u.Format.Check(); err != nil {
		f.add(at+".format", "turn %d: %v", i+1, err)
	}
	if (u.Input|u.CacheRead|u.CacheWriteShort|u.CacheWriteLong|u.Output|u.Reasoning) != 0 || u.CostUSD != "" {
		f.add(at, "turn %d has counts and a format; make a turn of each", i+1)
	}
	if len(names) == 0 {
		f.add(at, "turn %d has a format of usage but neither file nor files", i+1)
	}
	for _, name := range names {
		f.checkPath(at, name)
	}
}

// checkPath refuses a path that leads out of the workspace.
func (f *file) checkPath(at, name string) {
	if !inWorkspace(name) {
		f.add(at, "the file name %q must be relative, inside the workspace and without . or .. parts", clip(name))
	}
}

func (f *file) checkEnv(env []run.EnvVar) {
	for i, e := range env {
		at := fmt.Sprintf("$.env[%d]", i)
		if e.Name == "" || strings.ContainsAny(e.Name, "=\x00") {
			f.add(at, "env %d has the name %q; it may not be empty or hold = or NUL", i+1, clip(e.Name))
		}
		if strings.ContainsRune(e.Value, 0) {
			f.add(at, "the value of env %q holds a NUL", clip(e.Name))
		}
	}
}

func (f *file) checkSandbox(s run.SandboxRequest) {
	f.seconds("$.sandbox.timeoutSeconds", s.TimeoutSeconds)
	f.seconds("$.sandbox.graceSeconds", s.GraceSeconds)
	if s.CPUs < 0 || math.IsNaN(s.CPUs) || math.IsInf(s.CPUs, 0) {
		f.add("$.sandbox.cpus", "cpus is %v; it is a number above 0", s.CPUs)
	}
	for _, n := range []struct {
		name string
		v    int64
	}{{"memoryMiB", s.MemoryMiB}, {"pids", s.PIDs}, {"diskMiB", s.DiskMiB}, {"maxOutputBytes", s.MaxOutputBytes}} {
		if n.v < 0 {
			f.add("$.sandbox."+n.name, "%s is %d; it is above 0", n.name, n.v)
		}
	}
	if o := s.OnOutputLimit; o != "" && o != "STOP" && o != "TRUNCATE" {
		f.add("$.sandbox.onOutputLimit", "onOutputLimit is %q; it is STOP or TRUNCATE", clip(o))
	}
}

func (f *file) checkBudget(b *Budgets) {
	if b == nil {
		return
	}
	for _, n := range []struct {
		name   string
		budget *run.Budget
	}{{"run", b.Run}, {"session", b.Session}, {"day", b.Day}} {
		if n.budget == nil {
			continue
		}
		at := "$.budget." + n.name
		if node := f.node(at + ".tokens"); n.budget.Tokens == 0 && node != nil && node.Type() != ast.NullType {
			f.add(at+".tokens", "budget %s: tokens: %v", n.name, run.ErrNoBudget)
			continue
		}
		if err := n.budget.Check(); err != nil {
			f.add(at, "budget %s: %v", n.name, err)
		}
	}
}

func (f *file) checkFiles(files map[string]string) {
	sum := 0
	for name, content := range files {
		sum += len(content)
		f.checkPath("$.files", name)
	}
	if sum > maxFilesSum {
		f.add("$.files", "files hold %d bytes, at most %d are allowed", sum, maxFilesSum)
	}
}

func (f *file) seconds(at string, v float64) {
	if v < 0 || v > maxSeconds || math.IsNaN(v) {
		f.add(at, "%s is %v seconds; it is between 0 and %d", at[strings.LastIndexByte(at, '.')+1:], v, maxSeconds)
	}
}

// IsLabel tells whether s can be the name of an agent or a stage: letters,
// digits, _ and -, at most 64, at least one.
func IsLabel(s string) bool {
	if s == "" || len(s) > maxLabel {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// NanoUSD reads a decimal amount of USD exactly, down to 1e-9; "" is nil, no
// amount known.
func NanoUSD(s string) (*int64, error) {
	if s == "" {
		return nil, nil
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok || strings.ContainsAny(s, "/eEpPxX_") {
		return nil, fmt.Errorf("the cost %q is not a decimal number of USD", clip(s))
	}
	r.Mul(r, big.NewRat(1e9, 1))
	if !r.IsInt() || !r.Num().IsInt64() || r.Sign() < 0 {
		return nil, fmt.Errorf("the cost %q must be at least 0, below 9 billion and have at most 9 decimals", clip(s))
	}
	n := r.Num().Int64()
	return &n, nil
}
