package app

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/sandbox"
)

// The README's table of sandbox limits is the policy's.
func TestReadmeHasTheSandboxTable(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sandbox.DefaultPolicy().Settings() {
		row := fmt.Sprintf("| `%s` | %s | %s | %s |", s.Name, s.Default, s.Ceiling, s.Meaning)
		if !strings.Contains(string(readme), row+"\n") {
			t.Errorf("README.md lacks the row\n%s", row)
		}
	}
}
