package run

import (
	"errors"
	"fmt"
)

// Code is the class of an error as clients see it in extensions.code.
type Code string

// The codes.
const (
	NotFound        Code = "NOT_FOUND"
	Conflict        Code = "CONFLICT"        // idempotency key with another payload, question already answered
	Invalid         Code = "INVALID"         // bad input, or input over a limit
	Unauthenticated Code = "UNAUTHENTICATED" // no token, or a wrong one
	Forbidden       Code = "FORBIDDEN"       // outside the operator's ceilings
	Busy            Code = "BUSY"            // the session's slot is taken
	Unavailable     Code = "UNAVAILABLE"     // store or backend gone, or shutting down
	Internal        Code = "INTERNAL"        // anything else; its text is not shown
)

// Error is an error meant for the user: its message names the value that was
// wrong and what to do about it.
type Error struct {
	Code    Code
	Message string
	Err     error // the cause, for the log; never shown
}

func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes a user-facing error. A %w operand becomes its cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// CodeOf gives the code of the first *Error in err's chain, else Internal.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}

// Conditions of the store, for errors.Is.
var (
	// ErrFenced: the writer no longer owns the run; it must stop and write nothing more.
	ErrFenced = errors.New("this replica no longer owns the run")
	// ErrState: the run was not in the state that the change expected.
	ErrState = errors.New("the run is in another state by now")
)
