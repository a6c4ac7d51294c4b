package run

import (
	"encoding/json"
	"fmt"
)

// EventType names a kind of event; it is the GraphQL type's name in capitals.
type EventType string

// The event types.
const (
	TypeRunStarted        EventType = "RUN_STARTED"
	TypeStateChanged      EventType = "STATE_CHANGED"
	TypeMessageDelta      EventType = "MESSAGE_DELTA"
	TypeAgentMessage      EventType = "AGENT_MESSAGE"
	TypeAgentThought      EventType = "AGENT_THOUGHT"
	TypeToolCallStarted   EventType = "TOOL_CALL_STARTED"
	TypeToolCallFinished  EventType = "TOOL_CALL_FINISHED"
	TypeExecutionStarted  EventType = "EXECUTION_STARTED"
	TypeOutputWritten     EventType = "OUTPUT_WRITTEN"
	TypeExecutionFinished EventType = "EXECUTION_FINISHED"
	TypeMetricsLogged     EventType = "METRICS_LOGGED"
	TypeChartConfigured   EventType = "CHART_CONFIGURED"
	TypeMediaLogged       EventType = "MEDIA_LOGGED"
	TypeUsageRecorded     EventType = "USAGE_RECORDED"
	TypeBudgetReached     EventType = "BUDGET_REACHED"
	TypeQuestionAsked     EventType = "QUESTION_ASKED"
	TypeQuestionAnswered  EventType = "QUESTION_ANSWERED"
	TypeReportReady       EventType = "REPORT_READY"
	TypeFilesReady        EventType = "FILES_READY"
	TypeHookFinished      EventType = "HOOK_FINISHED"
	TypeAbortRequested    EventType = "ABORT_REQUESTED"
	TypeAgentAborted      EventType = "AGENT_ABORTED"
	TypeAgentTimedOut     EventType = "AGENT_TIMED_OUT"
	TypeAgentErrored      EventType = "AGENT_ERRORED"
	TypeRunEnded          EventType = "RUN_ENDED"
	TypeWarning           EventType = "WARNING"
	TypeGapEvent          EventType = "GAP_EVENT"
	TypeAgentEscalated    EventType = "AGENT_ESCALATED"
)

// kinds is the one table of event types. The code is stored in the events
// table: it may never change or be used again.
var kinds = []struct {
	code int
	typ  EventType
	make func() Payload
}{
	{1, TypeRunStarted, func() Payload { return new(RunStarted) }},
	{2, TypeStateChanged, func() Payload { return new(StateChanged) }},
	{3, TypeMessageDelta, func() Payload { return new(MessageDelta) }},
	{4, TypeAgentMessage, func() Payload { return new(AgentMessage) }},
	{5, TypeAgentThought, func() Payload { return new(AgentThought) }},
	{6, TypeToolCallStarted, func() Payload { return new(ToolCallStarted) }},
	{7, TypeToolCallFinished, func() Payload { return new(ToolCallFinished) }},
	{8, TypeExecutionStarted, func() Payload { return new(ExecutionStarted) }},
	{9, TypeOutputWritten, func() Payload { return new(OutputWritten) }},
	{10, TypeExecutionFinished, func() Payload { return new(ExecutionFinished) }},
	{11, TypeMetricsLogged, func() Payload { return new(MetricsLogged) }},
	{12, TypeChartConfigured, func() Payload { return new(ChartConfigured) }},
	{13, TypeMediaLogged, func() Payload { return new(MediaLogged) }},
	{14, TypeUsageRecorded, func() Payload { return new(UsageRecorded) }},
	{15, TypeBudgetReached, func() Payload { return new(BudgetReached) }},
	{16, TypeQuestionAsked, func() Payload { return new(QuestionAsked) }},
	{17, TypeQuestionAnswered, func() Payload { return new(QuestionAnswered) }},
	{18, TypeReportReady, func() Payload { return new(ReportReady) }},
	{19, TypeFilesReady, func() Payload { return new(FilesReady) }},
	{20, TypeHookFinished, func() Payload { return new(HookFinished) }},
	{21, TypeAbortRequested, func() Payload { return new(AbortRequested) }},
	{22, TypeAgentAborted, func() Payload { return new(AgentAborted) }},
	{23, TypeAgentTimedOut, func() Payload { return new(AgentTimedOut) }},
	{24, TypeAgentErrored, func() Payload { return new(AgentErrored) }},
	{25, TypeRunEnded, func() Payload { return new(RunEnded) }},
	{26, TypeWarning, func() Payload { return new(Warning) }},
	{27, TypeGapEvent, func() Payload { return new(GapEvent) }},
	{28, TypeAgentEscalated, func() Payload { return new(AgentEscalated) }},
}

