package pgtest

import "runtime"

// lockThread keeps the goroutine on its thread until it ends; the thread then
// ends with it.
func lockThread() { runtime.LockOSThread() }
