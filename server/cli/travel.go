package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// remedy is what to do with files that a server does not have.
const remedy = "only one .py file travels to a server; run it here (weir run without --server), or write the files in an earlier run of the session"

// travels refuses a program that cannot work at a server, whose workspace is
// empty, and gives a warning for one that probably cannot; "" for all others.
// Where an earlier run or an agent may have put files there, nothing is known.
func (f *RunFlags) travels(argv []string) (warning string, err error) {
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	if len(argv) == 0 || f.Session != "" || f.Agent != "" || f.Again != "" {
		return "", nil
	}
	if file, _ := f.file(argv); file != "" {
		return neighbours(file), nil
	}
	if strings.ContainsRune(argv[0], '/') && isHere(argv[0]) {
		return "", usagef("%s is a file here, which the server does not have: %s", argv[0], remedy)
	}
	for n, word := range argv[1:] {
		switch {
		case strings.HasPrefix(word, "-") || !isHere(word):
		case n == 0 && interpreters.MatchString(filepath.Base(argv[0])):
			return "", usagef("%s is a file here, which the server does not have: %s", word, remedy)
		default:
			return fmt.Sprintf("%s is here, and not at the server if the command means that: %s", word, remedy), nil
		}
	}
	return "", nil
}

// interpreters take a script as their first word.
var interpreters = regexp.MustCompile(`^(sh|bash|dash|zsh|python[0-9.]*|perl|ruby|node|Rscript)$`)

// isHere tells whether a relative path names something in the current folder.
func isHere(path string) bool {
	if !filepath.IsLocal(path) || path == "." {
		return false
	}
	_, err := os.Stat(path)
	return err == nil
}

// imports finds the first names of what a line of Python imports.
var imports = regexp.MustCompile(`(?m)^[ \t]*(?:from[ \t]+(\.?\w*)[\w.]*[ \t]+import\b|import[ \t]+([\w., \t]+))`)

// neighbours warns of modules beside a Python file that it imports.
func neighbours(file string) string {
	code, err := os.ReadFile(file)
	if err != nil {
		return "" // is told when it is sent
	}
	for _, m := range imports.FindAllStringSubmatch(string(code), -1) {
		for _, name := range append([]string{m[1]}, strings.Split(m[2], ",")...) {
			name, _, _ = strings.Cut(strings.TrimSpace(name), " ") // as ...
			name, _, _ = strings.Cut(name, ".")
			if name == "" || name == "weir" { // which every sandbox has
				continue
			}
			for _, path := range []string{name + ".py", filepath.Join(name, "__init__.py")} {
				if _, err := os.Stat(filepath.Join(filepath.Dir(file), path)); err == nil { //nolint:gosec // it is the user's own file that names it
					return fmt.Sprintf("%s imports %s, which is here and not at the server: %s", file, path, remedy)
				}
			}
		}
	}
	return ""
}

// misplacedFlag is the first of our flags that stands behind the program, where
// it is the program's; "" when there is none, or a -- says that it is meant so.
func misplacedFlag(argv []string) string {
	if len(argv) == 0 || slices.Contains(argv, "--") {
		return ""
	}
	known := flagNames(reflect.TypeFor[RunFlags](), reflect.TypeFor[Connection]())
	for _, word := range argv[1:] {
		name, _, _ := strings.Cut(word, "=")
		if slices.Contains(known, name) {
			return name
		}
	}
	return ""
}

// FlagNote is for a program that gets what may have been meant for weir run; ""
// for all others.
func FlagNote(argv []string) string {
	flag := misplacedFlag(argv)
	if flag == "" {
		return ""
	}
	return fmt.Sprintf("%s goes to %s; flags of weir run stand before the program (and -- after them says that this is meant)", flag, argv[0])
}

// allFlags are those of weir run, without a server, too.
func allFlags() []string {
	return append(flagNames(reflect.TypeFor[RunFlags](), reflect.TypeFor[Connection]()), "--detach", "--raw", "--mount", "--no-chart", "--agents", "--data", "--config")
}

// flagNames are the flags of these structs, as they are typed.
func flagNames(of ...reflect.Type) []string {
	var names []string
	for _, t := range of {
		for i := range t.NumField() {
			field := t.Field(i)
			name := field.Tag.Get("name")
			if name == "" {
				name = strings.ToLower(capitals.ReplaceAllString(field.Name, "$1-$2"))
			}
			names = append(names, "--"+name)
		}
	}
	return names
}

var capitals = regexp.MustCompile(`([a-z])([A-Z])`)
