package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

func TestInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "train ä.py")
	if err := os.WriteFile(file, []byte("print(1)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	huge := filepath.Join(dir, "huge.py")
	if err := os.WriteFile(huge, make([]byte, maxCode+1), 0o600); err != nil {
		t.Fatal(err)
	}
	stage := ""
	for name, c := range map[string]struct {
		flags RunFlags
		argv  []string
		want  string // JSON, or what the error says
	}{
		"File":          {RunFlags{}, []string{file}, `{"agent":"script","code":"print(1)\n","stage":"train"}`},
		"PythonAndFile": {RunFlags{}, []string{"--", "python3", file}, `{"agent":"script","code":"print(1)\n","stage":"train"}`},
		"InASession":    {RunFlags{Session: "ses_1"}, []string{"python3", file}, `{"agent":"script","command":["python3",` + quote(file) + `],"onBusy":"REJECT","sessionId":"ses_1","stage":"train"}`},
		"Command":       {RunFlags{Stage: &stage}, []string{"--", "ls", "-l", "--", "x"}, `{"agent":"script","command":["ls","-l","--","x"],"stage":""}`},
		"Agent":         {RunFlags{Agent: "researcher", Prompt: "why"}, nil, `{"agent":"researcher","prompt":"why"}`},
		"Everything": {
			RunFlags{
				Env: []string{"A=b=c", "HERE"}, Set: []string{"lr=0.01", "name=x", "deep={\"a\":[1]}", "big=12345678901234567890"},
				Label: []string{"k=1"}, Timeout: "1.5m", Memory: "2GiB", Disk: "100", CPUs: "0.5", PIDs: "100", Output: "1", OnLimit: "truncate", Network: "host", GPU: "T4", OnBusy: "queue",
			},
			[]string{"x"},
			`{"agent":"script","command":["x"],"config":{"big":12345678901234567890,"deep":{"a":[1]},"lr":0.01,"name":"x"},"env":[{"name":"A","value":"b=c"},{"name":"HERE","value":"now"}],"labels":{"k":"1"},"onBusy":"QUEUE","sandbox":{"cpus":0.5,"diskMiB":100,"gpu":"T4","maxOutputBytes":1048576,"memoryMiB":2048,"network":"HOST","onOutputLimit":"TRUNCATE","pids":100,"timeoutSeconds":90},"stage":"train","timeoutSeconds":90}`,
		},
		"Nothing":       {RunFlags{}, []string{"--"}, "--agent"},
		"NoFile":        {RunFlags{}, []string{"none.py"}, "none.py"},
		"FileWithArgs":  {RunFlags{}, []string{file, "--lr", "1"}, "--lr 1"},
		"FlagAfterFile": {RunFlags{}, []string{file, "--set", "lr=1"}, "put flags before the file: --set stands after"},
		"HugeFile":      {RunFlags{}, []string{huge}, "1.0 MiB"},
		"AFolder":       {RunFlags{}, []string{dir + "/../" + filepath.Base(dir) + "/x.py"}, "x.py"},
		"BadEnv":        {RunFlags{Env: []string{"=x"}}, []string{"x"}, `--env "=x"`},
		"BadSet":        {RunFlags{Set: []string{"lr"}}, []string{"x"}, `--set "lr"`},
		"BadMemory":     {RunFlags{Memory: "4GB4"}, []string{"x"}, `--memory "4GB4"`},
		"NoMemory":      {RunFlags{Memory: "0"}, []string{"x"}, `--memory "0"`},
		"BadTimeout":    {RunFlags{Timeout: "-1"}, []string{"x"}, `--timeout "-1"`},
		"BadCPUs":       {RunFlags{CPUs: "-1"}, []string{"x"}, `--cpus "-1"`},
		"BadPIDs":       {RunFlags{PIDs: "3"}, []string{"x"}, `--pids "3"`},
		"BadOnLimit":    {RunFlags{OnLimit: "drop"}, []string{"x"}, `--on-output-limit "drop" must be stop or truncate`},
		"HugeCPUs":      {RunFlags{CPUs: "NaN"}, []string{"x"}, `--cpus "NaN"`},
		"UnsetEnv":      {RunFlags{Env: []string{"NOPE"}}, []string{"x"}, `--env NOPE has no value`},
		"BadTimeoutNaN": {RunFlags{Timeout: "NaN"}, []string{"x"}, `--timeout "NaN"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.flags.OnBusy == "" {
				c.flags.OnBusy = "reject"
			}
			in, err := c.flags.Input(c.argv, func(name string) string { return map[string]string{"HERE": "now"}[name] })
			if err != nil {
				if code, _ := Exit(err); code != CodeUsage || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("got %d %v, want %s", code, err, c.want)
				}
				return
			}
			if got, err := json.Marshal(in); err != nil || string(got) != c.want {
				t.Errorf("got  %s %v\nwant %s", got, err, c.want)
			}
		})
	}
}

func quote(s string) string {
	b, _ := json.Marshal(s) //nolint:errchkjson // a string
	return string(b)
}

// The codes of the table, and a run's end in every form.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state run.State
		want  int
	}{
		{run.State{Status: run.Done, Reason: run.Completed}, 0},
		{run.State{Status: run.Failed, Reason: run.ExitError}, 1},
		{run.State{Status: run.Failed, Reason: run.Lost}, 1},
		{run.State{Status: run.TimedOut, Reason: run.Timeout}, 124},
		{run.State{Status: run.Cancelled, Reason: run.Aborted}, 130},
		{run.State{Status: run.Cancelled, Reason: run.BudgetReason}, 1},
	} {
		if got := CodeOf(c.state.Status, c.state.Reason); got != c.want {
			t.Errorf("%v is %d, want %d", c.state, got, c.want)
		}
	}
	plain := errors.New("plain")
	for _, c := range []struct {
		err  error
		code int
		say  bool
	}{
		{nil, 0, false},
		{plain, 1, true},
		{UsageError(plain), 2, true},
		{&ExitError{Code: 124}, 124, false},
	} {
		if code, say := Exit(c.err); code != c.code || (say != nil) != c.say {
			t.Errorf("%v ends with %d and says %v", c.err, code, say)
		}
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(" from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := func(string) string { return "from-env" }
	for name, c := range map[string]struct {
		o      Connection
		getenv func(string) string
		want   string
	}{
		"None":       {Connection{}, none, ""},
		"Env":        {Connection{}, env, "from-env"},
		"Flag":       {Connection{Token: "flag"}, env, "flag"},
		"File":       {Connection{TokenFile: file}, none, "from-file"},
		"FileAndEnv": {Connection{TokenFile: file}, env, "error"},
		"Both":       {Connection{TokenFile: file, Token: "x"}, none, "error"},
		"NoFile":     {Connection{TokenFile: file + "x"}, none, "error"},
	} {
		got, err := c.o.token(c.getenv)
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

func TestServerURL(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"":                           "http://127.0.0.1:8080",
		"example:99":                 "http://example:99",
		"https://example/weir/":      "https://example/weir",
		"http://example/graphql":     "http://example",
		"ftp://example":              "",
		"http://":                    "",
		"http://user:pw@example:1/":  "http://user:xxxxx@example:1",
		"http://example/?session=se": "",
	} {
		c, err := NewClient(Options{Server: given})
		got := ""
		if err == nil {
			got = c.URL()
		}
		if got != want {
			t.Errorf("%q is %q, want %q (%v)", given, got, want, err)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	known := []string{"RUN_STARTED", "RUN_ENDED", "WARNING"}
	for word, want := range map[string]string{"RUN_END": "RUN_ENDED", "warnings": "WARNING", "XYZ": "", "": ""} {
		got := DidYouMean(word, known)
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q", word, got)
		}
	}
}

// Without a server a command stays as it is, and a Python file is one.
func TestLocalInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "träin me.py")
	program := filepath.Join(dir, "prog.py")
	for path, mode := range map[string]os.FileMode{file: 0o644, program: 0o755} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		argv, want []string
	}{
		{[]string{"--", "python3", file, "-x"}, []string{"python3", file, "-x"}},
		{[]string{file, "--lr", "1"}, []string{"python3", file, "--lr", "1"}},
		{[]string{program}, []string{program}},
		{[]string{"ls"}, []string{"ls"}},
	} {
		in, err := (&RunFlags{OnBusy: "reject"}).LocalInput(c.argv, nil)
		if got, _ := in["command"].([]string); err != nil || !slices.Equal(got, c.want) || in["stage"] != "train" || in["code"] != nil {
			t.Errorf("%q: got %v, %v, want %q", c.argv, in, err, c.want)
		}
	}
	if _, err := (&RunFlags{OnBusy: "reject"}).LocalInput([]string{dir + "/none.py"}, nil); err == nil || !strings.Contains(err.Error(), "none.py") {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := (&RunFlags{OnBusy: "reject", GPU: anyGPU}).LocalInput([]string{"H100", "--", "x"}, nil); err == nil || !strings.Contains(err.Error(), "--gpu=H100") {
		t.Errorf("a type behind a space: %v", err)
	}
}

// What looks like a flag of ours and is none is no program, unless a -- says so.
func TestUnknownFlag(t *testing.T) {
	t.Parallel()
	for argv, want := range map[string]string{
		"--sets lr=3 x.py":    "there is no flag --sets; did you mean --set? (",
		"--tiemout=3 x.py":    "there is no flag --tiemout; did you mean --timeout? (",
		"--mounts /d -- ls":   "there is no flag --mounts; did you mean --mount? (",
		"-e X=1 ls":           "there is no flag -e (see weir run --help",
		"--nothing-like-that": "there is no flag --nothing-like-that (",
	} {
		for name, input := range map[string]func([]string, func(string) string) (map[string]any, error){
			"here": (&RunFlags{}).LocalInput, "server": (&RunFlags{}).Input,
		} {
			in, err := input(strings.Fields(argv), nil)
			if code, _ := Exit(err); code != CodeUsage || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %q: got %v, %v, want %q", name, argv, in, err, want)
			}
		}
	}
	if in, err := (&RunFlags{}).LocalInput([]string{"--", "--sets", "x"}, nil); err != nil || !slices.Equal(in["command"].([]string), []string{"--sets", "x"}) {
		t.Errorf("behind a --: %v, %v", in, err)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	few, many := []string{"DONE", "IN_WORK"}, slices.Repeat([]string{"DONE"}, fewWords+1)
	if got, err := words("--status", []string{"done", "in-work"}, few); err != nil || !slices.Equal(got, few) {
		t.Errorf("got %q, %v", got, err)
	}
	for _, c := range []struct {
		word  string
		known []string
		want  string
	}{
		{"nope", few, `--status "nope" is not one of DONE, IN_WORK; did you mean DONE?`},
		{"strange", few, `--status "strange" is not one of DONE, IN_WORK`},
		{"nope", many, `--status "nope" is not known; did you mean DONE?`},
	} {
		if _, err := words("--status", []string{c.word}, c.known); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
