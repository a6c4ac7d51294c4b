package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// RunFlags describe a run; they are the same with and without a server.
type RunFlags struct {
	Agent   string   `help:"Agent that runs; empty: script, for a command or a Python file." placeholder:"NAME"`
	Prompt  string   `help:"What an agent is asked." placeholder:"TEXT"`
	Stage   *string  `help:"Label of the phase; empty: printed lines are not read for metrics. Default: train for a command or a file." placeholder:"NAME"`
	Env     []string `help:"Environment variable of the program; NAME alone takes the value it has here. Repeatable." sep:"none" placeholder:"NAME=VALUE"`
	Set     []string `help:"Hyper-parameter, kept in the run's config; a value that is JSON is taken as JSON. Repeatable." sep:"none" placeholder:"NAME=VALUE"`
	Label   []string `help:"Label to find and compare the run by. Repeatable." sep:"none" placeholder:"NAME=VALUE"`
	Timeout string   `type:"number" help:"End the run after this time, such as 90s, 30m or 2h; a number is in seconds." setting:"WEIR_RUN_TIMEOUT" placeholder:"DURATION"`
	Budget  string   `type:"number" name:"budget-usd" help:"Most money of the run with everything that it delegates to, in USD." setting:"WEIR_RUN_BUDGET_USD" placeholder:"USD"`
	Tokens  string   `type:"number" name:"budget-tokens" help:"Most tokens of the run with everything that it delegates to." setting:"WEIR_RUN_BUDGET_TOKENS" placeholder:"N"`
	OnSpent string   `name:"on-budget" help:"What to do when a budget is used up: abort (the default), pause and ask, or warn." setting:"WEIR_RUN_ON_BUDGET" placeholder:"WHAT"`
	Memory  string   `type:"number" help:"Most memory, such as 512MiB or 4GiB; a number is in MiB." setting:"WEIR_RUN_MEMORY" placeholder:"SIZE"`
	CPUs    string   `type:"number" name:"cpus" help:"Most processors." setting:"WEIR_RUN_CPUS" placeholder:"N"`
	Disk    string   `type:"number" help:"Most disk, such as 10GiB; a number is in MiB." setting:"WEIR_RUN_DISK" placeholder:"SIZE"`
	Output  string   `type:"number" name:"max-output" help:"Most output, such as 2GiB; then the program is ended. A number is in MiB." setting:"WEIR_RUN_MAX_OUTPUT" placeholder:"SIZE"`
	OnLimit string   `name:"on-output-limit" help:"What to do at --max-output: stop the program, or truncate the output and still read its metrics." setting:"WEIR_RUN_ON_OUTPUT_LIMIT" placeholder:"WHAT"`
	PIDs    string   `type:"number" name:"pids" help:"Most processes and threads at once." setting:"WEIR_RUN_PIDS" placeholder:"N"`
	Network string   `help:"none, host, or a name that the operator lists." setting:"WEIR_RUN_NETWORK" placeholder:"NAME"`
	GPU     GPU      `name:"gpu" help:"GPUs; at a server of the type after an equals sign, as in --gpu=H100. Without a server: /dev/nvidia*." setting:"WEIR_RUN_GPU" placeholder:"TYPE"`
	Backend string   `help:"Where to run: a sandbox backend of the server." setting:"WEIR_RUN_BACKEND" placeholder:"NAME"`
	Image   string   `help:"Image, for backends that have images." placeholder:"NAME"`
	Session string   `help:"Session to run in; empty: a new one." placeholder:"ID"`
	Title   string   `help:"Title of the new session." placeholder:"TEXT"`
	OnBusy  string   `help:"What to do while a run of the session is live: reject, queue or replace." enum:"reject,queue,replace" default:"reject" placeholder:"WHAT"`
	Again   string   `help:"Repeat this run; other flags change what they name. Its environment variables have to be given again." placeholder:"ID"`
}

// Input is the StartRunInput for these flags and what follows them.
func (f *RunFlags) Input(argv []string, getenv func(string) string) (map[string]any, error) {
	return f.input(argv, getenv, f.program)
}

