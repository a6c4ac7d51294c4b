package agent

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/weirhq/weir/runtime/run"
)

// wrongNumber is a value that is not the number which its key takes.
type wrongNumber struct {
	value string
	err   error
}

func (w *wrongNumber) Error() string { return w.err.Error() }
func (w *wrongNumber) Unwrap() error { return w.err }

// numbers are the rules for numbers: the decoder's own would cut 1.5 to 1 and
// read 0x10 and 017.
func numbers() []yaml.DecodeOption {
	return []yaml.DecodeOption{
		yaml.Strict(),
		yaml.CustomUnmarshaler(func(n *int64, b []byte) (err error) {
			*n, err = wholeNumber(b, 64)
			return err
		}),
		yaml.CustomUnmarshaler(func(n *int, b []byte) error {
			v, err := wholeNumber(b, 32)
			*n = int(v)
			return err
		}),
		yaml.CustomUnmarshaler(func(n *run.NanoUSD, b []byte) (err error) {
			text := strings.TrimSpace(string(b))
			if *n, err = run.ParseLimit(strings.Trim(text, `"'`)); err != nil {
				return &wrongNumber{text, err}
			}
			return nil
		}),
	}
}

func wholeNumber(b []byte, bits int) (int64, error) {
	text := strings.TrimSpace(string(b))
	n, err := run.ParseWhole(text, bits)
	if err != nil {
		return 0, &wrongNumber{text, err}
	}
	return n, nil
}

// numberProblem finds the key and the line of a wrong number, which the decoder
// does not tell.
func (f *file) numberProblem(w *wrongNumber) Problem {
	p := Problem{File: f.name, Name: f.scalar("$.name"), Text: w.Error(), Unusable: true}
	keys := map[string]bool{}
	numberKeys(reflect.TypeFor[Definition](), keys)
	seek := finder(func(m *ast.MappingValueNode) bool {
		key, value := m.Key.GetToken(), m.Value.String()
		if !keys[key.Value] || strings.TrimSpace(value) != w.value {
			return false
		}
		p.Line, p.Text = key.Position.Line, fmt.Sprintf("%s: %v", key.Value, w.err)
		return true
	})
	for _, doc := range f.tree.Docs {
		ast.Walk(seek, doc.Body)
	}
	return p
}

// finder walks until it has found something.
type finder func(*ast.MappingValueNode) bool

// Visit implements ast.Visitor.
func (f finder) Visit(n ast.Node) ast.Visitor {
	if m, ok := n.(*ast.MappingValueNode); ok && m.Value != nil && f(m) {
		return nil
	}
	return f
}

// numberKeys collects the keys of a definition that take a number read here.
func numberKeys(t reflect.Type, into map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		numberKeys(t.Elem(), into)
	case reflect.Struct:
		for field := range t.Fields() {
			tag, ok := field.Tag.Lookup("yaml")
			if !ok {
				tag = field.Tag.Get("json")
			}
			if k := field.Type.Kind(); k == reflect.Int || k == reflect.Int64 {
				name, _, _ := strings.Cut(tag, ",")
				into[name] = true
				continue
			}
			numberKeys(field.Type, into)
		}
	default:
	}
}
