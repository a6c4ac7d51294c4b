// Package run says what a run is: its identity, its states, the events of its
// session's log, its usage and its errors. Every other package may import it;
// it imports only the standard library.
//
// Units: times are UTC with microsecond precision, durations are
// time.Duration, money is nano-USD (1e-9 USD) in an int64, sizes are bytes
// unless a name says MiB.
package run
