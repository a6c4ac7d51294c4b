package archtest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weirhq/weir"

// rules says what each package may import from this module. Ending a name with
// /... allows what lies below it. A package without a rule fails the test: who
// adds one decides here what it may know, and says why.
var rules = map[string][]string{
	// The root: signals and the exit code.
	"": {"server/app", "server/cli"},

	// The domain. run is the one package that everyone may import, so it may
	// import nothing.
	"runtime/run":        {},
	"runtime/textfile":   {}, // how a file of the operator's is read
	"runtime/metricline": {"runtime/run"},
	"runtime/sandbox":    {"runtime/run", "runtime/metricline"},
	"runtime/stream":     {"runtime/run"},
	// Reads what providers and agents say of their usage.
	"runtime/meter": {"runtime/run"},
	// The contract of drivers names what they get from a sandbox; a definition may
	// name a format of usage.
	"runtime/agent": {"runtime/run", "runtime/sandbox", "runtime/textfile", "runtime/meter"},
	// The engine runs agents in sandboxes and keeps what they do through an
	// interface of its own: it knows no store, no transport, no reader.
	"runtime/engine": {"runtime/run", "runtime/metricline", "runtime/agent", "runtime/sandbox", "runtime/meter"},

	// Prices and sums; it knows no store and no provider.
	"runtime/meter/pricebook": {"runtime/run", "runtime/textfile"},

	// Implementations know their contract and not each other.
	// A backend brings the files that programs log with into the sandbox.
	"runtime/sandbox/local": {"runtime/run", "runtime/sandbox", "runtime/sandbox/local/...", "helpers"},
	// What it is made of: each knows the kernel, and of executions their limits only.
	"runtime/sandbox/local/cgroup":  {"runtime/run", "runtime/sandbox"},
	"runtime/sandbox/local/disk":    {"runtime/run", "runtime/sandbox", "runtime/sandbox/local/proc", "runtime/sandbox/local/tree"},
	"runtime/sandbox/local/proc":    {},
	"runtime/sandbox/local/seccomp": {},
	"runtime/sandbox/local/starter": {},
	"runtime/sandbox/local/tree":    {},
	"runtime/agent/script":          {"runtime/run", "runtime/agent", "runtime/sandbox"},
	"runtime/agent/replay":          {"runtime/run", "runtime/agent", "runtime/sandbox", "runtime/meter", "runtime/textfile"},
	// The loop asks models through a contract; adapters know that and their SDK.
	"runtime/agent/llm":           {"runtime/run", "runtime/agent", "runtime/textfile", "runtime/agent/llm/chat"},
	"runtime/agent/llm/chat":      {"runtime/run", "runtime/meter"},
	"runtime/agent/llm/anthropic": {"runtime/agent/llm/chat", "runtime/meter"},
	"runtime/agent/llm/openai":    {"runtime/run", "runtime/agent/llm/chat", "runtime/meter"},
	"runtime/agent/llm/gemini":    {"runtime/run", "runtime/agent/llm/chat", "runtime/meter"},
	"runtime/agent/service":       {"runtime/run", "runtime/agent", "runtime/sandbox", "runtime/meter"},

	"db/migrations": {},
	"db/store":      {"runtime/run", "runtime/textfile", "db/migrations"},

	// The API converts domain types; rows and engine internals cannot leak into
	// it because it cannot see them.
	"graph":           {"runtime/run", "graph/..."},
	"graph/model":     {"graph/scalar"},
	"graph/scalar":    {"runtime/run"},
	"graph/generated": {"graph/model", "graph/scalar"},

	"web":      {},
	"examples": {},
	"helpers":  {},

	"server/config":    {"runtime/run", "runtime/textfile"},
	"server/supervise": {},
	// What the streaming transports share; it knows none of them.
	"server/operation": {},
	"server/ws":        {"server/operation"},
	"server/httpapi":   {"runtime/run", "graph", "graph/generated", "graph/model", "server/operation", "server/ws"},
	// A client knows the API, the domain's names and how a printed line is read,
	// and nothing of a server.
	"server/cli": {"runtime/run", "runtime/metricline", "runtime/textfile"},
	// Looks at the machine for the command that was typed.
	"server/around": {"runtime/run"},
	// The only package that sees all.
	"server/app":      {"runtime/...", "db/store", "graph/...", "web", "examples", "server/..."},
	"server/archtest": {},
}

