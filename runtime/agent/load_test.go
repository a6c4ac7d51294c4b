package agent_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func load(t *testing.T, files map[string]string) *agent.Set {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	s, err := agent.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const good = `
name: trainer
team: research
role: trains
driver: script
stage: train
command: [python3, train.py]
env:
  - {name: LR, value: "0.1"}
sandbox:
  memoryMiB: 512
  timeoutSeconds: 2.5
timeoutSeconds: 60
hooks:
  - {name: report, command: [sh, -c, "true"]}
files:
  src/train.py: |
    print("hi")
`

func TestLoadReadsADefinition(t *testing.T) {
	t.Parallel()
	s := load(t, map[string]string{"a.yaml": good, "README.md": "not an agent", "sub/x.yaml": "]["})
	if p := s.Problems(); len(p) != 0 {
		t.Fatalf("problems: %v", p)
	}
	d, err := s.Lookup("trainer")
	if err != nil {
		t.Fatal(err)
	}
	if d.Team != "research" || *d.Stage != "train" || d.Command[1] != "train.py" || d.Sandbox.MemoryMiB != 512 ||
		d.Sandbox.TimeoutSeconds != 2.5 || d.Timeout != 60 || d.Env[0] != (run.EnvVar{Name: "LR", Value: "0.1"}) ||
		d.Hooks[0].Name != "report" || d.Files["src/train.py"] != "print(\"hi\")\n" {
		t.Errorf("read as %+v", d)
	}
	if names := s.List(); len(names) != 2 || names[0].Name != "script" || names[1].Name != "trainer" {
		t.Errorf("listed as %+v", names)
	}
}

func TestUnknownAgentNamesTheKnownOnes(t *testing.T) {
	t.Parallel()
	s := load(t, map[string]string{"a.yaml": good, "b.yaml": "name: broken\ndriver: warp\n"})
	_, err := s.Lookup("nobody")
	if run.CodeOf(err) != run.NotFound || !strings.Contains(err.Error(), `"nobody"`) || !strings.Contains(err.Error(), "script, trainer") {
		t.Errorf("got %v", err)
	}
	_, err = s.Lookup("broken")
	if run.CodeOf(err) != run.NotFound || !strings.Contains(err.Error(), `b.yaml:2: unknown driver "warp"`) {
		t.Errorf("got %v", err)
	}
}

// Each broken file is reported at its line, and the good one beside it loads.
func TestBrokenFilesAreReportedByLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"empty":             {"", "x.yaml: the file is empty"},
		"syntax":            {"name: x\ncommand: [a\n", "x.yaml:2: "},
		"unknown field":     {"name: x\ndriver: script\ncomand: [a]\n", `x.yaml:3: unknown field "comand"`},
		"unknown inner":     {"name: x\ndriver: script\nsandbox:\n  memory: 3\n", `x.yaml:4: unknown field "memory"`},
		"wrong type":        {"name: x\ndriver: script\ntimeoutSeconds: soon\n", "x.yaml:3: "},
		"double key":        {"name: x\nname: y\n", "x.yaml:2: "},
		"two documents":     {"name: x\ndriver: script\n---\nname: y\ndriver: script\n", "x.yaml: it holds 2 YAML documents"},
		"no name":           {"driver: script\n", "x.yaml: name is missing"},
		"bad name":          {"driver: script\nname: a b\n", `x.yaml:2: the name "a b"`},
		"name taken":        {"driver: script\nname: trainer\n", `x.yaml:2: the name "trainer" is taken by a.yaml`},
		"built-in name":     {"driver: script\nname: script\n", `x.yaml:2: the name "script" is taken by the built-in agents`},
		"bad stage":         {"name: x\ndriver: script\nstage: a/b\n", `x.yaml:3: the stage "a/b"`},
		"unknown driver":    {"name: x\ndriver: warp\n", `x.yaml:2: unknown driver "warp"; it is script, replay, service or llm`},
		"no driver":         {"name: x\n", "x.yaml: driver is missing"},
		"code and command":  {"name: x\ndriver: script\ncode: a\ncommand: [b]\n", "x.yaml:4: command and code are both set"},
		"turns of a script": {"name: x\ndriver: script\nturns:\n  - thought: hm\n", "turns belong to driver replay"},
		"no turns":          {"name: x\ndriver: replay\n", "at least one entry in turns"},
		"two in a turn":     {"name: x\ndriver: replay\nturns:\n  - thought: a\n  - thought: a\n    warning: b\n", "x.yaml:5: turn 2 sets thought and warning"},
		"nothing in a turn": {"name: x\ndriver: replay\nturns:\n  - thought: \"\"\n", "turn 1 sets nothing"},
		"tool without":      {"name: x\ndriver: replay\nturns:\n  - tool: {name: t}\n", "the tool of turn 1 needs either code or command"},
		"negative pace":     {"name: x\ndriver: replay\nturns:\n  - text: {say: a, pace: -1}\n", "turn 1 has the pace -1"},
		"negative delay":    {"name: x\ndriver: replay\nturns:\n  - delaySeconds: -1\n", "x.yaml:4: delaySeconds is -1 seconds"},
		"negative tokens":   {"name: x\ndriver: replay\nturns:\n  - usage: {input: -4}\n", "turn 1 counts -4 tokens"},
		"odd cost":          {"name: x\ndriver: replay\nturns:\n  - usage: {costUsd: cheap}\n", `the cost "cheap" is not a decimal`},
		"usage format":      {"name: x\ndriver: replay\nturns:\n  - usage: {format: claude, file: a}\n", `turn 1: unknown usage format "claude"; it is one of anthropic-sse`},
		"usage file":        {"name: x\ndriver: replay\nturns:\n  - usage: {file: a}\n", "turn 1 names a file of usage but no format"},
		"usage twice":       {"name: x\ndriver: replay\nturns:\n  - usage: {format: codex-rollout, file: a, input: 3}\n", "turn 1 has counts and a format"},
		"usage of nothing":  {"name: x\ndriver: replay\nturns:\n  - usage: {format: codex-rollout}\n", "turn 1 has a format of usage but neither file nor files"},
		"usage outside":     {"name: x\ndriver: replay\nturns:\n  - usage: {format: codex-rollout, files: [a, ../b]}\n", `the file name "../b"`},
		"env name":          {"name: x\ndriver: script\nenv:\n  - {name: A=B, value: c}\n", `x.yaml:4: env 1 has the name "A=B"`},
		"env NUL":           {"name: x\ndriver: script\nenv:\n  - {name: A, value: \"a\\0b\"}\n", `the value of env "A" holds a NUL`},
		"file outside":      {"name: x\ndriver: script\nfiles:\n  ../y: z\n", `the file name "../y"`},
		"absolute file":     {"name: x\ndriver: script\nfiles:\n  /etc/y: z\n", `the file name "/etc/y"`},
		"negative limit":    {"name: x\ndriver: script\nsandbox:\n  pids: -3\n", "x.yaml:4: pids is -3"},
		"output limit":      {"name: x\ndriver: script\nsandbox:\n  onOutputLimit: MAYBE\n", `x.yaml:4: onOutputLimit is "MAYBE"`},
		"hook":              {"name: x\ndriver: script\nhooks:\n  - {name: h}\n", "x.yaml:4: hook 1 has no command"},
		"absurd timeout":    {"name: x\ndriver: script\ntimeoutSeconds: 1e300\n", "x.yaml:3: timeoutSeconds is 1e+300 seconds"},
		"not a number":      {"name: x\ndriver: script\ntimeoutSeconds: .nan\n", "x.yaml:3: timeoutSeconds is NaN seconds"},
		"huge":              {"# " + strings.Repeat("x", 5<<20), "x.yaml: the file is larger than 4 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := load(t, map[string]string{"a.yaml": good, "x.yaml": c.text})
			if _, err := s.Lookup("trainer"); err != nil {
				t.Errorf("the good file beside it did not load: %v", err)
			}
			var all []string
			for _, p := range s.Problems() {
				all = append(all, p.String())
			}
			if !strings.Contains(strings.Join(all, "\n"), c.want) {
				t.Errorf("got problems %q, want %q", all, c.want)
			}
			if _, err := s.Lookup("x"); err == nil {
				t.Error("the broken agent was loaded")
			}
		})
	}
}