// LocalInput is the same for a command that runs on this machine, where its
// files are.
func (f *RunFlags) LocalInput(argv []string, getenv func(string) string) (map[string]any, error) {
	return f.input(argv, getenv, f.local)
}

func (f *RunFlags) input(argv []string, getenv func(string) string, program func(map[string]any, []string) error) (map[string]any, error) {
	in := map[string]any{}
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	} else if len(argv) > 0 && strings.HasPrefix(argv[0], "-") {
		name, _, _ := strings.Cut(argv[0], "=")
		return nil, usagef("there is no flag %s%s (see weir run --help; a program of that name stands behind --)", name, DidYouMean(name, allFlags()))
	}
	if f.GPU == anyGPU && len(argv) > 1 && argv[1] == "--" {
		return nil, usagef("--gpu takes its type after an equals sign: --gpu=%s", argv[0])
	}
	if err := program(in, argv); err != nil {
		return nil, err
	}
	sandbox, err := f.sandbox()
	if err != nil {
		return nil, err
	}
	if f.Timeout != "" {
		d, err := parseDuration(f.Timeout)
		if err != nil {
			return nil, usagef("--timeout %q is not a time such as 90s, 30m or 2h", f.Timeout)
		}
		// Of the command as well, whose default is shorter than many trainings; what
		// the operator does not allow is refused then.
		in["timeoutSeconds"], sandbox["timeoutSeconds"] = d.Seconds(), d.Seconds()
	}
	budget, err := f.budget()
	if err != nil {
		return nil, err
	}
	if len(budget) > 0 {
		in["budget"] = budget
	}
	if len(sandbox) > 0 {
		in["sandbox"] = sandbox
	}
	if in["env"], err = environment(f.Env, getenv); err != nil {
		return nil, err
	}
	if in["config"], err = pairs("--set", f.Set, func(v string) any { return parameter(v) }); err != nil {
		return nil, err
	}
	if in["labels"], err = pairs("--label", f.Label, func(v string) any { return v }); err != nil {
		return nil, err
	}
	for key, value := range map[string]string{"prompt": f.Prompt, "sessionId": f.Session, "agent": f.Agent} {
		if value != "" {
			in[key] = value
		}
	}
	if f.Session != "" || f.OnBusy != "reject" {
		in["onBusy"] = strings.ToUpper(f.OnBusy)
	}
	if f.Stage != nil {
		in["stage"] = *f.Stage
	}
	maps.DeleteFunc(in, func(_ string, v any) bool {
		switch v := v.(type) {
		case map[string]any:
			return len(v) == 0
		case []map[string]string:
			return len(v) == 0
		}
		return false
	})
	return in, nil
}

// program decides what runs: a Python file is sent as code, anything else as the
// command that it is.
func (f *RunFlags) program(in map[string]any, argv []string) error {
	if len(argv) == 0 {
		if f.Agent == "" && f.Again == "" {
			return usagef("there is nothing to run: give a Python file, a command after --, an agent with --agent, or a run to repeat with --again")
		}
		return nil
	}
	if f.Agent == "" {
		in["agent"], in["stage"] = "script", "train"
	}
	file, rest := f.file(argv)
	if file == "" {
		in["command"] = argv
		return nil
	}
	if flag := misplacedFlag(argv); flag != "" {
		return usagef("put flags before the file: %s stands after %s; weir run %s ... %s", flag, file, flag, file)
	}
	if len(rest) > 0 {
		return usagef("%s is sent as code, which takes no arguments (%s): give them with --set or --env", file, ShellWords(rest))
	}
	info, err := os.Stat(file)
	if err == nil && info.Size() > maxCode {
		return usagef("%s has %s; code is at most %s", file, size(info.Size()), size(maxCode))
	}
	code, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return usagef("there is no file %s here", file)
	case err != nil:
		return usagef("reading %s: %w", file, bare(err))
	}
	in["code"] = string(code)
	return nil
}