// testRules are for packages that only tests use: they may import what they test and must never be part of the product.
var testRules = map[string][]string{
	"db/pgtest":    {},
	"db/storetest": {"runtime/run", "runtime/engine", "db/pgtest"},
	// What every backend has to get right; judges what it is shown.
	"runtime/sandbox/sandboxtest": {"runtime/run"},
	// A Docker daemon and an image for tests.
	"runtime/dockertest": {},
	"server/e2e":         {}, // drives the built binary
	"server/bench":       {}, // tests only
	// Builds what is released; drives go and git.
	"tools/release": {},
}

// foreign forbids packages from outside where they would leak.
var foreign = map[string]func(path string) bool{
	// Only the standard library: everyone carries what these import.
	"runtime/run":        outside,
	"runtime/metricline": outside,
	"runtime/meter":      outside,
	"runtime/stream":     outside,
	"server/supervise":   outside,
	// SQL stays in db.
	"runtime/engine": sqlPackage,
	"graph":          sqlPackage,
	"server/httpapi": sqlPackage,
	"server/app":     sqlPackage,
}

func outside(path string) bool { return strings.Contains(strings.Split(path, "/")[0], ".") }

func sqlPackage(path string) bool {
	return path == "database/sql" || strings.HasPrefix(path, "github.com/uptrace/bun") || strings.HasPrefix(path, "modernc.org/sqlite")
}

// pkg is what go list says about a package.
type pkg struct {
	ImportPath string
	GoFiles    []string
	Imports    []string
}

func packages(t *testing.T) map[string]pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,GoFiles,Imports", module+"/...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	all := map[string]pkg{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("reading go list: %v", err)
		}
		all[short(p.ImportPath)] = p
	}
}

func short(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, module), "/") }

func inside(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

func allowed(rule []string, path string) bool {
	return slices.ContainsFunc(rule, func(r string) bool {
		if below, ok := strings.CutSuffix(r, "/..."); ok {
			return path == below || strings.HasPrefix(path, below+"/")
		}
		return r == path
	})
}

// violations is the rule book applied to what go list says.
func violations(all map[string]pkg) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		if name == "runtime" && len(p.GoFiles) > 0 {
			out = append(out, "runtime holds a Go file: put it into one of its packages")
			continue
		}
		rule, ok := rules[name]
		test := false
		if !ok {
			rule, test = testRules[name]
			ok = test
		}
		if !ok {
			out = append(out, name+" has no rule: decide in server/archtest what it may import")
			continue
		}
		for _, imp := range p.Imports {
			switch {
			case foreign[name] != nil && !inside(imp) && foreign[name](imp):
				out = append(out, name+" must not import "+imp)
			case !inside(imp) || allowed(rule, short(imp)):
			default:
				out = append(out, name+" must not import "+short(imp))
			}
			if _, isTest := testRules[short(imp)]; inside(imp) && isTest && !test {
				out = append(out, name+" is part of the product and imports the test package "+short(imp))
			}
		}
	}
	return out
}

func TestImports(t *testing.T) {
	t.Parallel()
	for _, v := range violations(packages(t)) {
		t.Error(v)
	}
}

// The rule book notices each kind of fault.
func TestImportsNoticesFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pkg  string
		p    pkg
		want string
	}{
		"no rule":              {"runtime/util", pkg{}, "has no rule"},
		"a wrong arrow":        {"graph", pkg{Imports: []string{module + "/db/store"}}, "graph must not import db/store"},
		"code in runtime":      {"runtime", pkg{GoFiles: []string{"x.go"}}, "runtime holds a Go file"},
		"a library in run":     {"runtime/run", pkg{Imports: []string{"github.com/uptrace/bun"}}, "runtime/run must not import github.com/uptrace/bun"},
		"sql in the engine":    {"runtime/engine", pkg{Imports: []string{"database/sql"}}, "runtime/engine must not import database/sql"},
		"test code in product": {"server/app", pkg{Imports: []string{module + "/db/pgtest"}}, "imports the test package db/pgtest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := violations(map[string]pkg{c.pkg: c.p})
			if !strings.Contains(strings.Join(got, "\n"), c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := violations(map[string]pkg{"runtime/stream": {Imports: []string{"context", module + "/runtime/run"}}}); len(got) != 0 {
		t.Errorf("a good package is reported: %q", got)
	}
}
