package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/uptrace/bun/driver/pgdriver"
	"modernc.org/sqlite"

	"github.com/weirhq/weir/runtime/run"
)

// Primary result codes of SQLite, https://sqlite.org/rescode.html.
const (
	sqlitePerm       = 3
	sqliteBusy       = 5
	sqliteLocked     = 6
	sqliteReadOnly   = 8
	sqliteIOErr      = 10
	sqliteCorrupt    = 11
	sqliteFull       = 13
	sqliteCantOpen   = 14
	sqliteTooBig     = 18
	sqliteConstraint = 19
	sqliteMismatch   = 20
	sqliteNotADB     = 26
)

// class sorts the errors of both drivers by what the store does about them.
type class int

const (
	classLogic class = iota // the change itself was refused: its caller's problem
	classGone               // no connection, or a lost one: retry
	classBusy               // a lock, a deadlock, a timeout: retry
	classFull               // no room: retry
	classData               // these values cannot be stored: find the culprit
	classOther              // anything else: treated as data, since retrying repeats it
)

func (c class) retry() bool { return c == classGone || c == classBusy || c == classFull }

// statementTimeout is PostgreSQL's state for a statement that took too long.
const statementTimeout = "57014"

// errTxAborted is what a lost statement turns a commit into.
var errTxAborted = errors.New("the transaction was not committed")

func sqlState(err error) string {
	var pe pgdriver.Error
	if errors.As(err, &pe) {
		return pe.Field('C')
	}
	return ""
}

func classify(err error) class {
	var re *run.Error
	if errors.As(err, &re) || errors.Is(err, run.ErrFenced) || errors.Is(err, run.ErrState) {
		return classLogic
	}
	var se *sqlite.Error
	if errors.As(err, &se) {
		switch se.Code() & 0xff {
		case sqliteBusy, sqliteLocked:
			return classBusy
		case sqliteFull:
			return classFull
		case sqliteIOErr, sqliteCantOpen:
			return classGone
		case sqliteConstraint, sqliteTooBig, sqliteMismatch:
			return classData
		}
		return classOther
	}
	if code := sqlState(err); code != "" {
		switch {
		case code == "55P03" || code == statementTimeout || strings.HasPrefix(code, "40"):
			return classBusy
		case strings.HasPrefix(code, "53"):
			return classFull
		case strings.HasPrefix(code, "08"), strings.HasPrefix(code, "57P"), code == "25P03", code == "28P01", code == "28000", code == "3D000":
			return classGone
		case strings.HasPrefix(code, "22"), strings.HasPrefix(code, "23"), strings.HasPrefix(code, "54"):
			return classData
		}
		return classOther
	}
	var ne net.Error
	if errors.As(err, &ne) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, sql.ErrConnDone) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return classGone
	}
	return classOther
}

// uniqueViolation tells whether a row with the same key was there.
func uniqueViolation(err error) bool {
	var se *sqlite.Error
	if errors.As(err, &se) {
		return se.Code()&0xff == sqliteConstraint
	}
	return sqlState(err) == "23505"
}

// unavailable is what a user sees while the database cannot be used.
func unavailable(err error) error {
	what, remedy := "cannot be reached", "check that the database server runs"
	switch classify(err) {
	case classFull:
		what, remedy = "has no room", "free some disk space"
	case classBusy:
		what, remedy = "is locked", "close other programs that use it"
	case classLogic, classGone, classData, classOther:
	}
	return run.Errorf(run.Unavailable, "the database %s (%w); nothing was changed: try again, and %s", what, err, remedy)
}

// readError gives the error of a reading method.
func (s *Store) readError(doing string, err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", doing, err)
	case classify(err).retry():
		return unavailable(fmt.Errorf("%s: %w", doing, err))
	}
	return fmt.Errorf("%s: %w", doing, err)
}
