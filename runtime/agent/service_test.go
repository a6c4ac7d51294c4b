package agent_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/agent"
)

func TestBrokenServicesAreReported(t *testing.T) {
	t.Parallel()
	const head = "name: x\ndriver: service\n"
	for name, c := range map[string]struct{ text, want string }{
		"nothing to run":  {head, "x.yaml: a service needs command or code"},
		"both to run":     {head + "code: a\ncommand: [b]\n", "x.yaml:4: command and code are both set"},
		"another driver":  {"name: x\ndriver: script\nservice: {port: 1}\n", "service belongs to driver service"},
		"turns":           {head + "code: a\nturns:\n  - thought: b\n", "turns belong to driver replay, not to service"},
		"port and socket": {head + "code: a\nsandbox: {network: HOST}\nservice: {port: 1, socket: s}\n", "port and socket are both set"},
		"port":            {head + "code: a\nservice: {port: 70000}\n", "x.yaml:4: port is 70000; it is between 1 and 65535"},
		"no network":      {head + "code: a\nservice: {port: 80}\n", "port 80 can only be reached with sandbox.network HOST"},
		"socket outside":  {head + "code: a\nservice: {socket: ../s}\n", `the socket "../s" must be a path in the workspace`},
		"long socket":     {head + "code: a\nservice: {socket: " + strings.Repeat("s", 61) + "}\n", "of at most 60 bytes"},
		"foreign path":    {head + "code: a\nservice: {usagePath: //10.0.0.1/x}\n", `the path "//10.0.0.1/x" must begin with one /`},
		"relative path":   {head + "code: a\nservice: {healthPath: health}\n", `x.yaml:4: the path "health" must begin with one /`},
		"a URL":           {head + "code: a\nservice: {usagePath: \"http://10.0.0.1/x\"}\n", "must begin with one /"},
		"poll":            {head + "code: a\nservice: {pollSeconds: -1}\n", "pollSeconds is -1 seconds"},
		"hasty poll":      {head + "code: a\nservice: {pollSeconds: 0.001}\n", "pollSeconds is 0.001; at least 0.01 is needed"},
		"crashes":         {head + "code: a\nservice: {maxCrashes: -1}\n", "maxCrashes is -1; it is between 1 and 100"},
		"format":          {head + "code: a\nservice: {transcript: {format: tape}}\n", `unknown transcript format "tape"; it is claude`},
		"folder":          {head + "code: a\nservice: {transcript: {folder: /etc}}\n", `the folder "/etc" must be a path in the workspace`},
		"session":         {head + "code: a\nservice: {transcript: {sessionId: ../x}}\n", `the session id "../x" may have`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all []string
			for _, p := range load(t, map[string]string{"x.yaml": c.text}).Problems() {
				all = append(all, p.String())
			}
			if len(all) != 1 || !strings.Contains(all[0], c.want) {
				t.Errorf("got problems %q, want %q", all, c.want)
			}
		})
	}
}

func TestServiceDefaults(t *testing.T) {
	t.Parallel()
	s := load(t, map[string]string{"x.yaml": "name: x\ndriver: service\ncommand: [a]\n"})
	d, err := s.Lookup("x")
	if err != nil {
		t.Fatal(err)
	}
	got := d.Service.WithDefaults()
	want := agent.Service{Socket: "service.sock", UsagePath: "/usage/status", StartSeconds: 30, PollSeconds: 15, MaxCrashes: 3, RestartDelay: 1}
	if got != want {
		t.Errorf("the defaults are %+v, want %+v", got, want)
	}
	for crashes, want := range map[int]time.Duration{1: time.Second, 2: 4 * time.Second, 3: 16 * time.Second, 5: 256 * time.Second, 6: 5 * time.Minute, 99: 5 * time.Minute} {
		if d := got.RestartAfter(crashes); d != want {
			t.Errorf("after %d crashes it waits for %s, want %s", crashes, d, want)
		}
	}
	port := (&agent.Service{Port: 80, Transcript: &agent.Transcript{}}).WithDefaults()
	if port.Socket != "" || *port.Transcript != (agent.Transcript{Format: "claude", Folder: ".claude/projects"}) {
		t.Errorf("with a port: %+v", port)
	}
}