// EventTypes lists every event type once.
func EventTypes() []EventType {
	types := make([]EventType, len(kinds))
	for i, k := range kinds {
		types[i] = k.typ
	}
	return types
}

// Code is t's number in the store; 0 for an unknown type.
func (t EventType) Code() int {
	for _, k := range kinds {
		if k.typ == t {
			return k.code
		}
	}
	return 0
}

// EventTypeOf is the inverse of Code.
func EventTypeOf(code int) (EventType, error) {
	for _, k := range kinds {
		if k.code == code {
			return k.typ, nil
		}
	}
	return "", fmt.Errorf("no event type has the code %d; was this database written by a newer version?", code)
}

func newPayload(t EventType) (Payload, error) {
	for _, k := range kinds {
		if k.typ == t {
			return k.make(), nil
		}
	}
	return nil, fmt.Errorf("unknown event type %q", t)
}

// Payload is the part of an event that its type decides. Its JSON is the
// format of the log: fields may be added, never renamed.
type Payload interface{ Type() EventType }

// RunStarted is the first event of a run.
type RunStarted struct {
	Prompt  string `json:"prompt,omitempty"`
	Parent  ID     `json:"parent,omitempty"`
	Driver  string `json:"driver"`
	Model   string `json:"model,omitempty"`
	Attempt int    `json:"attempt"`
}

// StateChanged carries the session's state, for example "train_running".
type StateChanged struct {
	State  string `json:"state"`
	Status Status `json:"status,omitempty"`
}

// MessageDelta is a piece of a message as it is written. The whole follows as AgentMessage.
type MessageDelta struct {
	MessageID string `json:"messageId"`
	Text      string `json:"text"`
}

// AgentMessage is a whole message of the agent.
type AgentMessage struct {
	MessageID string `json:"messageId"`
	Text      string `json:"text"`
	// Partial: the answer broke off here and was asked for again.
	Partial bool `json:"partial,omitempty"`
}

// AgentThought is reasoning that the agent shows. Opaque is what its provider
// wants to see again when the conversation goes on; nobody else is given it.
type AgentThought struct {
	Text   string          `json:"text"`
	Opaque json.RawMessage `json:"opaque,omitempty"`
}

