// Package sandboxtest holds what every backend has to get right: small programs
// that broke real products, each with its right answer, and the judge that
// compares an observed execution with it. Only tests may import it.
package sandboxtest

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

//go:embed cases
var files embed.FS

// Case is a program with its limits and its right answer.
type Case struct {
	Number int    `json:"case"`
	Name   string `json:"-"` // of its files, such as 01-last-line-no-newline
	Script string // the file of Source
	Source string `json:"-"`
	Limits struct {
		TimeoutS       float64 `json:"timeout_s"`
		MaxWallS       float64 `json:"max_wall_s"`
		MemoryMB       int64   `json:"memory_mb"`
		PIDs           int64
		DiskMB         int64 `json:"disk_mb"`
		MaxOutputBytes int64 `json:"max_output_bytes"`
	}
	// Drive stops the program AfterS after it began to print.
	Drive *struct {
		AfterS float64 `json:"after_s"`
		GraceS float64 `json:"grace_s"`
	}
	Exit struct {
		Class     string
		ClassAlso []string `json:"class_also"`
		Code      *int
	}
	Metrics      []Point
	MetricsCheck *struct {
		Count    int
		Contains []Point
	} `json:"metrics_check"`
	Events []map[string]any
}

// Point is a metric point as the cases write it: a value that is not finite is
// one of the words NaN, Infinity and -Infinity.
type Point struct {
	Step  int64
	Name  string
	Value any
	Run   string
}

func (p Point) String() string { return fmt.Sprintf("%d %q %v %q", p.Step, p.Name, p.Value, p.Run) }

// NewPoint is the point of a value; -0 equals 0.
func NewPoint(step int64, name string, value float64, runTag string) Point {
	p := Point{Step: step, Name: name, Run: runTag}
	switch {
	case math.IsNaN(value):
		p.Value = "NaN"
	case math.IsInf(value, 1):
		p.Value = "Infinity"
	case math.IsInf(value, -1):
		p.Value = "-Infinity"
	default:
		p.Value = value + 0
	}
	return p
}

// All gives every case in the order of the numbers.
func All() ([]Case, error) {
	names, err := fs.Glob(files, "cases/*.expected.json")
	if err != nil {
		return nil, err
	}
	all := make([]Case, 0, len(names))
	for _, name := range names {
		raw, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var c Case
		if err := json.Unmarshal(raw, &c); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		source, err := files.ReadFile("cases/" + c.Script)
		if err != nil {
			return nil, err
		}
		c.Name = strings.TrimSuffix(strings.TrimPrefix(name, "cases/"), ".expected.json")
		c.Source = string(source)
		all = append(all, c)
	}
	return all, nil
}

// IsPython tells how the case is run: as Python code, or by sh.
func (c Case) IsPython() bool { return strings.HasSuffix(c.Script, ".py") }

// Heavy cases take a processor, the disk or much memory for seconds: at most
// two of them should run at once.
func (c Case) Heavy() bool {
	switch c.Number {
	case 8, 36, 51, 52, 53, 54:
		return true
	}
	return false
}

// Label is what a backend says about itself.
type Label struct {
	Isolation string // empty where it isolates
	Reason    string // what does not hold
}

// limitsAllMemory tells whether the memory limit is the kernel's, over all
// processes of an execution.
func (l Label) limitsAllMemory() bool {
	return l.Isolation == "" && !strings.Contains(l.Reason, "the memory limit holds for each process")
}

// excuses are the cases that a plain process may fail, with the words by which
// its label admits it.
var excuses = map[int]string{
	38: "a daemon that leaves its group",
	51: "processes are not counted",
	52: "the memory limit holds for each process",
	57: "use the host's network",
	58: "read and change the host's files",
}

// Excused tells whether the label admits that the case may fail.
func (c Case) Excused(l Label) bool {
	words, ok := excuses[c.Number]
	return ok && l.Isolation != "" && strings.Contains(l.Reason, words)
}

// Outcome is what was observed of an execution.
type Outcome struct {
	Class    run.ExitClass
	ExitCode *int
	Signal   string
	Wall     time.Duration
	Points   []Point
	// Events are charts and media in the words of the cases: type, then config;
	// or step, key, run (unless empty) and data.
	Events         []map[string]any
	Stdout, Stderr string
	Loss           run.Loss
	Warnings       []string
	Survivors      []int
}

// Code is the exit code as a shell would show it.
func (o Outcome) Code() int {
	if o.ExitCode != nil {
		return *o.ExitCode
	}
	return 128 + map[string]int{"SIGKILL": 9, "SIGTERM": 15, "SIGSEGV": 11}[o.Signal]
}
