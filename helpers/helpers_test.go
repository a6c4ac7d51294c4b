package helpers_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/helpers"
	"github.com/weirhq/weir/runtime/metricline"
)

// skip leaves a test out where the machine cannot run it; in CI that is a failure.
func skip(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("cannot run in CI: %s", why)
	}
	t.Skipf("SKIPPED: %s", why)
}

// pythons are the interpreters to test with: those that WEIR_PYTHONS lists, or
// the system's own.
func pythons(t *testing.T) []string {
	t.Helper()
	if list := os.Getenv("WEIR_PYTHONS"); list != "" {
		return filepath.SplitList(list)
	}
	const own = "/usr/bin/python3"
	if _, err := os.Stat(own); err != nil {
		skip(t, "no "+own+": install python3")
	}
	return []string{own}
}

// runPython gives what a program that may import weir prints.
func runPython(t *testing.T, python string, args ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, helpers.PythonName), []byte(helpers.Python), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, append([]string{"-B", "-W", "error"}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "WEIR_RUN=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", python, err, stderr.String())
	}
	return out
}

func TestPythonModule(t *testing.T) {
	t.Parallel()
	for _, python := range pythons(t) {
		t.Run(filepath.Base(python), func(t *testing.T) {
			t.Parallel()
			runPython(t, python, "testdata/weir_test.py")
		})
	}
}

// shapes are the members of each kind's data; "?" marks those that may lack. The
// README's table of media says the same.
var shapes = map[string]string{
	"image":            "base64 caption? height? mime width?",
	"image_grid":       "images",
	"table":            "columns rows total?",
	"histogram":        "counts edges nonfinite?",
	"confusion_matrix": "labels matrix",
	"roc":              "curves",
	"pr":               "curves",
	"text":             "format text",
	"plotly":           "data layout?",
}

// What the module prints for each kind of media is what the server takes, and
// has the shape that is written down.
func TestServerTakesEveryKind(t *testing.T) {
	t.Parallel()
	out := runPython(t, pythons(t)[0], "testdata/kinds.py")
	var kinds []string
	for line := range bytes.Lines(out) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		records := metricline.Parse(line)
		if len(records) != 1 || records[0].Rejected != "" {
			t.Fatalf("the line %.200s gave %+v", line, records)
		}
		m := records[0].Media
		if m == nil {
			continue
		}
		kinds = append(kinds, m.Kind)
		if m.Step != 3 || m.Key != "the key" || m.RunTag != "a" {
			t.Errorf("%s: step %d, key %q, run %q", m.Kind, m.Step, m.Key, m.RunTag)
		}
		var data map[string]json.RawMessage
		if err := json.Unmarshal(m.Data, &data); err != nil {
			t.Fatalf("%s: %v", m.Kind, err)
		}
		checkShape(t, m.Kind, data)
	}
	slices.Sort(kinds)
	want := metricline.MediaKinds()
	slices.Sort(want)
	if kinds = slices.Compact(kinds); !slices.Equal(kinds, want) {
		t.Errorf("the module logs %v, the server knows %v", kinds, want)
	}
}

func checkShape(t *testing.T, kind string, data map[string]json.RawMessage) {
	t.Helper()
	left := maps.Clone(data)
	for name := range strings.FieldsSeq(shapes[kind]) {
		name, optional := strings.CutSuffix(name, "?")
		if _, ok := left[name]; !ok && !optional {
			t.Errorf("%s lacks %s", kind, name)
		}
		delete(left, name)
	}
	if len(left) > 0 {
		t.Errorf("%s has more: %v", kind, slices.Sorted(maps.Keys(left)))
	}
}

// The table of the documentation names each kind and its members.
func TestTheShapesAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/logging.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range metricline.MediaKinds() {
		row := ""
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "| `"+kind+"` | `log_") {
				row = line
			}
		}
		for name := range strings.FieldsSeq(shapes[kind]) {
			if !strings.Contains(row, `"`+strings.TrimSuffix(name, "?")+`":`) {
				t.Errorf("docs/logging.md's row of %s lacks %q: %s", kind, name, row)
			}
		}
	}
}

// shells are the POSIX shells that the command is tested with.
func shells(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for name, argv := range map[string][]string{"dash": {"dash"}, "busybox": {"busybox", "sh"}} {
		path, err := exec.LookPath(argv[0])
		if err != nil {
			skip(t, "no "+argv[0]+": install it")
		}
		found[name] = append([]string{path}, argv[1:]...)
	}
	return found
}

