package run

import (
	"encoding/json"
	"time"
)

// Session is one conversation and one workspace; it owns one event log.
type Session struct {
	ID        SessionID
	Title     string
	CreatedAt time.Time
	LastSeq   int64
	FirstSeq  int64  // the oldest event kept; over 1 after retention
	State     string // the root run's last StateChanged, for example "train_running"; "" before the first
	ActiveRun ID     // the live root run; "" when the slot is empty
}

// EnvVar is one environment variable of a run.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// OnBusy says what a start does while the session's slot is taken.
type OnBusy string

// The choices.
const (
	Reject         OnBusy = "REJECT"
	QueueBehind    OnBusy = "QUEUE"
	ReplaceCurrent OnBusy = "REPLACE"
)

// Input is everything a run was asked to do, kept so that it can be repeated.
type Input struct {
	Agent          string          `json:"agent"`
	Prompt         string          `json:"prompt,omitempty"`
	Stage          *string         `json:"stage,omitempty"` // nil: the agent's name; "": no stage
	Model          string          `json:"model,omitempty"`
	Code           string          `json:"code,omitempty"`
	Command        []string        `json:"command,omitempty"`
	Env            []EnvVar        `json:"env,omitempty"`
	Sandbox        SandboxRequest  `json:"sandbox"`
	TimeoutSeconds float64         `json:"timeoutSeconds,omitempty"`
	Labels         json.RawMessage `json:"labels,omitempty"`
	Config         json.RawMessage `json:"config,omitempty"`
	Budget         *Budget         `json:"budget,omitempty"`
	Place          *Place          `json:"place,omitempty"` // nil: the session's workspace
}

// Run is one execution of an agent in a session.
type Run struct {
	ID         ID
	Session    SessionID
	Parent     ID // "" for a root run
	Agent      string
	Team       string
	Stage      string // "" for no stage: nothing is parsed
	Driver     string
	Provider   string
	Model      string
	State      State
	Attempt    int // 1, 2, ...
	RestartOf  ID
	CreatedAt  time.Time
	NotBefore  time.Time // a queued run is not claimed before; zero: at any time
	StartedAt  time.Time // zero while queued
	EndedAt    time.Time // zero while open
	Error      string
	Result     string
	Input      Input
	Definition json.RawMessage // the agent definition it runs with
	Usage      Usage           // sum of its own records
	Abort      *Receipt        // nil: no abort was asked

	Owner string // the replica that owns it while it is live
	Token int64  // the fencing token of that ownership
}

// StateLabel is the stage in session states such as "train_running".
func (r Run) StateLabel() string {
	if r.Stage == "" {
		return r.Agent
	}
	return r.Stage
}

// AbortOutcome is what an abort came to.
type AbortOutcome string

// The outcomes.
const (
	AbortPending   AbortOutcome = "PENDING"
	AbortStopped   AbortOutcome = "STOPPED"
	AbortAlready   AbortOutcome = "ALREADY_ENDED"
	AbortSurvivors AbortOutcome = "SURVIVORS"
)

// Receipt proves an abort. Zero times have not happened (a run aborted in the
// queue is never signalled).
type Receipt struct {
	Run           ID
	RequestedAt   time.Time
	SignalledAt   time.Time
	ProcessGoneAt time.Time
	SandboxGoneAt time.Time
	Survivors     []int // process ids seen alive after the KILL
	Outcome       AbortOutcome
	Silent        bool
	Trigger       Trigger // Abort, Replace, OverBudget
	Reason        string  // words of whoever asked
}

// Question is something a run asks a person.
type Question struct {
	ID         string
	Run        ID
	Session    SessionID
	Key        string // stable within the run, so that a resumed driver finds it again
	Text       string
	Schema     json.RawMessage // JSON Schema of the answer; nil: any
	AskedAt    time.Time
	AnsweredAt time.Time
	State      QuestionState
	Answer     json.RawMessage
}

// QuestionState is where a question stands.
type QuestionState string

// The question states.
const (
	QuestionOpen       QuestionState = "OPEN"
	QuestionIsAnswered QuestionState = "ANSWERED"
	QuestionCancelled  QuestionState = "CANCELLED" // its root run ended first
)