// local leaves the command as it is; a Python file alone is one for python3.
func (f *RunFlags) local(in map[string]any, argv []string) error {
	if len(argv) == 0 {
		return f.program(in, nil)
	}
	if f.Agent == "" {
		in["agent"], in["stage"] = "script", "train"
	}
	if strings.HasSuffix(argv[0], ".py") {
		if info, err := os.Stat(argv[0]); err != nil {
			return usagef("there is no file %s here", argv[0])
		} else if info.Mode()&0o111 == 0 || !strings.ContainsRune(argv[0], '/') {
			argv = append([]string{"python3"}, argv...)
		}
	}
	in["command"] = argv
	return nil
}

const maxCode = 1 << 20

// file is the Python file that argv names, if it is one of this machine, and
// the arguments after it. The server has no such file.
func (f *RunFlags) file(argv []string) (string, []string) {
	python := strings.HasPrefix(filepath.Base(argv[0]), "python")
	switch {
	case strings.HasSuffix(argv[0], ".py"):
		return argv[0], argv[1:]
	case python && len(argv) > 1 && strings.HasSuffix(argv[1], ".py") && f.Session == "":
		if _, err := os.Stat(argv[1]); err == nil {
			return argv[1], argv[2:]
		}
	}
	return "", nil
}

func (f *RunFlags) sandbox() (map[string]any, error) {
	s := map[string]any{}
	for _, v := range []struct{ flag, key, text string }{
		{"--memory", "memoryMiB", f.Memory},
		{"--disk", "diskMiB", f.Disk},
	} {
		if v.text == "" {
			continue
		}
		mib, err := parseMiB(v.text)
		if err != nil {
			return nil, usagef("%s %q is not a size such as 512MiB or 4GiB", v.flag, v.text)
		}
		s[v.key] = mib
	}
	if f.Output != "" {
		mib, err := parseMiB(f.Output)
		if err != nil {
			return nil, usagef("--max-output %q is not a size such as 512MiB or 4GiB", f.Output)
		}
		s["maxOutputBytes"] = mib << 20
	}
	if f.CPUs != "" {
		n, err := strconv.ParseFloat(f.CPUs, 64)
		if err != nil || !(n >= 0.01 && n <= math.MaxInt32) {
			return nil, usagef("--cpus %q is not a number of processors: it must be 0.01 or more, such as 0.5 or 4", f.CPUs)
		}
		s["cpus"] = n
	}
	if f.PIDs != "" {
		n, err := run.ParseWhole(f.PIDs, 32)
		if err != nil || n < 4 {
			return nil, usagef("--pids %q is not a number of processes: it must be a whole number, 4 or more", f.PIDs)
		}
		s["pids"] = n
	}
	if f.OnLimit != "" {
		s["onOutputLimit"] = strings.ToUpper(f.OnLimit)
		if what := s["onOutputLimit"]; what != "STOP" && what != "TRUNCATE" {
			return nil, usagef("--on-output-limit %q must be stop or truncate", f.OnLimit)
		}
	}
	network := f.Network
	if strings.EqualFold(network, "none") || strings.EqualFold(network, "host") {
		network = strings.ToUpper(network)
	}
	for key, value := range map[string]string{"network": network, "gpu": string(f.GPU), "backend": f.Backend, "image": f.Image} {
		if value != "" {
			s[key] = value
		}
	}
	return s, nil
}

// budget is the input's budget.
func (f *RunFlags) budget() (map[string]any, error) {
	b := map[string]any{}
	if f.Budget != "" {
		n, err := run.ParseLimit(f.Budget)
		if err != nil {
			return nil, usagef("--budget-usd: %v", err)
		}
		b["usd"] = n.String()
	}
	if f.Tokens != "" {
		n, err := run.ParseWhole(f.Tokens, 64)
		switch {
		case err != nil:
			return nil, usagef("--budget-tokens: %v", err)
		case n == 0:
			return nil, usagef("--budget-tokens: %v", run.ErrNoBudget)
		case n < 0:
			return nil, usagef("--budget-tokens %d is not a number of tokens: it must be 1 or more", n)
		}
		b["tokens"] = n
	}
	if f.OnSpent != "" {
		b["action"] = strings.ToUpper(f.OnSpent)
		if what := b["action"]; what != "ABORT" && what != "PAUSE" && what != "WARN" {
			return nil, usagef("--on-budget %q must be abort, pause or warn", f.OnSpent)
		}
		if len(b) == 1 && f.Again == "" {
			return nil, usagef("--on-budget %s needs --budget-usd or --budget-tokens", f.OnSpent)
		}
	}
	return b, nil
}

