package run

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// Event is an immutable fact in a session's log. Events are shared between
// readers: nobody may change one.
type Event struct {
	Session SessionID
	Seq     int64 // 1, 2, 3 ... without gaps
	At      time.Time
	Type    EventType
	Run     ID // "" for an event of the session itself
	Agent   string
	Stage   string
	Body    []byte // the payload's JSON, exactly as stored

	decode  sync.Once
	payload Payload
	err     error
}

// Payload decodes the body, once for all readers.
func (e *Event) Payload() (Payload, error) {
	e.decode.Do(func() {
		if e.payload, e.err = newPayload(e.Type); e.err == nil {
			if err := json.Unmarshal(e.Body, e.payload); err != nil {
				e.err = fmt.Errorf("decoding event %d of session %s: %w", e.Seq, e.Session, err)
			}
		}
	})
	return e.payload, e.err
}

// Draft is an event before the store has numbered it.
type Draft struct {
	At      time.Time // truncated to microseconds by the store; zero: the time of the commit
	Run     ID
	Agent   string
	Stage   string
	Payload Payload
}

// DraftOf makes a draft in the name of r.
func DraftOf(r Run, at time.Time, p Payload) Draft {
	return Draft{At: at, Run: r.ID, Agent: r.Agent, Stage: r.Stage, Payload: p}
}

// EventFilter chooses events; zero fields choose all. A GapEvent passes every filter.
type EventFilter struct {
	Types []EventType
	Run   ID
}

// Match tells whether e passes f.
func (f EventFilter) Match(e *Event) bool {
	if e.Type == TypeGapEvent {
		return true
	}
	if f.Run != "" && f.Run != e.Run {
		return false
	}
	if len(f.Types) == 0 {
		return true
	}
	for _, t := range f.Types {
		if t == e.Type {
			return true
		}
	}
	return false
}

// EventPage is a slice of a session's log in ascending order.
type EventPage struct {
	Events  []*Event
	LastSeq int64 // of the session
	HasMore bool  // in the asked direction
	// Scanned is the last seq that was examined, also when the filter took none.
	Scanned int64
}

// EventQuery asks for a page: the first First events after After, or the last
// Last events before Before (0: before the end).
type EventQuery struct {
	Session SessionID
	After   int64
	Before  int64
	First   int
	Last    int
	Filter  EventFilter
}

// Batch is one atomic change to one session: all of it is committed, or none.
type Batch struct {
	Session SessionID
	// Fence makes the commit fail with ErrFenced unless the run is still owned
	// under this token. A zero Run means no fence: any replica may append.
	Fence Fence
	// Drafts get consecutive seqs. The points of MetricsLogged payloads are
	// stored as metric points in the same transaction.
	Drafts     []Draft
	Usage      []UsageRecord
	Executions []Execution // upserted by id
	Artifacts  []Artifact  // upserted by run and path
	Questions  []Question  // upserted by id; leaving OPEN happens once, a second time is ErrState
	Update     *Update
	// Successor is inserted as a queued root run of the session: the next attempt
	// of the one that the update ends.
	Successor *Run
}

// Fence is proof of ownership.
type Fence struct {
	Run   ID
	Token int64
}

// Update changes a run's row, if it is still in one of the states From (else
// ErrState). Nil fields stay. An update to a final state closes the row.
type Update struct {
	Run       ID
	From      []Status
	To        *State
	EndedAt   time.Time
	Error     *string
	Result    *string
	Receipt   *Receipt // replaces the times, survivors and outcome of the abort
	SessionTo *string  // the session's new state label
}
