package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/weir/runtime/run"
)

// The drivers that a definition can name.
const (
	DriverScript  = "script"
	DriverReplay  = "replay"
	DriverService = "service"
	DriverLLM     = "llm"
)

// Builtin is the name of the agent that is always there: it runs the code or
// the command of the request.
const Builtin = "script"

func builtin() Definition {
	return Definition{Name: Builtin, Role: "Runs a command or Python code, without a model", Driver: DriverScript}
}

// Problem says what is wrong with a definition file.
type Problem struct {
	File string
	Line int    // 0: the whole file
	Name string // the agent's name, as far as it could be read
	Text string
	// Unusable is set when the agent could not be loaded.
	Unusable bool
}

func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// Set is the agents of a server. It never changes and is safe for concurrent use.
type Set struct {
	byName   map[string]Definition
	problems []Problem
}

// NewSet makes a set of ready definitions and the built-in agent.
func NewSet(defs ...Definition) *Set {
	s := &Set{byName: map[string]Definition{Builtin: builtin()}}
	for _, d := range defs {
		s.byName[d.Name] = d
	}
	return s
}

// Lookup finds an agent; the error for an unknown one names those that are there.
func (s *Set) Lookup(name string) (Definition, error) {
	if d, ok := s.byName[name]; ok {
		return d, nil
	}
	for _, p := range s.problems {
		if p.Unusable && p.Name == name {
			return Definition{}, run.Errorf(run.NotFound, "the agent %q cannot be used: %s", clip(name), p)
		}
	}
	names := slices.Sorted(maps.Keys(s.byName))
	return Definition{}, run.Errorf(run.NotFound, "no agent is called %q; there are: %s", clip(name), strings.Join(names, ", "))
}

// List gives the usable agents by name.
func (s *Set) List() []Definition {
	list := make([]Definition, 0, len(s.byName))
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		list = append(list, s.byName[name])
	}
	return list
}

// Problems gives what was wrong with the files, by file and line.
func (s *Set) Problems() []Problem { return slices.Clone(s.problems) }

// clip bounds a value that came from outside before it is repeated in a message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
