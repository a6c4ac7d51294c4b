package agent

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/weirhq/weir/runtime/textfile"
)

// maxFile bounds a definition file.
const maxFile = 4 << 20

// Load reads every .yaml and .yml file in the root of fsys, one agent each. A
// broken file becomes a problem with its line and does not stop the others;
// the error is for a folder that cannot be read at all. fsys must not wait in
// Open, as os.DirFS does with a FIFO.
func Load(fsys fs.FS) (*Set, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("reading the agents folder: %w", err)
	}
	s := NewSet()
	from := map[string]string{Builtin: "the built-in agents"}
	files := map[string]*file{}
	for _, e := range entries {
		if ext := path.Ext(e.Name()); e.IsDir() || (ext != ".yaml" && ext != ".yml") {
			continue
		}
		f := readFile(fsys, e.Name())
		if other, taken := from[f.def.Name]; taken && !f.unusable() {
			f.add("$.name", "the name %q is taken by %s; choose another one", clip(f.def.Name), other)
		}
		if !f.unusable() {
			from[f.def.Name] = f.name
			s.byName[f.def.Name] = f.def
			files[f.def.Name] = f
		}
		s.problems = append(s.problems, f.problems...)
	}
	// Delegation is checked when all are known. It is a warning: the agent works
	// up to that turn.
	for _, f := range files {
		for i, t := range f.def.Turns {
			if t.Delegate == nil {
				continue
			}
			if _, err := s.Lookup(t.Delegate.Agent); err != nil {
				p := f.problem(fmt.Sprintf("$.turns[%d].delegate", i), "this turn will fail: %v", err)
				p.Unusable = false
				s.problems = append(s.problems, p)
			}
		}
	}
	slices.SortStableFunc(s.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return s, nil
}

// file is one definition file while it is checked.
type file struct {
	name     string
	def      Definition
	tree     *ast.File // nil when it did not parse
	problems []Problem
}

func (f *file) unusable() bool { return len(f.problems) > 0 }

func readFile(fsys fs.FS, name string) *file {
	f := &file{name: name}
	data, err := readBounded(fsys, name)
	if err != nil {
		f.problems = append(f.problems, Problem{File: name, Text: err.Error(), Unusable: true})
		return f
	}
	if f.tree, err = parser.ParseBytes(data, 0); err == nil {
		if len(f.tree.Docs) > 1 {
			f.add("", "it holds %d YAML documents; put each agent into a file of its own", len(f.tree.Docs))
			return f
		}
		if f.checkNumbers(); f.unusable() {
			return f
		}
		err = yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&f.def)
	}
	switch {
	case errors.Is(err, io.EOF):
		f.add("", "the file is empty; an agent needs at least name and driver")
	case err != nil:
		f.problems = append(f.problems, f.yamlProblem(err))
	default:
		f.check()
	}
	return f
}

func readBounded(fsys fs.FS, name string) ([]byte, error) {
	r, err := fsys.Open(name)
	if err != nil {
		if p := new(fs.PathError); errors.As(err, &p) {
			err = p.Err // the problem names the file
		}
		return nil, fmt.Errorf("opening the file: %w", err)
	}
	defer func() { _ = r.Close() }() // only read
	info, err := r.Stat()
	if err == nil {
		err = textfile.Check(info)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the file: %w", err)
	}
	return textfile.Bounded(r, maxFile)
}

func (f *file) yamlProblem(err error) Problem {
	p := Problem{File: f.name, Name: f.def.Name, Text: err.Error(), Unusable: true}
	var y yaml.Error
	if errors.As(err, &y) {
		p.Text = y.GetMessage()
		if t := y.GetToken(); t != nil && t.Position != nil {
			p.Line = t.Position.Line
		}
	}
	if p.Name == "" {
		p.Name = f.scalar("$.name")
	}
	return p
}

// add notes a problem of the value at a YAML path ("" for the whole file).
func (f *file) add(at, format string, args ...any) {
	f.problems = append(f.problems, f.problem(at, format, args...))
}

func (f *file) problem(at, format string, args ...any) Problem {
	p := Problem{File: f.name, Name: f.def.Name, Text: fmt.Sprintf(format, args...), Unusable: true}
	if n := f.node(at); n != nil && n.GetToken() != nil && n.GetToken().Position != nil {
		p.Line = n.GetToken().Position.Line
	}
	return p
}

func (f *file) node(at string) ast.Node {
	if at == "" || f.tree == nil {
		return nil
	}
	p, err := yaml.PathString(at)
	if err != nil {
		return nil
	}
	n, err := p.FilterFile(f.tree)
	if err != nil {
		return nil
	}
	return n
}

func (f *file) scalar(at string) string {
	if n, ok := f.node(at).(*ast.StringNode); ok {
		return n.Value
	}
	return ""
}
