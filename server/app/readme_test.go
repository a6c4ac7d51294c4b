package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/weirhq/weir/runtime/sandbox"
)

// document reads a file of the repository.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The tables of sandbox limits are the policy's.
func TestSandboxLimitsAreDocumented(t *testing.T) {
	t.Parallel()
	text, agents := document(t, "docs/sandbox.md"), document(t, "docs/agents.md")
	for _, s := range sandbox.DefaultPolicy().Settings() {
		row := fmt.Sprintf("| `%s` | %s | %s | %s |", s.Name, s.Default, s.Ceiling, s.Meaning)
		if !strings.Contains(text, row+"\n") {
			t.Errorf("docs/sandbox.md lacks the row\n%s", row)
		}
		m := regexp.MustCompile("(?m)^\\| `sandbox\\." + s.Name + "` \\| [^|]*\\|([^|]*)\\|").FindStringSubmatch(agents)
		if m == nil {
			t.Errorf("docs/agents.md lacks a row of sandbox.%s", s.Name)
		} else if got := cmp.Or(strings.Trim(m[1], " `"), "none"); got != s.Default {
			t.Errorf("docs/agents.md gives sandbox.%s the default %s, the policy %s", s.Name, got, s.Default)
		}
	}
}

// Each link of the documentation leads to a file and a heading that exist.
func TestLinksOfTheDocumentation(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			name, heading, _ := strings.Cut(m[1], "#")
			target := file
			if name != "" {
				target = filepath.Join(filepath.Dir(file), name)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", file, m[1], err)
			} else if heading != "" && !hasHeading(t, target, heading) {
				t.Errorf("%s links to %s, where no such heading is", file, m[1])
			}
		}
	}
}

// hasHeading tells whether a document has the heading that an anchor names.
func hasHeading(t *testing.T, file, anchor string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		name := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(name, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// The README's tour works as it is written, but for the ids.
func TestReadmeTour(t *testing.T) {
	t.Parallel()
	tour := map[string]string{} // by operation name
	for _, m := range regexp.MustCompile("(?s)```graphql\n\\w+ (\\w+) .*?```").FindAllStringSubmatch(document(t, "README.md"), -1) {
		tour[m[1]] = strings.TrimSuffix(strings.TrimPrefix(m[0], "```graphql\n"), "```")
	}
	url := start(t, "serve", "--listen", "127.0.0.1:0", "--data", dataFolder(t), "--allow-unsandboxed")
	var started struct {
		StartRun struct {
			ID      string
			Session struct{ ID string }
		}
	}
	query(t, url, tour["Start"], &started)
	ids := strings.NewReplacer("run_...", started.StartRun.ID, "ses_...", started.StartRun.Session.ID)

	awaitPoints(t, url, ids.Replace(tour["Watch"]))

	var aborted struct {
		AbortRun struct {
			Outcome       string
			ProcessGoneAt string
			Survivors     []int
		}
	}
	query(t, url, ids.Replace(tour["Abort"]), &aborted)
	if a := aborted.AbortRun; a.Outcome != "STOPPED" || a.ProcessGoneAt == "" || len(a.Survivors) != 0 {
		t.Errorf("the abort gave %+v", a)
	}
	var page struct {
		Events struct {
			Nodes   []struct{ Type string }
			LastSeq int
		}
		Run struct {
			Status  string
			Metrics []struct{ Buckets []struct{ Last float64 } }
		}
	}
	query(t, url, ids.Replace(tour["Page"]), &page)
	if n := len(page.Events.Nodes); n == 0 || n != page.Events.LastSeq || page.Events.Nodes[n-1].Type != "RUN_ENDED" {
		t.Errorf("the page holds %d of %d events", n, page.Events.LastSeq)
	}
	if m := page.Run.Metrics; page.Run.Status != "CANCELLED" || len(m) != 1 || len(m[0].Buckets) == 0 || m[0].Buckets[0].Last != 0.98 {
		t.Errorf("the run is %+v", page.Run)
	}
}

// awaitPoints runs a subscription until it shows a metric point.
func awaitPoints(t *testing.T, url, subscription string) {
	t.Helper()
	c, resp, err := websocket.Dial(t.Context(), url+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body != nil {
		_ = resp.Body.Close()
	}
	defer func() { _ = c.CloseNow() }()
	type message struct {
		ID      string          `json:"id,omitempty"`
		Type    string          `json:"type"`
		Payload json.RawMessage `json:"payload,omitempty"`
	}
	send := func(m message) {
		if err := wsjson.Write(t.Context(), c, m); err != nil {
			t.Fatal(err)
		}
	}
	send(message{Type: "connection_init"})
	for {
		var m message
		if err := wsjson.Read(t.Context(), c, &m); err != nil {
			t.Fatal(err)
		}
		switch m.Type {
		case "connection_ack":
			payload, err := json.Marshal(map[string]string{"query": subscription})
			if err != nil {
				t.Fatal(err)
			}
			send(message{ID: "1", Type: "subscribe", Payload: payload})
		case "next":
			if strings.Contains(string(m.Payload), `"name":"loss"`) {
				return
			}
		case "ping":
			send(message{Type: "pong"})
		default:
			t.Fatalf("%s %s", m.Type, m.Payload)
		}
	}
}
