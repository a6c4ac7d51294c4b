package graph

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

// operation is one that the documentation shows.
type operation struct{ file, text string }

// documented gives the operations of README.md and docs: the blocks of GraphQL, and
// what commands send.
func documented(t *testing.T) []operation {
	t.Helper()
	files, err := filepath.Glob("../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	block := regexp.MustCompile("(?s)```graphql\n(.*?)```")
	body := regexp.MustCompile(`-d '(\{"query".*)'`)
	var all []operation
	for _, file := range append(files, "../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			all = append(all, operation{file, m[1]})
		}
		for _, m := range body.FindAllStringSubmatch(string(text), -1) {
			var request struct{ Query string }
			if err := json.Unmarshal([]byte(m[1]), &request); err != nil {
				t.Errorf("%s: %v in\n%s", file, err, m[1])
			}
			all = append(all, operation{file, request.Query})
		}
	}
	return all
}

// Each operation in the documentation fits the schema, and the guide has one for
// each field that one can ask for.
func TestDocumentedOperations(t *testing.T) {
	t.Parallel()
	sdl, err := SDL()
	if err != nil {
		t.Fatal(err)
	}
	schema, err := gqlparser.LoadSchema(&ast.Source{Name: "schema", Input: sdl})
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, o := range documented(t) {
		doc, errs := gqlparser.LoadQueryWithRules(schema, o.text, rules.NewDefaultRules())
		if len(errs) > 0 {
			t.Errorf("%s: %v in\n%s", o.file, errs, o.text)
			continue
		}
		for _, op := range doc.Operations {
			for _, s := range op.SelectionSet {
				if f, ok := s.(*ast.Field); ok && strings.HasSuffix(o.file, "graphql.md") {
					shown[string(op.Operation)+" "+f.Name] = true
				}
			}
		}
	}
	for _, root := range []*ast.Definition{schema.Query, schema.Mutation, schema.Subscription} {
		for _, f := range root.Fields {
			name := strings.ToLower(root.Name) + " " + f.Name
			if !strings.HasPrefix(f.Name, "__") && !shown[name] {
				t.Errorf("docs/graphql.md shows no %s", name)
			}
		}
	}
}

// The guide's tables name each code of an error, and the limits as they are.
func TestDocumentedErrorsAndLimits(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/graphql.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../runtime/run/errors.go")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, m := range regexp.MustCompile(`Code += "([A-Z_]+)"`).FindAllStringSubmatch(string(source), -1) {
		rows = append(rows, "| `"+m[1]+"` | ")
	}
	if len(rows) < 8 {
		t.Fatalf("found %d codes", len(rows))
	}
	rows = append(rows,
		fmt.Sprintf("| `events(first, last)` | %d by default, at most %d |", defaultEvents, maxEvents),
		fmt.Sprintf("| `sessions(first)`, `runs(first)` | %d by default, at most %d |", defaultRows, maxRows),
		fmt.Sprintf("| `usageRecords(first)`, `snapshots(first)` | %d by default, at most %d |", defaultRecords, maxRecords),
		fmt.Sprintf("| `maxPoints` | %d by default, at most %d |", defaultPoints, maxPointsAsked),
		fmt.Sprintf("| %d; %d runs in `compareMetrics` |", maxNames, maxCompared),
		fmt.Sprintf("| depth of an operation | %d |", defaultDepth),
		fmt.Sprintf("| fields that an operation may yield | %d |", defaultComplexity),
		fmt.Sprintf("| tokens of a document | %d |", maxTokens),
	)
	for _, row := range rows {
		if !strings.Contains(string(text), row) {
			t.Errorf("docs/graphql.md lacks %s", row)
		}
	}
}
