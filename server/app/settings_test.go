package app

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/weirhq/weir/server/cli"
)

// model is the command line, with the defaults of a user who is not root.
func model(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := newParser(new(commandLine), none, os.Stdout, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

// settingsTable is the documented table.
func settingsTable(app *kong.Application) string {
	var b strings.Builder
	section := ""
	for _, s := range listing(app) {
		if s.Section != section {
			section = s.Section
			var names []string
			for _, c := range s.Commands {
				names = append(names, "`weir "+c+"`")
			}
			fmt.Fprintf(&b, "\n### `%s`: %s\n\n| flag | environment | in the file | default | |\n| --- | --- | --- | --- | --- |\n", section, strings.Join(names, ", "))
		}
		def := s.Default
		switch {
		case s.Section == "serve" && s.Key == "data":
			def = "`/var/lib/weir` for root, else `~/.local/share/weir`"
		case def != "":
			def = "`" + def + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | `%s` | `%s.%s` | %s | %s |\n", s.Key, s.Env, s.Section, s.Key, def, s.Help)
	}
	return b.String()
}

func exitTable() string {
	var b strings.Builder
	b.WriteString("\n| code | meaning |\n| --- | --- |\n")
	for _, c := range cli.ExitCodes() {
		fmt.Fprintf(&b, "| %d | %s |\n", c.Code, c.Meaning)
	}
	return b.String()
}

// docs/configuration.md holds the settings and the exit codes as they are.
// WEIR_UPDATE=1 writes them.
func TestConfigurationIsDocumented(t *testing.T) {
	t.Parallel()
	const path = "../../docs/configuration.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	for name, want := range map[string]string{"settings": settingsTable(model(t)), "exit codes": exitTable()} {
		begin, end := "<!-- "+name+": begin -->\n", "\n<!-- "+name+": end -->"
		before, rest, ok1 := strings.Cut(doc, begin)
		got, after, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Fatalf("%s lacks the marks %q and %q", path, begin, end)
		}
		if got != want && os.Getenv("WEIR_UPDATE") == "" {
			t.Errorf("%s is not current: WEIR_UPDATE=1 go test ./server/app -run TestConfigurationIsDocumented writes it\n%s\nwant\n%s", path, got, want)
		}
		doc = before + begin + want + end + after
	}
	if os.Getenv("WEIR_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A variable means the same wherever it is read.
func TestVariablesAreNamedAfterFlags(t *testing.T) {
	t.Parallel()
	for _, s := range listing(model(t)) {
		name := strings.ToUpper(strings.ReplaceAll(s.Key, "-", "_"))
		known := []string{"WEIR_" + name, "WEIR_" + name + "S", "WEIR_" + strings.ToUpper(s.Section) + "_" + name}
		if !slices.Contains(known, s.Env) {
			t.Errorf("%s.%s is set by %s, want one of %v", s.Section, s.Key, s.Env, known)
		}
	}
}

// A flag wins over its variable, which wins over the file, which wins over the
// default.
func TestSettingsFromTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "weir"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"weir/weir.yaml": "# a comment\nserve:\n  listen: \":1\"\n  concurrency: 0\nclient:\n  server: http://127.0.0.1:1\n",
		"other.yaml":     "serve:\n  listen: :3\n  allow-host: [a, 'b c']\n",
		"empty.yaml":     "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	home := map[string]string{"XDG_CONFIG_HOME": dir, "HOME": "/none"}
	with := func(k, v string) map[string]string {
		return map[string]string{"XDG_CONFIG_HOME": dir, k: v}
	}
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
		want string // of the error
	}{
		"DefaultFile":      {home, []string{"serve"}, "--listen :1 "},
		"VariableOverFile": {with("WEIR_LISTEN", ":2"), []string{"serve"}, "--listen :2 "},
		"FlagOverFile":     {home, []string{"serve", "--listen", ":9"}, "--listen :9 "},
		"NamedFile":        {home, []string{"serve", "--config", dir + "/other.yaml"}, "--listen :3 "},
		"FileByVariable":   {with("WEIR_CONFIG_FILE", dir+"/other.yaml"), []string{"serve"}, "--listen :3 "},
		"List":             {home, []string{"serve", "--config", dir + "/other.yaml", "--listen", "127.0.0.1:0"}, `--allow-host "b c"`},
		"Number":           {home, []string{"serve", "--listen", "127.0.0.1:0"}, "--concurrency 0"},
		"Doctor":           {home, []string{"doctor", "--sandbox-max-cpus", "x"}, "x"},
		"Client":           {home, []string{"runs"}, "http://127.0.0.1:1"},
		"EmptyFile":        {home, []string{"runs", "--config", dir + "/empty.yaml", "--server", "127.0.0.1:1"}, "http://127.0.0.1:1"},
		"NoFile":           {home, []string{"serve", "--config", "/none/x.yaml"}, "/none/x.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out text
			err := Run(t.Context(), c.args, func(k string) string { return c.env[k] }, &out, &out)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// What the file may not hold is named with its place and the nearest known name.
func TestSettingsRefuseWhatTheyDoNotKnow(t *testing.T) {
	t.Parallel()
	known := listing(model(t))
	for text, want := range map[string]string{
		"serv:\n  listen: x":                `f:1: there is no section "serv"`,
		"serve:\n\n  lisen: x":              `f:3: serve has no setting "lisen"; did you mean listen?`,
		"client:\n  listen: x":              `f:2: client has no setting "listen"`,
		"serve: x":                          `f:1: "x" is not a section`,
		"- a":                               `f:1:`,
		"serve:\n  listen: {a: b}":          `f:2: serve.listen: `,
		"serve:\n  listen: [":               `f: `,
		"client:\n  json: true":             `client has no setting "json"`,
		"serve:\n  allow-host: [a, {b: c}]": `serve.allow-host`,
	} {
		_, err := parseSettings("f", []byte(text), known)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	v, err := parseSettings("f", []byte("serve:\n  allow-unsandboxed: true\n  db: \"\"\n  allow-origin: [\"http://a,b\", x]\n  data: |\n    /x\n"), known)
	if err != nil || fmt.Sprint(v) != `map[serve:map[allow-origin:http://a\,b,x allow-unsandboxed:true data:/x`+"\n"+` db:]]` {
		t.Errorf("got %v, %v", v, err)
	}
}

// The words that a shell offers.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"ta":                               "tail",
		"s":                                "serve show sessions schema",
		"tail --t":                         "--token --token-file --types",
		"tail --types RUN_":                "RUN_STARTED RUN_ENDED",
		"runs --limit 3 --status D":        "DONE",
		"completion ":                      "bash zsh fish",
		"serve --log-level ":               "debug info warn error",
		"run --on-busy ":                   "reject queue replace",
		"run --net":                        "--network",
		"run python3 --net":                "",
		"run -- --net":                     "",
		"run ":                             "",
		"run --server http://x --no-such ": "",
	} {
		var out strings.Builder
		if err := Run(t.Context(), append([]string{completeCommand, "bash"}, strings.Split(line, " ")...), none, &out, &out); err != nil {
			t.Error(err)
		}
		if got := strings.Join(strings.Fields(out.String()), " "); got != want {
			t.Errorf("%q offers %q, want %q", line, got, want)
		}
	}
}

// The script as bash uses it, with a stand-in for the program.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("bash is missing")
		}
		t.Skip("SKIPPED: bash is missing")
	}
	var script text
	if err := Run(t.Context(), []string{"completion", "bash"}, none, &script, &script); err != nil {
		t.Fatal(err)
	}
	test := script.String() + `
weir() { printf '%s|' "$@" >&2; printf 'tail\ntwo words\n'; }
COMP_WORDS=(weir run "a b" ta) COMP_CWORD=3
_weir 2>/dev/stdout
_weir
printf '%s,' "${#COMPREPLY[@]}" "${COMPREPLY[@]}"
complete -p weir`
	test = strings.ReplaceAll(test, "2>/dev/null", "")
	out, err := exec.CommandContext(t.Context(), bash, "-c", test).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "__complete|bash|run|a b|ta|") || !strings.Contains(string(out), "2,tail,two words,") {
		t.Errorf("%v\n%s", err, out)
	}
}
