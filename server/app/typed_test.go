package app

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/server/cli"
)

// A typed command has what this user has, unless its flags say less.
func TestPolicyOfATypedCommand(t *testing.T) {
	t.Parallel()
	c, err := (&typed{}).policy().Resolve(run.SandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Limits.Timeout != 0 || c.Limits.DiskMiB != 0 || c.Limits.CPUs != 0 || c.Network != sandbox.NetworkNone {
		t.Errorf("limits %+v, network %s", c.Limits, c.Network)
	}
	p := (&typed{gpu: "any"}).policy()
	if c, err = p.Resolve(run.SandboxRequest{GPU: "any", Network: "HOST", MemoryMiB: 1 << 20, TimeoutSeconds: 1e6}); err != nil || c.Network != "HOST" || c.GPU != "any" {
		t.Errorf("got %+v, %v", c, err)
	}
	if p.Defaults.MemoryMiB != 0 {
		t.Errorf("with a GPU memory is limited to %d", p.Defaults.MemoryMiB)
	}
	if _, err := p.Resolve(run.SandboxRequest{Network: "other"}); run.CodeOf(err) != run.Forbidden {
		t.Errorf("another network: %v", err)
	}
}

func TestMemoryShare(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"MemFree: 1 kB\nMemTotal:       10240000 kB\n": 9000,
		"MemTotal: x kB\n": 0,
		"":                 0,
	} {
		if got := memoryShare(text); got != want {
			t.Errorf("memoryShare(%q) = %d, want %d", text, got, want)
		}
	}
}

// A repeated run is the earlier one, place and environment included, with what
// is asked for now.
func TestChange(t *testing.T) {
	t.Parallel()
	stage := "train"
	old := run.Input{
		Agent: "script", Stage: &stage, Command: []string{"python3", "a.py"}, Env: []run.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
		Sandbox: run.SandboxRequest{MemoryMiB: 64, CPUs: 2}, TimeoutSeconds: 5, Config: json.RawMessage(`{"lr":0.1,"n":3}`),
		Place: &run.Place{Folder: "/p", Mounts: []run.Mount{{From: "/v", At: "/v"}}, Path: []string{"/v/bin"}},
	}
	fields, err := change(old, map[string]any{
		"config": map[string]any{"lr": json.RawMessage("0.2")}, "sandbox": map[string]any{"memoryMiB": int64(128)},
		"env": []map[string]string{{"name": "B", "value": "3"}}, "timeoutSeconds": 6.0,
	})
	if err != nil {
		t.Fatal(err)
	}
	var now run.Input
	if err := decode(fields, &now); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(now)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"agent":"script","stage":"train","command":["python3","a.py"],"env":[{"name":"A","value":"1"},{"name":"B","value":"3"}],"sandbox":{"memoryMiB":128,"cpus":2},"timeoutSeconds":6,"config":{"lr":0.2,"n":3},"place":{"folder":"/p","mounts":[{"from":"/v","at":"/v"}],"path":["/v/bin"]}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if fields, err = change(old, map[string]any{"code": "print(1)"}); err != nil || fields["command"] != nil {
		t.Errorf("with code there is still a command: %v, %v", fields, err)
	}
}

// A folder that holds the user's home or Weir's data is not given to a sandbox.
func TestRefusedPlaces(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for _, dir := range []string{"project", "data"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	env := func(string) string { return home }
	for folder, want := range map[string]string{
		"/": "is no place for a project", "/proc/self": "is no place for a project", home: "your home folder", home + "/project": "", home + "/data": "Weir's own data",
	} {
		err := (&typed{}).refuse(run.Place{Folder: folder}, env, home+"/data")
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", folder, err, want)
		}
	}
	// Without a sandbox there is nothing to keep out of it, and still no end of files.
	plain := &typed{plain: errors.New("root")}
	for folder, want := range map[string]bool{"/": true, "/proc": true, "/sys/fs": true, "/dev": true, "/dev/shm/x": false, "/device": false, "/tmp": false, home: false} {
		if err := plain.refuse(run.Place{Folder: folder}, env, ""); (err != nil) != want {
			t.Errorf("%s as a plain process: got %v", folder, err)
		}
	}
}

// A mistyped flag of weir run is no program, and each flag is one that can be meant.
func TestMistypedFlags(t *testing.T) {
	t.Parallel()
	var line commandLine
	parser, err := newParser(&line, none, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range parser.Model.Children {
		if command.Name != "run" {
			continue
		}
		for _, f := range command.Flags {
			if f.Name == "help" {
				continue
			}
			err := Run(t.Context(), []string{"run", "--" + f.Name + "z", "x.py"}, none, io.Discard, io.Discard)
			if code, _ := cli.Exit(err); code != cli.CodeUsage || !strings.Contains(err.Error(), "did you mean --"+f.Name[:1]) {
				t.Errorf("--%sz: %v", f.Name, err)
			}
		}
		return
	}
	t.Error("there is no command run")
}
