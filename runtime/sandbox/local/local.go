// Package local runs executions on the server's own machine: in a bubblewrap
// sandbox, or, where the operator allows it, as a plain process.
//
// Guarantees of Bubblewrap: the command sees its workspace and the system's
// programs, read-only, and nothing else of the host; it has its own process,
// network, user and IPC namespaces, no capability and a clean environment; it
// is gone with everything it started when the server stops it, when the command
// itself ends, and when the server dies. A server that runs as root starts it
// under a user id that is its workspace's own.
//
// Plain promises only to end the processes that it finds by session, group and
// label, and, on Linux, to watch the size of the workspace. Everything it starts is labelled UNSANDBOXED.
package local

import (
	"log/slog"
	"strings"

	"github.com/weirhq/weir/runtime/run"
)

// Unsandboxed is the isolation label of a plain process.
const Unsandboxed = "UNSANDBOXED"

// DefaultUID is the user and group id that a server running as root gives to all
// sandboxes where it cannot give each workspace its own. No system hands it out: it lies above the ranges of ordinary
// users and below those of dynamic and subordinate ids.
const DefaultUID = 61234

// Options configure a local backend; the zero value is usable.
type Options struct {
	// UID is the user and group id of all sandboxes when the server runs as root;
	// 0 gives each workspace its own. A server without root runs them as itself.
	UID int
	// GID is the group id of such sandboxes; 0 means that of UID.
	GID int
	// Bwrap is the path of bubblewrap; "" searches PATH.
	Bwrap string
	// Python is the path of the interpreter for Python code; "" searches the
	// usual places.
	Python string
	// Helpers is a folder for the files that plain processes log with; they are
	// written when the first one starts. "" makes a temporary folder, which Close
	// removes. Bubblewrap brings the files into each sandbox and needs no folder.
	Helpers string
	// Place is a folder below which workspaces will lie: the probe makes its own
	// there. "" is the system's folder for temporary files.
	Place string
	// Log takes what no caller is told: what the clean-up could not remove.
	Log *slog.Logger
}

func (o Options) log() *slog.Logger {
	if o.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Log
}

// The labels in the environment of what a backend starts.
const (
	labelExecution = "WEIR_EXECUTION"
	labelRun       = "WEIR_RUN"
	labelReplica   = "WEIR_REPLICA"
)

// sandboxPath is PATH inside of a sandbox.
const sandboxPath = "/usr/local/bin:/usr/bin:/bin"

func labels(execution run.ExecutionID, id run.ID, replica string) []string {
	return []string{labelExecution + "=" + string(execution), labelRun + "=" + string(id), labelReplica + "=" + replica}
}

// merge gives variables over defaults, in a stable order, each name once.
func merge(defaults, vars []run.EnvVar) []run.EnvVar {
	out := append([]run.EnvVar(nil), defaults...)
	at := make(map[string]int, len(out)+len(vars))
	for i, e := range out {
		at[e.Name] = i
	}
	for _, e := range vars {
		if i, ok := at[e.Name]; ok {
			out[i].Value = e.Value
			continue
		}
		at[e.Name] = len(out)
		out = append(out, e)
	}
	return out
}

// withHelpers lets programs find what they log with, and Python its modules:
// behind what the variables say themselves come the workspace, its folder src
// and the helpers' folder, so that a file of the user's own wins.
func withHelpers(vars []run.EnvVar, workspace, helpers string) []run.EnvVar {
	path := []string{workspace, workspace + "/src", helpers}
	for _, e := range vars {
		switch {
		case e.Value == "":
		case e.Name == "PYTHONPATH":
			path = append([]string{e.Value}, path...)
		case e.Name == "PATH":
			vars = merge(vars, []run.EnvVar{{Name: "PATH", Value: e.Value + ":" + helpers}})
		}
	}
	return merge(vars, []run.EnvVar{{Name: "PYTHONPATH", Value: strings.Join(path, ":")}})
}
