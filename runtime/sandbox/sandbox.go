// Package sandbox runs one command of a run, bounded in time, size and reach,
// and hands over everything it prints.
//
// Guarantees, for every backend:
//   - Success, a non-zero exit, a timeout and a stop are results, not errors.
//     A failed creation and a broken output stream are errors.
//   - Both outputs are read to their end before the result is returned (with a
//     cap for a grandchild that keeps a pipe open); a process never outlives Run.
//   - Chunks of one stream arrive in order; the two streams have no common order.
//   - A sink that blocks holds the process back; nothing is dropped for it.
//   - Every byte that was read is accounted for, in each chunk and at any end.
package sandbox

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/weirhq/weir/runtime/metricline"
	"github.com/weirhq/weir/runtime/run"
)

// Spec is one command to run, with every limit decided.
type Spec struct {
	Execution run.ExecutionID
	Run       run.ID
	Replica   string // label, so that a restarted server finds what it left behind
	Stage     string // "" means that no line is parsed (S3)

	// Exactly one of the two.
	Code    string // Python source
	Command []string

	Workspace string // absolute path on this host, exists
	// Place is set when the workspace is a folder of the user's own: it stays at its
	// path, and its owner and rights as they are.
	Place   *run.Place
	Env     []run.EnvVar
	Image   string // for backends that have images
	Limits  Limits
	Network string // NONE, HOST or a name the operator lists
	GPU     string
}

// Limits bound one execution.
type Limits struct {
	Timeout        time.Duration // 0: none (the run's own deadline still holds)
	Grace          time.Duration // between TERM and KILL
	MemoryMiB      int64
	CPUs           float64
	PIDs           int64
	DiskMiB        int64
	MaxOutputBytes int64
	Truncate       bool // over MaxOutputBytes: drop the rest instead of stopping
}

// Result is how an execution ended.
type Result struct {
	Class         run.ExitClass
	Limits        Limits // those that it ran with
	ExitCode      *int   // nil when a signal ended it
	Signal        string // for example "SIGKILL"
	Elapsed       time.Duration
	Loss          run.Loss
	SignalledAt   time.Time // when the server sent TERM; zero if it never did
	ProcessGoneAt time.Time
	SandboxGoneAt time.Time
	Survivors     []int // process ids still alive after the KILL; should be empty
	// DiskUse and DiskLimit are set when the class is DISK_LIMIT: the bytes that
	// were counted in the workspace until they were over the limit, and the limit.
	DiskUse, DiskLimit int64
	// Cause is why the server stopped it: the cause of the cancelled context. Nil otherwise.
	Cause error
	// Warnings are words for the user that do not change the outcome.
	Warnings []string
}

// TimedOut tells whether the execution's own deadline ended it.
func (r Result) TimedOut() bool { return r.Class == run.ClassTimeout }

// IsError tells whether the execution counts as failed.
func (r Result) IsError() bool { return r.Class != run.ClassOK }

// Chunk is what one read of one stream brought.
type Chunk struct {
	Stream  run.OutputStream
	Offset  int64               // raw bytes of the stream before Text
	Text    string              // valid UTF-8; bad bytes are U+FFFD
	Records []metricline.Record // they and their Points are valid only during the call
	At      time.Time
	// Raw is what was read, as far as the output limit lets it through. A character
	// that is not complete yet is in Raw now and in the Text of a later chunk. It
	// is valid only during the call.
	Raw []byte
	// Loss is the account of the stream up to here, this chunk included. A chunk
	// may hold nothing else: all of it was beyond the limit.
	Loss run.Loss
	// Unended tells whether the last line has begun and not ended. Loss does not
	// count it yet.
	Unended bool
}

// Sink takes output. Write may block; an error from it ends the execution
// as a broken stream does (S7). It is called from two goroutines, one per stream.
type Sink interface {
	Write(ctx context.Context, c Chunk) error
}

// Started tells the engine what runs, before the first chunk.
type Started struct {
	Backend   string
	Isolation string   // "" or "UNSANDBOXED"
	Command   []string // as shown to users
}

// Status is what the start-up probe found.
type Status struct {
	Backend   string
	Available bool
	Reason    string // why not, with the remedy; or a caveat such as "UNSANDBOXED"
	Isolation string
	// What Reason says, in parts: why it is not available, and what does not hold
	// though it is.
	Problem *Problem
	Caveats []Problem
	Limits  []Limit // of an available sandbox
	Detail  string  // the programs behind it, with their versions
}

// Backend starts commands in one kind of sandbox. Implementations are safe for
// concurrent use.
type Backend interface {
	Name() string
	// Probe runs the real thing once and remembers the answer.
	Probe(ctx context.Context) Status
	// Start creates the sandbox and starts the command. An error means that
	// nothing is left behind, unless it is a *LeftBehindError. ctx bounds the creation only, not the process.
	Start(ctx context.Context, spec Spec) (Process, error)
	// Reap ends what an earlier process of this replica left behind and tells
	// the process ids it ended.
	Reap(ctx context.Context, replica string) ([]int, error)
}

// LeftBehindError is part of the error of a start that failed and could not be
// undone: these processes are still alive.
type LeftBehindError struct{ PIDs []int }

func (e *LeftBehindError) Error() string {
	return fmt.Sprintf("processes %v are still alive after a KILL", e.PIDs)
}

// Process is a started command. Its owner reads both outputs to the end and
// then calls Wait exactly once; Stop and Kill may be called at any time.
type Process interface {
	Started() Started
	Stdout() io.Reader
	Stderr() io.Reader
	// Stop asks the command to end (TERM). Kill ends the whole tree at once.
	Stop() error
	Kill() error
	// Exited is closed when the command itself has ended, though a grandchild
	// may still hold a pipe.
	Exited() <-chan struct{}
	// Wait ends what is left of the tree, frees the sandbox and reports.
	Wait() (Exit, error)
}

// Exit is what a backend knows about an ended command.
type Exit struct {
	Code          *int
	Signal        string
	OOMKilled     bool // the kernel killed one of its processes for memory
	ProcessGoneAt time.Time
	SandboxGoneAt time.Time
	Survivors     []int
}
