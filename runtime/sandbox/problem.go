package sandbox

import "strings"

// Problem is what is wrong with a machine, or weaker than it could be, in words
// for the one who runs it. It is an error, so that a failed start carries it.
type Problem struct {
	What    string // what was found
	Meaning string // what follows from it for runs
	// Remedy is one command that mends it, or the one thing to do; "" when
	// nothing on this machine does.
	Remedy string
	// Misplaced: the data folder is at fault and not the machine. A server must
	// not start so: it would fail at the first run.
	Misplaced bool
}

// Error gives all in one line.
func (p *Problem) Error() string {
	parts := []string{p.What}
	if p.Meaning != "" {
		parts = append(parts, p.Meaning)
	}
	if p.Remedy != "" {
		parts = append(parts, "to mend it: "+p.Remedy)
	}
	return strings.Join(parts, "; ")
}

// Limit tells how firmly a kind of limit holds on this machine.
type Limit struct {
	Name string // memory, processes, cpu, disk
	Hard bool   // the kernel holds it for everything that a command starts
	How  string
}
