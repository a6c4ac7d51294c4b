package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// Long is a 64-bit integer, which JSON carries as a number or as a string.
type Long int64

// UnmarshalJSON implements json.Unmarshaler.
func (l *Long) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	if text == "null" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%.40q is not a 64-bit integer", text)
	}
	*l = Long(n)
	return nil
}

// Event is an event of any type: a field name means the same in all of them, and
// those that a type does not have are zero.
type Event struct {
	// Raw is the event as the server sent it, with the API's field names.
	Raw json.RawMessage `json:"-"`

	Seq       Long
	At        time.Time
	Type      run.EventType
	SessionID string
	RunID     string
	Agent     string
	Stage     string

	Prompt, ParentID, Driver, Model, Provider string
	Attempt                                   int

	State      string
	Status     run.Status
	ExitReason run.ExitReason
	Error      string

	MessageID, Text string
	Partial         bool // the answer broke off here

	CallID, Name string
	Arguments    json.RawMessage
	IsError      bool
	Seconds      float64

	ExecutionID, Backend, Isolation string
	Command                         []string
	ExitClass                       run.ExitClass
	ExitCode                        *int
	Signal                          string
	Loss                            Loss

	// Stream is STDOUT or STDERR; Offset counts the raw bytes before Text.
	Stream string
	Offset Long

	Points []Point
	Config json.RawMessage // of a chart

	Kind, Key, RunTag string // of logged media
	Step              Long
	Data              json.RawMessage

	RequestKey string
	Usage      *Usage

	// Of a budget that is used up.
	Scope                     run.BudgetScope
	BudgetAgent, Day          string
	LimitNanoUsd, LimitTokens *Long
	UsedNanoUsd, UsedTokens   Long
	Action                    run.BudgetAction

	QuestionID, Outcome string
	Schema, Answer      json.RawMessage

	Path    string
	Files   []File
	Problem string // of a hook
	Reason  string // of an abort

	FromSeq, ToSeq Long
}

// Point is one metric point.
type Point struct {
	Step          Long
	Name          string
	Value         *float64
	Special       string
	RunTag, Stage string
	At            time.Time
}

// Float is the value, not finite ones included.
func (p Point) Float() float64 {
	switch {
	case p.Value != nil:
		return *p.Value
	case p.Special == "POSITIVE_INFINITY":
		return math.Inf(1)
	case p.Special == "NEGATIVE_INFINITY":
		return math.Inf(-1)
	}
	return math.NaN()
}

// Loss accounts for the output of an execution.
type Loss struct {
	BytesRead, LinesRead, LinesParsed, LinesRejected, BytesTruncated Long
	RejectedSamples                                                  []string
}

// File is a file that a run left in its workspace.
type File struct {
	Path, Kind, SHA256 string
	Size               Long
}

// Usage is what a run used. Money that is not known is nil.
type Usage struct {
	Input, CacheRead, CacheWriteShort, CacheWriteLong, Output, Reasoning Long
	ComputeSeconds                                                       float64
	CostUsd                                                              *float64
	CostNanoUsd                                                          *Long
	CostSource, Provenance                                               string
	Unpriced                                                             int
}

const usageFields = `input cacheRead cacheWriteShort cacheWriteLong output reasoning computeSeconds costUsd costNanoUsd costSource provenance unpriced`

const lossFields = `bytesRead linesRead linesParsed linesRejected bytesTruncated bytesNotKept rejectedSamples`

// eventFields selects everything that the event types have.
const eventFields = `seq at type sessionId runId agent stage
  ... on RunStarted { prompt parentId driver model attempt }
  ... on StateChanged { state status }
  ... on MessageDelta { messageId text }
  ... on AgentMessage { messageId text partial }
  ... on AgentThought { text }
  ... on ToolCallStarted { callId name arguments }
  ... on ToolCallFinished { callId name text isError seconds }
  ... on ExecutionStarted { executionId backend isolation command toolCallId }
  ... on OutputWritten { executionId stream text offset }
  ... on ExecutionFinished { executionId exitClass exitCode signal isError seconds loss { ` + lossFields + ` } }
  ... on MetricsLogged { executionId points { step name value special runTag stage at } }
  ... on ChartConfigured { config }
  ... on MediaLogged { kind key step runTag data }
  ... on UsageRecorded { requestKey provider model tier usageStream backend gpu isError toolCalls computedNanoUsd priceId superseded usage { ` + usageFields + ` } }
  ... on BudgetReached { scope budgetAgent day limitNanoUsd limitTokens usedNanoUsd usedTokens action }
  ... on QuestionAsked { questionId text schema }
  ... on QuestionAnswered { questionId outcome answer }
  ... on ReportReady { path }
  ... on FilesReady { files { path kind size sha256 } }
  ... on HookFinished { name isError problem }
  ... on AbortRequested { reason }
  ... on AgentAborted { reason }
  ... on AgentTimedOut { text }
  ... on AgentErrored { text }
  ... on AgentEscalated { text crashes }
  ... on RunEnded { status exitReason error }
  ... on Warning { text }
  ... on GapEvent { fromSeq toSeq }`

// UnmarshalJSON implements json.Unmarshaler.
func (e *Event) UnmarshalJSON(b []byte) error {
	type fields Event // without this method
	var f fields
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*e = Event(f)
	e.Raw = append(json.RawMessage(nil), b...)
	return nil
}
