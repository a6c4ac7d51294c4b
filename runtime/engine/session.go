package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// CreateSession makes an empty session.
func (e *Engine) CreateSession(ctx context.Context, title string) (run.Session, error) {
	if err := e.open(); err != nil {
		return run.Session{}, err
	}
	if err := checkText("title", title, maxName); err != nil {
		return run.Session{}, err
	}
	s := run.Session{
		ID: run.NewSessionID(), Title: strings.TrimSpace(title), FirstSeq: 1,
		CreatedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
	if err := e.store.CreateSession(ctx, s); err != nil {
		return run.Session{}, fmt.Errorf("creating a session: %w", err)
	}
	return s, nil
}

// DeleteSession removes a session's log, workspace and outputs; its run rows and usage
// records stay. The disk space of a large workspace is free some time later. It is Busy while a run is open.
func (e *Engine) DeleteSession(ctx context.Context, id run.SessionID) error {
	if err := checkID("ses", "session", string(id)); err != nil {
		return err
	}
	if err := e.store.DeleteSession(ctx, id); err != nil {
		return fmt.Errorf("deleting session %s: %w", id, err)
	}
	ctx = context.WithoutCancel(ctx) // the session is gone: this is all that is left to do
	if err := e.discardWorkspace(ctx, id); err != nil {
		e.log.Error("A deleted session's workspace was not removed; remove it by hand", "session", id, "error", err)
	}
	if err := e.removeOutputs(ctx, id); err != nil {
		e.log.Error("A deleted session's outputs were not removed; remove them by hand", "session", id, "folder", e.outputs(), "error", err)
	}
	return nil
}
