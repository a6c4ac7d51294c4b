package run

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"time"
)

// ID names a run.
type ID string

// SessionID names a session.
type SessionID string

// ExecutionID names one command run in a sandbox.
type ExecutionID string

// NewID makes a run id.
func NewID() ID { return ID(newID("run")) }

// NewSessionID makes a session id.
func NewSessionID() SessionID { return SessionID(newID("ses")) }

// NewExecutionID makes an execution id.
func NewExecutionID() ExecutionID { return ExecutionID(newID("exe")) }

// NewKey makes an id of any other kind, for example "msg" or "qst".
func NewKey(prefix string) string { return newID(prefix) }

// Crockford's alphabet: sorts as the numbers do, and has no look-alikes.
var encoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// newID makes ids that sort by the millisecond they were made in and carry 80
// random bits: unguessable, and unique across replicas without a coordinator.
func newID(prefix string) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(time.Now().UnixMilli())<<16)
	_, _ = rand.Read(b[6:]) // crypto/rand.Read never fails
	return prefix + "_" + encoding.EncodeToString(b[:])
}

// ValidID tells whether s could be an id of the given prefix. It keeps NUL,
// invalid UTF-8 and absurd lengths away from the store and from file paths.
func ValidID(prefix, s string) bool {
	rest, ok := strings.CutPrefix(s, prefix+"_")
	if !ok || len(rest) != 26 {
		return false
	}
	for _, c := range []byte(rest) {
		if c < '0' || c > 'z' || (c > '9' && c < 'a') {
			return false
		}
	}
	return true
}