// ToolCallStarted opens a tool call. Opaque is as in AgentThought.
type ToolCallStarted struct {
	CallID    string          `json:"callId"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Opaque    json.RawMessage `json:"opaque,omitempty"`
}

// ToolCallFinished closes a tool call; Text is what the agent got to see.
type ToolCallFinished struct {
	CallID  string  `json:"callId"`
	Name    string  `json:"name"`
	Text    string  `json:"text"`
	IsError bool    `json:"isError"`
	Seconds float64 `json:"seconds"`
}

// ExecutionStarted opens an execution. Isolation is "" or "UNSANDBOXED".
type ExecutionStarted struct {
	ExecutionID ExecutionID `json:"executionId"`
	Backend     string      `json:"backend"`
	Isolation   string      `json:"isolation,omitempty"`
	Command     []string    `json:"command"` // Python code shows as python3 <file>
	CallID      string      `json:"callId,omitempty"`
}

// OutputWritten is a piece of output; Offset counts the raw bytes of the stream before it.
type OutputWritten struct {
	ExecutionID ExecutionID  `json:"executionId"`
	Stream      OutputStream `json:"stream"`
	Text        string       `json:"text"`
	Offset      int64        `json:"offset"`
}

// ExecutionFinished closes an execution.
type ExecutionFinished struct {
	ExecutionID ExecutionID `json:"executionId"`
	ExitClass   ExitClass   `json:"exitClass"`
	ExitCode    *int        `json:"exitCode,omitempty"`
	Signal      string      `json:"signal,omitempty"`
	Seconds     float64     `json:"seconds"`
	IsError     bool        `json:"isError"`
	Loss        Loss        `json:"loss"`
}

// MetricsLogged carries the points of one or more metric lines, in order.
type MetricsLogged struct {
	ExecutionID ExecutionID `json:"executionId"`
	Points      []Point     `json:"points"`
}

// ChartConfigured asks the page to draw given charts.
type ChartConfigured struct {
	Config json.RawMessage `json:"config"`
}

// MediaLogged carries an image, a table or another non-scalar.
type MediaLogged struct {
	Kind   string          `json:"kind"` // image image_grid table histogram confusion_matrix roc pr text plotly
	Key    string          `json:"key"`
	Step   int64           `json:"step"`
	RunTag string          `json:"runTag,omitempty"`
	Data   json.RawMessage `json:"data"`
}

// UsageRecorded says that a usage record was written or changed, and what it says
// by now. The store appends it.
type UsageRecorded struct {
	RequestKey      string           `json:"requestKey"`
	Kind            UsageKind        `json:"kind"`
	Provider        string           `json:"provider,omitempty"`
	Model           string           `json:"model,omitempty"`
	Tier            string           `json:"tier,omitempty"`
	Stream          string           `json:"stream,omitempty"`
	Backend         string           `json:"backend,omitempty"`
	GPU             string           `json:"gpu,omitempty"`
	Tokens          Tokens           `json:"tokens"`
	ToolCalls       map[string]int64 `json:"toolCalls,omitempty"`
	ComputeMicros   int64            `json:"computeMicros,omitempty"`
	IsError         bool             `json:"isError"`
	CostNanoUSD     *int64           `json:"costNanoUsd,omitempty"`
	CostSource      CostSource       `json:"costSource,omitempty"`
	ComputedNanoUSD *int64           `json:"computedNanoUsd,omitempty"`
	PriceID         string           `json:"priceId,omitempty"`
	Provenance      Provenance       `json:"provenance"`
	Superseded      bool             `json:"superseded,omitempty"` // counts in no sum any more
}

// BudgetReached says that a budget is used up, and what is done about it.
type BudgetReached struct {
	Scope        BudgetScope  `json:"scope"`
	Agent        string       `json:"agent,omitempty"` // of AGENT_DAY
	Day          string       `json:"day,omitempty"`   // UTC, as 2006-01-02
	LimitNanoUSD int64        `json:"limitNanoUsd,omitempty"`
	LimitTokens  int64        `json:"limitTokens,omitempty"`
	UsedNanoUSD  int64        `json:"usedNanoUsd"`
	UsedTokens   int64        `json:"usedTokens"`
	Action       BudgetAction `json:"action"`
	Key          string       `json:"key,omitempty"` // of the budget within the run
}

// QuestionAsked opens a question.
type QuestionAsked struct {
	QuestionID string          `json:"questionId"`
	Text       string          `json:"text"`
	Schema     json.RawMessage `json:"schema,omitempty"`
}

// QuestionAnswered closes a question: ANSWERED, or CANCELLED with its root run.
type QuestionAnswered struct {
	QuestionID string          `json:"questionId"`
	Outcome    QuestionState   `json:"outcome"`
	Answer     json.RawMessage `json:"answer,omitempty"`
}

// ReportReady says where the run's report is, relative to the workspace.
type ReportReady struct {
	Path string `json:"path"`
}

// FilesReady lists the files that the run made or changed.
type FilesReady struct {
	Files []FileInfo `json:"files"`
}

// FileInfo is one file of FilesReady.
type FileInfo struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// HookFinished reports a hook; a failed one changes nothing else.
type HookFinished struct {
	Name    string `json:"name"`
	IsError bool   `json:"isError"`
	Text    string `json:"text,omitempty"` // what went wrong
}

// AbortRequested says that somebody asked for the end of the run.
type AbortRequested struct {
	Reason string `json:"reason,omitempty"`
}

// AgentAborted says that the run was stopped.
type AgentAborted struct {
	Reason string `json:"reason,omitempty"`
}

// AgentTimedOut says which deadline passed.
type AgentTimedOut struct {
	Text string `json:"text"`
}

// AgentErrored says what went wrong.
type AgentErrored struct {
	Text string `json:"text"`
}

// AgentEscalated says that a service agent has crashed too often in a row: it is
// not restarted, and a person should look.
type AgentEscalated struct {
	Text    string `json:"text"`
	Crashes int    `json:"crashes"`
}

// RunEnded is the last event of every run (only a late UsageRecorded may follow).
type RunEnded struct {
	Status     Status     `json:"status"`
	ExitReason ExitReason `json:"exitReason"`
	Error      string     `json:"error,omitempty"`
}

// Warning reports something that did not change the outcome.
type Warning struct {
	Text string `json:"text"`
}

// GapEvent stands for events that retention has cut. Its seq is To.
type GapEvent struct {
	From int64 `json:"fromSeq"`
	To   int64 `json:"toSeq"`
}

// Type implements Payload.
func (*RunStarted) Type() EventType        { return TypeRunStarted }
func (*StateChanged) Type() EventType      { return TypeStateChanged }
func (*MessageDelta) Type() EventType      { return TypeMessageDelta }
func (*AgentMessage) Type() EventType      { return TypeAgentMessage }
func (*AgentThought) Type() EventType      { return TypeAgentThought }
func (*ToolCallStarted) Type() EventType   { return TypeToolCallStarted }
func (*ToolCallFinished) Type() EventType  { return TypeToolCallFinished }
func (*ExecutionStarted) Type() EventType  { return TypeExecutionStarted }
func (*OutputWritten) Type() EventType     { return TypeOutputWritten }
func (*ExecutionFinished) Type() EventType { return TypeExecutionFinished }
func (*MetricsLogged) Type() EventType     { return TypeMetricsLogged }
func (*ChartConfigured) Type() EventType   { return TypeChartConfigured }
func (*MediaLogged) Type() EventType       { return TypeMediaLogged }
func (*UsageRecorded) Type() EventType     { return TypeUsageRecorded }
func (*BudgetReached) Type() EventType     { return TypeBudgetReached }
func (*QuestionAsked) Type() EventType     { return TypeQuestionAsked }
func (*QuestionAnswered) Type() EventType  { return TypeQuestionAnswered }
func (*ReportReady) Type() EventType       { return TypeReportReady }
func (*FilesReady) Type() EventType        { return TypeFilesReady }
func (*HookFinished) Type() EventType      { return TypeHookFinished }
func (*AbortRequested) Type() EventType    { return TypeAbortRequested }
func (*AgentAborted) Type() EventType      { return TypeAgentAborted }
func (*AgentTimedOut) Type() EventType     { return TypeAgentTimedOut }
func (*AgentErrored) Type() EventType      { return TypeAgentErrored }
func (*RunEnded) Type() EventType          { return TypeRunEnded }
func (*Warning) Type() EventType           { return TypeWarning }
func (*GapEvent) Type() EventType          { return TypeGapEvent }
func (*AgentEscalated) Type() EventType    { return TypeAgentEscalated }
