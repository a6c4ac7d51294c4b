package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// afterCrash decides what follows on a run whose agent crashed: its next
// attempt, which the batch that ends the run also queues, or after too many
// crashes in a row an event that calls for a person. Attempts follow only on
// crashes, so an attempt's number is that of the crashes in a row. A child run
// is its parent's to repeat, and a command that was typed its user's.
func (s *supervisor) afterCrash(now time.Time, add func(run.Payload)) *run.Run {
	if s.run.Parent != "" || s.e.opts.Places {
		return nil
	}
	service := s.def.Service.WithDefaults()
	crashes := s.run.Attempt
	if crashes >= service.MaxCrashes {
		text := fmt.Sprintf("agent %s has crashed %d times in a row and is not restarted; look at what it printed last, then start it again", s.run.Agent, crashes)
		if crashes == 1 {
			text = fmt.Sprintf("agent %s has crashed and is not restarted (service.maxCrashes is 1); look at what it printed last, then start it again", s.run.Agent)
		}
		add(&run.AgentEscalated{Text: text, Crashes: crashes})
		return nil
	}
	r := s.run
	return &run.Run{
		ID: run.NewID(), Session: r.Session, Agent: r.Agent, Team: r.Team, Stage: r.Stage, Driver: r.Driver,
		Provider: r.Provider, Model: r.Model, State: run.State{Status: run.Queued},
		Attempt: crashes + 1, RestartOf: r.ID, CreatedAt: now, NotBefore: now.Add(service.RestartAfter(crashes)),
		Input: r.Input, Definition: r.Definition,
	}
}

// startAt makes the scheduler look at the queue at t.
func (e *Engine) startAt(t time.Time) {
	e.mu.Lock()
	e.alarms = append(e.alarms, t)
	e.mu.Unlock()
	e.nudge()
}

// alarm gives the time until the queue has to be looked at, and forgets the
// moments that have passed.
func (e *Engine) alarm(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.alarms = slices.DeleteFunc(e.alarms, func(t time.Time) bool { return !t.After(now) })
	if len(e.alarms) == 0 {
		return time.Hour
	}
	// The store compares in whole microseconds.
	return slices.MinFunc(e.alarms, time.Time.Compare).Sub(now) + time.Millisecond
}
