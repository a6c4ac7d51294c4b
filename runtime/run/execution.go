package run

import "time"

// OutputStream is one of a process's two outputs.
type OutputStream string

// The output streams.
const (
	Stdout OutputStream = "STDOUT"
	Stderr OutputStream = "STDERR"
)

// ExitClass says how an execution ended. It comes from what the server did and
// from the kernel's counters, never from a magic exit code.
type ExitClass string

// The exit classes.
const (
	ClassOK             ExitClass = "OK"
	ClassError          ExitClass = "ERROR"     // non-zero exit
	ClassSignal         ExitClass = "SIGNAL"    // killed by a signal that the server did not send
	ClassTimeout        ExitClass = "TIMEOUT"   // its own deadline passed
	ClassCancelled      ExitClass = "CANCELLED" // stopped by the server: abort, shutdown, the run's deadline
	ClassOOM            ExitClass = "OOM"
	ClassOutputLimit    ExitClass = "OUTPUT_LIMIT"
	ClassDiskLimit      ExitClass = "DISK_LIMIT"     // its workspace grew over the disk limit
	ClassInfrastructure ExitClass = "INFRASTRUCTURE" // never started, or its output broke off
)

// Loss accounts for every byte and line of an execution's output (P6).
type Loss struct {
	BytesRead       int64    `json:"bytesRead"`
	LinesRead       int64    `json:"linesRead"`
	LinesParsed     int64    `json:"linesParsed"`   // lines that became points, a chart or media
	LinesRejected   int64    `json:"linesRejected"` // looked like a metric line but were not one
	BytesTruncated  int64    `json:"bytesTruncated"`
	BytesNotKept    int64    `json:"bytesNotKept"`    // in the events, but missing in the files of the raw output
	RejectedSamples []string `json:"rejectedSamples"` // at most MaxSamples, each at most 200 bytes
}

// MaxSamples bounds the samples of one account.
const MaxSamples = 5

// Add gives the account of both together.
func (l Loss) Add(o Loss) Loss {
	samples := make([]string, 0, MaxSamples)
	samples = append(samples, l.RejectedSamples...)
	samples = append(samples, o.RejectedSamples...)
	return Loss{
		BytesRead:       l.BytesRead + o.BytesRead,
		LinesRead:       l.LinesRead + o.LinesRead,
		LinesParsed:     l.LinesParsed + o.LinesParsed,
		LinesRejected:   l.LinesRejected + o.LinesRejected,
		BytesTruncated:  l.BytesTruncated + o.BytesTruncated,
		BytesNotKept:    l.BytesNotKept + o.BytesNotKept,
		RejectedSamples: samples[:min(len(samples), MaxSamples)],
	}
}

// Output is what is kept of one output of an execution, byte for byte.
type Output struct {
	Stream OutputStream
	Bytes  int64
}

// Execution is one command run in a sandbox.
type Execution struct {
	ID         ExecutionID
	Run        ID
	Backend    string
	Isolation  string // "" when isolated; "UNSANDBOXED" for a plain process
	Command    []string
	StartedAt  time.Time
	EndedAt    time.Time // zero while it runs
	Class      ExitClass // "" while it runs
	ExitCode   *int
	Signal     string // for example "SIGKILL"; "" for none
	Elapsed    time.Duration
	GPU        string
	IsError    bool
	Loss       Loss
	ErrMessage string // why an INFRASTRUCTURE one failed
}

// SandboxRequest is what a request asks of the sandbox. A zero field means the
// agent's profile, then the default, decides.
type SandboxRequest struct {
	Backend        string  `json:"backend,omitempty"`
	Image          string  `json:"image,omitempty"`
	Profile        string  `json:"profile,omitempty"`
	TimeoutSeconds float64 `json:"timeoutSeconds,omitempty"`
	MemoryMiB      int64   `json:"memoryMiB,omitempty"`
	CPUs           float64 `json:"cpus,omitempty"`
	PIDs           int64   `json:"pids,omitempty"`
	DiskMiB        int64   `json:"diskMiB,omitempty"`
	MaxOutputBytes int64   `json:"maxOutputBytes,omitempty"`
	OnOutputLimit  string  `json:"onOutputLimit,omitempty"` // STOP or TRUNCATE
	Network        string  `json:"network,omitempty"`       // NONE, HOST or a name the operator lists
	GPU            string  `json:"gpu,omitempty"`
	GraceSeconds   float64 `json:"graceSeconds,omitempty"` // between TERM and KILL
}

// Artifact is a file that a run left in its workspace.
type Artifact struct {
	Run      ID
	Path     string // relative to the workspace, slashes
	Kind     string // report chart dataset model script metadata html file
	Size     int64
	SHA256   string // hex
	Modified time.Time
}
