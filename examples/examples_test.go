package examples_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/weirhq/weir/examples"
	"github.com/weirhq/weir/runtime/agent"
)

func TestAgentsLoad(t *testing.T) {
	t.Parallel()
	s, err := agent.Load(examples.Agents())
	if err != nil {
		t.Fatal(err)
	}
	if p := s.Problems(); len(p) != 0 {
		t.Errorf("problems: %v", p)
	}
	for _, name := range []string{"researcher", "analyst"} {
		if _, err := s.Lookup(name); err != nil {
			t.Error(err)
		}
	}
}

// tool finds a program; without it the test is skipped loudly, and fails in CI.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is missing; CI must install it", name)
		}
		t.Skipf("SKIPPED: %s is missing, install it to run this test", name)
	}
	return path
}

func output(t *testing.T, argv ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "PAUSE=0", "STEPS=45")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", argv[0], err)
	}
	return string(out)
}

// The twins print the same curves to the last digit.
func TestTwinsAgree(t *testing.T) {
	t.Parallel()
	python := output(t, tool(t, "python3"), "-B", "iris.py") // as a plain file, beside weir.py
	awk := output(t, tool(t, "awk"), examples.IrisAwk)
	p, a := strings.Split(python, "\n"), strings.Split(awk, "\n")
	for i := range min(len(p), len(a)) {
		if p[i] != a[i] {
			t.Fatalf("line %d:\npython %s\nawk    %s", i+1, p[i], a[i])
		}
	}
	if len(p) != len(a) || len(p) < 90 {
		t.Errorf("python prints %d lines, awk %d, want the same and at least 90", len(p), len(a))
	}
}
