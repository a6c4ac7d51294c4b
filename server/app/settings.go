package app

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/weirhq/weir/server/cli"

	"github.com/weirhq/weir/runtime/textfile"
)

// setting is a flag that the environment and the configuration file can set.
type setting struct {
	Section string // of the file
	Key     string // in the section, and of the flag without its hyphens
	Env     string
	Default string
	Help    string
	Kind    string // what stands for the value in the help

	Commands []string // that have it
}

// listing gives every setting of the command line once, in its order.
func listing(app *kong.Application) []*setting {
	var all []*setting
	seen := map[string]*setting{}
	for _, cmd := range app.Leaves(false) {
		for _, flag := range cmd.Flags {
			section, env := place(cmd, flag)
			if env == "" {
				continue
			}
			s := seen[section+"."+flag.Name]
			if s == nil {
				s = &setting{Section: section, Key: flag.Name, Env: env, Default: flag.Default, Help: flag.Help, Kind: flag.PlaceHolder}
				seen[section+"."+flag.Name] = s
				all = append(all, s)
			}
			s.Commands = append(s.Commands, typedName(cmd))
		}
	}
	return all
}

// typedName is what one types for a command: that of its parent where it is what
// the parent does by default.
func typedName(cmd *kong.Node) string {
	if p := cmd.Parent; p.DefaultCmd == cmd {
		return p.Path()
	}
	return cmd.Path()
}

// place gives the section of the file that sets a command's flag, and its
// environment variable; "" for a flag that only the command line sets.
func place(cmd *kong.Node, flag *kong.Flag) (section, env string) {
	section = cmp.Or(flag.Tag.Get("section"), cmd.Tag.Get("section"), cmd.Name)
	return section, flag.Tag.Get("setting")
}

// settings resolves what the command line leaves open: the environment first,
// then the configuration file.
type settings struct {
	getenv func(string) string
	loaded bool
	file   string
	values map[string]map[string]string // by section and key
}

// Validate implements kong.Resolver.
func (s *settings) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (s *settings) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	cmd := ctx.Selected()
	if cmd == nil {
		return nil, nil //nolint:nilnil // kong's way to say "not set"
	}
	section, env := place(cmd, flag)
	if env == "" {
		return nil, nil //nolint:nilnil // as above
	}
	if !s.loaded {
		s.loaded = true
		if err := s.load(ctx); err != nil {
			return nil, err
		}
	}
	if v := s.getenv(env); v != "" {
		return v, nil
	}
	if v, ok := s.values[section][flag.Name]; ok {
		return v, nil
	}
	return nil, nil //nolint:nilnil // as above
}

// maxSettings bounds the configuration file, in bytes.
const maxSettings = 1 << 20

// load reads the configuration file, if there is one.
func (s *settings) load(ctx *kong.Context) error {
	var named string
	for _, p := range ctx.Path {
		if p.Flag != nil && p.Flag.Name == "config" {
			named, _ = ctx.FlagValue(p.Flag).(string)
		}
	}
	if named == "" {
		named = s.getenv("WEIR_CONFIG_FILE")
	}
	s.file = named
	if named == "" {
		s.file = defaultConfig(s.getenv)
	}
	if s.file == "" {
		return nil
	}
	text, err := textfile.Read(s.file, maxSettings)
	if errors.Is(err, fs.ErrNotExist) && named == "" {
		return nil
	}
	if err != nil {
		return &fileError{fmt.Errorf("the configuration file %s: %w", s.file, err)}
	}
	if s.values, err = parseSettings(s.file, text, listing(ctx.Model)); err != nil {
		return &fileError{err}
	}
	return nil
}

// fileError is about the file, not about the flag that was asked for when it
// was read.
type fileError struct{ error }

func (e *fileError) Unwrap() error { return e.error }

// defaultConfig is the file that is read when it exists.
func defaultConfig(getenv func(string) string) string {
	dir := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home := getenv("HOME")
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "weir", "weir.yaml")
}

// parseSettings reads a configuration file: sections with keys. What is not
// known is an error that names the place and the nearest known name.
func parseSettings(name string, text []byte, known []*setting) (map[string]map[string]string, error) {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("%s: %s", name, first)
	}
	keys := map[string][]string{}
	var sections []string
	for _, s := range known {
		if keys[s.Section] == nil {
			sections = append(sections, s.Section)
		}
		keys[s.Section] = append(keys[s.Section], s.Key)
	}
	values := map[string]map[string]string{}
	for _, doc := range file.Docs {
		err := entries(name, doc.Body, func(section string, at string, body ast.Node) error {
			if keys[section] == nil {
				return fmt.Errorf("%s: there is no section %q; they are %s%s", at, section, strings.Join(sections, ", "), cli.DidYouMean(section, sections))
			}
			if values[section] == nil {
				values[section] = map[string]string{}
			}
			return entries(name, body, func(key string, at string, body ast.Node) error {
				if !slices.Contains(keys[section], key) {
					return fmt.Errorf("%s: %s has no setting %q%s; weir %s --help lists them", at, section, key, cli.DidYouMean(key, keys[section]), commandOf(section, known))
				}
				v, err := scalar(body)
				if err != nil {
					return fmt.Errorf("%s: %s.%s: %w", at, section, key, err)
				}
				values[section][key] = v
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
	}
	return values, nil
}

func commandOf(section string, known []*setting) string {
	for _, s := range known {
		if s.Section == section {
			return s.Commands[0]
		}
	}
	return ""
}

// entries calls f for each entry of a mapping; nothing at all is an empty one.
func entries(name string, node ast.Node, f func(key, at string, value ast.Node) error) error {
	var list []*ast.MappingValueNode
	switch n := node.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return nil
	case *ast.MappingNode:
		list = n.Values
	case *ast.MappingValueNode:
		list = []*ast.MappingValueNode{n}
	default:
		return fmt.Errorf("%s:%d: %q is not a section with settings (name: value)", name, node.GetToken().Position.Line, node.String())
	}
	for _, e := range list {
		token := e.Key.GetToken()
		if err := f(token.Value, fmt.Sprintf("%s:%d", name, token.Position.Line), e.Value); err != nil {
			return err
		}
	}
	return nil
}

// scalar gives a value in the form that a flag takes: a list is joined by commas.
func scalar(node ast.Node) (string, error) {
	switch n := node.(type) {
	case *ast.NullNode:
		return "", nil
	case *ast.SequenceNode:
		var parts []string
		for _, v := range n.Values {
			text, err := scalar(v)
			if err != nil {
				return "", err
			}
			parts = append(parts, strings.ReplaceAll(text, ",", `\,`))
		}
		return strings.Join(parts, ","), nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.StringNode:
		return n.Value, nil
	case ast.ScalarNode:
		return n.GetToken().Value, nil
	}
	return "", fmt.Errorf("%q is not a value or a list of values", node.String())
}
