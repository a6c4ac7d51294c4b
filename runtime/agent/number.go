package agent

import (
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/weirhq/weir/runtime/run"
)

// checkNumbers notes the numbers that are not written as their keys take them:
// the decoder would cut 1.5 to 1, read 0x10 and 017, and tell no line of money.
func (f *file) checkNumbers() {
	n := numbers{f: f, anchors: map[string]ast.Node{}}
	for _, doc := range f.tree.Docs {
		if doc.Body != nil {
			ast.Walk(n, doc.Body)
			n.check(reflect.TypeFor[Definition](), doc.Body, nil)
		}
	}
}

// numbers walks a document along the types that it is decoded into.
type numbers struct {
	f       *file
	anchors map[string]ast.Node
}

// Visit implements ast.Visitor: it collects the anchors.
func (n numbers) Visit(node ast.Node) ast.Visitor {
	if a, ok := node.(*ast.AnchorNode); ok {
		n.anchors[a.Name.GetToken().Value] = a.Value
	}
	return n
}

// check judges the value of a key; the top has none.
func (n numbers) check(t reflect.Type, value ast.Node, key *token.Token) {
	for range 10 { // an alias may name another one, in a circle
		switch v := value.(type) {
		case *ast.AnchorNode:
			value = v.Value
		case *ast.AliasNode:
			value = n.anchors[v.Value.GetToken().Value]
		}
	}
	switch value.(type) {
	case nil, *ast.NullNode, *ast.AnchorNode, *ast.AliasNode:
		return
	}
	var err error
	switch kind := t.Kind(); {
	case kind == reflect.Pointer:
		n.check(t.Elem(), value, key)
	case t == reflect.TypeFor[run.NanoUSD]():
		_, err = run.ParseLimit(strings.Trim(written(value), `"'`))
	case kind == reflect.Int:
		_, err = run.ParseWhole(written(value), 32)
	case kind == reflect.Int64:
		_, err = run.ParseWhole(written(value), 64)
	case kind == reflect.Slice:
		if list, ok := value.(*ast.SequenceNode); ok {
			for _, v := range list.Values {
				n.check(t.Elem(), v, key)
			}
		}
	case kind == reflect.Struct:
		for _, v := range mapping(value) {
			k := v.Key.GetToken()
			if v.Key.Type() == ast.MergeKeyType {
				n.check(t, v.Value, k)
			} else if field, ok := fieldOf(t, k.Value); ok {
				n.check(field, v.Value, k)
			}
		}
	}
	if err != nil && key != nil {
		n.f.problems = append(n.f.problems, Problem{
			File: n.f.name, Name: n.f.scalar("$.name"), Line: key.Position.Line, Text: key.Value + ": " + err.Error(), Unusable: true,
		})
	}
}

// written is a scalar as it stands in the file, with its quotes.
func written(n ast.Node) string {
	switch t := n.GetToken(); n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return t.Value
	}
	line, _, _ := strings.Cut(strings.TrimSpace(n.String()), "\n")
	return clip(line)
}

func mapping(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// fieldOf gives the type of the field that a key sets.
func fieldOf(t reflect.Type, key string) (reflect.Type, bool) {
	for field := range t.Fields() {
		tag, ok := field.Tag.Lookup("yaml")
		if !ok {
			tag = field.Tag.Get("json")
		}
		if name, _, _ := strings.Cut(tag, ","); name == key {
			return field.Type, true
		}
	}
	return nil, false
}