func TestDelegationToNobodyIsAWarning(t *testing.T) {
	t.Parallel()
	s := load(t, map[string]string{
		"x.yaml": "name: x\ndriver: replay\nturns:\n  - delegate: {agent: y, prompt: p}\n  - delegate: {agent: z, prompt: p}\n",
		"z.yaml": "name: z\ndriver: replay\nturns:\n  - text: {say: hello}\n",
	})
	p := s.Problems()
	if len(p) != 1 || p[0].Unusable || p[0].Line != 4 || !strings.Contains(p[0].Text, `no agent is called "y"`) {
		t.Errorf("got %v", p)
	}
	if _, err := s.Lookup("x"); err != nil {
		t.Error(err)
	}
}

func TestNanoUSDIsExact(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int64{"0": 0, "0.000000001": 1, "1.5": 1_500_000_000, "0.1": 100_000_000, "9000000000": 9e18} {
		if got, err := agent.NanoUSD(in); err != nil || *got != want {
			t.Errorf("%s: got %v, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"-1", "0.0000000001", "1/3", "1e3", "x", "0x1", "1_0", "99999999999999999999", "NaN"} {
		if got, err := agent.NanoUSD(in); err == nil {
			t.Errorf("%s: got %d, want an error", in, *got)
		}
	}
	if got, err := agent.NanoUSD(""); got != nil || err != nil {
		t.Errorf("empty: got %v, %v", got, err)
	}
}
