package app

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker for released builds.
var version string //nolint:gochecknoglobals // the linker can set nothing else

// Version is the version of this build: the release, else the module's version,
// else the commit it was built from.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+changes"
			}
		}
	}
	if commit == "" {
		return "devel"
	}
	return "devel-" + commit + dirty
}

// versionCommand prints the version.
type versionCommand struct {
	JSON bool `name:"json" help:"Print it as JSON."`
}

// Run implements the command.
func (v *versionCommand) Run(c *call) error {
	if v.JSON {
		return json.NewEncoder(c.stdout).Encode(map[string]string{
			"version": Version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
		})
	}
	_, err := fmt.Fprintln(c.stdout, versionLine())
	return err
}

func versionLine() string {
	return fmt.Sprintf("weir %s %s %s/%s", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
