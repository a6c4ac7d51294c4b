package run

// StartRequest asks for a run.
type StartRequest struct {
	Input          Input
	Session        SessionID // "": a new session
	Title          string    // of the new session; "": made from the input
	OnBusy         OnBusy    // "": REJECT
	IdempotencyKey string
}

// MessageRequest asks for a follow-up run in a session.
type MessageRequest struct {
	Session        SessionID
	Text           string
	Agent          string // "": the agent of the session's newest root run
	OnBusy         OnBusy
	IdempotencyKey string
}

// AbortOrder asks for the end of a run.
type AbortOrder struct {
	Run    ID
	Silent bool
	Wait   bool // return when it is over, or when the bounded wait is
	Reason string
}
