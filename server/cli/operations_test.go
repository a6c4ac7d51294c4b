package cli

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

func schema(t *testing.T) *ast.Schema {
	t.Helper()
	files, err := filepath.Glob("../../graph/*.graphqls")
	if err != nil || len(files) == 0 {
		t.Fatal("no schema found", err)
	}
	var sources []*ast.Source
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, &ast.Source{Name: name, Input: string(text)})
	}
	s, gqlErr := gqlparser.LoadSchema(sources...)
	if gqlErr != nil {
		t.Fatal(gqlErr)
	}
	return s
}

// What the command line asks for is in the schema.
func TestOperationsFitTheSchema(t *testing.T) {
	t.Parallel()
	s := schema(t)
	for _, text := range operations() {
		if _, errs := gqlparser.LoadQueryWithRules(s, text, rules.NewDefaultRules()); len(errs) > 0 {
			t.Errorf("%v in\n%s", errs, text)
		}
	}
}

// Of every event type every field is asked for, so that --json loses nothing.
func TestEventsAreSelectedWhole(t *testing.T) {
	t.Parallel()
	s := schema(t)
	doc, errs := gqlparser.LoadQueryWithRules(s, followText, rules.NewDefaultRules())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	selected := map[string]map[string]bool{} // by type, "" for all
	var walk func(on string, set ast.SelectionSet)
	walk = func(on string, set ast.SelectionSet) {
		for _, sel := range set {
			switch sel := sel.(type) {
			case *ast.Field:
				if selected[on] == nil {
					selected[on] = map[string]bool{}
				}
				selected[on][sel.Name] = true
				if len(sel.SelectionSet) > 0 {
					of := sel.Definition.Type.Name()
					if of == "Event" {
						of = ""
					}
					walk(of, sel.SelectionSet)
				}
			case *ast.InlineFragment:
				walk(sel.TypeCondition, sel.SelectionSet)
			}
		}
	}
	walk("Subscription", doc.Operations[0].SelectionSet)
	types := slices.Sorted(maps.Keys(selected))
	for _, d := range s.GetPossibleTypes(s.Types["Event"]) {
		if !slices.Contains(types, d.Name) && len(d.Fields) > 7 {
			t.Errorf("nothing of %s is selected", d.Name)
		}
		types = append(types, d.Name)
	}
	for _, name := range types {
		if name == "" || name == "Subscription" {
			continue
		}
		for _, f := range s.Types[name].Fields {
			if !selected[name][f.Name] && !selected[""][f.Name] {
				t.Errorf("%s.%s is not selected", name, f.Name)
			}
		}
	}
}
