package pricebook

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// reader walks the tree of a price file and notes every fault with its place.
// The tree is read by hand since a decoder stops at the first fault, and reads
// prices as binary fractions.
type reader struct {
	faults
	file string
}

// parse gives the root of a YAML file, nil when there is none.
func (r *reader) parse(data []byte) (root ast.Node) {
	defer func() {
		if p := recover(); p != nil { // the parser met what its authors did not foresee
			r.add(place{file: r.file}, "the YAML parser cannot read this file (%v); write it in a simpler form", p)
			root = nil
		}
	}()
	if tooDeep(data) {
		r.add(place{file: r.file}, "the file is nested too deeply to be a price file")
		return nil
	}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		at, text := syntaxError(err)
		at.file = r.file
		r.add(at, "%s", text)
		return nil
	}
	for _, doc := range tree.Docs {
		switch {
		case doc.Body == nil:
		case root != nil:
			r.add(r.start(doc.Body), "the file holds more than one YAML document; put all into one")
		default:
			root = doc.Body
		}
	}
	return root
}

// tooDeep refuses what would exhaust the parser's stack, which nothing can catch.
func tooDeep(data []byte) bool {
	const most = 64
	for _, nest := range []string{"- ", "? "} {
		if bytes.Contains(data, []byte(strings.Repeat(nest, most))) {
			return true
		}
	}
	depth := 0
	for _, c := range data {
		switch c {
		case '[', '{':
			if depth++; depth > most {
				return true
			}
		case ']', '}':
			depth = max(0, depth-1)
		}
	}
	return false
}

func (r *reader) start(n ast.Node) place {
	switch m := n.(type) {
	case *ast.MappingNode:
		if len(m.Values) > 0 {
			return r.start(m.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return r.start(m.Key)
	}
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return place{file: r.file}
	}
	p := n.GetToken().Position
	return place{r.file, p.Line, p.Column}
}

// entry is one key of a mapping with its value.
type entry struct {
	key   string
	at    place
	value ast.Node
}

// entries gives the entries of a mapping; false when it is none.
func (r *reader) entries(n ast.Node, what string) ([]entry, bool) {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	case *ast.NullNode, nil:
		r.add(r.start(n), "%s is empty", what)
		return nil, false
	default:
		r.wrong(n, what, "has names with values, as in name: value")
		return nil, false
	}
	var list []entry
	seen := map[string]bool{}
	for _, v := range values {
		key, ok := plain(v.Key)
		switch {
		case !ok:
			r.wrong(v.Key, "the name", "is a plain word")
		case seen[key]:
			r.add(r.start(v.Key), "%q is there twice", clip(key))
		default:
			list = append(list, entry{key, r.start(v.Key), v.Value})
		}
		seen[key] = true
	}
	return list, true
}

// fields calls the function of each entry; what no function is for is a fault.
// It is false when there are no entries to speak of.
func (r *reader) fields(n ast.Node, what string, known map[string]func(entry)) bool {
	list, ok := r.entries(n, what)
	for _, e := range list {
		if f := known[e.key]; f != nil {
			f(e)
			continue
		}
		var names []string
		for name := range known {
			names = append(names, name)
		}
		slices.Sort(names)
		r.add(e.at, "%s has no field %q; its fields are %s", what, clip(e.key), strings.Join(names, ", "))
	}
	return ok
}

// list gives the items of a list.
func (r *reader) list(n ast.Node, what string) []ast.Node {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		r.wrong(n, what, "is a list; begin each item with -")
		return nil
	}
	return s.Values
}

// scalar gives the text of a value.
func (r *reader) scalar(e entry) (string, bool) {
	s, ok := plain(e.value)
	if !ok {
		r.wrong(e.value, e.key, "is one value")
		return "", false
	}
	return s, true
}

// text gives the text of a value that must not be empty.
func (r *reader) text(e entry) string {
	s, ok := r.scalar(e)
	if ok && strings.TrimSpace(s) == "" {
		r.add(r.start(e.value), "%s is empty", e.key)
	}
	return s
}

// texts gives a list of texts.
func (r *reader) texts(e entry) []string {
	var all []string
	for _, n := range r.list(e.value, e.key) {
		s, ok := plain(n)
		if !ok || s == "" {
			r.wrong(n, "an item of "+e.key, "is one word")
			continue
		}
		all = append(all, s)
	}
	return all
}

// truth gives true or false.
func (r *reader) truth(e entry) bool {
	b, ok := e.value.(*ast.BoolNode)
	if !ok {
		r.wrong(e.value, e.key, "is true or false")
		return false
	}
	return b.Value
}

// wrong notes a value of a wrong kind.
func (r *reader) wrong(n ast.Node, what, want string) {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		r.add(r.start(n), "anchors, aliases and << are not read here; write the value out, or set it once under providers")
		return
	case *ast.TagNode:
		r.add(r.start(n), "tags are not read here; leave it out")
		return
	case nil:
		r.add(place{file: r.file}, "%s %s", what, want)
		return
	}
	r.add(r.start(n), "%s %s, not %s", what, want, kindOf(n))
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	}
	if s, ok := plain(n); ok {
		return fmt.Sprintf("%q", clip(s))
	}
	return "this"
}

// plain gives the text of a scalar as it stands in the file: a number keeps
// all its digits.
func plain(n ast.Node) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return s.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		if t := n.GetToken(); t != nil {
			return t.Value, true
		}
	}
	return "", false
}
