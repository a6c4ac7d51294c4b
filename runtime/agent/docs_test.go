package agent_test

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/agent"
)

func reference(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The agents that the reference shows load without any problem.
func TestDocumentedAgentsLoad(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(reference(t), -1) {
		files[fmt.Sprintf("%d.yaml", i)] = m[1]
	}
	s := load(t, files)
	for _, p := range s.Problems() {
		t.Errorf("docs/agents.md: %v in\n%s", p, files[p.File])
	}
	if got := len(s.List()); got != len(files)+1 || got < 3 {
		t.Errorf("%d agents of %d blocks", got, len(files))
	}
}

// The reference has a row for each key of a definition, and for nothing else.
func TestEveryKeyIsDocumented(t *testing.T) {
	t.Parallel()
	keys := map[string]bool{}
	collect(reflect.TypeFor[agent.Definition](), "", keys)
	_, table, _ := strings.Cut(reference(t), "\n## Every key\n")
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		if _, known := keys[m[1]]; !known {
			t.Errorf("docs/agents.md has the key %s, which no agent has", m[1])
		}
		keys[m[1]] = true
	}
	for key, documented := range keys {
		if !documented {
			t.Errorf("docs/agents.md lacks the key %s", key)
		}
	}
}

// collect notes the keys of a type as undocumented, by the tags that the loader
// goes by.
func collect(t reflect.Type, prefix string, keys map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			prefix = strings.TrimSuffix(prefix, ".") + "[]."
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for f := range t.Fields() {
		tag := cmp.Or(f.Tag.Get("yaml"), f.Tag.Get("json"))
		name, _, _ := strings.Cut(tag, ",")
		keys[prefix+name] = false
		collect(f.Type, prefix+name+".", keys)
	}
}
