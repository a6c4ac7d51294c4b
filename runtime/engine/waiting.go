package engine

import "time"

// A run that waits for a person waits over every stop of the server, in good
// order or not: its row stays WAITING, and recover takes it up. Which runs can,
// resumable tells, the same for both.

// drain waits until no run is live, or Options.Drain has passed. Runs that only
// wait for an answer are not waited for: who could answer has no server.
func (e *Engine) drain(idle <-chan struct{}) bool {
	late := time.NewTimer(e.opts.Drain)
	defer late.Stop()
	for {
		e.suspend()
		select {
		case <-idle:
			return true
		case <-late.C:
			return false
		case <-e.wake: // a run has ended, or waits now
		}
	}
}

// suspend stops the root runs that wait and have nothing at work.
func (e *Engine) suspend() {
	for _, s := range e.chosen(func(s *supervisor) bool { return s.parent == nil && s.parked.Load() }) {
		if len(e.chosen(s.above)) == 1 && !e.busy(s) {
			s.cancel(errShutdown)
		}
	}
}

// waitsOn tells whether the stopped run is to be left WAITING. A command that
// was typed is not: who typed it is gone.
func (s *supervisor) waitsOn() bool {
	if s.parent != nil || s.e.opts.Places {
		return false
	}
	r, err := s.e.store.Run(s.e.write, s.run.ID)
	if err != nil {
		s.e.log.Warn("Looking whether a stopped run waits failed", "run", s.run.ID, "error", err)
		return false
	}
	key, err := s.e.resumable(s.e.write, r)
	if err != nil || key == "" {
		return false
	}
	s.e.log.Info("A run waits for its answer until the server is back", "run", s.run.ID, "question", key)
	return true
}