func TestShellCommand(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), helpers.ShellName)
	if err := os.WriteFile(script, []byte(helpers.Shell), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range shellCases {
				args := append(slices.Clone(shell[1:]), script)
				cmd := exec.CommandContext(t.Context(), shell[0], append(args, c.args...)...)
				var stdout, stderr bytes.Buffer
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				err := cmd.Run()
				if c.want == "" {
					var exit *exec.ExitError
					if !errors.As(err, &exit) || exit.ExitCode() != 2 || stdout.Len() > 0 || !strings.Contains(stderr.String(), c.words) {
						t.Errorf("%q: %v, stdout %q, stderr %q; want exit code 2 and %q", c.args, err, stdout.String(), stderr.String(), c.words)
					}
					continue
				}
				if err != nil || stdout.String() != c.want+"\n" || stderr.Len() > 0 {
					t.Errorf("%q: %v\ngot  %swant %s\n%s", c.args, err, stdout.String(), c.want, stderr.String())
				}
				if r := metricline.Parse([]byte(c.want)); len(r) != 1 || r[0].Rejected != "" || len(r[0].Points) == 0 {
					t.Errorf("the server reads %s as %+v", c.want, r)
				}
			}
		})
	}
}

var shellCases = []struct {
	args  []string
	want  string // the line; "" means an error
	words string
}{
	{args: []string{"step=1", "loss=0.5", "acc=0.8", "run=a"}, want: `{"step":1,"metrics":{"loss":0.5,"acc":0.8},"run":"a"}`},
	{args: []string{"a=1", "step=-7"}, want: `{"step":-7,"metrics":{"a":1}}`},
	{args: []string{"step=+007", "a=+.50", "b=007", "c=5.", "d=-0", "e=1E-03", "f=00.1e+5"}, want: `{"step":7,"metrics":{"a":0.50,"b":7,"c":5,"d":-0,"e":1e-03,"f":0.1e+5}}`},
	{args: []string{"step=1", "a=nan", "b=-nan", "c=NaN", "d=inf", "e=-Infinity", "f=+INF", "g=true", "h=False"}, want: `{"step":1,"metrics":{"a":NaN,"b":NaN,"c":NaN,"d":Infinity,"e":-Infinity,"f":Infinity,"g":1,"h":0}}`},
	{args: []string{"step=1", `a"b\c=1`, "t\tn\n\x01\x7f=2", "Größe 😀*?[x]=3", "$HOME `id`=4", "run=it's\n"}, want: `{"step":1,"metrics":{"a\"b\\c":1,"t\u0009n\u000a\u0001\u007f":2,"Größe 😀*?[x]":3,"$HOME ` + "`id`" + `":4},"run":"it's\u000a"}`},
	{args: []string{"step=1", "val/loss=2", "a-b.c:d=3", "-n=4"}, want: `{"step":1,"metrics":{"val/loss":2,"a-b.c:d":3,"-n":4}}`},
	{words: "nothing to log"},
	{args: []string{"step=1"}, words: "no metric"},
	{args: []string{"loss=1"}, words: "the step is missing"},
	{args: []string{"step=1", "loss="}, words: "loss has no value"},
	{args: []string{"step=1", "loss=0,5"}, words: "decimal sign"},
	{args: []string{"step=1", "loss"}, words: "'loss' is no name=number"},
	{args: []string{"step=1", "=5"}, words: "no name before"},
	{args: []string{"step=1.5", "a=1"}, words: "step=1.5 is no whole number"},
	{args: []string{"step=", "a=1"}, words: "no whole number"},
	{args: []string{"step=1-", "a=1"}, words: "no whole number"},
	{args: []string{"step=99999999999999999999", "a=1"}, words: "64 bits"},
	{args: []string{"step=1", "a=0x10"}, words: "a=0x10 is no number"},
	{args: []string{"step=1", "a=1_000"}, words: "is no number"},
	{args: []string{"step=1", "a=1e"}, words: "is no number"},
	{args: []string{"step=1", "a=1.2.3"}, words: "is no number"},
	{args: []string{"step=1", "a=."}, words: "is no number"},
	{args: []string{"step=1", "a=-"}, words: "is no number"},
	{args: []string{"step=1", "a=--1"}, words: "is no number"},
	{args: []string{"step=1", `a=1,"b":2`}, words: "is no number"},
	{args: []string{"step=1", "a=1}\n{"}, words: "is no number"},
}
