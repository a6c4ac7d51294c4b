// Package engine accepts, supervises, aborts and recovers runs. It owns every
// goroutine in which a run's driver works.
//
// Guarantees:
//   - An accepted run is a row before the accepting call returns, and it runs on
//     the engine's context, never on the caller's.
//   - Every run ends exactly once: one transaction closes its row and appends
//     RunEnded, its last event. Whoever ends it first wins.
//   - An abort is durable before anything is stopped; it reaches the descendants
//     of the run, and its receipt holds what was seen, survivors included.
//   - Per run at most one commit is under way; what arrives meanwhile is the next
//     one. What is held in memory is bounded: a driver or a process that is
//     faster than the store is made to wait.
//   - A run whose ownership was lost (run.ErrFenced) is stopped and writes nothing
//     more.
//   - Run returns only when everything it started has ended.
package engine
