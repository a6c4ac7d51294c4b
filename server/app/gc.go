package app

import "runtime/debug"

// gcPercent lets the heap grow fivefold between two collections. A server at
// rest lives on a few MiB, where the default would collect several times a
// second under load, and each collection shows in the slowest deliveries.
const gcPercent = 400

// TuneGC sets how often memory is collected, unless GOGC says so.
func TuneGC(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