// repeat gives the input of an earlier run with what in says changed.
func repeat(ctx context.Context, c *Client, id string, in map[string]any) (map[string]any, error) {
	r, err := c.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	old := map[string]any{"agent": r.Agent, "stage": r.Stage}
	for key, value := range map[string]string{"prompt": r.Input.Prompt, "model": r.Input.Model, "code": r.Input.Code} {
		if value != "" {
			old[key] = value
		}
	}
	if len(r.Input.Command) > 0 {
		old["command"] = r.Input.Command
	}
	if r.Input.TimeoutSeconds != nil {
		old["timeoutSeconds"] = *r.Input.TimeoutSeconds
	}
	for key, raw := range map[string]json.RawMessage{"sandbox": r.Input.Sandbox, "budget": r.Input.Budget, "labels": r.Labels, "config": r.Config} {
		var fields map[string]any
		if err := json.Unmarshal(raw, &fields); err == nil && len(fields) > 0 {
			old[key] = fields
		}
	}
	if in["code"] != nil || in["command"] != nil {
		delete(old, "code")
		delete(old, "command")
	}
	for key, value := range in {
		if fields, ok := value.(map[string]any); ok {
			if had, ok := old[key].(map[string]any); ok {
				maps.Copy(had, fields)
				continue
			}
		}
		old[key] = value
	}
	return old, nil
}

// environment is the input's env.
func environment(given []string, getenv func(string) string) ([]map[string]string, error) {
	var env []map[string]string
	for _, text := range given {
		name, value, ok := strings.Cut(text, "=")
		if name == "" || strings.ContainsAny(name, " \x00") {
			return nil, usagef("--env %q is not NAME=VALUE", text)
		}
		if !ok {
			if value = getenv(name); value == "" {
				return nil, usagef("--env %s has no value, and there is none here: set it, or give --env %s=VALUE", name, name)
			}
		}
		env = append(env, map[string]string{"name": name, "value": value})
	}
	return env, nil
}

func pairs(flag string, given []string, convert func(string) any) (map[string]any, error) {
	out := map[string]any{}
	for _, text := range given {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usagef("%s %q is not NAME=VALUE, such as lr=0.01", flag, text)
		}
		out[name] = convert(value)
	}
	return out, nil
}

// parameter is JSON where the text is JSON, else the text itself.
func parameter(text string) any {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

func parseDuration(text string) (time.Duration, error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		text = strconv.FormatFloat(n, 'f', -1, 64) + "s"
	}
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("not above zero")
	}
	return d, err
}

// parseMiB reads a size; without a unit it is in MiB.
func parseMiB(text string) (int64, error) {
	t := strings.ToLower(strings.TrimSpace(text))
	end := strings.TrimLeft(t, "0123456789.")
	n, err := strconv.ParseFloat(strings.TrimSuffix(t, end), 64)
	if err != nil {
		return 0, err
	}
	factor, ok := map[string]float64{
		"": 1, "m": 1, "mib": 1, "mb": 1e6 / (1 << 20), "g": 1 << 10, "gib": 1 << 10, "gb": 1e9 / (1 << 20),
		"t": 1 << 20, "tib": 1 << 20, "tb": 1e12 / (1 << 20),
	}[strings.TrimSpace(end)]
	mib := math.Ceil(n * factor)
	if !ok || mib < 1 || mib > math.MaxInt32 {
		return 0, fmt.Errorf("%q is not a size", text)
	}
	return int64(mib), nil
}

// key is an idempotency key of its own for each start.
func key() string { return run.NewKey("cli") }
