package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestDemo: one command shows a real script's curves and a replayed agent with
// text, tool calls and a child run; also with an empty PATH, where there is no
// python3 and no bubblewrap.
func TestDemo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, path string }{{"AsItIs", ""}, {"WithoutPython", bareTools(t)}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &server{t: t, out: &logBuffer{}, args: []string{"demo", "--listen", "127.0.0.1:0"}}
			if c.path != "" {
				s.env = []string{"PATH=" + c.path, "WEIR_PYTHON=none"}
			}
			s.launch()
			eventually(t, 30*time.Second, "the demo prints its URL", func() error {
				m := regexp.MustCompile(`http://(127\.0\.0\.1:\d+)`).FindStringSubmatch(s.out.String())
				if m == nil {
					return fmt.Errorf("it printed %q", tail(s.out.String(), 1000))
				}
				s.addr = m[1]
				return nil
			})
			s.waitReady(20 * time.Second)
			var out struct {
				Runs struct {
					Nodes []struct {
						ID, Agent, Status string
						Session           struct{ ID string }
						Parent            *struct{ ID string }
					}
				}
			}
			eventually(t, 90*time.Second, "all runs of the demo are done", func() error {
				s.must(`{ runs { nodes { id agent status session { id } parent { id } } } }`, nil, &out)
				for _, n := range out.Runs.Nodes {
					if n.Status != "DONE" {
						return fmt.Errorf("%s is %s", n.Agent, n.Status)
					}
				}
				if len(out.Runs.Nodes) < 3 {
					return fmt.Errorf("there are %d runs", len(out.Runs.Nodes))
				}
				return nil
			})
			children, seen := 0, map[string]int{}
			sessions := map[string]bool{}
			for _, n := range out.Runs.Nodes {
				sessions[n.Session.ID] = true
				if n.Parent != nil {
					children++
				}
			}
			for session := range sessions {
				for _, raw := range s.log(session, filter{}) {
					seen[headOf(raw).Type]++
				}
			}
			media := 1 // the confusion matrix of the training script
			if _, err := os.Stat("/usr/bin/python3"); err == nil && c.path == "" {
				media += 13 // and what the example of media logs
			}
			if children == 0 || seen["MEDIA_LOGGED"] < media || seen["METRICS_LOGGED"] < 10 || seen["AGENT_MESSAGE"] == 0 || seen["TOOL_CALL_FINISHED"] == 0 || seen["AGENT_ERRORED"] > 0 {
				t.Errorf("%d children, events %v", children, seen)
			}
		})
	}
}

// bareTools is a folder with the few tools that every system has, and without
// python3 and bwrap.
func bareTools(t *testing.T, more ...string) string {
	t.Helper()
	dir := dataFolder(t)
	for _, tool := range append(more, "sh", "awk", "sleep", "cat", "true") {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "cp", "-L", path, dir+"/"+tool).CombinedOutput(); err != nil {
			t.Fatal(strings.TrimSpace(string(out)))
		}
	}
	return dir
}
